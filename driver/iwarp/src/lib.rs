//! The frames of iWARP: MPA (RFC 5044, enhanced by RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040).
//!
//! `parse` checks a received frame and returns its fields; `emit` of the same type writes a frame to send. An FPDU is written in parts ([`fpdu`]).
//! No code here allocates, waits, or calls a socket. Numbers on the wire are big-endian, except the CRC.
//!
//! | module | frames |
//! |---|---|
//! | [`mpa`] | the Request and the Reply that open a connection |
//! | [`negotiate`] | what Request and Reply agree on |
//! | [`fpdu`] | the frame of one segment: length, padding, CRC ([`crc`]) |
//! | [`segment`] | headers of DDP and RDMAP: the message that a segment belongs to, and where its data goes |
//! | [`terminate`] | the message that ends a stream, and its causes |
#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

pub mod crc;
pub mod fpdu;
pub mod mpa;
pub mod negotiate;
pub mod segment;
pub mod terminate;
