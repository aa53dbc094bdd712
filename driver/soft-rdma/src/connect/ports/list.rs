//! Lists of addresses and connections in use, for OIDs and diagnostics.

use core::net::SocketAddr;

use platform::Platform;

use super::{Claim, Ports, Purpose};

/// A listener or shared endpoint, as OID_NDK_LOCAL_ENDPOINTS lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalEndpoint {
    /// Address and port.
    pub local: SocketAddr,
    /// True: a listener; false: a shared endpoint.
    pub listener: bool,
    /// The process that owns the object; `None`: a kernel consumer.
    pub process: Option<u32>,
}

/// An established side of a connection, as OID_NDK_CONNECTIONS lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSide {
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub remote: SocketAddr,
    /// The process that owns the object; `None`: a kernel consumer.
    pub process: Option<u32>,
    /// True: a TCP connection with the same addresses carries the connection; false: the connection is within the device.
    pub over_tcp: bool,
}

/// What uses an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// A listener that listens, or that is closing.
    Listener {
        /// False: the listener is closing.
        listens: bool,
    },
    /// A shared endpoint.
    SharedEndpoint,
    /// One side of a connection, or of an attempt to connect.
    Connection {
        /// The peer's address.
        remote: SocketAddr,
        /// True: the side that connects; false: the side that accepts.
        active: bool,
        /// The connection is established.
        established: bool,
    },
}

/// An address in use, as diagnostics list it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InUse {
    /// Address and port.
    pub local: SocketAddr,
    /// The process that owns the object; `None`: a kernel consumer.
    pub process: Option<u32>,
    /// What uses the address.
    pub what: Use,
}

impl<P: Platform> Ports<P> {
    /// The established sides of connections.
    pub(crate) fn connections(&self) -> impl Iterator<Item = ConnectionSide> {
        self.list(|claim| match claim {
            Claim::Connection { side, established: true, .. } => Some(*side),
            _ => None,
        })
    }

    /// The listeners that listen, and the shared endpoints.
    pub(crate) fn local_endpoints(&self) -> impl Iterator<Item = LocalEndpoint> {
        self.list(|claim| match *claim {
            Claim::Address { local, process, purpose: Purpose::SharedEndpoint } => {
                Some(LocalEndpoint { local, listener: false, process })
            }
            Claim::Listener { local, process, listens: true, .. } => {
                Some(LocalEndpoint { local, listener: true, process })
            }
            _ => None,
        })
    }

    /// The entry at a slot of the table: `None` from the number of slots on, which may grow; `Some(None)` for a slot
    /// that is free or not listed. IRQL <= DISPATCH.
    pub(crate) fn in_use(&self, slot: usize) -> Option<Option<InUse>> {
        let table = self.table.lock();
        if slot >= table.entries.slots() {
            return None;
        }
        Some(table.entries.get(slot).and_then(|entry| match entry.claim {
            Claim::Address { local, process, purpose: Purpose::SharedEndpoint } => {
                Some(InUse { local, process, what: Use::SharedEndpoint })
            }
            // The addresses of listeners and connectors: their listening entries and connections are listed instead.
            Claim::Address { .. } => None,
            Claim::Listener { local, process, listens, .. } => {
                Some(InUse { local, process, what: Use::Listener { listens } })
            }
            Claim::Connection { side: ConnectionSide { local, remote, process, .. }, active, established } => {
                Some(InUse { local, process, what: Use::Connection { remote, active, established } })
            }
        }))
    }

    /// The claims that `pick` chooses. The lock is released between two claims, so the table may change during the iteration.
    fn list<T>(&self, pick: impl Fn(&Claim<P>) -> Option<T>) -> impl Iterator<Item = T> {
        let slots = self.table.lock().entries.slots();
        (0..slots).filter_map(move |number| pick(&self.table.lock().entries.get(number)?.claim))
    }
}
