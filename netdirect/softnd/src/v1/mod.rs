//! Version 1 of the interfaces: COM objects over `core`, one file each.
//!
//! Unlike in version 2, the requests of all objects of an adapter pend on one file, registered memory has handles
//! (`regions.rs`), and the context of a request is the address of its ND_RESULT.

mod adapter;
mod completion_queue;
mod connector;
mod endpoint;
mod listen;
mod memory_window;
mod overlapped;
mod provider;
mod regions;

pub(crate) use provider::Provider;
