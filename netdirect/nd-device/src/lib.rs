//! The control devices of softndk.sys, as programs open them and send requests: by native calls, which return each
//! NTSTATUS of the driver unchanged.
#![cfg(windows)]
#![expect(unsafe_code, reason = "calls into ntdll and kernel32")]

mod file;
mod wine;

pub use file::{SynchronousFile, open_overlapped, send};
pub use wine::wine_version;
