//! The task offloads of a miniport ("TCP/IP Task Offload" of the WDK), in software: the checksums of frames that are sent, the segments of a large
//! send, and received segments as one. No code here allocates or waits.
//!
//! | module | |
//! |---|---|
//! | [`checksum`] | writes the checksums of an IPv4 header and of a TCP segment |
//! | [`large_send`] | divides a large TCP segment into segments (LSOv2) |
//! | [`coalesce`] | makes one segment of received segments (RSC) |
//! | [`packet`] | addresses, and a changed bit, for fault rules |
#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

pub mod checksum;
pub mod coalesce;
mod frame;
pub mod large_send;
pub mod packet;
