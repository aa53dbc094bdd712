//! Connections: listeners, connectors, the addresses and ports they use, and connections that are half open or have still to end.

pub(crate) mod addresses;
pub(crate) mod connector;
pub(crate) mod endpoint;
pub(crate) mod listener;
pub(crate) mod ports;
pub(crate) mod wire_table;
