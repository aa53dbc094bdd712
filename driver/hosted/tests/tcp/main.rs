//! The host's TCP by the contract of `platform::Sockets`, against peers of the standard library.

mod close;
mod many;
mod open;
mod raw;
mod transfer;
mod turns;
