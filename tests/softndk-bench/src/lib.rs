//! Benchmarks of the device through its dispatch tables, on the simulated kernel without its checks.
//!
//! Every figure stands beside a reference that is measured in turns with it.

pub mod bell;
pub mod counted;
pub mod crowd;
pub mod figures;
pub mod idle;
pub mod link;
pub mod memory;
pub mod messages;
pub mod ndk;
mod peer;
pub mod plot;
pub mod sample;
pub mod scale;
pub mod tcp;
pub mod two_processes;
pub mod wake;
pub mod wire;
pub mod write;
