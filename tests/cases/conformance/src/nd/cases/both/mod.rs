//! The cases that run over both versions of the interfaces.
//!
//! Cases that look alike, and would be longer as one, stay with their versions:
//! * windows: version 1 tells the peer base and length, from which requests count and which the cases forge; version 2 tells a token alone, and
//!   its regions have rights of their own;
//! * connecting: version 1 gives read limits to the endpoint and the port to Connect, version 2 has calls of the connector for both;
//! * results and refused sizes: version 1 has ND_RESULTs in place of contexts, and numbers of 64 bits;
//! * resources: version 2 has shared receive queues too, and its regions are objects.

pub(in crate::nd) mod completion_queue;
pub(in crate::nd) mod connector;
pub(in crate::nd) mod disconnect;
pub(in crate::nd) mod listener;
pub(in crate::nd) mod notify;
pub(in crate::nd) mod overlapped;
pub(in crate::nd) mod queue_pair;
