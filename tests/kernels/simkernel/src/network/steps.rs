//! What can happen next in the network.

use std::collections::VecDeque;

use platform::SocketError;

use super::{
    addresses,
    net::Net,
    socket::{Sock, Start},
};

/// Connections that wait to be accepted.
const BACKLOG: usize = 200;

/// Steps of one run at most.
const STEPS: usize = 4;

/// Something that can happen to a socket.
#[derive(Clone, Copy)]
enum Action {
    Connect,
    Listen,
    Accept(u64),
    /// Bytes of a send leave.
    Send,
    /// What was to be sent has left.
    Finish,
    /// Bytes arrive.
    Arrive,
    /// The end of the bytes arrives.
    End,
    Reset,
    /// Bytes that have arrived, or their end, are received.
    Receive,
    /// A request on a dead connection fails.
    Fail,
    Stop,
}

impl Net {
    /// Some of what can happen, anywhere.
    pub(super) fn steps(&mut self) {
        for _ in 0..=self.random.below(STEPS) {
            while let Some(id) = self.any_ready() {
                if self.act(id) {
                    break;
                }
                self.rest(id);
            }
        }
    }

    /// Something of what can happen to one socket. False: nothing can.
    pub(super) fn act(&mut self, id: u64) -> bool {
        let actions = self.possible(id);
        let Some(&action) = actions.get(self.random.below(actions.len())) else { return false };
        match action {
            Action::Connect => self.connect(id),
            Action::Listen => self.listen(id),
            Action::Accept(listener) => self.take_next(id, listener),
            Action::Send => self.send_some(id),
            Action::Finish => self.send_end(id),
            Action::Arrive => self.arrive(id),
            Action::End => self.change(id, |sock| sock.end_arrived = std::mem::take(&mut sock.end_arriving)),
            Action::Reset => self.change(id, |sock| {
                (sock.reset_arriving, sock.end_arriving) = (false, false);
                sock.dead = true;
                sock.arriving.clear();
                sock.arrived.clear();
            }),
            Action::Receive => self.receive_some(id),
            Action::Fail => self.fail_all(id),
            Action::Stop => self.stop(id),
        }
        self.touch(id);
        true
    }

    fn change(&mut self, id: u64, change: impl FnOnce(&mut Sock)) {
        if let Some(sock) = self.get(id) {
            change(sock);
        }
    }

    fn possible(&mut self, id: u64) -> Vec<Action> {
        let (held, listeners_held, window) = (self.held, self.listeners_held, self.window);
        // To a peer that is gone any number of bytes can be sent.
        let room = self.peer(id).is_none_or(|(_, peer)| peer.in_flight() < window);
        let Some(sock) = self.get(id) else { return Vec::new() };
        if sock.closing.is_some() {
            return if sock.stopping && !listeners_held { vec![Action::Stop] } else { Vec::new() };
        }
        let mut actions = Vec::new();
        let mut add = |can: bool, action| actions.extend(can.then_some(action));
        match sock.starting {
            Some((_, Start::Connect { .. })) => add(!held, Action::Connect),
            Some((_, Start::Listen { .. })) => add(true, Action::Listen),
            Some((_, Start::Accept { listener })) => add(true, Action::Accept(listener)),
            None => {}
        }
        add(!held && !sock.arriving.is_empty(), Action::Arrive);
        add(!held && sock.arriving.is_empty() && sock.end_arriving, Action::End);
        add(!held && sock.reset_arriving, Action::Reset);
        if sock.dead {
            let any = !sock.sending.is_empty() || sock.receiving.is_some() || sock.finishing.is_some();
            add(any, Action::Fail);
        } else {
            add(!sock.sending.is_empty() && room, Action::Send);
            add(sock.finishing.is_some(), Action::Finish);
            add(sock.receiving.is_some() && (!sock.arrived.is_empty() || sock.end_arrived), Action::Receive);
        }
        if let Some(&Action::Accept(listener)) = actions.first()
            && self.get(listener).is_none_or(|listener| listener.backlog.is_empty() && !listener.dead)
        {
            actions.remove(0);
        }
        actions
    }

    /// How many of so many bytes go together: 1 up to all.
    fn segment(&mut self, most: usize) -> usize {
        let most = match self.random.below(8) {
            0 => 1,
            1 => most.min(64),
            2 | 3 => return most,
            _ => most,
        };
        1 + self.random.below(most)
    }

    fn started(&mut self, id: u64, result: Result<(), SocketError>) {
        if let Some((request, _)) = self.get(id).and_then(|sock| sock.starting.take()) {
            self.end(request, result.map(|()| 0));
        }
    }

    fn connect(&mut self, id: u64) {
        let connected = self.try_connect(id);
        self.started(id, connected);
    }

    fn try_connect(&mut self, id: u64) -> Result<(), SocketError> {
        let start = self.get(id).and_then(|sock| sock.starting);
        let Some((_, Start::Connect { mut local, remote })) = start else { return Err(SocketError::Failed) };
        if self.absent {
            return Err(SocketError::NoNetwork);
        }
        if local.ip().is_unspecified() && local.is_ipv4() == remote.is_ipv4() {
            local.set_ip(remote.ip());
        }
        let families_differ = local.is_ipv4() != remote.is_ipv4();
        if !addresses::is_somewhere(local.ip()) || !addresses::is_somewhere(remote.ip()) || families_differ {
            return Err(SocketError::Unreachable);
        }
        let local = self.bind(local).ok_or(SocketError::AddressInUse)?;
        let listener = self.listener_at(remote).ok_or(SocketError::Refused)?;
        if self.get(listener).is_none_or(|listener| listener.backlog.len() >= BACKLOG) {
            return Err(SocketError::Refused);
        }
        let mut other = Sock::new(None);
        (other.local, other.remote, other.connected, other.peer) = (remote, local, true, id);
        let other = self.insert(other);
        self.change(id, |sock| {
            (sock.local, sock.remote, sock.connected, sock.peer, sock.bound) = (local, remote, true, other, true);
        });
        let Some(listener) = self.get(listener) else { return Err(SocketError::Refused) };
        listener.backlog.push_back(other);
        if let Some(accepting) = listener.accepting {
            self.touch(accepting);
        }
        Ok(())
    }

    fn listen(&mut self, id: u64) {
        let listens = self.try_listen(id);
        self.started(id, listens);
    }

    fn try_listen(&mut self, id: u64) -> Result<(), SocketError> {
        let start = self.get(id).and_then(|sock| sock.starting);
        let Some((_, Start::Listen { local })) = start else { return Err(SocketError::Failed) };
        if self.absent {
            return Err(SocketError::NoNetwork);
        }
        if !addresses::is_somewhere(local.ip()) && !local.ip().is_unspecified() {
            return Err(SocketError::Unreachable);
        }
        let local = self.bind(local).ok_or(SocketError::AddressInUse)?;
        self.change(id, |sock| (sock.local, sock.listens, sock.bound) = (local, true, true));
        Ok(())
    }

    /// The accepting socket becomes the first of those that wait.
    fn take_next(&mut self, id: u64, listener: u64) {
        let say = self.dead_listeners_say;
        let Some(listener) = self.get(listener) else { return };
        if listener.dead {
            listener.accepting = None;
            return self.started(id, Err(say));
        }
        let Some(first) = listener.backlog.pop_front() else { return };
        listener.accepting = None;
        let Some(mut taken) = self.forget(first) else { return };
        // Windows does not say whether such an accept fails, or what it gives is dead.
        if (taken.dead || taken.reset_arriving) && self.random.below(2) == 0 {
            return self.started(id, Err(SocketError::Reset));
        }
        let peer = taken.peer;
        self.change(peer, |peer| {
            if peer.peer == first {
                peer.peer = id;
            }
        });
        self.change(id, |sock| {
            (taken.storage, taken.starting) = (sock.storage, sock.starting);
            (taken.requests, taken.calls) = (sock.requests, sock.calls);
            *sock = taken;
        });
        self.started(id, Ok(()));
        self.touch(peer);
    }

    fn send_some(&mut self, id: u64) {
        let window = self.window;
        let Some(mut sending) = self.get(id).and_then(|sock| sock.sending.pop_front()) else { return };
        let left = sending.length - sending.taken;
        let Some((_, peer)) = self.peer(id) else {
            // Who sends to a peer that is gone is told so, later.
            self.change(id, |sock| sock.reset_arriving = true);
            return self.end(sending.request, Ok(sending.length));
        };
        let most = left.min(window.saturating_sub(peer.in_flight()));
        let count = self.segment(most);
        let bytes = sending.bytes.read(sending.taken, count);
        if let Some((peer, sock)) = self.peer(id) {
            sock.arriving.extend(bytes);
            self.touch(peer);
        }
        sending.taken += count;
        if sending.taken == sending.length {
            self.end(sending.request, Ok(sending.length));
        } else {
            self.change(id, |sock| sock.sending.push_front(sending));
        }
    }

    fn send_end(&mut self, id: u64) {
        let Some(request) = self.get(id).and_then(|sock| sock.finishing.take()) else { return };
        self.change(id, |sock| sock.finished = true);
        if let Some((peer, sock)) = self.peer(id) {
            sock.end_arriving = true;
            self.touch(peer);
        }
        self.end(request, Ok(0));
    }

    fn arrive(&mut self, id: u64) {
        let most = self.get(id).map_or(0, |sock| sock.arriving.len());
        let count = self.segment(most);
        self.change(id, |sock| {
            let segment: VecDeque<_> = sock.arriving.drain(..count).collect();
            sock.arrived.extend(segment);
        });
    }

    fn receive_some(&mut self, id: u64) {
        let Some(sock) = self.get(id) else { return };
        let Some(receiving) = sock.receiving.take() else { return };
        let most = sock.arrived.len().min(receiving.length);
        let count = if most == 0 { 0 } else { self.segment(most) };
        self.change(id, |sock| {
            let segment: Vec<_> = sock.arrived.drain(..count).collect();
            receiving.bytes.write(&segment);
        });
        self.end(receiving.request, Ok(count));
        if let Some((peer, _)) = self.peer(id) {
            self.touch(peer);
        }
    }

    fn fail_all(&mut self, id: u64) {
        let requests: Vec<_> = self.get(id).into_iter().flat_map(Sock::take_requests).collect();
        for request in requests {
            self.end(request, Err(SocketError::Reset));
        }
    }
}
