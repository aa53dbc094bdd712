//! The rings of [`ndk_abi::softndk_ring`]: queues in memory that the driver and a program both write. Both sides use
//! this crate: the driver, and the NetworkDirect provider in the program's process (`netdirect/softnd`), by [`user`].
//!
//! The sides do not trust each other. Each side keeps its own index in private memory and publishes a copy; it accepts
//! the other side's index only if that is possible ([`BadIndex`] if not). It copies an entry before it checks the entry.
#![no_std]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

#[cfg(all(feature = "changing-memory", not(loom)))]
pub mod changing;
#[cfg(not(loom))]
mod mapped;
mod ring;
#[cfg(not(loom))]
pub mod user;

#[cfg(not(loom))]
pub use mapped::{Geometry, Invalid, Mapped};
pub use ring::{BadIndex, Memory, PushError, Reader, Writer};

// loom's atomics for the models that explore this crate (tests/random/loom-models), else the real ones.
#[cfg(not(loom))]
use core::sync::atomic;
#[cfg(loom)]
use loom::sync::atomic;
