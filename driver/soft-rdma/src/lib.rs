//! The virtual RDMA device in software: protection domains, memory regions and windows, completion queues, shared
//! receive queues, queue pairs, connectors and listeners.
//!
//! The crate knows neither Windows nor NDKPI: `ndk-provider` puts the dispatch tables on top, a [`platform::Platform`]
//! is below. Functions may be called at IRQL <= DISPATCH_LEVEL unless they take a [`platform::Passive`].
//!
//! Locks are taken in this order: tokens, listener, connector, queue pair, shared receive queue, completion queue, window,
//! region, ports, fault rules, captures. No lock is held when a consumer's callback runs, or when the last reference to an object is dropped.
//!
//! From the device down to the parts of its objects:
//!
//! | folder or file | what is in it |
//! |---|---|
//! | `device` | the device, and the adapters that consumers open |
//! | `connect` | listeners, connectors, addresses, ports |
//! | `wire` | a connection over TCP: MPA, DDP and RDMAP |
//! | `qp` | queue pairs: posts, the engine that carries requests out, flushes, receive queues and shared receive queues |
//! | `cq` | completion queues |
//! | `memory` | protection domains, regions, windows, tokens, and the copies |
//! | `object` | callbacks, close, counts |
//! | `ring`, `slot_map` | containers |
//! | `faults`, `capture`, `watch` | the fault rules of a device, its capture, and whether there is either |
//! | `counters`, `limits` | the counters of a device, its limits |
//! | `error` | why a call or a request failed |
#![no_std]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod capture;
mod counters;
mod device;
mod faults;
mod watch;

mod connect;
mod wire;

mod qp;

mod cq;
mod memory;

mod object;
mod ring;
mod slot_map;

mod error;
pub mod limits;

pub use capture::{Capture, CaptureError, CaptureOptions, MAX_CAPTURE_BYTES, RECORD_BYTES, Record, RecordKind};
pub use connect::connector::{Accept, Connect, Connector, DisconnectReason, ReadLimits, Source};
pub use connect::endpoint::SharedEndpoint;
pub use connect::listener::{ConnectEvent, Listener};
pub use connect::ports::{ConnectionSide, InUse, LocalEndpoint, Use};
pub use counters::{Counter, CounterValues, PerformanceCounters};
pub use cq::completion::{Completion, OperationKind};
pub use cq::{Arm, CompletionQueue};
pub use device::{Adapter, Device, Lingering};
pub use error::{Error, Outcome, Status};
pub use fault_rules::{Action as Fault, ParseError};
pub use faults::{CountedRule, RulesError};
pub use memory::pd::ProtectionDomain;
pub use memory::region::{Access, FastRegistration, Mapping, MemoryRegion};
pub use memory::runs::Runs;
pub use memory::window::{BindRange, MemoryWindow};
pub use object::callback::Callback;
pub use object::close::{Close, OnClose, close};
pub use object::counts::ObjectKind;
pub use qp::request::{Flags, Post, Remote, Sge};
pub use qp::srq::SharedReceiveQueue;
pub use qp::{InitiatorSizes, QueuePair, ReceiveSource};
