//! SoftNDK, the kernel driver: an NDIS miniport with KMDF that offers a virtual RDMA device to kernel consumers (NDKPI)
//! and to programs (`\\.\SoftNdk`, `\\.\SoftNdk2` ...).
//!
//! This crate is glue: it gives the portable crates a kernel (`platform`, `irp`, `pin`, `wsk`), and the kernel's frameworks
//! their handlers (`entry`, `lifecycle`, `oid`, `control`). The crates below it do not call Windows.
#![no_std]
#![deny(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

extern crate wdk_panic;

mod adapter;
mod attributes;
mod cable;
mod configuration;
mod control;
mod critical_region;
mod datapath;
mod driver;
mod entry;
mod events;
mod framework_device;
mod host;
mod irp;
mod irql;
mod keywords;
mod lifecycle;
mod lists;
mod mutex;
mod ndis;
mod ndk;
mod offload;
mod oid;
mod pin;
#[cfg(feature = "planted-faults")]
mod planted;
mod platform;
mod processors;
mod rdma_state;
mod registry;
mod security;
mod tcpip;
#[cfg(feature = "test-consumer")]
mod test_consumer;
mod traffic;
mod unicode;
mod wdfminiport;
mod wsk;

// For `wsk::turn`: tests/random/loom-models compiles that file with the atomics of loom.
use core::sync::atomic;
