//! Listeners: they take connects within the device, and connections of other machines through TCP (see `wire/handshake.rs`).

mod admission;
mod half_open;

pub(crate) use admission::BacklogSlot;
pub(crate) use half_open::HalfOpen;

use core::{net::SocketAddr, sync::atomic::AtomicU32};

use fault_rules::Point;
use platform::{
    Addresses, Arc, Charge, Deferred, Dispatch, Notice, Platform, RunDeferred, RunStream, RunTimer, SocketError,
    SpinLock, Stream, Timer,
};

use crate::{
    Adapter, Callback, Close, Connector, Error, OnClose, Outcome, Status,
    connect::ports::{Endpoint, Listening, Purpose},
    connect::wire_table::{WireSlot, WireTable},
    limits,
    object::counts::{CountedObject, ObjectKind},
    wire::Wire,
};

/// Microseconds after which a listener tries again if it has no TCP socket, or neither memory nor a half-open connection to reset.
const RETRY_MICROSECONDS: u32 = 1_000_000;
/// Failed accepts in a row after which a listener takes its socket for dead, and opens another socket. A connection that was reset in TCP's queue
/// may fail an accept too: Winsock Kernel documents the status of neither. The number is larger than TCP's queue, so that a queue of reset
/// connections does not reach it.
const MAX_FAILED_ACCEPTS: u32 = 4_096;

/// Half-open connections that one run of a closing listener resets.
const CLEARED: usize = 64;

/// Called for each connection request, with the connector, which the consumer then owns.
pub type ConnectEvent<P> = Callback<Arc<Connector<P>, P>>;

/// A listener.
pub struct Listener<P: Platform> {
    on_close: OnClose<P>,
    event: ConnectEvent<P>,
    deferred: Deferred<P>,
    timer: Timer<P>,
    /// The TCP socket, through which connections of other machines come.
    stream: Stream<P>,
    state: SpinLock<State<P>, P>,
    /// The half-open connections.
    half_open: Arc<WireTable<P>, P>,
    /// Connection requests that the consumer has neither accepted nor rejected.
    backlog: AtomicU32,
    adapter: Arc<Adapter<P>, P>,
    _charge: Charge<P>,
}

struct State<P: Platform> {
    /// The address that the consumer asked for.
    local: Option<SocketAddr>,
    /// The address that the listener has. For a listen on port 0 it is set when a port is picked: by TCP, or without a network by the device.
    endpoint: Option<Arc<Endpoint<P>, P>>,
    /// The table entry through which connects within the device find the listener. It stays until TCP has closed the socket:
    /// a connect until then is refused here, and does not get into the queue of a socket that is about to be closed.
    listening: Option<Listening<P>>,
    paused: bool,
    closing: bool,
    /// The consumer's listen under way.
    request: Option<Callback<Status>>,
    /// An accept of the next connection is under way.
    accepting: bool,
    /// Accepts that have failed since the last that succeeded.
    failed_accepts: u32,
    tcp: TcpState,
    /// The timer runs. When the timer expires, the listener accepts or listens again.
    retry_pending: bool,
}

/// The TCP socket of a listener that listens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TcpState {
    Listening,
    /// There is no socket, or it is dead: the listener gets connects within the device only.
    NotListening,
    /// TCP was asked to listen on a new socket.
    Starting,
}

impl<P: Platform> Listener<P> {
    /// Makes a listener that does not listen yet. `event` is called at DISPATCH_LEVEL. IRQL <= DISPATCH.
    pub fn new(adapter: &Arc<Adapter<P>, P>, event: ConnectEvent<P>) -> Result<Arc<Self, P>, Error> {
        let own = Arc::<Self, P>::POOL_BYTES.saturating_add(Arc::<Endpoint<P>, P>::POOL_BYTES);
        let charge = adapter.quota().charge(own.saturating_add(Stream::<P>::pool_bytes()))?;
        let listener = Arc::try_new(Self {
            on_close: OnClose::new(CountedObject::new(adapter, ObjectKind::Listener)?),
            event,
            deferred: Deferred::default(),
            timer: Timer::default(),
            stream: Stream::new()?,
            state: SpinLock::<_, P>::new(State {
                local: None,
                endpoint: None,
                listening: None,
                paused: false,
                closing: false,
                request: None,
                accepting: false,
                failed_accepts: 0,
                tcp: TcpState::Listening,
                retry_pending: false,
            }),
            half_open: WireTable::new(limits::HALF_OPEN, adapter.quota())?,
            backlog: AtomicU32::new(0),
            adapter: adapter.clone(),
            _charge: charge,
        })?;
        Deferred::initialize(&listener);
        Timer::initialize(&listener);
        Ok(listener)
    }

    /// Starts to listen. Port 0 picks a port; the unspecified address stands for all addresses of the device. `done` is called when TCP's listen
    /// has succeeded or failed. IRQL <= DISPATCH.
    pub fn listen(this: &Arc<Self, P>, local: SocketAddr, done: Callback<Status>) -> Result<Outcome, Error> {
        Self::start_listen(this, local, done).inspect_err(|&error| {
            P::notice(&Notice::ListenFailed { local, status: error as u32 });
        })
    }

    fn start_listen(this: &Arc<Self, P>, local: SocketAddr, done: Callback<Status>) -> Result<Outcome, Error> {
        this.adapter.pass_point(Point::Listen, Addresses { local: Some(local), remote: None }, None)?;
        let endpoint = if local.port() == 0 {
            // TCP picks the port, from the machine's port space.
            Endpoint::check(&this.adapter, local, Purpose::Listener)?;
            None
        } else {
            Some(Arc::try_new(Endpoint::bind(&this.adapter, local, Purpose::Listener)?)?)
        };
        let mut state = this.state.lock();
        if state.local.is_some() || state.closing {
            drop(state);
            return Err(Error::InvalidDeviceRequest);
        }
        state.local = Some(local);
        state.endpoint = endpoint;
        state.request = Some(done);
        drop(state);
        Stream::listen(this, local);
        Ok(Outcome::Pending)
    }

    /// TCP listens, or there is no network: enters the listener for connects within the device.
    fn open(this: &Arc<Self, P>, asked: SocketAddr, started: Result<(), SocketError>) -> Status {
        let bound = this.state.lock().endpoint.clone();
        let endpoint = match (bound, started) {
            (bound, Ok(())) => {
                // `None`: an earlier run failed here and closed the stream. This run reports the failure.
                let (local, _) = this.stream.addresses().ok_or(Error::InsufficientResources)?;
                match bound {
                    Some(endpoint) => endpoint,
                    None => Arc::try_new(Endpoint::of_tcp(&this.adapter, SocketAddr::new(asked.ip(), local.port()))?)?,
                }
            }
            (Some(endpoint), Err(_)) => endpoint,
            // Without a network only connects within the device can come.
            (None, Err(SocketError::NoNetwork)) => {
                Arc::try_new(Endpoint::bind(&this.adapter, asked, Purpose::Listener)?)?
            }
            (None, Err(error)) => return Err(error.into()),
        };
        let listening = Listening::enter(this, endpoint.local())?;
        let mut state = this.state.lock();
        if state.closing {
            drop(state);
            return Err(Error::Canceled);
        }
        state.endpoint = Some(endpoint);
        state.listening = Some(listening);
        Ok(())
    }

    /// Pauses or resumes. While paused, the listener refuses connects as if it did not listen. IRQL <= DISPATCH.
    pub fn pause(&self, paused: bool) {
        self.state.lock().paused = paused;
    }

    /// The address that the listener has; `None` before it listens. IRQL <= DISPATCH.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.state.lock().endpoint.as_ref().map(|endpoint| endpoint.local())
    }

    pub(crate) fn adapter(&self) -> &Arc<Adapter<P>, P> {
        &self.adapter
    }

    /// Hands a connector to the consumer's event callback; closes the connector if the listener is closing.
    pub(crate) fn hand_over(&self, connector: Arc<Connector<P>, P>, dispatch: &Dispatch<'_>) {
        if self.state.lock().closing {
            Connector::discard(&connector);
        } else {
            let addresses = Addresses { local: connector.local_address(), remote: connector.peer_address() };
            P::notice(&Notice::Requested { addresses });
            self.event.call_at_dispatch(dispatch, connector);
        }
    }
}

impl<P: Platform> Listener<P> {
    /// The accept for `wire` has ended, with `result`. Returns the slot of the accepted connection; `None` if the accept failed, no slot is free,
    /// or the listener is closing.
    pub(crate) fn accepted(
        this: &Arc<Self, P>,
        wire: &Arc<Wire<P>, P>,
        result: Result<(), SocketError>,
    ) -> Option<WireSlot<P>> {
        let slot = if result.is_ok() { WireTable::take(&this.half_open, wire) } else { None };
        // A close that sets `closing` after this check finds the wire in its slot, and resets it.
        let closing = this.state.lock().closing;
        Self::await_next(this, result);
        slot.filter(|_| !closing)
    }

    /// The accept has ended, with `result`. The deferred call starts the next accept, not this function: however many connections come and go, the
    /// processor's threads get their turn in between.
    fn await_next(this: &Arc<Self, P>, result: Result<(), SocketError>) {
        let mut state = this.state.lock();
        state.accepting = false;
        state.failed_accepts = if result.is_ok() { 0 } else { state.failed_accepts.saturating_add(1) };
        match result {
            // There is no memory. `make_room` resets a half-open connection; the drop of its slot runs the listener again.
            Err(SocketError::Failed) => {
                drop(state);
                if !this.half_open.make_room() {
                    Self::retry_later(this, &mut this.state.lock());
                }
            }
            Err(SocketError::NoNetwork) => {
                state.tcp = TcpState::NotListening;
                Self::retry_later(this, &mut state);
            }
            // An error means that one connection is gone. A peer can cause that at will, so there is no pause.
            Ok(()) | Err(_) => {
                if state.failed_accepts >= MAX_FAILED_ACCEPTS {
                    state.tcp = TcpState::NotListening;
                }
                drop(state);
                Deferred::schedule(this);
            }
        }
    }

    /// Starts the timer, after which the listener accepts or listens again.
    fn retry_later(this: &Arc<Self, P>, state: &mut State<P>) {
        if !state.closing {
            state.retry_pending = true;
            Timer::start(this, RETRY_MICROSECONDS);
        }
    }

    /// Starts the next accept. Without a TCP socket, listens again, or starts the timer for that.
    fn go_on(this: &Arc<Self, P>, started: Result<(), SocketError>) {
        let mut state = this.state.lock();
        let local = state.endpoint.as_ref().map(|endpoint| endpoint.local());
        let Some(local) = local.filter(|_| !state.closing && !state.retry_pending && !state.accepting) else { return };
        match (state.tcp, started) {
            (TcpState::Listening | TcpState::Starting, Err(_)) => {
                state.tcp = TcpState::NotListening;
                Self::retry_later(this, &mut state);
            }
            (TcpState::Listening | TcpState::Starting, Ok(())) => {
                state.tcp = TcpState::Listening;
                if this.half_open.are_taken() {
                    return;
                }
                state.accepting = true;
                drop(state);
                let awaited = this.half_open.reserve().and_then(|()| Wire::await_connection(this, HalfOpen::new(this)));
                if awaited.is_err() {
                    Self::await_next(this, Err(SocketError::Failed));
                }
            }
            (TcpState::NotListening, _) => {
                drop(state);
                Self::listen_again(this, local);
            }
        }
    }

    /// Closes the old socket. Once that is closed, asks TCP to listen on a new socket.
    fn listen_again(this: &Arc<Self, P>, local: SocketAddr) {
        Stream::close(this);
        if !this.stream.is_closed() {
            return;
        }
        Stream::renew(this);
        let mut state = this.state.lock();
        state.tcp = TcpState::Starting;
        state.failed_accepts = 0;
        drop(state);
        Stream::listen(this, local);
        // A close that began before `renew` has closed the old stream only.
        if this.state.lock().closing {
            Stream::close(this);
        }
    }
}

impl<P: Platform> RunTimer<P> for Listener<P> {
    fn timer(&self) -> &Timer<P> {
        &self.timer
    }

    fn expired(this: &Arc<Self, P>) {
        this.state.lock().retry_pending = false;
        Deferred::schedule(this);
    }
}

impl<P: Platform> RunStream<P> for Listener<P> {
    fn stream(&self) -> &Stream<P> {
        &self.stream
    }

    fn on_ready(this: &Arc<Self, P>) {
        Deferred::schedule(this);
    }
}

impl<P: Platform> RunDeferred<P> for Listener<P> {
    fn deferred(&self) -> &Deferred<P> {
        &self.deferred
    }

    fn run(this: &Arc<Self, P>, dispatch: &Dispatch<'_>) {
        let state = this.state.lock();
        let (closing, asked) = (state.closing, state.local.filter(|_| state.request.is_some()));
        drop(state);
        if closing && !this.half_open.clear(CLEARED) {
            Deferred::schedule(this);
        }
        let started = match this.stream.started() {
            None if !closing => return,
            started => started.unwrap_or(Err(SocketError::Canceled)),
        };
        if let Some(asked) = asked {
            let listens = match started {
                Err(error) if error != SocketError::NoNetwork => Err(error.into()),
                started => Self::open(this, asked, started),
            };
            // The listener may be closed during this run: the consumer then hears of that, not of what failed on the closed stream.
            let listens = listens.map_err(|error| if this.state.lock().closing { Error::Canceled } else { error });
            if listens.is_err() {
                Stream::close(this);
                if !this.stream.is_closed() {
                    return;
                }
                if !closing {
                    // The consumer may listen again, on another address.
                    Stream::renew(this);
                }
            }
            let mut state = this.state.lock();
            let request = state.request.take();
            state.local.take_if(|_| listens.is_err());
            let unused = state.endpoint.take_if(|_| listens.is_err());
            drop(state);
            drop(unused);
            P::notice(&match listens {
                Ok(()) => Notice::Listening { local: this.local_address().unwrap_or(asked) },
                Err(error) => Notice::ListenFailed { local: asked, status: error as u32 },
            });
            if let Some(request) = request {
                request.call_at_dispatch(dispatch, listens);
            }
        }
        if closing && this.stream.is_closed() {
            let ended = this.state.lock().listening.take();
            drop(ended);
        }
        Self::go_on(this, started);
    }
}

impl<P: Platform> Close<P> for Listener<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }

    fn begin_close(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        state.closing = true;
        if let Some(listening) = &state.listening {
            listening.end();
        }
        let endpoint = state.endpoint.take();
        if let (Some(_), Some(endpoint)) = (&state.listening, &endpoint) {
            P::notice(&Notice::ListenEnded { local: endpoint.local() });
        }
        drop(state);
        // The listener refuses connects from here on. Its address is free when its connectors have dropped the endpoint too.
        drop(endpoint);
        Stream::close(this);
        Timer::cancel(this);
        // The deferred call ends a listen under way, and resets the half-open connections.
        Deferred::schedule(this);
    }
}
