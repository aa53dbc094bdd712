//! The cases that run over both versions of the interfaces.

pub(in crate::nd) mod completion_queue;
pub(in crate::nd) mod connector;
pub(in crate::nd) mod disconnect;
pub(in crate::nd) mod notify;
pub(in crate::nd) mod overlapped;
