//! softnd.dll: the NetworkDirect provider of SoftNDK, for programs that load it from the Winsock catalog or by its
//! path.
//!
//! `core` has the provider's objects, over the control device of softndk.sys or over a control device in the process
//! (`core/device`); `v1` and `v2` are the interfaces. Posts and polls go by rings that are shared with the device
//! (`nd_rings`), or by control codes if the environment variable `SOFTND_PATH` is `plain`. `SOFTND_MODE` chooses the
//! device.
#![cfg(windows)]

mod arguments;
mod core;
mod exports;
mod hold;
mod requests;
mod v1;
mod v2;
