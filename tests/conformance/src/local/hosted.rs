//! The platform of a process.
#![expect(unsafe_code, reason = "memory is described by pointer")]

use std::ptr::NonNull;

use hosted::{Hosted, Mdl};
use ndk_abi::wdm::MDL;
use platform::Passive;

use super::Kernel;

impl Kernel for Hosted {
    const NAME: &str = "hosted platform";

    type Mdl = Mdl;

    unsafe fn lock(memory: NonNull<u8>, length: usize) -> Mdl {
        // SAFETY: the caller's contract is the same.
        unsafe { Mdl::lock(memory, length) }
    }

    fn address(mdl: &Mdl) -> NonNull<MDL> {
        NonNull::new(mdl.as_ptr()).expect("an MDL has an address")
    }

    fn passive() -> Passive<'static> {
        hosted::passive()
    }

    /// It is that of the process.
    fn pool_bytes() -> u64 {
        0
    }

    fn stalled() -> String {
        "nothing is known of it".to_owned()
    }
}
