//! Connectors: the state of a handle. The control codes are in [`requests`].
//!
//! A connector gets an NDK connector when it connects (a new one each time, as an NDK connector serves one connection), or when a listener
//! gives it a connection request. This module decides which operation is allowed in which phase, since a provider need not check that.

mod requests;

pub(crate) use requests::{
    accept, bind, bindable, complete_connect, connect, create, disconnect, free, get_address, get_peer_address,
    get_private_data, get_read_limits, notify_disconnect, reject, room_for_address,
};

use core::net::SocketAddr;
use core::ptr;
use core::sync::atomic::{AtomicU64, Ordering};

use ndk_abi::ndkpi::NDK_CONNECTOR;
use ndk_abi::status::{
    NTSTATUS, STATUS_ADDRESS_ALREADY_ASSOCIATED, STATUS_CANCELLED, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_ACTIVE,
    STATUS_CONNECTION_INVALID, STATUS_CONNECTION_REFUSED, STATUS_PENDING, STATUS_SUCCESS,
};
use platform::{Arc, Charge, SpinLock, Weak};

use crate::objects::qp::Qp;
use crate::quota::Quota;
use crate::tables::lines::Lines;
use crate::tables::pended::{self, Abandon, Event, Pended};
use crate::tables::sent::Waiting;
use crate::{BackRef, Host, Ref};
use ndk_consumer::{Adapter, Completed, Disconnected, Owned};

/// The pended requests of a provider context.
pub(crate) type PendedRequests<H> = pended::PendedRequests<H, Connector<H>>;

/// An NDK connector and its link.
pub(crate) type Connection<H> = Owned<NDK_CONNECTOR, Link<H>, <H as Host>::Platform>;

pub(crate) struct Connector<H: Host> {
    pended: Ref<PendedRequests<H>, H>,
    pub(crate) waiting: Waiting<H>,
    pub(crate) adapter: Ref<Adapter<H::Platform>, H>,
    state: SpinLock<State<H>, H::Platform>,
    _charge: Charge<H::Platform>,
}

struct State<H: Host> {
    phase: Phase,
    connection: Option<Ref<Connection<H>, H>>,
    bound: Option<SocketAddr>,
    /// The queue pair of the last connect or accept; [`Qp::is_of`] says whether this connector has connected it.
    qp: Option<Weak<Qp<H>, H::Platform>>,
    /// The peer has disconnected.
    peer_gone: bool,
}

/// The phase of a connector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Not connecting. After a refused connect `connection` stays, for the peer's private data.
    Idle,
    /// A GET_CONNECTION_REQUEST waits for a connection request.
    Waiting,
    /// Passive side: the connector has a connection request.
    Requested,
    /// NdkConnect is in progress.
    Connecting,
    /// Active side: the peer accepted.
    Offered,
    /// NdkCompleteConnect is in progress.
    Completing,
    /// NdkAccept is in progress.
    Accepting,
    Established,
    /// NdkDisconnect is in progress.
    Disconnecting,
    /// The connection or its set-up has ended, or the handle is freed: no operation may begin.
    Ended,
}

impl Phase {
    /// The status of the operation of this phase, from NDKPI's status. An accept is refused when the peer has backed out, as existing
    /// programs expect (ndspi.md section 5, Accept).
    fn nd_status(self, status: NTSTATUS) -> NTSTATUS {
        match (self, status) {
            (Self::Accepting, STATUS_CONNECTION_ABORTED) => STATUS_CONNECTION_REFUSED,
            _ => status,
        }
    }
}

/// The context of an NDK connector's callbacks.
pub(crate) struct Link<H: Host> {
    pended: Ref<PendedRequests<H>, H>,
    /// Keeps the adapter open.
    _adapter: Ref<Adapter<H::Platform>, H>,
    /// The connector of the handle, once the connection has one.
    connector: BackRef<Connector<H>, H>,
    /// The pended request of the operation in progress; 0: none.
    request: AtomicU64,
    _charge: Charge<H::Platform>,
}

impl<H: Host> Link<H> {
    pub(crate) fn new(
        pended: Ref<PendedRequests<H>, H>,
        quota: &Quota<H>,
        adapter: Ref<Adapter<H::Platform>, H>,
    ) -> Result<Self, NTSTATUS> {
        Ok(Self {
            _charge: quota.charge::<Connection<H>, Self>()?,
            pended,
            _adapter: adapter,
            connector: SpinLock::<_, H::Platform>::new(None),
            request: AtomicU64::new(0),
        })
    }

    fn connector(&self) -> Option<Ref<Connector<H>, H>> {
        self.connector.lock().as_ref().and_then(Weak::upgrade)
    }

    fn set_connector(&self, connector: &Ref<Connector<H>, H>) {
        *self.connector.lock() = Some(Arc::downgrade(connector));
    }

    /// Takes the request of the operation that has ended, for [`Link::finish`]. Called before the connector leaves the phase of that
    /// operation: the next operation, which may begin then, stores its own request.
    fn ended(&self) -> u64 {
        self.request.swap(0, Ordering::AcqRel)
    }

    /// Completes the request of an operation that has ended.
    fn finish(&self, id: u64, status: NTSTATUS) {
        if let Some(pended) = self.pended.take(id) {
            pended.complete(status);
        }
    }

    /// Completes the pended NOTIFY_DISCONNECTs.
    fn notify_disconnected(&self, connector: &Connector<H>) {
        let pended = &self.pended;
        pended.take_until(&connector.waiting, &[Event::Disconnected], pended.end(), Pended::succeed);
    }
}

impl<H: Host> Completed<H::Platform> for Link<H> {
    fn completed(this: &Ref<Self, H>, status: NTSTATUS) {
        let request = this.ended();
        let connector = this.connector();
        let advance = |connector: &Ref<Connector<H>, H>| Connector::advance(connector, this, status);
        let (ended, status) = connector.as_ref().map_or((false, status), advance);
        // Before the request completes: after that the program may post.
        connector.iter().for_each(|connector| connector.notify_qp(false));
        this.finish(request, status);
        if ended && let Some(connector) = connector {
            this.notify_disconnected(&connector);
        }
    }
}

impl<H: Host> Disconnected for Link<H> {
    fn disconnected(&self) {
        let Some(connector) = self.connector() else { return };
        if !connector.state.lock().is_current(self) {
            return;
        }
        // Before `peer_gone` is set: once a program knows of the disconnect, for example by a new NOTIFY_DISCONNECT, its posts have to be
        // cancelled.
        connector.notify_qp(true);
        let mut state = connector.state.lock();
        state.peer_gone |= state.is_current(self);
        drop(state);
        self.notify_disconnected(&connector);
    }
}

impl<H: Host> State<H> {
    fn is_current(&self, link: &Link<H>) -> bool {
        self.connection.as_ref().is_some_and(|connection| ptr::eq(Arc::as_ptr(connection.context()), link))
    }
}

impl<H: Host> Connector<H> {
    pub(crate) fn new(
        pended: Ref<PendedRequests<H>, H>,
        quota: &Quota<H>,
        adapter: Ref<Adapter<H::Platform>, H>,
    ) -> Result<Self, NTSTATUS> {
        let waiting = Lines::new(&quota.pool)?;
        let charge = quota.charge_bytes(Arc::<Self, H::Platform>::POOL_BYTES)?;
        let state = State { phase: Phase::Idle, connection: None, bound: None, qp: None, peer_gone: false };
        Ok(Self { pended, waiting, adapter, state: SpinLock::<_, H::Platform>::new(state), _charge: charge })
    }

    /// Binds the connector to a local address.
    fn bind(&self, address: SocketAddr) -> Result<(), NTSTATUS> {
        let mut state = self.state.lock();
        if state.bound.is_some() {
            return Err(STATUS_ADDRESS_ALREADY_ASSOCIATED);
        }
        if state.phase != Phase::Idle {
            return Err(STATUS_CONNECTION_ACTIVE);
        }
        state.bound = Some(address);
        Ok(())
    }

    /// Moves an idle connector to `phase`. Returns the address that it is bound to.
    fn occupy(&self, phase: Phase) -> Result<Option<SocketAddr>, NTSTATUS> {
        let mut state = self.state.lock();
        if state.phase != Phase::Idle {
            return Err(STATUS_CONNECTION_ACTIVE);
        }
        state.phase = phase;
        let refused = state.connection.take();
        let bound = state.bound;
        drop(state);
        drop(refused);
        Ok(bound)
    }

    /// Moves an idle connector to `Waiting`, for a connection request of a listener.
    pub(crate) fn await_request(&self) -> Result<(), NTSTATUS> {
        self.occupy(Phase::Waiting).map(|_| ())
    }

    /// Sets the connection of a connector in phase `from`, and moves it to phase `to`. `Err`: it is in another phase; returns the
    /// connection.
    fn install(
        this: &Ref<Self, H>,
        from: Phase,
        to: Phase,
        connection: Ref<Connection<H>, H>,
    ) -> Result<(), Ref<Connection<H>, H>> {
        let mut state = this.state.lock();
        if state.phase != from {
            return Err(connection);
        }
        connection.context().set_connector(this);
        state.phase = to;
        state.connection = Some(connection);
        Ok(())
    }

    /// Gives a connection request to a waiting connector. `Err`: the connector does not wait; returns the request.
    pub(crate) fn take_request(
        this: &Ref<Self, H>,
        connection: Ref<Connection<H>, H>,
    ) -> Result<(), Ref<Connection<H>, H>> {
        Self::install(this, Phase::Waiting, Phase::Requested, connection)
    }

    /// Begins an operation on the connection: moves from one of the phases `from` to `to`. Returns the connection and the phase before.
    /// STATUS_CONNECTION_INVALID: the connector is in another phase.
    fn begin(&self, from: &[Phase], to: Phase) -> Result<(Ref<Connection<H>, H>, Phase), NTSTATUS> {
        let mut state = self.state.lock();
        let before = state.phase;
        let connection = state.connection.clone().filter(|_| from.contains(&before));
        let connection = connection.ok_or(STATUS_CONNECTION_INVALID)?;
        state.phase = to;
        Ok((connection, before))
    }

    /// Moves back to phase `to`: the operation on `link` did not begin. A thread that moves the connector on in the meantime takes the
    /// connection with that link.
    fn retreat(&self, link: &Link<H>, to: Phase) {
        let mut state = self.state.lock();
        if state.is_current(link) {
            state.phase = to;
        }
    }

    /// The operation in progress has ended with NDKPI's `status`: moves to the next phase. Returns whether the connection has ended too,
    /// and the status for the request.
    fn advance(this: &Ref<Self, H>, link: &Link<H>, status: NTSTATUS) -> (bool, NTSTATUS) {
        let mut state = this.state.lock();
        let succeeded = status == STATUS_SUCCESS;
        if !state.is_current(link) {
            return (false, if succeeded { status } else { FREED });
        }
        let status = state.phase.nd_status(status);
        state.phase = match state.phase {
            Phase::Connecting if succeeded => Phase::Offered,
            Phase::Connecting => Phase::Idle,
            Phase::Completing | Phase::Accepting if succeeded => Phase::Established,
            Phase::Completing | Phase::Accepting | Phase::Disconnecting => Phase::Ended,
            phase => phase,
        };
        let (phase, qp) = (state.phase, state.qp.clone());
        drop(state);
        if phase == Phase::Established {
            let qp = qp.as_ref().and_then(Weak::upgrade);
            if !qp.is_some_and(|qp| qp.establish(this)) {
                // The queue pair was freed before it was connected.
                this.abandon(Event::Setup);
                return (true, FREED);
            }
        }
        (phase == Phase::Ended, status)
    }

    /// Sets the queue pair that an operation is to connect. Called before the operation's request pends: once that request is cancelled,
    /// another operation may begin.
    fn connects(&self, qp: &Ref<Qp<H>, H>) {
        let before = self.state.lock().qp.replace(Arc::downgrade(qp));
        drop(before);
    }

    /// The queue pair that this connector has connected is freed: ends the connection.
    pub(crate) fn queue_pair_gone(&self) {
        let is_established = self.state.lock().phase == Phase::Established;
        if is_established {
            self.abandon(Event::Setup);
        }
    }

    /// Tells the queue pair the state of its connection. The peer is gone if the event `ends` the connection, or if `peer_gone` is set.
    fn notify_qp(&self, ends: bool) {
        let state = self.state.lock();
        let (phase, peer_gone, qp) = (state.phase, state.peer_gone || ends, state.qp.clone());
        let connection = state.connection.clone();
        drop(state);
        let Some(qp) = qp.as_ref().and_then(Weak::upgrade) else { return };
        // A queue pair that this connector has not connected stays as it is: another connector may connect it, or have connected it.
        if phase == Phase::Ended && !qp.is_of(self) {
            return;
        }
        match phase {
            Phase::Ended => Qp::disconnected(&qp),
            _ if peer_gone => Qp::peer_gone(&qp),
            Phase::Established => {
                let limits = connection.as_ref().and_then(|connection| connection.read_limits().ok());
                qp.connected(limits.is_some_and(|(_, outbound)| outbound > 0));
            }
            _ => {}
        }
    }

    /// The connection, if its peer's data is known: not while it connects.
    fn known_peer(&self) -> Result<Ref<Connection<H>, H>, NTSTATUS> {
        let state = self.state.lock();
        let connection = state.connection.clone().filter(|_| state.phase != Phase::Connecting);
        connection.ok_or(STATUS_CONNECTION_INVALID)
    }

    /// The handle is freed: ends the connection and cancels the pended requests.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.phase = Phase::Ended;
        let connection = state.connection.take();
        drop(state);
        self.notify_qp(false);
        self.pended.cancel(&self.waiting);
        drop(connection);
        self.pended.remove_connector();
    }
}

impl<H: Host> Abandon<H> for Connector<H> {
    fn waiting(&self) -> &Waiting<H> {
        &self.waiting
    }

    /// Undoes what the request began. An unfinished set-up ends only with the close of the NDK connector.
    fn abandon(&self, event: Event) {
        let mut state = self.state.lock();
        let connection = match (event, state.phase) {
            (Event::ConnectionRequest, Phase::Waiting) => {
                state.phase = Phase::Idle;
                None
            }
            (Event::Setup, Phase::Connecting | Phase::Offered) => {
                state.phase = Phase::Idle;
                state.connection.take()
            }
            (Event::Setup, Phase::Accepting | Phase::Completing | Phase::Established) => {
                state.phase = Phase::Ended;
                state.connection.take()
            }
            _ => None,
        };
        let ended = state.phase == Phase::Ended;
        drop(state);
        self.notify_qp(false);
        if let Some(connection) = connection
            && ended
        {
            connection.context().notify_disconnected(self);
        }
    }
}

/// Handles the inline status of a call that starts an operation. STATUS_PENDING: the callback will end the operation. STATUS_SUCCESS: it
/// has ended. A failure: it has not begun, and the connector moves back to phase `before`.
fn handle_inline_status<H: Host>(
    connector: &Connector<H>,
    connection: &Connection<H>,
    phases: (Phase, Phase),
    status: NTSTATUS,
) {
    let (before, during) = phases;
    match status {
        STATUS_PENDING => {}
        STATUS_SUCCESS => Link::completed(connection.context(), STATUS_SUCCESS),
        status => {
            let request = connection.context().ended();
            connector.retreat(connection.context(), before);
            connection.context().finish(request, during.nd_status(status));
        }
    }
}

/// The status of an operation whose connector or queue pair was freed before its end.
const FREED: NTSTATUS = STATUS_CANCELLED;
