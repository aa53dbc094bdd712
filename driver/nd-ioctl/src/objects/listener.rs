//! Listeners: match connection requests with the connectors that wait for one.

use core::net::SocketAddr;

use ndk_abi::nd_ioctl::{ND_BIND, ND_GET_CONNECTION_REQUEST, ND_HANDLE, ND_LISTEN};
use ndk_abi::ndkpi::{NDK_CONNECTOR, NDK_LISTENER};
use ndk_abi::status::{
    NTSTATUS, STATUS_ADDRESS_ALREADY_ASSOCIATED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_DEVICE_STATE,
    STATUS_PENDING,
};
use platform::{Arc, Charge, OutOfMemory, Passive, Slice, SpinLock};

use crate::decode::{Reply, finish, input, output, room_for};
use crate::objects::adapter::same_adapter;
use crate::objects::connector::{Connection, Connector, Link, bindable, room_for_address};
use crate::objects::{Handles, PendedRequests};
use crate::quota::Quota;
use crate::tables::lines::Lines;
use crate::tables::pended::{Abandon, Event};
use crate::tables::sent::{Sent, Waiting};
use crate::{Host, Ref, shared};
use ndk_consumer::{Adapter, ConnectRequested, Owned};

/// The most connection requests that wait for a connector; a backlog of 0 ("no limit") means this number too.
const MAX_BACKLOG: u32 = 256;

pub(crate) struct Listener<H: Host> {
    ndk: Owned<NDK_LISTENER, ListenerEvents<H>, H::Platform>,
}

/// The context of a listener's connect events.
pub(crate) struct ListenerEvents<H: Host> {
    pended: Ref<PendedRequests<H>, H>,
    quota: Ref<Quota<H>, H>,
    adapter: Ref<Adapter<H::Platform>, H>,
    waiting: Waiting<H>,
    state: SpinLock<State<H>, H::Platform>,
    _charge: Charge<H::Platform>,
}

struct State<H: Host> {
    phase: Phase,
    /// Connection requests that wait for a connector.
    waiting: Queue<Ref<Connection<H>, H>, H>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Created,
    /// BIND has called NdkListen, or is about to; connect events are refused until LISTEN.
    Bound,
    Listening,
    /// The handle is freed.
    Ended,
}

/// A first-in first-out queue of fixed size.
struct Queue<T, H: Host> {
    places: Slice<Option<T>, H::Platform>,
    first: usize,
    length: usize,
    _charge: Charge<H::Platform>,
}

impl<T, H: Host> Queue<T, H> {
    fn new(quota: &Quota<H>, size: usize) -> Result<Self, NTSTATUS> {
        let charge = quota.charge_bytes(Slice::<Option<T>, H::Platform>::pool_bytes(size))?;
        let places = Slice::from_fn(size, |_| None).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(Self { places, first: 0, length: 0, _charge: charge })
    }

    fn push(&mut self, value: T) -> Result<(), T> {
        let size = self.places.len();
        if self.length >= size {
            return Err(value);
        }
        let end = self.first.wrapping_add(self.length).checked_rem(size).unwrap_or(0);
        match self.places.get_mut(end) {
            Some(place) => *place = Some(value),
            None => return Err(value),
        }
        self.length = self.length.saturating_add(1);
        Ok(())
    }

    fn pop(&mut self) -> Option<T> {
        let value = self.places.get_mut(self.first)?.take()?;
        self.first = self.first.wrapping_add(1).checked_rem(self.places.len()).unwrap_or(0);
        self.length = self.length.saturating_sub(1);
        Some(value)
    }
}

impl<H: Host> Listener<H> {
    /// The pended GET_CONNECTION_REQUESTs.
    pub(crate) fn waiting(&self) -> &Waiting<H> {
        &self.ndk.context().waiting
    }

    /// The handle is freed: cancels the pended requests, and refuses the connection requests that wait.
    pub(crate) fn close(&self) {
        let events = self.ndk.context();
        events.state.lock().phase = Phase::Ended;
        events.pended.cancel(&events.waiting);
        loop {
            let refused = events.state.lock().waiting.pop();
            if refused.is_none() {
                return;
            }
        }
    }
}

impl<H: Host> ListenerEvents<H> {
    /// Queues a connection request until a connector waits for one. Drops the request, which refuses it, if the queue is full or the
    /// listener is not listening: before LISTEN, or after its free, when a request may come back from a freed connector.
    fn put(&self, connection: Ref<Connection<H>, H>) {
        let mut state = self.state.lock();
        let refused = match state.phase {
            Phase::Listening => state.waiting.push(connection).err(),
            _ => Some(connection),
        };
        drop(state);
        drop(refused);
    }

    /// Gives queued connection requests to waiting connectors, oldest first.
    fn match_up(&self) {
        loop {
            let mut state = self.state.lock();
            if state.waiting.length == 0 {
                return;
            }
            let events = [Event::ConnectionRequest];
            let Some(pended) = self.pended.take_first(&self.waiting, &events, u64::MAX) else { return };
            let connection = state.waiting.pop();
            drop(state);
            let (Some(connection), Some(connector)) = (connection, &pended.connector) else {
                return pended.cancel();
            };
            match Connector::take_request(connector, connection) {
                Ok(()) => pended.succeed(),
                Err(connection) => {
                    // The connector was freed. The next one gets the connection request.
                    pended.cancel();
                    self.put(connection);
                }
            }
        }
    }
}

impl<H: Host> ConnectRequested<H::Platform> for ListenerEvents<H> {
    type Link = Link<H>;

    fn link(&self) -> Option<Ref<Link<H>, H>> {
        shared(Link::new(self.pended.clone(), &self.quota, self.adapter.clone()).ok()?).ok()
    }

    fn requested(&self, connector: Owned<NDK_CONNECTOR, Link<H>, H::Platform>) {
        let Ok(connection) = Arc::try_new(connector) else { return };
        self.put(connection);
        self.match_up();
    }
}

pub(crate) fn create<H: Host>(
    handles: &Handles<H>,
    pended: &Ref<PendedRequests<H>, H>,
    quota: &Ref<Quota<H>, H>,
    request: &mut H::Request,
    passive: &Passive<'_>,
) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let adapter: Arc<Adapter<_>, _> = handles.get(input.Handle)?;
    room_for::<u64>(request)?;
    let slot = handles.reserve()?;
    let waiting = Queue::new(quota, 0)?;
    let events = shared(ListenerEvents {
        pended: pended.clone(),
        quota: quota.clone(),
        adapter: adapter.clone(),
        waiting: Lines::new(&quota.pool)?,
        state: SpinLock::<_, H::Platform>::new(State { phase: Phase::Created, waiting }),
        _charge: quota.charge::<Listener<H>, ListenerEvents<H>>()?,
    })?;
    let ndk = Owned::create_listener(&adapter, events, passive)?;
    let handle = slot.fill(shared(Listener { ndk })?)?;
    output(request, &handle)
}

pub(crate) fn free<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    handles.remove::<Listener<H>>(input.Handle)?.close();
    Ok(0)
}

/// BIND. NDKPI has no bind of its own: NdkListen takes the address and listens at once. Until LISTEN, connect events are refused as if
/// nothing listened.
pub(crate) fn bind<H: Host>(handles: &Handles<H>, host: &H, request: &H::Request, passive: &Passive<'_>) -> Reply {
    let input: ND_BIND = input(request)?;
    let listener: Arc<Listener<H>, _> = handles.get(input.Handle)?;
    let address: SocketAddr = bindable(host, &input.Address)?;
    let events = listener.ndk.context();
    let mut state = events.state.lock();
    if state.phase != Phase::Created {
        return Err(STATUS_ADDRESS_ALREADY_ASSOCIATED.into());
    }
    state.phase = Phase::Bound;
    drop(state);
    let result = listener.ndk.listen(&address, passive);
    if result.is_err() {
        let mut state = events.state.lock();
        if state.phase == Phase::Bound {
            state.phase = Phase::Created;
        }
    }
    result?;
    Ok(0)
}

pub(crate) fn listen<H: Host>(handles: &Handles<H>, request: &H::Request) -> Reply {
    let input: ND_LISTEN = input(request)?;
    let listener: Arc<Listener<H>, _> = handles.get(input.ListenerHandle)?;
    let backlog = if input.Backlog == 0 { MAX_BACKLOG } else { input.Backlog.min(MAX_BACKLOG) };
    let waiting = Queue::new(&listener.ndk.context().quota, backlog as usize)?;
    let mut state = listener.ndk.context().state.lock();
    if state.phase != Phase::Bound {
        return Err(STATUS_INVALID_DEVICE_STATE.into());
    }
    state.waiting = waiting;
    state.phase = Phase::Listening;
    Ok(0)
}

pub(crate) fn get_address<H: Host>(handles: &Handles<H>, request: &mut H::Request) -> Reply {
    let input: ND_HANDLE = input(request)?;
    let listener: Arc<Listener<H>, _> = handles.get(input.Handle)?;
    room_for_address(request)?;
    if listener.ndk.context().state.lock().phase == Phase::Created {
        return Err(STATUS_INVALID_DEVICE_STATE.into());
    }
    let address = listener.ndk.local_address()?;
    output(request, &address)
}

/// GET_CONNECTION_REQUEST: pends until a peer connects; then the connector has the connection request.
#[inline(never)]
pub(crate) fn get_connection_request<H: Host>(handles: &Handles<H>, sent: Sent<H>) -> NTSTATUS {
    let prepare = || {
        let input: ND_GET_CONNECTION_REQUEST = input(&sent.request)?;
        let listener: Arc<Listener<H>, _> = handles.get(input.ListenerHandle)?;
        let connector: Arc<Connector<H>, _> = handles.get(input.ConnectorHandle)?;
        same_adapter::<H>(&listener.ndk.context().adapter, &connector.adapter)?;
        if listener.ndk.context().state.lock().phase != Phase::Listening {
            return Err(STATUS_INVALID_DEVICE_STATE);
        }
        connector.await_request()?;
        Ok((listener, connector))
    };
    let (listener, connector) = match prepare() {
        Ok(prepared) => prepared,
        Err(status) => return finish(sent.request, Err(NTSTATUS::into(status))),
    };
    let events = listener.ndk.context();
    let wanted = Some(connector.clone());
    let id = match events.pended.insert(sent, &events.waiting, Event::ConnectionRequest, wanted) {
        Ok(id) => id,
        Err(status) => {
            connector.abandon(Event::ConnectionRequest);
            return status;
        }
    };
    // If the listener was freed before the insert, its close may not have found the request.
    let ended = events.state.lock().phase != Phase::Listening;
    if ended && let Some(pended) = events.pended.take(id) {
        pended.cancel();
    }
    events.match_up();
    STATUS_PENDING
}
