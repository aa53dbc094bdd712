//! softnd.dll: the NetworkDirect provider of SoftNDK, for programs that load it from the Winsock catalog or by its path.
//!
//! `core` is what a provider does, over the control device, be it the driver's or one in the process (`core/device`); `v1` and `v2` are
//! how the versions of the interfaces show it. Posts and polls go through rings that the device shares (`nd_rings`), or through control
//! codes if the variable `SOFTND_PATH` of the environment is `plain`. `SOFTND_MODE` chooses the device.
#![cfg(windows)]

mod arguments;
mod core;
mod exports;
mod hold;
mod requests;
mod v1;
mod v2;
