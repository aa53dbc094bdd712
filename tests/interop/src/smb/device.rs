//! The device of `crate::device` as the kernel of `driver/smb_direct`.
#![expect(unsafe_code, reason = "implements the unsafe trait Kernel: memory goes by pointer")]

use std::{net::IpAddr, ptr::NonNull};

use hosted::{Hosted, Mdl};
use ndk_abi::wdm::MDL;
use ndk_consumer::Pinned;
use smb_direct::Kernel;

use crate::device::Source;

pub(super) type Wake = smb_direct::Wake<Source>;
pub(super) type Link = smb_direct::Link<Source>;
pub(super) type Port = smb_direct::Port<Source>;

// SAFETY: the MDL is of the memory that was given.
unsafe impl Kernel for Source {
    type Platform = Hosted;
    type Mdl = Described;

    unsafe fn describe(memory: NonNull<u8>, length: usize) -> Option<Described> {
        // SAFETY: the caller keeps the memory for longer than the MDL.
        Some(Described(unsafe { Mdl::lock(memory, length) }))
    }

    fn address(&self) -> Option<IpAddr> {
        None
    }
}

/// An MDL.
pub(crate) struct Described(Mdl);

// SAFETY: the first of a chain that lives until it is dropped.
unsafe impl Pinned for Described {
    fn mdl(&self) -> NonNull<MDL> {
        // SAFETY: never null.
        unsafe { NonNull::new_unchecked(self.0.as_ptr()) }
    }
}
