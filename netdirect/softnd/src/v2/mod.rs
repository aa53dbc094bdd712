//! Version 2 of the interfaces.
//!
//! What a caller passes by pointers is checked here, as the return values of NDSPI name parameters by their number.

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
