//! The MDLs of the C program.
#![expect(unsafe_code, reason = "locks memory that it is given by address")]

use std::{
    collections::BTreeMap,
    ffi::c_void,
    ptr::{NonNull, null_mut},
    sync::Mutex,
};

use simkernel::Mdl;

use crate::kernel::{self, lock};

/// Those that live, by address.
static MDLS: Mutex<BTreeMap<usize, Mdl>> = Mutex::new(BTreeMap::new());

/// Locks memory, and describes it by an MDL. Null if an MDL cannot describe so much.
///
/// # Safety
/// As for [`Mdl::lock`].
pub(crate) unsafe fn allocate(memory: NonNull<u8>, length: usize) -> *mut c_void {
    if u32::try_from(length).is_err() {
        return null_mut();
    }
    // SAFETY: the caller's contract.
    let mdl = unsafe { Mdl::lock(memory, length) };
    let pointer = mdl.as_ptr();
    lock(&MDLS).insert(pointer.addr(), mdl);
    pointer.cast()
}

/// Unlocks the memory and frees the MDL.
pub(crate) fn free(mdl: usize) {
    if lock(&MDLS).remove(&mdl).is_none() {
        kernel::fatal(format_args!("softndk_sim_free_mdl: {mdl:#x} is no MDL, or was freed before"));
    }
}

/// How many live.
pub(crate) fn live() -> u64 {
    lock(&MDLS).len() as u64
}
