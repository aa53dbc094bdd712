//! The device over the simulated kernel, without NDKPI: a module for each object or rule. Each test is a session of the simulated kernel.

mod common;

mod addresses;
mod batch;
mod capture;
mod counters;
mod faults;
mod flush;
mod inline;
mod moderation;
mod posts;
mod regions;
mod tokens;
mod waiting;
mod windows;
mod wire;
