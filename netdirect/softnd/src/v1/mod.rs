//! Version 1 of the interfaces.
//!
//! Its objects are those of version 2 with fewer handles of their own: what pends does so on one file of the adapter, memory is
//! named by handles that the adapter gives, and a request by where its result is to be written.

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
