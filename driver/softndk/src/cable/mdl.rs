//! The bytes that a chain of MDLs describes, in order.
#![expect(unsafe_code, reason = "memory that MDLs describe")]

use core::{ffi::c_void, ptr};

use ndk_abi::wdm::MDL;
use platform::Platform as _;

use crate::platform::Windows;

/// What is left of the bytes.
pub(super) struct Bytes {
    mdl: *mut MDL,
    /// Bytes from the start of `mdl` to the next byte. They may be past the end of `mdl`: then they count on into the next MDL.
    offset: usize,
}

impl Bytes {
    /// The bytes of a chain from an offset on.
    ///
    /// # Safety
    /// The chain is valid, and its pages are locked, as long as the value is in use.
    pub(super) const unsafe fn new(mdl: *mut MDL, offset: usize) -> Self {
        Self { mdl, offset }
    }

    /// Copies the next bytes into `room`. False: an MDL cannot be mapped, or the chain is too short.
    pub(super) fn read(&mut self, room: &mut [u8]) -> bool {
        let mut left = room;
        while !left.is_empty() {
            // SAFETY: null, or an MDL of the chain, by contract.
            let Some(mdl) = (unsafe { self.mdl.as_ref() }) else { return false };
            let count = mdl.ByteCount as usize;
            let here = count.saturating_sub(self.offset).min(left.len());
            if here == 0 {
                self.offset = self.offset.saturating_sub(count);
                self.mdl = mdl.Next;
                continue;
            }
            // SAFETY: an MDL whose pages are locked, by contract.
            let address = unsafe { Windows::mdl_system_address(self.mdl.cast::<c_void>()) };
            let Some((address, (to, rest))) = address.zip(left.split_at_mut_checked(here)) else { return false };
            // SAFETY: within the MDL's bytes.
            let from = unsafe { address.as_ptr().add(self.offset) };
            // SAFETY: `here` bytes of the MDL's, and as many of ours.
            unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), here) };
            self.offset = self.offset.saturating_add(here);
            left = rest;
        }
        true
    }
}
