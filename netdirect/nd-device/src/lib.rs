//! The control device of softndk.sys, as programs open and ask it: by the native calls, which show each NTSTATUS as the driver gave it.
#![cfg(windows)]
#![expect(unsafe_code, reason = "calls into ntdll and kernel32")]

mod file;
mod wine;

pub use file::{SynchronousFile, open_overlapped, send};
pub use wine::wine_version;
