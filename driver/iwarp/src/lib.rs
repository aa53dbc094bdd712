//! The frames of iWARP: MPA (RFC 5044, enhanced by RFC 6581), DDP (RFC 5041) and RDMAP (RFC 5040).
//!
//! What was received is looked at through a checked view, which says all there is to say of it; what is to be sent is written
//! from the same representation. Nothing here allocates, waits, or knows a socket. All numbers on the wire are big-endian,
//! but the CRC.
//!
//! | module | frames |
//! |---|---|
//! | [`mpa`] | the Request and the Reply that open a connection |
//! | [`negotiate`] | what these agree on |
//! | [`fpdu`] | what carries one segment: length, padding, CRC ([`crc`]) |
//! | [`segment`] | headers of DDP and RDMAP: which message a segment belongs to, and where its data goes |
//! | [`terminate`] | the message that ends a stream, and every cause that it can give |
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
