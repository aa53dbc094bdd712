//! Listeners.

use core::{
    net::SocketAddr,
    sync::atomic::{AtomicU32, Ordering},
};

use platform::{Arc, Dispatch, Platform, SpinLock};

use crate::{
    Adapter, Callback, Close, Connector, Error, OnClose,
    counts::{Count, Kind},
    limits,
    ports::{Endpoint, Purpose},
};

/// Told of each connection request: the connector, which the consumer then owns.
pub type ConnectEvent<P> = Callback<Arc<Connector<P>, P>>;

/// A listener.
pub struct Listener<P: Platform> {
    on_close: OnClose<P>,
    event: ConnectEvent<P>,
    state: SpinLock<State<P>, P>,
    /// Requests that the consumer has not answered.
    waiting: AtomicU32,
    adapter: Arc<Adapter<P>, P>,
}

struct State<P: Platform> {
    endpoint: Option<Arc<Endpoint<P>, P>>,
    paused: bool,
    closing: bool,
}

impl<P: Platform> Listener<P> {
    /// Makes a listener that does not listen yet. `event` is called at DISPATCH_LEVEL. IRQL <= DISPATCH.
    pub fn new(adapter: &Arc<Adapter<P>, P>, event: ConnectEvent<P>) -> Result<Arc<Self, P>, Error> {
        Ok(Arc::try_new(Self {
            on_close: OnClose::new(Count::new(adapter, Kind::Listener)?),
            event,
            state: SpinLock::<_, P>::new(State { endpoint: None, paused: false, closing: false }),
            waiting: AtomicU32::new(0),
            adapter: adapter.clone(),
        })?)
    }

    /// Starts to listen; port 0 picks one, the unspecified address stands for all of the adapter's. IRQL <= DISPATCH.
    pub fn listen(this: &Arc<Self, P>, local: SocketAddr) -> Result<(), Error> {
        let endpoint = Endpoint::bind(&this.adapter, local, Purpose::Listener)?;
        let endpoint = Arc::try_new(endpoint)?;
        let mut state = this.state.lock();
        if state.endpoint.is_some() || state.closing {
            drop(state);
            return Err(Error::InvalidDeviceRequest);
        }
        state.endpoint = Some(endpoint.clone());
        drop(state);
        endpoint.set_listener(Some(Arc::downgrade(this)));
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

    /// Admits a connection request, if requests are taken now.
    pub(crate) fn admit(this: &Arc<Self, P>) -> Option<Admission<P>> {
        let state = this.state.lock();
        let endpoint = if state.paused || state.closing { None } else { state.endpoint.clone() };
        drop(state);
        let below_limit = |waiting: u32| if waiting < limits::BACKLOG { waiting.checked_add(1) } else { None };
        let endpoint = endpoint?;
        this.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_limit).ok()?;
        Some(Admission { endpoint, place: Waiting(this.clone()) })
    }

    /// Hands a connector to the consumer, unless the listener is being closed.
    pub(crate) fn hand_over(&self, connector: Arc<Connector<P>, P>, dispatch: &Dispatch<'_>) {
        if self.state.lock().closing {
            Connector::give_up(&connector);
        } else {
            self.event.call_at_dispatch(dispatch, connector);
        }
    }
}

/// A connection request that was let in.
pub(crate) struct Admission<P: Platform> {
    /// The listener's endpoint, for the connector.
    pub(crate) endpoint: Arc<Endpoint<P>, P>,
    pub(crate) place: Waiting<P>,
}

/// A place in a listener's backlog, until the consumer has answered.
pub(crate) struct Waiting<P: Platform>(Arc<Listener<P>, P>);

impl<P: Platform> Drop for Waiting<P> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<P: Platform> Close<P> for Listener<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }

    fn begin_close(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        state.closing = true;
        let endpoint = state.endpoint.take();
        drop(state);
        // It stops accepting at once; the address is free when the connectors made here are gone too.
        if let Some(endpoint) = endpoint {
            endpoint.set_listener(None);
        }
    }
}
