//! Memory descriptor lists.

// The build script looks for exports in this folder only.
#[path = "mdl_pages.rs"]
mod pages;

use std::{
    alloc::{Layout, alloc_zeroed, dealloc},
    collections::BTreeMap,
    ffi::c_void,
    sync::Mutex,
};

use windows_sys::Win32::System::Diagnostics::Debug::RaiseException;

use crate::{
    base::status,
    irql::{self, APC_LEVEL, DISPATCH_LEVEL},
    pool, process,
    report::{self, lock, violation},
    usermem::{self, Locked},
};

const PAGE_SIZE: usize = 0x1000;

/// `MDL` (wdm.h), 0x30 bytes; one page frame number per page follows.
#[repr(C)]
struct Mdl {
    next: *mut Mdl,
    size: u16,
    flags: u16,
    process: *mut c_void,
    mapped_system_va: *mut u8,
    start_va: *mut u8,
    byte_count: u32,
    byte_offset: u32,
}

const _: () = assert!(size_of::<Mdl>() == 0x30);

/// `MdlFlags` (wdm.h).
mod flag {
    pub(super) const MAPPED_TO_SYSTEM_VA: u16 = 0x1;
    pub(super) const PAGES_LOCKED: u16 = 0x2;
    pub(super) const SOURCE_IS_NONPAGED_POOL: u16 = 0x4;
    pub(super) const PARTIAL: u16 = 0x10;
    pub(super) const PARTIAL_HAS_BEEN_MAPPED: u16 = 0x20;
    pub(super) const WRITE_OPERATION: u16 = 0x80;
}

const KERNEL_MODE: i8 = 0;
const IO_READ_ACCESS: i32 = 0;
/// `MdlMappingNoWrite` (wdm.h).
const MAPPING_NO_WRITE: u32 = 0x8000_0000;
/// Kinds of object in the report.
const OBJECT: &str = "MDL";
const LOCKED: &str = "locked MDL";

/// The descriptors made here, by address. Wine makes some itself (for METHOD_*_DIRECT): those are mapped from the start.
static MDLS: Mutex<BTreeMap<usize, State>> = Mutex::new(BTreeMap::new());

struct State {
    pages: usize,
    locked: Option<Locked>,
    /// Made by MmAllocatePagesForMdlEx: the memory itself belongs to the descriptor.
    owns_pages: bool,
}

/// `ADDRESS_AND_SIZE_TO_SPAN_PAGES` (wdm.h).
fn span_pages(address: usize, length: usize) -> usize {
    (address % PAGE_SIZE + length).div_ceil(PAGE_SIZE)
}

fn layout(pages: usize) -> Option<Layout> {
    Layout::from_size_align(size_of::<Mdl>() + pages * size_of::<usize>(), 16).ok()
}

/// A new descriptor of `length` bytes at `address`, with invented page frame numbers.
fn create(address: *mut u8, length: u32) -> *mut Mdl {
    let pages = span_pages(address as usize, length as usize);
    let Some(layout) = layout(pages) else { return std::ptr::null_mut() };
    // SAFETY: the layout is not empty.
    let mdl = unsafe { alloc_zeroed(layout) }.cast::<Mdl>();
    if mdl.is_null() {
        return mdl;
    }
    let offset = address as usize % PAGE_SIZE;
    let header = Mdl {
        next: std::ptr::null_mut(),
        // The field is 16 bits wide: the size of a long list does not fit, on Windows either.
        size: layout.size() as u16,
        flags: 0,
        process: std::ptr::null_mut(),
        mapped_system_va: std::ptr::null_mut(),
        start_va: address.wrapping_sub(offset),
        byte_count: length,
        byte_offset: offset as u32,
    };
    // SAFETY: just allocated for a header and the page frame numbers.
    unsafe { mdl.write(header) };
    lock(&MDLS).insert(mdl as usize, State { pages, locked: None, owns_pages: false });
    report::object(OBJECT, 1);
    mdl
}

/// wdm/nf-wdm-ioallocatemdl: at most DISPATCH_LEVEL. With an IRP it is stored in `MdlAddress`, or appended to that chain.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoAllocateMdl(
    address: *mut u8,
    length: u32,
    secondary: u8,
    _charge_quota: u8,
    irp: *mut u8,
) -> *mut Mdl {
    irql::at_most(DISPATCH_LEVEL, "IoAllocateMdl");
    if length as usize > u32::MAX as usize - PAGE_SIZE {
        return std::ptr::null_mut();
    }
    let mdl = create(address, length);
    if !mdl.is_null() && !irp.is_null() {
        const IRP_MDL_ADDRESS: usize = 8;
        // SAFETY: the caller gives an IRP, whose MdlAddress is at that offset.
        let mut slot = unsafe { irp.add(IRP_MDL_ADDRESS) }.cast::<*mut Mdl>();
        if secondary != 0 {
            // SAFETY: the chain of an IRP consists of valid descriptors and ends with null.
            while !unsafe { *slot }.is_null() {
                // SAFETY: as above; `next` is the first field.
                slot = unsafe { &raw mut (**slot).next };
            }
        }
        // SAFETY: `slot` is a field of the IRP or of a descriptor of its chain.
        unsafe { *slot = mdl };
    }
    mdl
}

/// wdm/nf-wdm-iofreemdl: at most DISPATCH_LEVEL; the pages must not be locked any more.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoFreeMdl(mdl: *mut Mdl) {
    irql::at_most(DISPATCH_LEVEL, "IoFreeMdl");
    let Some(state) = lock(&MDLS).remove(&(mdl as usize)) else {
        violation(&format!("IoFreeMdl({mdl:p}): not a live MDL"));
        return;
    };
    report::object(OBJECT, -1);
    if state.locked.is_some() {
        report::object(LOCKED, -1);
        violation("IoFreeMdl: the pages are still locked");
    }
    if let Some(layout) = layout(state.pages) {
        // SAFETY: allocated by `create` with this layout, and no longer in use.
        unsafe { dealloc(mdl.cast(), layout) };
    }
}

/// wdm/nf-wdm-mmbuildmdlfornonpagedpool: at most DISPATCH_LEVEL; the buffer must be non-paged.
#[unsafe(no_mangle)]
unsafe extern "system" fn MmBuildMdlForNonPagedPool(mdl: *mut Mdl) {
    irql::at_most(DISPATCH_LEVEL, "MmBuildMdlForNonPagedPool");
    // SAFETY: the caller gives a descriptor.
    let object = unsafe { &mut *mdl };
    let address = object.start_va.wrapping_add(object.byte_offset as usize);
    if pool::is_paged(address as usize) {
        violation("MmBuildMdlForNonPagedPool: the buffer is in paged pool");
    }
    if object.flags & (flag::PAGES_LOCKED | flag::MAPPED_TO_SYSTEM_VA) != 0 {
        violation("MmBuildMdlForNonPagedPool: the MDL is in use");
    }
    object.flags |= flag::SOURCE_IS_NONPAGED_POOL;
    object.mapped_system_va = address;
    fill_page_numbers(object);
}

/// Writes page frame numbers that are the page numbers of the addresses: they differ from page to page and say no more.
fn fill_page_numbers(object: &mut Mdl) {
    let pages = span_pages(object.start_va as usize + object.byte_offset as usize, object.byte_count as usize);
    let array = (&raw mut *object).wrapping_add(1).cast::<usize>();
    for page in 0..pages {
        // SAFETY: the descriptor was allocated with one number per page it spans.
        unsafe { array.add(page).write(object.start_va as usize / PAGE_SIZE + page) };
    }
}

/// Raises an exception, as the documentation of the caller says. Callers wrap it in structured exception handling.
fn raise(code: i32) {
    // SAFETY: no parameters; the exception unwinds to the driver's handler or ends the process.
    unsafe { RaiseException(code.cast_unsigned(), 0, 0, std::ptr::null()) };
}

/// wdm/nf-wdm-mmprobeandlockpages: at most APC_LEVEL for pageable memory, DISPATCH_LEVEL for other. Raises
/// STATUS_ACCESS_VIOLATION if the pages are not there or not accessible as asked; STATUS_NOT_SUPPORTED, which Windows has no need for, if
/// they cannot be shared. User addresses are of the current process.
#[unsafe(no_mangle)]
unsafe extern "system" fn MmProbeAndLockPages(mdl: *mut Mdl, mode: i8, operation: i32) {
    // SAFETY: the caller gives a descriptor.
    let object = unsafe { &mut *mdl };
    let address = object.start_va.wrapping_add(object.byte_offset as usize);
    let user = mode != KERNEL_MODE && !process::current_is_own();
    irql::at_most(
        if user || pool::is_paged(address as usize) { APC_LEVEL } else { DISPATCH_LEVEL },
        "MmProbeAndLockPages",
    );
    if object.flags & (flag::PAGES_LOCKED | flag::SOURCE_IS_NONPAGED_POOL) != 0 {
        violation("MmProbeAndLockPages: the MDL's pages are locked already");
        return;
    }
    let write = operation != IO_READ_ACCESS;
    let locked = if user {
        usermem::lock(process::current_id(), address as usize, object.byte_count as usize, write)
    } else {
        Locked::own(address, object.byte_count as usize, write).ok_or(status::ACCESS_VIOLATION)
    };
    let locked = match locked {
        Ok(locked) => locked,
        Err(status) => return raise(status),
    };
    let mapped = locked.address();
    match lock(&MDLS).get_mut(&(mdl as usize)) {
        Some(state) => state.locked = Some(locked),
        None => violation("MmProbeAndLockPages: the MDL was not allocated with IoAllocateMdl"),
    }
    report::object(LOCKED, 1);
    object.mapped_system_va = mapped;
    object.flags |= flag::PAGES_LOCKED;
    if write {
        object.flags |= flag::WRITE_OPERATION;
    }
    if user {
        object.process = process::current();
    }
    fill_page_numbers(object);
}

/// wdm/nf-wdm-mmunlockpages: at most DISPATCH_LEVEL; also ends the mapping to system space.
#[unsafe(no_mangle)]
unsafe extern "system" fn MmUnlockPages(mdl: *mut Mdl) {
    irql::at_most(DISPATCH_LEVEL, "MmUnlockPages");
    let locked = lock(&MDLS).get_mut(&(mdl as usize)).and_then(|state| state.locked.take());
    if locked.is_none() {
        violation("MmUnlockPages: the pages are not locked");
        return;
    }
    report::object(LOCKED, -1);
    drop(locked);
    // SAFETY: the caller gives a descriptor.
    let object = unsafe { &mut *mdl };
    object.flags &= !(flag::PAGES_LOCKED | flag::MAPPED_TO_SYSTEM_VA | flag::WRITE_OPERATION);
    object.mapped_system_va = std::ptr::null_mut();
    object.process = std::ptr::null_mut();
}

/// wdm/nf-wdm-mmmaplockedpagesspecifycache: kernel mode at most DISPATCH_LEVEL, NULL on failure. Mapping into user space is not
/// simulated.
#[unsafe(no_mangle)]
unsafe extern "system" fn MmMapLockedPagesSpecifyCache(
    mdl: *mut Mdl,
    mode: i8,
    _cache: i32,
    _address: *mut u8,
    _bug_check: u32,
    priority: u32,
) -> *mut u8 {
    irql::at_most(if mode == KERNEL_MODE { DISPATCH_LEVEL } else { APC_LEVEL }, "MmMapLockedPagesSpecifyCache");
    // SAFETY: the caller gives a descriptor.
    let object = unsafe { &mut *mdl };
    if mode != KERNEL_MODE {
        violation("MmMapLockedPagesSpecifyCache: mapping to user mode is not simulated");
        return std::ptr::null_mut();
    }
    if object.flags & (flag::PAGES_LOCKED | flag::PARTIAL) == 0 {
        violation("MmMapLockedPagesSpecifyCache: the pages are not locked");
        return std::ptr::null_mut();
    }
    if object.flags & (flag::MAPPED_TO_SYSTEM_VA | flag::SOURCE_IS_NONPAGED_POOL) != 0 {
        violation("MmMapLockedPagesSpecifyCache: the MDL is mapped already");
    }
    // No rule of Windows, but of this driver.
    if !object.process.is_null() && object.flags & flag::WRITE_OPERATION == 0 && priority & MAPPING_NO_WRITE == 0 {
        violation("MmMapLockedPagesSpecifyCache: pages of a process that were locked for reading can be written");
    }
    object.flags |= flag::MAPPED_TO_SYSTEM_VA;
    if object.flags & flag::PARTIAL != 0 {
        object.flags |= flag::PARTIAL_HAS_BEEN_MAPPED;
    }
    object.mapped_system_va
}

/// wdm/nf-wdm-mmmaplockedpages: as `MmMapLockedPagesSpecifyCache` without its options.
#[unsafe(no_mangle)]
unsafe extern "system" fn MmMapLockedPages(mdl: *mut Mdl, mode: i8) -> *mut u8 {
    // SAFETY: the caller gives a descriptor.
    unsafe { MmMapLockedPagesSpecifyCache(mdl, mode, 1, std::ptr::null_mut(), 0, 16) }
}

/// wdm/nf-wdm-mmunmaplockedpages: at most DISPATCH_LEVEL.
#[unsafe(no_mangle)]
unsafe extern "system" fn MmUnmapLockedPages(_address: *mut u8, mdl: *mut Mdl) {
    irql::at_most(DISPATCH_LEVEL, "MmUnmapLockedPages");
    // SAFETY: the caller gives a descriptor.
    let object = unsafe { &mut *mdl };
    if object.flags & flag::MAPPED_TO_SYSTEM_VA == 0 {
        violation("MmUnmapLockedPages: the MDL is not mapped");
    }
    object.flags &= !(flag::MAPPED_TO_SYSTEM_VA | flag::PARTIAL_HAS_BEEN_MAPPED);
}

/// wdm/nf-wdm-iobuildpartialmdl: at most DISPATCH_LEVEL; `target` describes `length` bytes (0: all that follow) of `source` from
/// `address` on and shares its mapping.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoBuildPartialMdl(source: *mut Mdl, target: *mut Mdl, address: *mut u8, length: u32) {
    irql::at_most(DISPATCH_LEVEL, "IoBuildPartialMdl");
    // SAFETY: the caller gives two descriptors.
    let (source, part) = unsafe { (&*source, &mut *target) };
    let start = source.start_va as usize + source.byte_offset as usize;
    let skipped = (address as usize).wrapping_sub(start);
    let total = source.byte_count as usize;
    if skipped > total || length as usize > total - skipped {
        violation("IoBuildPartialMdl: the range is not within the source MDL");
        return;
    }
    let length = if length == 0 { total - skipped } else { length as usize };
    let offset = address as usize % PAGE_SIZE;
    let room = lock(&MDLS).get(&(target as usize)).map(|state| state.pages);
    if room.is_none_or(|room| span_pages(offset, length) > room) {
        violation("IoBuildPartialMdl: the target MDL is too small");
        return;
    }
    part.start_va = address.wrapping_sub(offset);
    part.byte_offset = offset as u32;
    part.byte_count = length as u32;
    part.process = source.process;
    part.mapped_system_va = source.mapped_system_va.wrapping_add(skipped);
    let shared = source.flags & (flag::MAPPED_TO_SYSTEM_VA | flag::SOURCE_IS_NONPAGED_POOL | flag::WRITE_OPERATION);
    part.flags = flag::PARTIAL | shared;
    fill_page_numbers(part);
}

/// wdm/nf-wdm-mmsizeofmdl: any IRQL.
#[unsafe(no_mangle)]
extern "system" fn MmSizeOfMdl(address: *mut u8, length: usize) -> usize {
    size_of::<Mdl>() + span_pages(address as usize, length) * size_of::<usize>()
}

/// Frees the descriptor of `MmAllocatePagesForMdlEx`, which is documented to go with `ExFreePool`; false if `address` is none.
pub(crate) fn free_descriptor(address: usize) -> bool {
    let mut mdls = lock(&MDLS);
    let Some(pages) = mdls.get(&address).map(|state| state.pages) else { return false };
    mdls.remove(&address);
    drop(mdls);
    report::object(OBJECT, -1);
    if let Some(layout) = layout(pages) {
        // SAFETY: allocated by `create` with this layout.
        unsafe { dealloc(address as *mut u8, layout) };
    }
    true
}
