//! The rings of [`ndk_abi::softndk_ring`]: queues in memory that two sides write, who do not trust each other. Both sides use
//! this crate: the driver, and the NetworkDirect provider in the user's process.
//!
//! Each side keeps its own index to itself and publishes copies; of the other's index it believes nothing but what is possible
//! ([`Wild`] if it is not). An entry is copied out before it is looked at.
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
pub use ring::{Full, Memory, Reader, Wild, Writer};

// Those of the models that explore this crate (tests/random/loom-models), or the real ones.
#[cfg(not(loom))]
use core::sync::atomic;
#[cfg(loom)]
use loom::sync::atomic;
