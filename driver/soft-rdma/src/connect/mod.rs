//! Connections: listeners, connectors, the addresses and ports they use, and the tables of wires that are half-open, refused or ended.

pub(crate) mod addresses;
pub(crate) mod connector;
pub(crate) mod endpoint;
pub(crate) mod listener;
pub(crate) mod ports;
pub(crate) mod wire_table;
