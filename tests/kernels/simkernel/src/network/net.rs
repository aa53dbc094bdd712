//! The sockets of the network, and what their calls begin.

use std::{collections::BTreeMap, net::SocketAddr, ops::Range};

use platform::{SENDS, SocketError};

use super::{
    At, CLOSED, Request, Socket,
    socket::{Sock, Start, Transfer},
};
use crate::{schedule::Random, violation::Breach};

/// Bytes between a sender and a receiver at first.
const WINDOW: usize = 64 << 10;

pub(super) struct Net {
    pub(super) random: Random,
    /// Nothing arrives anywhere.
    pub(super) held: bool,
    /// Listeners that are being closed go on.
    pub(super) listeners_held: bool,
    /// There is no TCP.
    pub(super) absent: bool,
    /// What an accept is told of a listener whose socket is dead.
    pub(super) dead_listeners_say: SocketError,
    /// Bytes between a sender and a receiver at most.
    pub(super) window: usize,
    pub(super) ports_given: u32,
    last: u64,
    sockets: BTreeMap<u64, Sock>,
    /// Those whose routines were not entered, by address, with their sockets.
    requests: BTreeMap<usize, [u64; 2]>,
    /// Sockets with something to do, maybe.
    ready: Vec<u64>,
    /// Requests that have ended, and whose routines are to be called.
    ended: Vec<At<Request>>,
}

impl Net {
    pub(super) fn new(random: Random) -> Self {
        Self {
            random,
            held: false,
            listeners_held: false,
            absent: false,
            dead_listeners_say: SocketError::NoNetwork,
            window: WINDOW,
            ports_given: 0,
            last: 0,
            sockets: BTreeMap::new(),
            requests: BTreeMap::new(),
            ready: Vec::new(),
            ended: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, storage: At<Socket>) -> u64 {
        self.insert(Sock::new(Some(storage)))
    }

    pub(super) fn insert(&mut self, sock: Sock) -> u64 {
        self.last += 1;
        self.sockets.insert(self.last, sock);
        self.last
    }

    pub(super) fn forget(&mut self, id: u64) -> Option<Sock> {
        self.ready.retain(|ready| *ready != id);
        self.sockets.remove(&id)
    }

    pub(super) fn sockets(&self) -> impl Iterator<Item = &Sock> {
        self.sockets.values()
    }

    pub(super) fn get(&mut self, id: u64) -> Option<&mut Sock> {
        self.sockets.get_mut(&id)
    }

    pub(super) fn find(&self, is: impl Fn(&Sock) -> bool) -> Option<u64> {
        self.sockets.iter().find_map(|(id, sock)| is(sock).then_some(*id))
    }

    /// The other end of a connection, if it is there still.
    pub(super) fn peer(&mut self, id: u64) -> Option<(u64, &mut Sock)> {
        let peer = self.sockets.get(&id)?.peer;
        let sock = self.sockets.get_mut(&peer).filter(|sock| sock.peer == id)?;
        Some((peer, sock))
    }

    pub(super) fn is_there(&self, id: u64) -> bool {
        self.sockets.get(&id).is_some_and(|sock| sock.closing.is_none())
    }

    pub(super) fn is_connected(&self, id: u64) -> bool {
        self.is_there(id) && self.sockets.get(&id).is_some_and(|sock| sock.connected)
    }

    pub(super) fn count(&self) -> usize {
        self.sockets().filter(|sock| sock.storage.is_some()).count()
    }

    pub(super) fn addresses(&self, id: u64) -> Option<(SocketAddr, SocketAddr)> {
        let sock = self.sockets.get(&id).filter(|sock| sock.closing.is_none())?;
        let remote = if sock.listens { sock.local } else { sock.remote };
        (sock.connected || sock.listens).then_some((sock.local, remote))
    }

    /// Something may be possible for a socket now.
    pub(super) fn touch(&mut self, id: u64) {
        if self.sockets.contains_key(&id) && !self.ready.contains(&id) {
            self.ready.push(id);
        }
    }

    pub(super) fn has_work(&self) -> bool {
        !self.ready.is_empty() || !self.ended.is_empty()
    }

    /// One of those that are ready, chosen by the generator.
    pub(super) fn any_ready(&mut self) -> Option<u64> {
        let chosen = self.random.below(self.ready.len());
        self.ready.get(chosen).copied()
    }

    pub(super) fn rest(&mut self, id: u64) {
        self.ready.retain(|ready| *ready != id);
    }

    /// A request has ended; `dispatch` has its routine called.
    pub(super) fn end(&mut self, request: At<Request>, result: Result<usize, SocketError>) {
        request.get().result.set(Some(result));
        self.ended.push(request);
    }

    pub(super) fn take_ended(&mut self) -> Vec<At<Request>> {
        std::mem::take(&mut self.ended)
    }

    pub(super) fn start(&mut self, id: u64, request: At<Request>, start: Start) {
        if let Some(sock) = self.get(id) {
            sock.starting = Some((request, start));
        }
    }

    pub(super) fn accept(&mut self, id: u64, listener: u64, request: At<Request>) -> Result<(), Breach> {
        let call = "accepting";
        let there = self.is_there(listener);
        let from = self.get(listener).filter(|from| there && from.listens).ok_or(Breach::SocketState { call })?;
        if from.accepting.is_some() {
            return Err(Breach::RequestsOverlap { call });
        }
        from.accepting = Some(id);
        from.calls += 1;
        self.start(id, request, Start::Accept { listener });
        Ok(())
    }

    pub(super) fn send(&mut self, id: u64, request: At<Request>, bytes: At<u8>, length: usize) -> Result<(), Breach> {
        let call = "sending";
        let sock = self.sending_end(id, call)?;
        if sock.sending.len() >= SENDS || sock.send_called.is_some() {
            return Err(Breach::RequestsOverlap { call });
        }
        sock.sending.push_back(Transfer { request, bytes, length, taken: 0 });
        sock.send_called = Some(request.addr());
        Ok(())
    }

    pub(super) fn finish(&mut self, id: u64, request: At<Request>) -> Result<(), Breach> {
        let call = "finishing";
        let sock = self.sending_end(id, call)?;
        if !sock.sending.is_empty() {
            return Err(Breach::RequestsOverlap { call });
        }
        sock.finishing = Some(request);
        Ok(())
    }

    /// A socket that may send.
    fn sending_end(&mut self, id: u64, call: &'static str) -> Result<&mut Sock, Breach> {
        match self.get(id) {
            Some(sock) if sock.finishing.is_some() => Err(Breach::RequestsOverlap { call }),
            Some(sock) if !sock.finished => Ok(sock),
            _ => Err(Breach::SocketState { call }),
        }
    }

    pub(super) fn receive(
        &mut self,
        id: u64,
        request: At<Request>,
        bytes: At<u8>,
        length: usize,
    ) -> Result<(), Breach> {
        let call = "receiving";
        let sock = self.get(id).ok_or(Breach::SocketState { call })?;
        if sock.receiving.is_some() {
            return Err(Breach::RequestsOverlap { call });
        }
        sock.receiving = Some(Transfer { request, bytes, length, taken: 0 });
        Ok(())
    }

    pub(super) fn close(&mut self, id: u64, request: At<Request>) -> Result<(), Breach> {
        let held = self.listeners_held;
        let sock = self.get(id).ok_or(Breach::SocketState { call: "closing" })?;
        if sock.calls != 0 {
            return Err(Breach::ClosedDuringCall);
        }
        sock.closing = Some(request);
        if sock.listens && held {
            sock.stopping = true;
        } else {
            self.abandon(id);
        }
        Ok(())
    }

    /// A listener that is being closed listens no more.
    pub(super) fn stop(&mut self, id: u64) {
        if let Some(sock) = self.get(id) {
            sock.stopping = false;
        }
        self.abandon(id);
        self.end_close(id);
    }

    /// Ends a socket's requests, but for the closing one, and its connections.
    fn abandon(&mut self, id: u64) {
        let Some(sock) = self.get(id) else { return };
        let requests: Vec<_> = sock.take_requests().collect();
        let (accepting, backlog) = (sock.accepting.take(), std::mem::take(&mut sock.backlog));
        let quiet = sock.finished && sock.end_arrived && sock.arrived.is_empty();
        for request in requests {
            self.end(request, Err(SocketError::Canceled));
        }
        if !quiet && let Some((peer, sock)) = self.peer(id) {
            sock.reset_arriving = true;
            self.touch(peer);
        }
        let waits = |sock: &Sock| sock.accepting == Some(id);
        if let Some(listener) = self.find(waits).and_then(|listener| self.get(listener)) {
            listener.accepting = None;
        }
        let start = accepting.and_then(|accepting| self.get(accepting)?.starting.take());
        if let Some((request, _)) = start {
            self.end(request, Err(SocketError::Canceled));
        }
        for unaccepted in backlog {
            self.abandon(unaccepted);
            self.forget(unaccepted);
        }
        if let Some(sock) = self.get(id) {
            (sock.connected, sock.listens, sock.bound, sock.peer) = (false, false, false, 0);
        }
    }

    /// A request has begun. True: it may end on its caller's stack.
    pub(super) fn enter(&mut self, id: u64, request: At<Request>, fails: bool) -> bool {
        let Some(sock) = self.get(id) else { return false };
        let mut of = [id, 0];
        if sock.closing.is_none() {
            sock.requests += 1;
            if let Some((_, Start::Accept { listener })) = sock.starting {
                of[1] = listener;
            }
        }
        sock.calls += 1;
        if let Some(listener) = self.get(of[1]) {
            listener.requests += 1;
        }
        self.requests.insert(request.addr(), of);
        if fails || self.get(id).is_some_and(|sock| sock.send_failed && sock.send_called == Some(request.addr())) {
            self.fail(of, request);
        }
        self.touch(id);
        self.end_close(id);
        let inline = self.random.below(3) == 0;
        if inline {
            let _acted = (0..=self.random.below(3)).all(|_| self.act(id));
        }
        inline
    }

    /// A request fails for want of something of this machine.
    fn fail(&mut self, [id, listener]: [u64; 2], request: At<Request>) {
        if let Some(sock) = self.get(id) {
            sock.starting.take_if(|(starting, _)| starting.addr() == request.addr());
            let before = sock.sending.len();
            sock.sending.retain(|sending| sending.request.addr() != request.addr());
            sock.send_failed |= sock.sending.len() < before;
            sock.receiving.take_if(|receiving| receiving.request.addr() == request.addr());
            sock.finishing.take_if(|finishing| finishing.addr() == request.addr());
        }
        if let Some(listener) = self.get(listener) {
            listener.accepting = None;
        }
        self.end(request, Err(SocketError::Failed));
    }

    /// A call for the socket has returned, which took that request.
    pub(super) fn leave(&mut self, id: u64, request: usize) {
        if let Some(sock) = self.get(id) {
            sock.calls = sock.calls.saturating_sub(1);
            sock.send_called.take_if(|called| *called == request);
        }
    }

    /// The routine of a request is going to be called: its memory may go.
    pub(super) fn exit(&mut self, request: At<Request>) {
        for id in self.requests.remove(&request.addr()).into_iter().flatten() {
            let Some(sock) = self.get(id) else { continue };
            if sock.closing.is_some_and(|closing| closing.addr() == request.addr()) {
                if let Some(storage) = sock.storage {
                    storage.get().id.set(CLOSED);
                }
                self.forget(id);
            } else {
                sock.requests = sock.requests.saturating_sub(1);
                self.end_close(id);
            }
        }
    }

    /// A close ends when all other requests have.
    fn end_close(&mut self, id: u64) {
        let Some(sock) = self.get(id) else { return };
        if let Some(closing) = sock.closing
            && !sock.stopping
            && sock.requests == 0
        {
            self.end(closing, Ok(0));
        }
    }

    pub(super) fn break_connections(&mut self) {
        for sock in self.sockets.values_mut().filter(|sock| sock.connected) {
            sock.reset_arriving = true;
        }
        self.touch_all();
    }

    pub(super) fn break_listeners(&mut self, say: SocketError) {
        self.dead_listeners_say = say;
        self.sockets.values_mut().filter(|sock| sock.listens).for_each(|sock| sock.dead = true);
        self.touch_all();
    }

    pub(super) fn hold(&mut self, held: bool) {
        self.held = held;
        self.touch_all();
    }

    pub(super) fn hold_listeners(&mut self, held: bool) {
        self.listeners_held = held;
        self.touch_all();
    }

    pub(super) fn limit(&mut self, bytes: usize) {
        self.window = bytes.max(1);
        self.touch_all();
    }

    fn touch_all(&mut self) {
        let ids: Vec<_> = self.sockets.keys().copied().collect();
        ids.into_iter().for_each(|id| self.touch(id));
    }

    /// Memory is about to go: gives what is still in use of it, and uses it no more.
    pub(super) fn freed(&mut self, range: &Range<usize>) -> Vec<Breach> {
        let mut breaches = Vec::new();
        let mut ids = Vec::new();
        for (&request, of) in self.requests.range(range.clone()) {
            breaches.push(Breach::FreedRequest(request));
            ids.extend(of);
        }
        for (&id, sock) in &self.sockets {
            let open = sock.storage.map(At::addr).filter(|storage| range.contains(storage));
            let bytes = sock.sending.iter().chain(&sock.receiving).map(|transfer| transfer.bytes.addr());
            let bytes = bytes.filter(|bytes| range.contains(bytes)).map(Breach::FreedRequest);
            let before = breaches.len();
            breaches.extend(open.map(Breach::FreedOpenSocket).into_iter().chain(bytes));
            ids.extend((breaches.len() > before).then_some(id));
        }
        for id in ids {
            self.abandon(id);
            self.forget(id);
        }
        let gone = |request: At<Request>| range.contains(&request.addr());
        self.ended.retain(|request| !gone(*request));
        self.requests.retain(|request, _| !range.contains(request));
        breaches
    }
}
