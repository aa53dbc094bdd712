//! The part of NDIS 6 (6.60 to 6.85) that an NDK miniport without hardware uses.
//!
//! NET_BUFFER_LIST, NET_BUFFER and NDIS_OID_REQUEST differ in size with the version of NDIS. A driver reads them
//! through the pointer and never takes their `size_of`.

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
pub mod offload;
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
pub use offload::*;
pub use oid::*;
pub use pnp::*;
pub use status::*;

/// An object of NDIS, or a context that NDIS passes back to the driver.
pub type NDIS_HANDLE = *mut c_void;

/// A port of an adapter; 0 is the default port.
pub type NDIS_PORT_NUMBER = u32;
