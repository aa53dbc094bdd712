//! Version 1 of the interfaces: COM objects over `core`, one file each.
//!
//! Unlike in version 2, the requests of all objects of an adapter pend on one file, the adapter gives handles of
//! registered memory (`regions.rs`), and the address of its ND_RESULT is the context of a request.

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
