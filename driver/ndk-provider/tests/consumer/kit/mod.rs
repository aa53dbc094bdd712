//! What a kernel consumer of NDK is made of: it reaches the provider through the dispatch tables only.
//!
//! It is not made of `driver/ndk-consumer`, whose types exclude what the tests need: wrong addresses, buffers and flags, objects closed before
//! their successors, and a look at each callback: whether, when and at which IRQL the provider calls it.

mod call;
mod gate;
mod hold;
mod memory;
mod objects;
mod pair;
mod random;
pub(crate) mod record;
mod transport;
mod waiter;
mod world;

pub(crate) use gate::Gate;
pub(crate) use hold::HeldProcessors;
pub(crate) use memory::{Buffer, FastRegion, Lam, mapping, pattern, sge};
pub(crate) use objects::{
    Adapter, Connector, Cq, Listener, Mr, Mw, Pd, Qp, QpSizes, SharedEndpoint, Srq, adapter_info_sized, lam_sized,
};
pub(crate) use pair::{Options, Pair, Side, Unconnected, connect, loopback};
pub(crate) use random::Random;
pub(crate) use waiter::{Request, Waiter, complain, now, take_complaints};
pub(crate) use world::{World, addresses, close_adapter, open_adapter};

use std::time::Duration;

/// How long anything may take.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);
