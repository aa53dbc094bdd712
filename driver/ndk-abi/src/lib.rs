//! The binary interfaces of SoftNDK: NDKPI 2.1, the part of NDIS that an NDK miniport uses, the published NetworkDirect
//! IOCTL protocol, and SoftNDK's own additions to it. Start at [`ndkpi`], [`ndis`], [`nd_ioctl`] or [`softndk_ioctl`].
//!
//! C layouts keep their C names, so that a reader can look them up in Microsoft's documentation. Values that come from
//! outside are integers or transparent wrappers, never Rust enums: any bit pattern is valid. Each structure states its
//! size and offsets, and the compiler checks them (`macros.rs`); `tests/facts` compares all of it with fact tables
//! taken from the documentation.
//!
//! Function types are `extern "system"`: on Windows that is the convention of every NDIS and NDKPI function. On another
//! host both sides of a table are compiled for one target, so the tables work in process too.
#![no_std]
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("all layouts here are those of 64-bit Windows");

#[macro_use]
mod macros;

pub mod describe;
pub mod index;

pub mod nd_ioctl;
pub mod ndis;
pub mod ndkpi;
pub mod sockaddr;

pub mod softndk_ioctl;
mod softndk_link;
mod softndk_perf;
pub mod softndk_ring;
pub mod status;
pub mod wdm;
pub mod wsk;
