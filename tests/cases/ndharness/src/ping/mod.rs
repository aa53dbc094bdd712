//! `ndharness ping`: how long a message takes to another machine and back.

mod report;
#[cfg(windows)]
mod send;
#[cfg(windows)]
mod server;

#[cfg(windows)]
pub(crate) use send::{Options, run};
