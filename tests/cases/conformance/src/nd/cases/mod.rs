//! The cases, one file per object; the cases of version 1, and of both versions, have folders of their own.

pub(super) mod adapter;
pub(super) mod both;
pub(super) mod completion_queue;
pub(super) mod connector;
pub(super) mod disconnect;
pub(super) mod listener;
pub(super) mod memory_region;
pub(super) mod memory_window;
pub(super) mod overlapped;
pub(super) mod posts;
pub(super) mod provider;
pub(super) mod queue_pair;
pub(super) mod requests;
pub(super) mod resources;
pub(super) mod shared_receive_queue;
pub(super) mod transitions;
pub(super) mod v1;
