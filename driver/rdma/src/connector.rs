//! Connectors: one side of a connection, as a state machine that exchanges messages with the other side.
//!
//! A side changes its own state under its own lock and calls the peer with no lock held, so the two never wait for each
//! other. Callbacks of the consumer run from the deferred call.

use core::net::SocketAddr;

use platform::{Arc, Deferred, Platform, RunDeferred, SpinLock, Weak};

use crate::{
    Adapter, Callback, Close, Error, Listener, OnClose, Outcome, QueuePair, Status,
    counts::{Count, Kind},
    limits,
    ports::{Endpoint, Wildcard},
};

/// Reads under way at once. The effective limits are the smaller of what both sides and the adapter allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadLimits {
    /// Reads that the peer may have under way.
    pub inbound: u32,
    /// Reads that this side may have under way.
    pub outbound: u32,
}

impl ReadLimits {
    /// What is left of `self` when the peer says `peer`: our inbound reads are its outbound ones.
    fn agree(self, peer: Self) -> Self {
        Self {
            inbound: self.inbound.min(peer.outbound).min(limits::READ_LIMIT),
            outbound: self.outbound.min(peer.inbound).min(limits::READ_LIMIT),
        }
    }

    fn capped(self) -> Self {
        Self { inbound: self.inbound.min(limits::READ_LIMIT), outbound: self.outbound.min(limits::READ_LIMIT) }
    }
}

/// Private data of a connect, accept or reject.
#[derive(Clone, Copy)]
pub(crate) struct PrivateData {
    bytes: [u8; limits::PRIVATE_DATA],
    length: usize,
}

impl PrivateData {
    const EMPTY: Self = Self { bytes: [0; limits::PRIVATE_DATA], length: 0 };

    /// A copy, taken before a lock raises the IRQL: the consumer's buffer may be pageable at PASSIVE_LEVEL.
    fn copy_of(data: &[u8]) -> Result<Self, Error> {
        let mut copy = Self::EMPTY;
        copy.bytes.get_mut(..data.len()).ok_or(Error::InvalidBufferSize)?.copy_from_slice(data);
        copy.length = data.len();
        Ok(copy)
    }

    fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

/// Why a connection ended, in the disconnect event: 0 the peer disconnected, 1 it was aborted.
pub type DisconnectReason = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// Active: the peer has not answered.
    Connecting,
    /// Active: the peer has accepted.
    Accepted,
    /// Active: between telling the peer and being connected.
    Completing,
    /// Passive: the request is with the consumer.
    Incoming,
    /// Passive: accepted; the peer has not completed.
    Accepting,
    Connected,
    /// The peer has disconnected, or the connection was aborted.
    PeerGone,
    /// This side disconnects; its queue pair is not quiet yet.
    Disconnecting,
    Closed,
}

struct State<P: Platform> {
    phase: Phase,
    active: bool,
    peer: Option<Weak<Connector<P>, P>>,
    queue_pair: Option<Arc<QueuePair<P>, P>>,
    endpoint: Option<Arc<Endpoint<P>, P>>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    limits: ReadLimits,
    /// What the peer sent.
    private_data: PrivateData,
    /// The request under way.
    request: Option<Callback<Status>>,
    /// Requests that have ended and are to be reported, in this order. Two at most: an accept, and a disconnect behind it.
    finished: [Option<(Callback<Status>, Status)>; 2],
    disconnect_event: Option<Callback<DisconnectReason>>,
    disconnect_due: Option<DisconnectReason>,
    /// Passive: the consumer's reference, until the connect event hands it over.
    handle: Option<Arc<Connector<P>, P>>,
}

/// One side of a connection.
pub struct Connector<P: Platform> {
    on_close: OnClose<P>,
    deferred: Deferred<P>,
    state: SpinLock<State<P>, P>,
    count: Count<P>,
    /// The listener that made it, which outlives it.
    listener: Option<Arc<Listener<P>, P>>,
}

impl<P: Platform> Connector<P> {
    /// Makes a connector. IRQL <= DISPATCH.
    pub fn new(adapter: &Arc<Adapter<P>, P>) -> Result<Arc<Self, P>, Error> {
        Self::make(adapter, None)
    }

    fn make(adapter: &Arc<Adapter<P>, P>, listener: Option<Arc<Listener<P>, P>>) -> Result<Arc<Self, P>, Error> {
        let state = State {
            phase: Phase::Idle,
            active: true,
            peer: None,
            queue_pair: None,
            endpoint: None,
            local: None,
            remote: None,
            limits: ReadLimits::default(),
            private_data: PrivateData::EMPTY,
            request: None,
            finished: [None, None],
            disconnect_event: None,
            disconnect_due: None,
            handle: None,
        };
        let connector = Arc::try_new(Self {
            on_close: OnClose::default(),
            deferred: Deferred::default(),
            state: SpinLock::<_, P>::new(state),
            count: Count::new(adapter, Kind::Connector)?,
            listener,
        })?;
        Deferred::initialize(&connector);
        Ok(connector)
    }

    /// Asks the listener at `remote` for a connection; `done` is called when the peer has answered. On an error neither the
    /// connector nor the queue pair has changed. IRQL <= DISPATCH.
    pub fn connect(this: &Arc<Self, P>, request: Connect<'_, P>, done: Callback<Status>) -> Result<Outcome, Error> {
        let result = Self::start_connect(this, &request, done);
        if result.is_err() {
            this.adapter().device().counters().connect_failed();
        }
        result.map(|()| Outcome::Pending)
    }

    fn start_connect(this: &Arc<Self, P>, request: &Connect<'_, P>, done: Callback<Status>) -> Result<(), Error> {
        let private_data = PrivateData::copy_of(request.private_data)?;
        let device = this.adapter().device();
        if request.local.is_ipv4() != request.remote.is_ipv4() {
            return Err(Error::InvalidAddress);
        }
        let endpoint = Endpoint::bind(device, request.local, Wildcard::Refused)?;
        if !device.addresses().contains(&request.remote.ip()) {
            return Err(Error::NetworkUnreachable);
        }
        let listener = device.ports().listener(request.remote).ok_or(Error::ConnectionRefused)?;
        let peer_endpoint = listener.admit().ok_or(Error::ConnectionRefused)?;
        let peer = Self::make(listener.adapter(), Some(listener.clone()))?;
        this.claim(request.queue_pair)?;

        let mut incoming = peer.state.lock();
        incoming.phase = Phase::Incoming;
        incoming.active = false;
        incoming.peer = Some(Arc::downgrade(this));
        incoming.local = Some(request.remote);
        incoming.remote = Some(endpoint.local());
        incoming.endpoint = Some(peer_endpoint);
        incoming.limits = ReadLimits { inbound: u32::MAX, outbound: u32::MAX }.agree(request.limits);
        incoming.private_data = private_data;
        incoming.handle = Some(peer.clone());
        drop(incoming);

        let mut state = this.state.lock();
        state.active = true;
        state.peer = Some(Arc::downgrade(&peer));
        state.local = Some(endpoint.local());
        state.remote = Some(request.remote);
        state.limits = request.limits.capped();
        state.request = Some(done);
        let old_queue_pair = state.queue_pair.replace(request.queue_pair.clone());
        let old_endpoint = state.endpoint.replace(endpoint);
        drop(state);
        drop((old_queue_pair, old_endpoint));
        Deferred::schedule(&peer);
        Ok(())
    }

    /// Begins a connect, if nothing is under way on the connector and on the queue pair.
    fn claim(&self, queue_pair: &Arc<QueuePair<P>, P>) -> Result<(), Error> {
        let mut state = self.state.lock();
        if state.phase != Phase::Idle || state.finished.iter().any(Option::is_some) {
            return Err(Error::ConnectionActive);
        }
        queue_pair.reserve()?;
        state.phase = Phase::Connecting;
        Ok(())
    }

    /// Completes a connect that the peer has accepted. IRQL <= DISPATCH.
    pub fn complete_connect(
        this: &Arc<Self, P>,
        disconnect_event: Option<Callback<DisconnectReason>>,
    ) -> Result<Outcome, Error> {
        let mut state = this.state.lock();
        match state.phase {
            Phase::Accepted => {}
            Phase::Closed => return Err(Error::ConnectionAborted),
            _ => return Err(Error::ConnectionInvalid),
        }
        state.phase = Phase::Completing;
        state.disconnect_event = disconnect_event;
        let (peer, queue_pair) = (state.peer.clone(), state.queue_pair.clone());
        drop(state);
        let queue_pair = queue_pair.ok_or(Error::InternalError)?;
        let peer = peer.as_ref().and_then(Weak::upgrade);
        let accepted = peer.as_ref().and_then(|peer| Self::peer_completes(peer, &queue_pair));

        let mut state = this.state.lock();
        match accepted {
            Some(peer_queue_pair) if state.phase == Phase::Completing => {
                this.adapter().device().counters().connected(true);
                let limits = state.limits;
                state.phase = Phase::Connected;
                drop(state);
                queue_pair.connect(peer_queue_pair, Arc::downgrade(this), limits);
                Ok(Outcome::Done)
            }
            _ => {
                state.phase = Phase::Closed;
                drop(state);
                QueuePair::terminate(&queue_pair);
                // It may be connected already, if our own close has crossed this.
                if let Some(peer) = &peer {
                    Self::peer_disconnects(peer, 1);
                }
                Err(Error::ConnectionAborted)
            }
        }
    }

    /// Message to a passive side: the active one completes. Its queue pair is connected, and the answer is a reference to it.
    fn peer_completes(this: &Arc<Self, P>, peer: &Arc<QueuePair<P>, P>) -> Option<Weak<QueuePair<P>, P>> {
        let mut state = this.state.lock();
        if state.phase != Phase::Accepting {
            return None;
        }
        let queue_pair = state.queue_pair.clone()?;
        this.adapter().device().counters().connected(false);
        state.phase = Phase::Connected;
        state.finish(Ok(()));
        let limits = state.limits;
        drop(state);
        queue_pair.connect(Arc::downgrade(peer), Arc::downgrade(this), limits);
        Deferred::schedule(this);
        Some(Arc::downgrade(&queue_pair))
    }

    /// Accepts a request; `done` is called when the peer has completed. IRQL <= DISPATCH.
    pub fn accept(this: &Arc<Self, P>, request: Accept<'_, P>, done: Callback<Status>) -> Result<Outcome, Error> {
        let private_data = PrivateData::copy_of(request.private_data)?;
        let mut state = this.state.lock();
        match state.phase {
            Phase::Incoming => {}
            Phase::Closed => return Err(Error::ConnectionAborted),
            _ => return Err(Error::ConnectionInvalid),
        }
        request.queue_pair.reserve()?;
        state.phase = Phase::Accepting;
        // The offer of the peer is in `limits` since the request came.
        state.limits = ReadLimits {
            inbound: request.limits.inbound.min(state.limits.inbound),
            outbound: request.limits.outbound.min(state.limits.outbound),
        };
        state.queue_pair = Some(request.queue_pair.clone());
        state.disconnect_event = request.disconnect_event;
        state.request = Some(done);
        let (peer, limits) = (state.peer.clone(), state.limits);
        drop(state);
        let peer = peer.as_ref().and_then(Weak::upgrade);
        if peer.is_some_and(|peer| Self::peer_accepts(&peer, limits, private_data)) {
            return Ok(Outcome::Pending);
        }
        // The peer gave up. If its message has come already, the request is reported; else it ends here.
        let mut state = this.state.lock();
        if state.request.take().is_none() {
            return Ok(Outcome::Pending);
        }
        state.phase = Phase::Closed;
        let queue_pair = state.queue_pair.take();
        drop(state);
        drop(queue_pair);
        request.queue_pair.unreserve();
        Err(Error::ConnectionAborted)
    }

    /// Message to an active side: the peer accepts. False: it has given up.
    fn peer_accepts(this: &Arc<Self, P>, peer: ReadLimits, private_data: PrivateData) -> bool {
        let mut state = this.state.lock();
        if state.phase != Phase::Connecting {
            return false;
        }
        state.phase = Phase::Accepted;
        state.limits = state.limits.agree(peer);
        state.private_data = private_data;
        state.finish(Ok(()));
        drop(state);
        Deferred::schedule(this);
        true
    }

    /// Rejects: the passive side a request, the active side an acceptance. IRQL <= DISPATCH.
    pub fn reject(this: &Arc<Self, P>, private_data: &[u8]) -> Result<(), Error> {
        let private_data = PrivateData::copy_of(private_data)?;
        let mut state = this.state.lock();
        match state.phase {
            Phase::Incoming | Phase::Accepted => {}
            Phase::Closed => return Err(Error::ConnectionAborted),
            _ => return Err(Error::ConnectionInvalid),
        }
        state.phase = Phase::Closed;
        let (peer, queue_pair) = (state.peer.take(), state.queue_pair.take());
        drop(state);
        if let Some(queue_pair) = queue_pair {
            queue_pair.unreserve();
        }
        if let Some(peer) = peer.as_ref().and_then(Weak::upgrade) {
            Self::peer_rejects(&peer, private_data);
        }
        Ok(())
    }

    /// Message: the peer rejects, or closes before the connection was established.
    fn peer_rejects(this: &Arc<Self, P>, private_data: PrivateData) {
        let mut state = this.state.lock();
        let mut unused = None;
        match state.phase {
            Phase::Connecting => {
                // The attempt failed; connector and queue pair are as they were (IND2Connector::Connect).
                state.private_data = private_data;
                state.phase = Phase::Idle;
                unused = state.queue_pair.take();
                state.finish(Err(Error::ConnectionRefused));
            }
            Phase::Accepting => {
                state.phase = Phase::Closed;
                unused = state.queue_pair.take();
                state.finish(Err(Error::ConnectionAborted));
            }
            Phase::Accepted => {
                state.phase = Phase::Closed;
                unused = state.queue_pair.take();
            }
            Phase::Incoming | Phase::Completing => state.phase = Phase::Closed,
            _ => {}
        }
        let endpoint = if state.phase == Phase::Idle { state.endpoint.take() } else { None };
        drop(state);
        drop(endpoint);
        if let Some(queue_pair) = unused {
            queue_pair.unreserve();
            if this.listener.is_none() {
                this.adapter().device().counters().connect_failed();
            }
        }
        Deferred::schedule(this);
    }

    /// Disconnects and flushes the queue pair. Done when nothing of it is under way any more; the peer's provider
    /// acknowledges by itself. Also right after the peer disconnected. IRQL <= DISPATCH.
    pub fn disconnect(this: &Arc<Self, P>, done: Callback<Status>) -> Result<Outcome, Error> {
        let mut state = this.state.lock();
        let established = state.phase == Phase::Connected;
        if !established && state.phase != Phase::PeerGone {
            return Err(Error::ConnectionInvalid);
        }
        state.phase = Phase::Disconnecting;
        state.request = Some(done);
        let (peer, queue_pair) = (state.peer.take(), state.queue_pair.clone());
        drop(state);
        let quiet = this.end_connection(established, peer, queue_pair);
        if !quiet {
            return Ok(Outcome::Pending);
        }
        let mut state = this.state.lock();
        state.phase = Phase::Closed;
        // The engine may have told us first: then the request is being reported.
        Ok(if state.request.take().is_some() { Outcome::Done } else { Outcome::Pending })
    }

    /// Tells the peer and flushes our queue pair. True: nothing of it is under way any more.
    fn end_connection(
        &self,
        established: bool,
        peer: Option<Weak<Self, P>>,
        queue_pair: Option<Arc<QueuePair<P>, P>>,
    ) -> bool {
        if established {
            self.adapter().device().counters().disconnected();
        }
        let quiet = queue_pair.is_none_or(|queue_pair| QueuePair::terminate(&queue_pair));
        if let Some(peer) = peer.as_ref().and_then(Weak::upgrade) {
            Self::peer_disconnects(&peer, 0);
        }
        quiet
    }

    /// Message: the peer has disconnected (reason 0) or the connection is aborted (1).
    fn peer_disconnects(this: &Arc<Self, P>, reason: DisconnectReason) {
        let mut state = this.state.lock();
        match state.phase {
            Phase::Connected => {}
            // The active side has told us, but is not connected itself yet.
            Phase::Completing => {
                state.phase = Phase::Closed;
                return;
            }
            _ => return,
        }
        state.phase = Phase::PeerGone;
        state.disconnect_due = Some(reason);
        let queue_pair = state.queue_pair.clone();
        drop(state);
        this.adapter().device().counters().disconnected();
        if let Some(queue_pair) = queue_pair {
            if reason == 0 {
                queue_pair.peer_gone();
            } else {
                QueuePair::terminate(&queue_pair);
            }
        }
        Deferred::schedule(this);
    }

    /// A fatal error on our queue pair: both sides are told.
    pub(crate) fn abort(this: &Arc<Self, P>) {
        let state = this.state.lock();
        let peer = if state.phase == Phase::Connected { state.peer.clone() } else { None };
        drop(state);
        if let Some(peer) = &peer {
            this.adapter().device().counters().connection_error();
            Self::peer_disconnects(this, 1);
            if let Some(peer) = peer.upgrade() {
                Self::peer_disconnects(&peer, 1);
            }
        }
    }

    /// Our queue pair is quiet: a disconnect that waited for it is over.
    pub(crate) fn queue_pair_quiet(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        if state.phase == Phase::Disconnecting {
            state.phase = Phase::Closed;
            state.finish(Ok(()));
            drop(state);
            Deferred::schedule(this);
        }
    }

    /// The consumer cannot take this connector over: the peer sees a reject.
    pub fn give_up(this: &Arc<Self, P>) {
        Self::begin_close(this);
    }

    /// The effective read limits and the peer's private data. IRQL <= DISPATCH.
    pub fn connection_data<R>(&self, read: impl FnOnce(ReadLimits, &[u8]) -> R) -> R {
        let state = self.state.lock();
        let (limits, private_data) = (state.limits, state.private_data);
        drop(state);
        read(limits, private_data.as_slice())
    }

    /// The own address, once there is one. IRQL <= DISPATCH.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.state.lock().local
    }

    /// The peer's address, once there is one. IRQL <= DISPATCH.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.state.lock().remote
    }

    /// The adapter it was made through.
    pub fn adapter(&self) -> &Arc<Adapter<P>, P> {
        self.count.adapter()
    }
}

impl<P: Platform> State<P> {
    /// Ends the request under way, to be reported by the deferred call.
    fn finish(&mut self, status: Status) {
        if let Some(request) = self.request.take()
            && let Some(place) = self.finished.iter_mut().find(|place| place.is_none())
        {
            *place = Some((request, status));
        }
    }
}

/// A connect.
pub struct Connect<'a, P: Platform> {
    /// The queue pair to connect.
    pub queue_pair: &'a Arc<QueuePair<P>, P>,
    /// An address of the adapter; port 0 picks one.
    pub local: SocketAddr,
    /// Where the listener is.
    pub remote: SocketAddr,
    /// Too large values are capped.
    pub limits: ReadLimits,
    /// Handed to the listener's consumer; at most [`limits::PRIVATE_DATA`] bytes.
    pub private_data: &'a [u8],
}

/// An accept.
pub struct Accept<'a, P: Platform> {
    /// The queue pair to connect.
    pub queue_pair: &'a Arc<QueuePair<P>, P>,
    /// Too large values are capped.
    pub limits: ReadLimits,
    /// Handed to the connecting consumer; at most [`limits::PRIVATE_DATA`] bytes.
    pub private_data: &'a [u8],
    /// Called once if the connection ends for another reason than this side's disconnect or close.
    pub disconnect_event: Option<Callback<DisconnectReason>>,
}

impl<P: Platform> RunDeferred<P> for Connector<P> {
    fn deferred(&self) -> &Deferred<P> {
        &self.deferred
    }

    fn run(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        let handle = state.handle.take();
        let finished = core::mem::take(&mut state.finished);
        let event = match state.disconnect_due.take() {
            Some(reason) => state.disconnect_event.take().map(|event| (event, reason)),
            None => None,
        };
        drop(state);
        if let (Some(handle), Some(listener)) = (handle, &this.listener) {
            listener.hand_over(handle);
        }
        for (request, status) in finished.into_iter().flatten() {
            request.call(status);
        }
        if let Some((event, reason)) = event {
            event.call(reason);
        }
    }
}

impl<P: Platform> Close<P> for Connector<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }

    fn begin_close(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        let phase = state.phase;
        state.phase = Phase::Closed;
        state.finish(Err(Error::Canceled));
        // Closing is the consumer's own act: no event about it, or about anything that crosses it.
        state.disconnect_due = None;
        state.disconnect_event = None;
        let peer = state.peer.take();
        let queue_pair = state.queue_pair.take();
        let endpoint = state.endpoint.take();
        drop(state);
        match phase {
            Phase::Connected | Phase::PeerGone | Phase::Disconnecting => {
                this.end_connection(phase == Phase::Connected, peer, queue_pair);
            }
            Phase::Idle | Phase::Closed => drop(queue_pair),
            Phase::Connecting | Phase::Accepted | Phase::Completing | Phase::Incoming | Phase::Accepting => {
                if let Some(queue_pair) = queue_pair {
                    queue_pair.unreserve();
                }
                if let Some(peer) = peer.as_ref().and_then(Weak::upgrade) {
                    Self::peer_rejects(&peer, PrivateData::EMPTY);
                }
            }
        }
        drop(endpoint);
        Deferred::schedule(this);
    }
}
