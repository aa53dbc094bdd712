//! Listeners.

mod admission;
mod half_open;

pub(crate) use admission::Waiting;
pub(crate) use half_open::HalfOpen;

use core::{net::SocketAddr, sync::atomic::AtomicU32};

use platform::{
    Addresses, Arc, Charge, Deferred, Dispatch, Notice, Platform, RunDeferred, RunStream, RunTimer, SocketError,
    SpinLock, Stream, Timer,
};

use crate::{
    Adapter, Callback, Close, Connector, Error, OnClose, Outcome, Status,
    connect::ports::{Endpoint, Listening, Purpose},
    connect::wire_table::{WireSlot, WireTable},
    limits,
    object::counts::{Count, Kind},
    wire::Wire,
};

/// Without a socket, or without memory and with nobody who makes room, it tries again so much later.
const RETRY_MICROSECONDS: u32 = 1_000_000;
/// Accepts that fail in a row, as for connections that have gone, before the listener takes its socket for dead and opens another: what
/// Winsock Kernel says of either is not documented. More than peers whose resets wait in the queue of TCP, which is as long as its backlog.
const GONE_IN_A_ROW: u32 = 4_096;

/// Half-open connections that end in one run of a listener that is being closed.
const CLEARED: usize = 64;

/// Told of each connection request: the connector, which the consumer then owns.
pub type ConnectEvent<P> = Callback<Arc<Connector<P>, P>>;

/// A listener.
pub struct Listener<P: Platform> {
    on_close: OnClose<P>,
    event: ConnectEvent<P>,
    deferred: Deferred<P>,
    timer: Timer<P>,
    /// Where connections of other machines come.
    stream: Stream<P>,
    state: SpinLock<State<P>, P>,
    /// Connections that TCP has accepted, and whose MPA Request has not come.
    half_open: Arc<WireTable<P>, P>,
    /// Requests that the consumer has not answered.
    waiting: AtomicU32,
    adapter: Arc<Adapter<P>, P>,
    _charge: Charge<P>,
}

struct State<P: Platform> {
    /// What it was asked to listen on.
    local: Option<SocketAddr>,
    /// What it listens on.
    endpoint: Option<Arc<Endpoint<P>, P>>,
    /// Has connects of the device come here, until TCP listens no more: whoever connects then is refused, and does not get into the
    /// queue of a socket that is about to be closed.
    listening: Option<Listening<P>>,
    paused: bool,
    closing: bool,
    /// The listen under way.
    request: Option<Callback<Status>>,
    /// The next connection of another machine is awaited.
    accepting: bool,
    /// Accepts that have failed since one has not.
    gone: u32,
    tcp: Tcp,
    /// It waits before it tries again.
    resting: bool,
}

/// What TCP does for a listener that listens.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tcp {
    Listens,
    /// There was none, or its socket is dead: only the device hears of connections.
    Deaf,
    /// It was asked again.
    Asked,
}

impl<P: Platform> Listener<P> {
    /// Makes a listener that does not listen yet. `event` is called at DISPATCH_LEVEL. IRQL <= DISPATCH.
    pub fn new(adapter: &Arc<Adapter<P>, P>, event: ConnectEvent<P>) -> Result<Arc<Self, P>, Error> {
        let own = Arc::<Self, P>::POOL_BYTES.saturating_add(Arc::<Endpoint<P>, P>::POOL_BYTES);
        let charge = adapter.quota().charge(own.saturating_add(Stream::<P>::pool_bytes()))?;
        let listener = Arc::try_new(Self {
            on_close: OnClose::new(Count::new(adapter, Kind::Listener)?),
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
                gone: 0,
                tcp: Tcp::Listens,
                resting: false,
            }),
            half_open: WireTable::new(limits::HALF_OPEN, adapter.quota())?,
            waiting: AtomicU32::new(0),
            adapter: adapter.clone(),
            _charge: charge,
        })?;
        Deferred::initialize(&listener);
        Timer::initialize(&listener);
        Ok(listener)
    }

    /// Starts to listen; port 0 picks one, the unspecified address stands for all of the adapter's. `done` is called once TCP listens
    /// too, or cannot. IRQL <= DISPATCH.
    pub fn listen(this: &Arc<Self, P>, local: SocketAddr, done: Callback<Status>) -> Result<Outcome, Error> {
        Self::start_listen(this, local, done).inspect_err(|&error| {
            P::notice(&Notice::ListenFailed { local, status: error as u32 });
        })
    }

    fn start_listen(this: &Arc<Self, P>, local: SocketAddr, done: Callback<Status>) -> Result<Outcome, Error> {
        let endpoint = if local.port() == 0 {
            // TCP picks one among all of the machine's.
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

    /// TCP listens, or there is none: the device does so too.
    fn open(this: &Arc<Self, P>, asked: SocketAddr, started: Result<(), SocketError>) -> Status {
        let bound = this.state.lock().endpoint.clone();
        let endpoint = match (bound, started) {
            (bound, Ok(())) => {
                // Closed: this is the second time that it is looked at, after a failure.
                let (local, _) = this.stream.addresses().ok_or(Error::InsufficientResources)?;
                match bound {
                    Some(endpoint) => endpoint,
                    None => Arc::try_new(Endpoint::of_tcp(&this.adapter, SocketAddr::new(asked.ip(), local.port()))?)?,
                }
            }
            (Some(endpoint), Err(_)) => endpoint,
            // Without a network there are only connections of the device with itself.
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

    /// Pauses or resumes: while paused, connects are refused as if nobody listened. IRQL <= DISPATCH.
    pub fn pause(&self, paused: bool) {
        self.state.lock().paused = paused;
    }

    /// The address it listens on. IRQL <= DISPATCH.
    pub fn local_address(&self) -> Option<SocketAddr> {
        self.state.lock().endpoint.as_ref().map(|endpoint| endpoint.local())
    }

    pub(crate) fn adapter(&self) -> &Arc<Adapter<P>, P> {
        &self.adapter
    }

    /// Hands a connector to the consumer, unless the listener is being closed.
    pub(crate) fn hand_over(&self, connector: Arc<Connector<P>, P>, dispatch: &Dispatch<'_>) {
        if self.state.lock().closing {
            Connector::give_up(&connector);
        } else {
            let addresses = Addresses { local: connector.local_address(), remote: connector.peer_address() };
            P::notice(&Notice::Requested { addresses });
            self.event.call_at_dispatch(dispatch, connector);
        }
    }
}

impl<P: Platform> Listener<P> {
    /// The connection that was awaited has `come`, and gets a slot if the listener is not being closed; or it could not.
    pub(crate) fn accepted(
        this: &Arc<Self, P>,
        wire: &Arc<Wire<P>, P>,
        come: Result<(), SocketError>,
    ) -> Option<WireSlot<P>> {
        let slot = if come.is_ok() { WireTable::take(&this.half_open, wire) } else { None };
        // A close that begins after this finds it in its slot.
        let closing = this.state.lock().closing;
        Self::await_next(this, come);
        slot.filter(|_| !closing)
    }

    /// A connection has `come`, or could not. The next is awaited by a run of the deferred call, so that however many
    /// come, or go before they have come, the processor's threads have their turn.
    fn await_next(this: &Arc<Self, P>, come: Result<(), SocketError>) {
        let mut state = this.state.lock();
        state.accepting = false;
        state.gone = if come.is_ok() { 0 } else { state.gone.saturating_add(1) };
        match come {
            // There is no memory: when the slot of the wire that was reset is free, this runs again.
            Err(SocketError::Failed) => {
                drop(state);
                if !this.half_open.make_room() {
                    Self::rest(this, &mut this.state.lock());
                }
            }
            Err(SocketError::NoNetwork) => {
                state.tcp = Tcp::Deaf;
                Self::rest(this, &mut state);
            }
            // That connection has gone. Peers can bring about all of them: nothing rests.
            Ok(()) | Err(_) => {
                if state.gone >= GONE_IN_A_ROW {
                    state.tcp = Tcp::Deaf;
                }
                drop(state);
                Deferred::schedule(this);
            }
        }
    }

    /// Tries again, later.
    fn rest(this: &Arc<Self, P>, state: &mut State<P>) {
        if !state.closing {
            state.resting = true;
            Timer::start(this, RETRY_MICROSECONDS);
        }
    }

    /// Listens: awaits the next connection of another machine, or has TCP listen once it can.
    fn go_on(this: &Arc<Self, P>, started: Result<(), SocketError>) {
        let mut state = this.state.lock();
        let local = state.endpoint.as_ref().map(|endpoint| endpoint.local());
        let Some(local) = local.filter(|_| !state.closing && !state.resting && !state.accepting) else { return };
        match (state.tcp, started) {
            (Tcp::Listens | Tcp::Asked, Err(_)) => {
                state.tcp = Tcp::Deaf;
                Self::rest(this, &mut state);
            }
            (Tcp::Listens | Tcp::Asked, Ok(())) => {
                state.tcp = Tcp::Listens;
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
            (Tcp::Deaf, _) => {
                drop(state);
                Self::listen_again(this, local);
            }
        }
    }

    /// Closes the socket that there was, and has TCP listen on a new one.
    fn listen_again(this: &Arc<Self, P>, local: SocketAddr) {
        Stream::close(this);
        if !this.stream.is_closed() {
            return;
        }
        Stream::renew(this);
        let mut state = this.state.lock();
        state.tcp = Tcp::Asked;
        state.gone = 0;
        drop(state);
        Stream::listen(this, local);
        // Who began to close in between has closed the stream before it was new.
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
        this.state.lock().resting = false;
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
                _ if closing => Err(Error::Canceled),
                Err(error) if error != SocketError::NoNetwork => Err(error.into()),
                started => Self::open(this, asked, started),
            };
            if listens.is_err() {
                Stream::close(this);
                if !this.stream.is_closed() {
                    return;
                }
                if !closing {
                    // For another address, maybe.
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
        // It stops accepting at once; the address is free when the connectors made here are gone too.
        drop(endpoint);
        Stream::close(this);
        Timer::cancel(this);
        // A listen under way ends now, and so do the half-open connections.
        Deferred::schedule(this);
    }
}
