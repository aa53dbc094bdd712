//! Descriptors that own their pages.

use std::alloc::{Layout, alloc_zeroed, dealloc};

use super::{MDLS, Mdl, PAGE_SIZE, create, fill_page_numbers, flag};
use crate::{
    irql::{self, APC_LEVEL},
    report::{self, lock, violation},
};

/// wdm/nf-wdm-mmallocatepagesformdlex: at most APC_LEVEL; zeroed pages, described by a new MDL, locked and not mapped.
#[unsafe(no_mangle)]
extern "system" fn MmAllocatePagesForMdlEx(
    _low: u64,
    _high: u64,
    _skip: u64,
    length: usize,
    _cache: i32,
    _flags: u32,
) -> *mut Mdl {
    irql::at_most(APC_LEVEL, "MmAllocatePagesForMdlEx");
    let Ok(bytes) = u32::try_from(length.next_multiple_of(PAGE_SIZE)) else { return std::ptr::null_mut() };
    let Ok(layout) = Layout::from_size_align(bytes as usize, PAGE_SIZE) else { return std::ptr::null_mut() };
    if length == 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the layout is not empty.
    let pages = unsafe { alloc_zeroed(layout) };
    let mdl = if pages.is_null() { std::ptr::null_mut() } else { create(pages, bytes) };
    if mdl.is_null() {
        return mdl;
    }
    // SAFETY: just created.
    let object = unsafe { &mut *mdl };
    fill_page_numbers(object);
    object.flags |= flag::PAGES_LOCKED;
    object.mapped_system_va = pages;
    // Such a descriptor has no virtual address of its own.
    object.start_va = std::ptr::null_mut();
    if let Some(state) = lock(&MDLS).get_mut(&(mdl as usize)) {
        state.owns_pages = true;
    }
    report::object("pages for MDL", 1);
    mdl
}

/// wdm/nf-wdm-mmfreepagesfrommdl: at most APC_LEVEL; frees the pages, not the descriptor (which goes with `ExFreePool`).
#[unsafe(no_mangle)]
unsafe extern "system" fn MmFreePagesFromMdl(mdl: *mut Mdl) {
    irql::at_most(APC_LEVEL, "MmFreePagesFromMdl");
    let owned = lock(&MDLS).get_mut(&(mdl as usize)).is_some_and(|state| std::mem::take(&mut state.owns_pages));
    if !owned {
        violation("MmFreePagesFromMdl: the MDL owns no pages");
        return;
    }
    // SAFETY: the caller gives a descriptor.
    let object = unsafe { &mut *mdl };
    if object.flags & flag::MAPPED_TO_SYSTEM_VA != 0 {
        violation("MmFreePagesFromMdl: the pages are still mapped");
    }
    if let Ok(layout) = Layout::from_size_align(object.byte_count as usize, PAGE_SIZE) {
        // SAFETY: allocated with this layout by MmAllocatePagesForMdlEx.
        unsafe { dealloc(object.mapped_system_va, layout) };
    }
    object.flags &= !(flag::PAGES_LOCKED | flag::MAPPED_TO_SYSTEM_VA);
    object.mapped_system_va = std::ptr::null_mut();
    report::object("pages for MDL", -1);
}
