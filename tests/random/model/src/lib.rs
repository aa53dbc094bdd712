//! The NDK provider against a reference model: both perform each operation; when none is under way, their results, callbacks,
//! completions and memory must be equal.
//!
//! [`Session`] is the executor, [`Operation`] what it executes; the random tests and the fuzz target share both.

mod consumer;
mod operation;
mod reference;
mod session;

#[cfg(feature = "arbitrary")]
pub use operation::decode;
pub use operation::{Event, FaultRule, Operation, Place, Post, Request, Slot};
pub use reference::{COMMON_FLAGS, FAST_REGISTER_FLAGS, Mismatch, Mistake, Outcomes, SEND_FLAGS, WRITE_FLAGS};
pub use session::{Report, Session, run, run_mistaken};
