//! What the SoftNDK device promises over its IOCTLs, as cases that run on every front end.
//!
//! * [`Transport`]: the way to a device. Those of devices in this process are in this crate ([`local`], [`sim`]), the real driver's in
//!   `ndharness`.
//! * [`agent`]: the way to a device of another process.
//! * [`client`]: typed requests. [`pair`]: connected queue pairs.
//! * [`soak`]: random consumers, for as long as one likes.
//! * [`CASES`]: the cases. Each is a function that gets a [`Bench`] and returns an error when the device does not keep a
//!   promise. Nothing waits without a limit, and nothing sleeps.
#[cfg(any(target_os = "linux", windows))]
pub mod agent;
mod bench;
mod carrier;
mod cases;
pub mod client;
mod complaints;
pub mod error;
pub mod local;
pub mod memory;
pub mod nd;
pub mod pair;
pub mod sim;
pub mod soak;
mod transport;
mod two_devices;

pub use bench::{Bench, COUNTS_CALLS, Case, Skipped, run, run_on_two_devices};
pub use carrier::Carrier;
pub use cases::CASES;
pub use complaints::Complaints;
pub use transport::{Completion, File, Pending, Transport};
pub use two_devices::play_on_two_devices;
