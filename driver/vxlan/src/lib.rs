//! A tunnel end of VXLAN (RFC 7348): Ethernet frames of one network to and from the peers that are listed, in UDP datagrams.
//!
//! [`vtep::Vtep::destination`] says to which peers a frame of the adapter goes; [`vtep::Vtep::decapsulate`] checks a datagram of a peer, and returns
//! its frame.
//! A frame that a peer has sent goes to no other peer, so that a full mesh of tunnel ends has no loop. No code here allocates, waits, calls a
//! socket or reads a clock.
//!
//! | module | |
//! |---|---|
//! | [`ethernet`] | the addresses of a frame |
//! | [`header`] | the eight bytes before a frame |
//! | [`fdb`] | the forwarding database: behind which peer an address is |
//! | [`peers`] | the list of peers, as an administrator writes it |
//! | [`vtep`] | the tunnel end |
//! | [`circular`] | the cable's own datagrams, which must not go into the cable again |
//! | [`drops`] | counts of what went no further |
#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

pub mod circular;
pub mod drops;
pub mod ethernet;
pub mod fdb;
pub mod header;
pub mod peers;
pub mod vtep;
