//! The control device of SoftNDK: the kernel side of the published ND IOCTL protocol and of our own codes to post and to
//! poll, as a consumer of an NDK provider.
//!
//! The host makes one [`Device`] for each adapter, one [`File`] for each open of `\\.\SoftNdk`, gives each request to
//! [`File::dispatch`], each cancel routine to [`File::cancel`], and calls [`File::cleanup`] when the last handle is closed.
//!
//! Nothing a user sends is trusted: handles are checked for file, age and type, structures are copied before they are
//! looked at, and all offsets and counts are checked before anything changes.
#![no_std]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod device;
mod file;
mod host;

pub use device::Device;
pub use file::File;
pub use host::{Host, Pinned, Request};
