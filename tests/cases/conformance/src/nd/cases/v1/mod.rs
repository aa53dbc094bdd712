//! The cases of version 1.

pub(in crate::nd) mod adapter;
pub(in crate::nd) mod completion_queue;
pub(in crate::nd) mod connector;
pub(in crate::nd) mod endpoint;
pub(in crate::nd) mod endpoint_failures;
pub(in crate::nd) mod listen;
pub(in crate::nd) mod memory;
pub(in crate::nd) mod memory_window;
pub(in crate::nd) mod misuse;
pub(in crate::nd) mod overlapped;
pub(in crate::nd) mod pair;
pub(in crate::nd) mod provider;
pub(in crate::nd) mod resources;
