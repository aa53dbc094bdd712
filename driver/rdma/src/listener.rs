//! Listeners.

use core::net::SocketAddr;

use platform::{Arc, Platform, SpinLock};

use crate::{
    Adapter, Callback, Close, Connector, Error, OnClose,
    counts::{Count, Kind},
    ports::{Endpoint, Wildcard},
};

/// Told of each connection request: the connector, which the consumer then owns.
pub type ConnectEvent<P> = Callback<Arc<Connector<P>, P>>;

/// A listener.
pub struct Listener<P: Platform> {
    on_close: OnClose<P>,
    event: ConnectEvent<P>,
    state: SpinLock<State<P>, P>,
    count: Count<P>,
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
            on_close: OnClose::default(),
            event,
            state: SpinLock::<_, P>::new(State { endpoint: None, paused: false, closing: false }),
            count: Count::new(adapter, Kind::Listener)?,
        })?)
    }

    /// Starts to listen; port 0 picks one, the unspecified address stands for all of the adapter's. IRQL <= DISPATCH.
    pub fn listen(this: &Arc<Self, P>, local: SocketAddr) -> Result<(), Error> {
        let endpoint = Endpoint::bind(this.count.adapter().device(), local, Wildcard::Allowed)?;
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
        self.count.adapter()
    }

    /// The endpoint for a new connection, if connections are taken now.
    pub(crate) fn admit(&self) -> Option<Arc<Endpoint<P>, P>> {
        let state = self.state.lock();
        if state.paused || state.closing { None } else { state.endpoint.clone() }
    }

    /// Hands a connector to the consumer, unless the listener is being closed.
    pub(crate) fn hand_over(&self, connector: Arc<Connector<P>, P>) {
        if self.state.lock().closing {
            Connector::give_up(&connector);
        } else {
            self.event.call(connector);
        }
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
