//! The MDLs of the C program, and what uses them.
#![expect(unsafe_code, reason = "locks memory that it is given by address, and walks chains of MDLs")]

use std::{
    collections::BTreeMap,
    ffi::c_void,
    ptr::{NonNull, null_mut},
    sync::Mutex,
};

use ndk_abi::wdm::MDL;
use simkernel::Mdl;

use crate::kernel::{self, lock};

/// Those that live, by address.
static MDLS: Mutex<BTreeMap<usize, Live>> = Mutex::new(BTreeMap::new());

struct Live {
    _mdl: Mdl,
    /// Registered regions and logical address mappings.
    users: usize,
}

/// A use of a chain of MDLs, to be given to [`end_use`]. It holds nothing that the program could free too early.
pub(crate) type Use = Vec<usize>;

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
    lock(&MDLS).insert(pointer.addr(), Live { _mdl: mdl, users: 0 });
    pointer.cast()
}

/// Unlocks the memory and frees the MDL.
pub(crate) fn free(mdl: usize) {
    match lock(&MDLS).remove(&mdl) {
        None => kernel::fatal(format_args!("softndk_sim_free_mdl: {mdl:#x} is no MDL, or was freed before")),
        Some(Live { users: 0, .. }) => {}
        Some(Live { users, .. }) => {
            kernel::fatal(format_args!("softndk_sim_free_mdl: {mdl:#x} is used by {users} regions or mappings"));
        }
    }
}

/// Begins to use the MDLs of a chain that describe its first `length` bytes. They must live.
pub(crate) fn begin_use(call: &str, chain: *mut MDL, length: usize) -> Use {
    let mut mdls = lock(&MDLS);
    let mut used = Use::new();
    let (mut next, mut left) = (chain, length);
    while left > 0 && !next.is_null() {
        let Some(live) = mdls.get_mut(&next.addr()) else {
            kernel::fatal(format_args!("{call}: {next:p} is no MDL, or was freed before"));
        };
        live.users += 1;
        used.push(next.addr());
        // SAFETY: it lives, as it is in the table, which is locked.
        let head = unsafe { next.read() };
        next = head.Next;
        left = left.saturating_sub(head.ByteCount as usize);
    }
    used
}

/// Ends what `begin_use` began.
pub(crate) fn end_use(used: Use) {
    let mut mdls = lock(&MDLS);
    for mdl in used {
        if let Some(live) = mdls.get_mut(&mdl) {
            live.users -= 1;
        }
    }
}
