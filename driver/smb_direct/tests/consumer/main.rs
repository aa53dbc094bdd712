//! The consumer over the provider, in the simulated kernel.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod faults;
mod host;
mod link;
mod scenarios;
mod schedules;
mod stop;
