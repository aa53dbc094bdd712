//! The control device of SoftNDK: the kernel side of the published ND IOCTL protocol and of SoftNDK's own control codes for posts and
//! polls. The crate is a consumer of an NDK provider.
//!
//! The host makes one [`Device`] for each adapter and one [`File`] for each open of its device. It passes each request to
//! [`File::dispatch`], calls [`File::cancel`] in each cancel routine, and [`File::cleanup`] when the last handle is closed.
//!
//! Nothing that a program sends is trusted: the provider context, the generation and the type of each handle are checked, structures are
//! copied before they are checked, and all offsets and counts are checked before anything changes.
//!
//! The folders, from the control code down:
//!
//! | folder or file | what is in it |
//! |---|---|
//! | `device`, `device_state` | a control device, and what its files share |
//! | `dispatch` | the function of each control code |
//! | `decode`, `addresses` | inputs, outputs, local addresses |
//! | `diagnostics`, `provider` | control codes that need no open adapter |
//! | `session` | files and their provider contexts |
//! | `objects` | the control codes of each kind of object, and the driver's state of an object |
//! | `rings` | queues in a program's memory |
//! | `tables` | handles, pended requests |
//! | `quota` | the memory that counts against a process's limits |
//! | `host` | the interface to the kernel around the crate |
//!
//! Locks are spin locks. Their order, outermost first: turn of a CQ, ring of requests, turn of a QP's queue or of an SRQ; inside these,
//! freed queue pairs of a CQ, then table of handles; or ring of completions or a listener's lock, then table of pended requests. Calls into
//! the provider are made with no other locks held than turns and the lock of a ring of requests; the provider calls no callback during such
//! a call.
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

// tests/random/loom-models compiles modules of this crate with loom's atomics.
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

/// A weak reference from a callback's context back to its object, set once both exist.
pub(crate) type BackRef<T, H> = SpinLock<Option<Weak<T, <H as Host>::Platform>>, <H as Host>::Platform>;

/// Moves a value into a pool allocation.
pub(crate) fn shared<T, P: Platform>(value: T) -> Result<Arc<T, P>, NTSTATUS> {
    Arc::try_new(value).map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)
}
