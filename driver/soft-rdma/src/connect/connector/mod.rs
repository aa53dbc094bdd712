//! Connectors: one side of a connection, as a state machine that exchanges messages with the other side.
//!
//! A connector changes its state under its own lock, and calls the peer's connector without it, so two connectors never
//! wait for each other. The deferred call runs the consumer's callbacks. `establish.rs` and `end.rs` have the calls,
//! `peer_connector.rs` the messages to the other side, `remote.rs` those from a wire.

mod end;
mod establish;
mod peer_connector;
mod remote;

pub use establish::{Accept, Connect, Source};

use core::net::SocketAddr;

use fault_rules::Role;
use iwarp::mpa::MAX_PRIVATE_DATA;
use peer_connector::PeerConnector;
use platform::{Addresses, Arc, Charge, Deferred, Dispatch, Ending, Notice, Platform, RunDeferred, SpinLock};

use crate::{
    Adapter, Callback, Error, Listener, OnClose, QueuePair, SharedEndpoint, Status,
    connect::listener::BacklogSlot,
    connect::ports::{Connection, Endpoint},
    limits,
    object::counts::{CountedObject, ObjectKind},
};

/// Reads that may be under way at once. The limits of a connection are the smallest of what both sides and the device allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadLimits {
    /// Reads that the peer may have under way here (IRD).
    pub inbound: u32,
    /// Reads that this side may have under way at the peer (ORD).
    pub outbound: u32,
}

impl ReadLimits {
    /// The limits of this side, `self`, under those of the peer: inbound reads here are outbound reads there.
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

/// Private data of a connect, accept or reject. A peer on another machine may send more (`MAX_PRIVATE_DATA`) than a consumer here
/// (`limits::PRIVATE_DATA`).
#[derive(Clone, Copy)]
pub(crate) struct PrivateData {
    bytes: [u8; MAX_PRIVATE_DATA],
    length: usize,
}

impl PrivateData {
    pub(crate) const EMPTY: Self = Self { bytes: [0; MAX_PRIVATE_DATA], length: 0 };

    /// Copies a consumer's data. Called before a lock raises the IRQL: the buffer may be pageable at PASSIVE_LEVEL.
    fn copy_of(data: &[u8]) -> Result<Self, Error> {
        if data.len() > limits::PRIVATE_DATA {
            return Err(Error::InvalidBufferSize);
        }
        Ok(Self::of_peer(data))
    }

    /// Copies a peer's data: a Request or Reply has at most `MAX_PRIVATE_DATA` bytes of it.
    pub(crate) fn of_peer(data: &[u8]) -> Self {
        let mut copy = Self::EMPTY;
        copy.length = data.len().min(MAX_PRIVATE_DATA);
        copy.bytes.iter_mut().zip(data).for_each(|(place, byte)| *place = *byte);
        copy
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or(&[])
    }
}

/// The reason in a disconnect event. 0: the peer has disconnected, 1: the connection was aborted.
pub type DisconnectReason = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectorState {
    Idle,
    /// Active: the peer has not answered.
    Connecting,
    /// Active: the peer has accepted.
    Accepted,
    /// Active: the consumer completes the connect, and the message to the peer is under way.
    Completing,
    /// Passive: the consumer has neither accepted nor rejected.
    Incoming,
    /// Passive: the consumer has accepted; the peer has not completed.
    Accepting,
    Connected,
    /// The peer has disconnected, or the connection was aborted.
    PeerGone,
    /// This side disconnects; a request or access of its queue pair is still under way.
    Disconnecting,
    Closed,
}

struct LockedConnector<P: Platform> {
    connector_state: ConnectorState,
    active: bool,
    peer: Option<PeerConnector<P>>,
    queue_pair: Option<Arc<QueuePair<P>, P>>,
    /// The local address, or the listener's. Dropped when an attempt fails or TCP has picked another port, at the latest at the close of the
    /// connector: then the address can be bound again.
    endpoint: Option<Arc<Endpoint<P>, P>>,
    /// The local address, if a shared endpoint has it. Dropped when an attempt fails; else, as an antecedent, after the close callback.
    shared: Option<Arc<SharedEndpoint<P>, P>>,
    connection: Option<Connection<P>>,
    /// Passive: the slot in the listener's backlog, until the consumer answers.
    backlog_slot: Option<BacklogSlot<P>>,
    local: Option<SocketAddr>,
    remote: Option<SocketAddr>,
    limits: ReadLimits,
    /// The private data that the peer sent.
    private_data: PrivateData,
    /// The callback of the consumer's connect, accept or disconnect under way.
    request: Option<Callback<Status>>,
    /// Requests that have ended, and that the deferred call completes in this order. Two at most: a disconnect may end before the accept ahead of
    /// it was completed.
    finished: [Option<(Callback<Status>, Status)>; 2],
    disconnect_event: Option<Callback<DisconnectReason>>,
    disconnect_due: Option<DisconnectReason>,
    /// Passive: the consumer's reference, until the connect event hands it to the consumer.
    handle: Option<Arc<Connector<P>, P>>,
}

/// One side of a connection.
pub struct Connector<P: Platform> {
    on_close: OnClose<P>,
    deferred: Deferred<P>,
    state: SpinLock<LockedConnector<P>, P>,
    adapter: Arc<Adapter<P>, P>,
    /// Passive: the listener that made the connector. It is dropped after the close callback.
    listener: Option<Arc<Listener<P>, P>>,
    _charge: Charge<P>,
}

impl<P: Platform> Connector<P> {
    /// Makes a connector. IRQL <= DISPATCH.
    pub fn new(adapter: &Arc<Adapter<P>, P>) -> Result<Arc<Self, P>, Error> {
        Self::make(adapter, None)
    }

    fn make(adapter: &Arc<Adapter<P>, P>, listener: Option<Arc<Listener<P>, P>>) -> Result<Arc<Self, P>, Error> {
        let state = LockedConnector {
            connector_state: ConnectorState::Idle,
            active: true,
            peer: None,
            queue_pair: None,
            endpoint: None,
            shared: None,
            connection: None,
            backlog_slot: None,
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
        // The charge includes the endpoint, which a connect binds.
        let own = Arc::<Self, P>::POOL_BYTES.saturating_add(Arc::<Endpoint<P>, P>::POOL_BYTES);
        let charge = adapter.quota().charge(own)?;
        let connector = Arc::try_new(Self {
            on_close: OnClose::new(CountedObject::new(adapter, ObjectKind::Connector)?),
            deferred: Deferred::default(),
            state: SpinLock::<_, P>::new(state),
            adapter: adapter.clone(),
            listener,
            _charge: charge,
        })?;
        Deferred::initialize(&connector);
        Ok(connector)
    }

    /// Reads the connection's read limits and the peer's private data. IRQL <= DISPATCH.
    pub fn connection_data<R>(&self, read: impl FnOnce(ReadLimits, &[u8]) -> R) -> R {
        let state = self.state.lock();
        let (limits, private_data) = (state.limits, state.private_data);
        drop(state);
        read(limits, private_data.as_slice())
    }

    /// The local address; `None` before a connect. IRQL <= DISPATCH.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.state.lock().local
    }

    /// The peer's address; `None` before a connect. IRQL <= DISPATCH.
    pub fn peer_address(&self) -> Option<SocketAddr> {
        self.state.lock().remote
    }

    /// The addresses of the connection, and this side's role, for fault rules. IRQL <= DISPATCH.
    pub(crate) fn addresses_and_role(&self) -> (Addresses, Role) {
        let state = self.state.lock();
        (state.addresses(), if state.active { Role::Active } else { Role::Passive })
    }

    /// The adapter that the connector was made through.
    pub fn adapter(&self) -> &Arc<Adapter<P>, P> {
        &self.adapter
    }
}

impl<P: Platform> LockedConnector<P> {
    fn establish(&mut self) {
        self.connector_state = ConnectorState::Connected;
        P::notice(&Notice::Connected {
            addresses: self.addresses(),
            queue_pair: self.queue_pair_number(),
            active: self.active,
        });
        if let Some(connection) = &mut self.connection {
            connection.establish();
        }
    }

    /// Ends the connection, or the attempt, and sets the state to `connector_state`.
    fn end(&mut self, connector_state: ConnectorState) {
        if self.connector_state == ConnectorState::Connected {
            let reason = match self.disconnect_due {
                None => Ending::Local,
                Some(0) => Ending::Peer,
                Some(_) => Ending::Error,
            };
            P::notice(&Notice::Disconnected {
                addresses: self.addresses(),
                queue_pair: self.queue_pair_number(),
                reason,
            });
            if let Some(connection) = &self.connection {
                connection.device().capture().ended(self.addresses(), reason);
            }
        }
        self.connector_state = connector_state;
        self.connection = None;
        self.backlog_slot = None;
    }

    fn addresses(&self) -> Addresses {
        Addresses { local: self.local, remote: self.remote }
    }

    fn queue_pair_number(&self) -> u32 {
        self.queue_pair.as_ref().map_or(0, |queue_pair| queue_pair.number)
    }

    fn notice_failure(&self, error: Error) {
        P::notice(&Notice::ConnectFailed { addresses: self.addresses(), active: self.active, status: error as u32 });
    }

    /// Ends the request under way. The deferred call runs the request's callback.
    fn finish(&mut self, status: Status) {
        if let Some(request) = self.request.take()
            && let Some(place) = self.finished.iter_mut().find(|place| place.is_none())
        {
            *place = Some((request, status));
        }
    }
}

impl<P: Platform> RunDeferred<P> for Connector<P> {
    fn deferred(&self) -> &Deferred<P> {
        &self.deferred
    }

    fn run(this: &Arc<Self, P>, dispatch: &Dispatch<'_>) {
        let mut state = this.state.lock();
        let handle = state.handle.take();
        let finished = core::mem::take(&mut state.finished);
        let event = match state.disconnect_due.take() {
            Some(reason) => state.disconnect_event.take().map(|event| (event, reason)),
            None => None,
        };
        drop(state);
        if let (Some(handle), Some(listener)) = (handle, &this.listener) {
            listener.hand_over(handle, dispatch);
        }
        for (request, status) in finished.into_iter().flatten() {
            request.call_at_dispatch(dispatch, status);
        }
        if let Some((event, reason)) = event {
            event.call_at_dispatch(dispatch, reason);
        }
    }
}
