//! `LOOKASIDE_LIST_EX`: the inline parts of the DDI use the list's SLIST header, size and allocation routines, so the structure is
//! laid out as wdm.h says. No entry is ever kept here: each allocation reaches the pool, where it is counted.

use std::ffi::c_void;

use crate::{
    base::status,
    irql::{self, DISPATCH_LEVEL},
    report,
};

type Allocate = unsafe extern "system" fn(i32, usize, u32, *mut LookasideListEx) -> *mut c_void;
type Free = unsafe extern "system" fn(*mut c_void, *mut LookasideListEx);

/// `LOOKASIDE_LIST_EX` (wdm.h): GENERAL_LOOKASIDE_POOL, 0x60 bytes.
#[repr(C, align(16))]
struct LookasideListEx {
    list_head: [u64; 2],
    depth: u16,
    maximum_depth: u16,
    total_allocates: u32,
    allocate_misses: u32,
    total_frees: u32,
    free_misses: u32,
    pool_type: i32,
    tag: u32,
    size: u32,
    allocate: Allocate,
    free: Free,
    list_entry: [usize; 2],
    last_total_allocates: u32,
    last_allocate_misses: u32,
    future: [u32; 2],
}

const _: () = assert!(size_of::<LookasideListEx>() == 0x60);

const LOOKASIDE: &str = "lookaside list";

unsafe extern "system" {
    fn ExAllocatePoolWithTag(pool: i32, size: usize, tag: u32) -> *mut c_void;
    fn ExFreePoolWithTag(block: *mut c_void, tag: u32);
}

unsafe extern "system" fn default_allocate(
    pool: i32,
    size: usize,
    tag: u32,
    _list: *mut LookasideListEx,
) -> *mut c_void {
    // SAFETY: no preconditions beyond the IRQL, which is checked there.
    unsafe { ExAllocatePoolWithTag(pool, size, tag) }
}

unsafe extern "system" fn default_free(block: *mut c_void, list: *mut LookasideListEx) {
    // SAFETY: the list is alive while entries are freed to it, and the block came from the routine above.
    unsafe { ExFreePoolWithTag(block, (*list).tag) };
}

/// wdm/nf-wdm-exinitializelookasidelistex: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn ExInitializeLookasideListEx(
    list: *mut LookasideListEx,
    allocate: Option<Allocate>,
    free: Option<Free>,
    pool: i32,
    _flags: u32,
    size: usize,
    tag: u32,
    depth: u16,
) -> i32 {
    irql::at_most(DISPATCH_LEVEL, "ExInitializeLookasideListEx");
    if depth != 0 || size > u32::MAX as usize || !(list as usize).is_multiple_of(16) {
        return status::INVALID_PARAMETER;
    }
    let object = LookasideListEx {
        list_head: [0; 2],
        // A depth of zero: the inline free routine finds the list full and calls `free`.
        depth: 0,
        maximum_depth: 0,
        total_allocates: 0,
        allocate_misses: 0,
        total_frees: 0,
        free_misses: 0,
        pool_type: pool,
        tag,
        size: size as u32,
        allocate: allocate.unwrap_or(default_allocate),
        free: free.unwrap_or(default_free),
        list_entry: [0; 2],
        last_total_allocates: 0,
        last_allocate_misses: 0,
        future: [0; 2],
    };
    // SAFETY: the caller gives the storage of a list.
    unsafe { list.write(object) };
    report::object(LOOKASIDE, 1);
    status::SUCCESS
}

/// wdm/nf-wdm-exdeletelookasidelistex: at most DISPATCH_LEVEL; all entries must be back (else they are a pool leak).
#[unsafe(no_mangle)]
extern "system" fn ExDeleteLookasideListEx(_list: *mut LookasideListEx) {
    irql::at_most(DISPATCH_LEVEL, "ExDeleteLookasideListEx");
    report::object(LOOKASIDE, -1);
}
