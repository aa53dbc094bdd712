//! The consumer over the provider, in the simulated kernel.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests may panic")]

mod capture;
mod fault_rules;
mod faults;
mod host;
mod link;
mod program;
mod scenarios;
mod schedules;
mod stop;
