//! Shared endpoints: one local address for several connectors.

use core::net::SocketAddr;

use platform::{Arc, Platform};

use crate::{
    Adapter, Close, Error, OnClose,
    connect::ports::{Endpoint, Purpose},
    object::counts::{CountedObject, ObjectKind},
};

/// A local address that any number of connectors may connect from, each to another peer. Its connectors hold references: after the endpoint's close
/// the address stays in use until the last reference is dropped.
pub struct SharedEndpoint<P: Platform> {
    /// First, so that the address is free when the close callback runs.
    endpoint: Endpoint<P>,
    on_close: OnClose<P>,
    _adapter: Arc<Adapter<P>, P>,
}

impl<P: Platform> SharedEndpoint<P> {
    /// Takes a local address; port 0 picks a port. IRQL <= DISPATCH.
    pub fn new(adapter: &Arc<Adapter<P>, P>, local: SocketAddr) -> Result<Arc<Self, P>, Error> {
        let count = CountedObject::new(adapter, ObjectKind::SharedEndpoint)?;
        let endpoint = Endpoint::bind(adapter, local, Purpose::SharedEndpoint)?;
        Ok(Arc::try_new(Self { endpoint, on_close: OnClose::new(count), _adapter: adapter.clone() })?)
    }

    /// The local address. IRQL <= DISPATCH.
    pub fn local_address(&self) -> SocketAddr {
        self.endpoint.local()
    }
}

impl<P: Platform> Close<P> for SharedEndpoint<P> {
    fn on_close(&self) -> &OnClose<P> {
        &self.on_close
    }
}
