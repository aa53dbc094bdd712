//! `ndkctl connections`.

use std::{fmt, net::SocketAddr};

use ndk_abi::{
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        SOFTNDK_ENDPOINT, SOFTNDK_ENDPOINT_ACTIVE, SOFTNDK_ENDPOINT_ESTABLISHED, SOFTNDK_ENDPOINT_LISTENER,
        SOFTNDK_ENDPOINT_PASSIVE, SOFTNDK_ENDPOINT_SHARED, SOFTNDK_ENDPOINT_USER,
    },
};
use serde::Serialize;

use crate::{
    columns::Columns,
    driver::{self, Driver},
};

/// Addresses in use.
#[derive(Debug, Serialize)]
pub(crate) struct Endpoints {
    /// Sides of connections: a connection of the adapter with itself has two.
    pub(crate) connections: Vec<Endpoint>,
    /// Listeners and shared endpoints.
    pub(crate) endpoints: Vec<Endpoint>,
}

/// One address in use.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Endpoint {
    pub(crate) kind: &'static str,
    pub(crate) state: &'static str,
    pub(crate) local: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remote: Option<SocketAddr>,
    /// The process that owns the address; `None`: a kernel consumer owns it.
    pub(crate) process: Option<u32>,
}

impl Endpoint {
    fn new(found: &SOFTNDK_ENDPOINT) -> Self {
        let is_established = found.Flags & SOFTNDK_ENDPOINT_ESTABLISHED != 0;
        let (kind, state) = match (found.Kind, is_established) {
            (SOFTNDK_ENDPOINT_LISTENER, true) => ("listener", "listening"),
            (SOFTNDK_ENDPOINT_LISTENER, false) => ("listener", "closing"),
            (SOFTNDK_ENDPOINT_SHARED, _) => ("shared endpoint", "bound"),
            (SOFTNDK_ENDPOINT_ACTIVE, true) => ("active", "established"),
            (SOFTNDK_ENDPOINT_ACTIVE, false) => ("active", "connecting"),
            (SOFTNDK_ENDPOINT_PASSIVE, true) => ("passive", "established"),
            (SOFTNDK_ENDPOINT_PASSIVE, false) => ("passive", "requested"),
            _ => ("unknown", "unknown"),
        };
        let process = (found.Flags & SOFTNDK_ENDPOINT_USER != 0).then_some(found.ProcessId);
        let address = |found: &SOCKADDR_INET| found.socket_addr();
        Self { kind, state, local: address(&found.Local), remote: address(&found.Remote), process }
    }
}

impl Endpoints {
    pub(crate) fn read(driver: &dyn Driver) -> anyhow::Result<Self> {
        let mut all: Vec<_> = driver::endpoints(driver)?.iter().map(Endpoint::new).collect();
        all.sort_by_key(|endpoint| (endpoint.local, endpoint.remote));
        let (connections, endpoints) = all.into_iter().partition(|endpoint| endpoint.remote.is_some());
        Ok(Self { connections, endpoints })
    }
}

fn text(address: Option<SocketAddr>) -> String {
    address.map_or_else(|| "-".to_owned(), |address| address.to_string())
}

fn owner(process: Option<u32>) -> String {
    process.map_or_else(|| "kernel".to_owned(), |process| format!("process {process}"))
}

impl fmt::Display for Endpoints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.connections.is_empty() {
            writeln!(f, "no connections")?;
        } else {
            let mut columns = Columns::new(["local", "remote", "side", "state", "owner"]);
            for Endpoint { kind, state, local, remote, process } in &self.connections {
                columns.row([text(*local), text(*remote), (*kind).into(), (*state).into(), owner(*process)]);
            }
            write!(f, "{columns}")?;
        }
        writeln!(f)?;
        if self.endpoints.is_empty() {
            return writeln!(f, "no listeners or shared endpoints");
        }
        let mut columns = Columns::new(["local", "kind", "state", "owner"]);
        for Endpoint { kind, state, local, process, .. } in &self.endpoints {
            columns.row([text(*local), (*kind).into(), (*state).into(), owner(*process)]);
        }
        write!(f, "{columns}")
    }
}
