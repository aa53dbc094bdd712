//! Version 2 of the interfaces: COM objects over `core`, one file each.
//!
//! Pointer arguments are checked here, because NDSPI's return values give the number of the invalid parameter.

mod adapter;
mod completion_queue;
mod connector;
mod listener;
mod memory;
mod overlapped;
mod provider;
mod queue_pair;
mod shared_receive_queue;

pub(crate) use provider::Provider;
