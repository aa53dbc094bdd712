//! The control device of SoftNDK: the kernel side of the published ND IOCTL protocol and of our own codes to post and to
//! poll, as a consumer of an NDK provider.
//!
//! The host makes one [`Device`] for each adapter, one [`File`] for each open of `\\.\SoftNdk`, gives each request to
//! [`File::dispatch`], each cancel routine to [`File::cancel`], and calls [`File::cleanup`] when the last handle is closed.
//!
//! Nothing a user sends is trusted: handles are checked for provider context, age and type, structures are copied before they are
//! looked at, and all offsets and counts are checked before anything changes.
//!
//! The folders, from the control code down:
//!
//! | folder or file | what is in it |
//! |---|---|
//! | `dispatch` | from the control code to its function |
//! | `diagnostics`, `provider` | codes that need no adapter |
//! | `session` | files, and their provider contexts |
//! | `objects` | the codes of each kind of object, and what the driver keeps of one |
//! | `rings` | queues in the memory of a program |
//! | `tables` | handles, requests that wait |
//! | `quota` | what counts against the limits of a process |
//! | `host` | what all this needs of the kernel around it |
//!
//! Locks are spin locks. Order, outermost first: turn of a CQ, ring of requests, turn of a QP's queue or an SRQ; freed queue pairs of a CQ;
//! table of handles; or ring of completions, or a listener's lock, and then the table of pended requests. Only the turns and the lock of a
//! ring of requests are held over a call into the provider, which does not call back in it.
#![no_std]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod device;
mod dispatch;

mod diagnostics;
mod provider;

mod session;

mod objects;

mod rings;

mod quota;
mod tables;

mod addresses;
mod decode;
mod device_state;
mod host;
#[cfg(feature = "planted-bugs")]
pub mod planted;
#[cfg(not(feature = "planted-bugs"))]
mod planted;

// tests/random/loom-models has its own.
use core::sync::atomic;

use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};
use platform::{Arc, OutOfMemory, Platform, SpinLock, Weak};

pub use device::Device;

pub use host::{Host, Request};
pub use ndk_consumer::{AdapterSource, Pinned};
pub use quota::locked_bytes;
pub use session::file::File;

/// A counted reference.
pub(crate) type Ref<T, H> = Arc<T, <H as Host>::Platform>;

/// A reference back to what refers here, set once both exist.
pub(crate) type BackRef<T, H> = SpinLock<Option<Weak<T, <H as Host>::Platform>>, <H as Host>::Platform>;

/// Moves a value to pool.
pub(crate) fn shared<T, P: Platform>(value: T) -> Result<Arc<T, P>, NTSTATUS> {
    Arc::try_new(value).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)
}
