//! The ten NDKPI dispatch tables over the virtual RDMA device (`driver/soft-rdma`), one file for each table;
//! `provider.rs` opens and closes adapters.
//!
//! Each entry is one `extern "system"` function that turns the consumer's pointer into the device's object, translates
//! the arguments and returns the result as an NTSTATUS; the device does the rest. The consumer gets a pointer to the
//! documented 0x30-byte head, behind which lies a reference to the device's object. The provider writes the head once,
//! and later reads only its object type: Windows and consumers may replace the dispatch pointer and use the reserved
//! words (ns-ndkpi-_ndk_object_header).
#![no_std]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod adapter;
mod address;
mod callback;
mod capture;
mod connector;
mod cq;
mod lam;
mod listener;
mod mdl;
mod mr;
mod mw;
mod object;
mod pd;
mod provider;
mod qp;
mod qp_faults;
mod shared_endpoint;
mod srq;
mod status;

pub use provider::{MAX_VERSION_1, MAX_VERSION_2, ObjectCounts, Provider};
pub use soft_rdma::{ConnectionSide, Fault, Lingering, LocalEndpoint, RulesError, limits::SEND_TIMEOUT_SECONDS};
