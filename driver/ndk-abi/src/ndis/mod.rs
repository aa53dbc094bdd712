//! NDIS 6, as far as an NDK miniport without hardware uses it (6.60 to 6.85).
//!
//! Some structures NDIS hands out differ in size with its version: NET_BUFFER_LIST, NET_BUFFER, NDIS_OID_REQUEST. A
//! driver goes through the pointer and never takes their `size_of`.

use core::ffi::c_void;

pub mod attributes;
pub mod configuration;
pub mod device;
pub mod exports;
pub mod header;
pub mod miniport;
pub mod ndk;
pub mod ndk_oids;
pub mod net_buffer;
pub mod oid;
pub mod pnp;
pub mod status;

pub use attributes::*;
pub use configuration::*;
pub use device::*;
pub use exports::*;
pub use header::*;
pub use miniport::*;
pub use ndk::*;
pub use ndk_oids::*;
pub use net_buffer::*;
pub use oid::*;
pub use pnp::*;
pub use status::*;

/// An object of NDIS, or a context of the driver that NDIS hands back.
pub type NDIS_HANDLE = *mut c_void;

/// A port of an adapter; 0 is the default port.
pub type NDIS_PORT_NUMBER = u32;
