//! The virtual RDMA device: protection domains, memory regions and windows, completion queues, shared receive
//! queues, queue pairs, connectors and listeners, in software.
//!
//! It knows neither Windows nor NDKPI: `ndk-provider` puts the dispatch tables on top, a [`platform::Platform`] is below.
//! Everything may be called at IRQL <= DISPATCH_LEVEL unless it takes a [`platform::Passive`]. Order of locks: tokens,
//! listener, connector, queue pair, shared receive queue, completion queue, window, region, ports; no callback of a consumer
//! and no last reference to an object goes while one is held.
#![no_std]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod access;
mod addresses;
mod callback;
mod close;
mod completion;
mod connector;
mod counts;
mod cq;
mod device;
mod endpoint;
mod engine;
mod error;
pub mod limits;
mod listener;
mod memory;
mod pd;
#[cfg(feature = "planted-bugs")]
pub mod planted;
#[cfg(not(feature = "planted-bugs"))]
mod planted;
mod ports;
mod qp;
mod receive_queue;
mod region;
mod request;
mod ring;
mod roster;
mod seats;
mod srq;
mod token;
mod window;
mod wire;

pub use callback::Callback;
pub use close::{Close, OnClose, close};
pub use completion::{Completion, OperationKind};
pub use connector::{Accept, Connect, Connector, DisconnectReason, ReadLimits, Source};
pub use counts::Kind;
pub use cq::{Arm, CompletionQueue};
pub use device::{Adapter, CounterValues, Counters, Device, Lingering};
pub use endpoint::SharedEndpoint;
pub use error::{Error, Outcome, Status};
pub use listener::{ConnectEvent, Listener};
pub use memory::Runs;
pub use pd::ProtectionDomain;
pub use ports::{ConnectionSide, InUse, LocalEndpoint, Use};
pub use qp::{InitiatorSizes, QueuePair, ReceiveSource};
pub use region::{Access, FastRegistration, Mapping, MemoryRegion};
pub use request::{Flags, Post, Remote, Sge};
pub use srq::SharedReceiveQueue;
pub use window::{MemoryWindow, Part};
