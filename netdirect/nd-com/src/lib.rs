//! The NetworkDirect service provider interfaces (NDSPI): COM interfaces with their identifiers, structures and
//! constants. Providers implement them (`netdirect/softnd`), and clients call them.
//!
//! Names are the documented ones. Integers and pointers are declared as they cross the interface; a parameter that is
//! an interface pointer of any kind is `*mut c_void`. Limits and flags ([`ndk_abi::nd_ioctl::ND2_ADAPTER_INFO`],
//! `ND_MR_FLAG_*`, `ND_OP_FLAG_*`, `ND_CQ_NOTIFY_*`) are shared with the IOCTL protocol. Source:
//! microsoft/NetworkDirect (MIT).
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals, reason = "names of the interface definition")]

pub mod class;
pub mod status;
pub mod v1;
pub mod v2;
