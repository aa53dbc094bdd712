//! Memory of the requesting process, locked by the driver.
//!
//! On Windows a locked page is one page with two addresses. Here the driver lives in another process, so the region that holds the
//! pages is replaced, at the same address, by a view of a section that both processes map: writes on either side are seen at once
//! by the other. Locks that overlap find the same section. Of a file that the process has mapped, the driver gets a view of its own.
//! Memory that cannot be replaced (stacks, images, parts of files) is not locked: a copy would be out of date at once.

use std::{
    ffi::c_void,
    sync::{Arc, Mutex},
};

use windows_sys::Win32::{
    Foundation::{CloseHandle, HANDLE},
    System::{
        Memory::{MEM_MAPPED, MEM_PRIVATE, MEM_RELEASE, PAGE_NOACCESS, PAGE_READONLY, PAGE_READWRITE},
        Threading::GetCurrentProcess,
    },
};

use crate::{
    answer,
    base::status,
    mapped, report,
    user_process::{Allocation, Piece, Process, RESERVED, await_stop},
};

#[link(name = "ntdll.dll", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn NtCreateSection(
        section: *mut HANDLE,
        access: u32,
        attributes: *const c_void,
        size: *const i64,
        protection: u32,
        allocation: u32,
        file: HANDLE,
    ) -> i32;
    fn NtMapViewOfSection(
        section: HANDLE,
        process: HANDLE,
        base: *mut *mut c_void,
        zero_bits: usize,
        commit: usize,
        offset: *const i64,
        size: *mut usize,
        inherit: u32,
        allocation: u32,
        protection: u32,
    ) -> i32;
    fn NtUnmapViewOfSection(process: HANDLE, base: *const c_void) -> i32;
    fn NtFreeVirtualMemory(process: HANDLE, base: *mut *mut c_void, size: *mut usize, kind: u32) -> i32;
    fn NtProtectVirtualMemory(
        process: HANDLE,
        base: *mut *mut c_void,
        size: *mut usize,
        protection: u32,
        old: *mut u32,
    ) -> i32;
    fn NtSuspendProcess(process: HANDLE) -> i32;
    fn NtResumeProcess(process: HANDLE) -> i32;
}

const SECTION_ALL_ACCESS: u32 = 0xF_001F;
const SEC_COMMIT: u32 = 0x800_0000;
const VIEW_UNMAP: u32 = 2;
/// How long the end of a process that is killed may take, in milliseconds.
const END: u32 = 2000;

/// A range of another process's memory, at `user` there, and a view of it in this one, at `kernel`.
struct Region {
    id: u32,
    user: usize,
    length: usize,
    kernel: usize,
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the view was mapped for this region, and no lock refers to it any more.
        unsafe { NtUnmapViewOfSection(GetCurrentProcess(), self.kernel as *const c_void) };
    }
}

/// The shared regions of a process. They stay for as long as it lives: the next lock of the same memory finds them.
struct Sharer {
    process: Arc<Process>,
    id: u32,
    regions: Vec<Arc<Region>>,
}

static SHARED: Mutex<Vec<Sharer>> = Mutex::new(Vec::new());

/// Locked memory; dropping it unlocks.
pub(crate) struct Locked {
    address: *mut u8,
    /// None: memory of this process.
    _region: Option<Arc<Region>>,
}

// SAFETY: plain memory, from whatever thread.
unsafe impl Send for Locked {}

impl Locked {
    /// Where the memory is in this process.
    pub(crate) fn address(&self) -> *mut u8 {
        self.address
    }

    /// Memory of this process itself; None if it is not accessible as asked.
    pub(crate) fn own(address: *mut u8, length: usize, write: bool) -> Option<Self> {
        // SAFETY: returns the pseudo handle of this process.
        let process = std::mem::ManuallyDrop::new(Process(unsafe { GetCurrentProcess() }));
        process.accessible(address as usize, length, write).then_some(Self { address, _region: None })
    }
}

fn within(region: &Region, id: u32, address: usize, length: usize) -> bool {
    region.id == id
        && address >= region.user
        && address - region.user <= region.length
        && length <= region.length - (address - region.user)
}

/// Locks `length` bytes at `address` of process `id`.
///
/// # Errors
/// STATUS_ACCESS_VIOLATION: they are not accessible as asked. STATUS_NOT_SUPPORTED: they are, and cannot be shared.
pub(crate) fn lock(id: u32, address: usize, length: usize, write: bool) -> Result<Locked, i32> {
    // One lock at a time, so that two of the same memory cannot both replace it.
    let mut sharers = report::lock(&SHARED);
    // Each question is a call of Wine's server: one for a process, which may have thousands of regions.
    let is_locked = |region: &Arc<Region>| Arc::strong_count(region) > 1;
    sharers.retain(|sharer| sharer.regions.iter().any(is_locked) || !sharer.process.has_ended());

    let process = Arc::new(Process::open(id).ok_or(status::ACCESS_VIOLATION)?);
    // One that has ended may have left its identifier to another.
    let sharer = sharers.iter_mut().find(|sharer| sharer.id == id && !sharer.process.has_ended());
    let regions = sharer.iter().flat_map(|sharer| &sharer.regions);
    let known = regions.filter(|region| within(region, id, address, length)).cloned().collect();
    let asked = Arc::clone(&process);
    let answer = answer::of(|| process.has_ended(), move || find(&asked, id, address, length, write, known));
    if answer.is_none() && !process.has_ended() {
        // SAFETY: a process handle; it may be suspended for ever.
        unsafe { NtResumeProcess(process.0) };
    }
    let Found { region, is_new } = answer.unwrap_or(Err(status::ACCESS_VIOLATION))?;
    if is_new {
        match sharer {
            Some(sharer) => sharer.regions.push(Arc::clone(&region)),
            None => sharers.push(Sharer { process, id, regions: vec![Arc::clone(&region)] }),
        }
    }
    let address = (region.kernel + (address - region.user)) as *mut u8;
    Ok(Locked { address, _region: Some(region) })
}

/// What a range is seen by.
struct Found {
    region: Arc<Region>,
    /// It is kept for the locks to come.
    is_new: bool,
}

/// Looks for it among the regions that are `known` to be shared, else makes one.
fn find(
    process: &Process,
    id: u32,
    address: usize,
    length: usize,
    write: bool,
    known: Vec<Arc<Region>>,
) -> Result<Found, i32> {
    if !process.accessible(address, length, write) {
        return Err(status::ACCESS_VIOLATION);
    }
    // Of a file there is any number of views: this one is as good as an earlier one.
    if let Some((user, length, kernel)) = mapped::once_more(process, address, length) {
        return Ok(Found { region: Arc::new(Region { id, user, length, kernel }), is_new: false });
    }
    if let Some(region) = known.into_iter().find(|region| still_shared(process, region)) {
        return Ok(Found { region, is_new: false });
    }
    if let Some(region) = share(process, id, address, length) {
        return Ok(Found { region: Arc::new(region), is_new: true });
    }
    // One that is killed meanwhile has no memory any more.
    if process.ends_within(END) {
        return Err(status::ACCESS_VIOLATION);
    }
    report::violation(&format!(
        "stand-in: {length} bytes at {address:#x} of process {id} cannot be shared with the driver, nor locked: they have to lie in \
         a heap or in one allocation of VirtualAlloc, not on a stack, in an image or in a part of a file"
    ));
    Err(status::NOT_SUPPORTED)
}

/// Whether the process still has the region's section at its place, and has not unmapped it and put something else there.
fn still_shared(process: &Process, region: &Region) -> bool {
    process
        .query(region.user)
        .is_some_and(|found| found.Type == MEM_MAPPED && found.AllocationBase as usize == region.user)
}

/// The allocation around a range, if it can be replaced. A heap is one, of which a part may only be reserved. Not a stack, whose guard
/// page tells the system to let it grow, and not code.
fn replaceable(process: &Process, address: usize, length: usize) -> Option<Allocation> {
    let can_be = |piece: &Piece| [RESERVED, PAGE_NOACCESS, PAGE_READONLY, PAGE_READWRITE].contains(&piece.protection);
    let allocation = process.allocation(address, MEM_PRIVATE)?;
    let is_whole = address - allocation.base + length <= allocation.size();
    (is_whole && allocation.pieces.iter().all(can_be)).then_some(allocation)
}

/// Replaces the allocation around a range by a view of a section, with the same content. The process is suspended meanwhile, so
/// that none of its threads sees the gap.
fn share(process: &Process, id: u32, address: usize, length: usize) -> Option<Region> {
    let size = replaceable(process, address, length)?.size();
    let (section, kernel) = create_section(size)?;
    // SAFETY: a process handle; resumed below on every path.
    let suspended = unsafe { NtSuspendProcess(process.0) } >= 0;
    let replaced = suspended.then(|| await_stop(process)).and_then(|()| {
        // Once more: until it had stopped, the process could commit, protect and free.
        let allocation = replaceable(process, address, length).filter(|found| found.size() == size)?;
        replace(process, section, &allocation, kernel).then_some(allocation.base)
    });
    if suspended {
        // SAFETY: suspended above.
        unsafe { NtResumeProcess(process.0) };
    }
    // SAFETY: the views keep the section alive; the handle is closed once.
    unsafe { CloseHandle(section) };
    if replaced.is_none() {
        // SAFETY: mapped above and not handed out.
        unsafe { NtUnmapViewOfSection(GetCurrentProcess(), kernel as *const c_void) };
    }
    Some(Region { id, user: replaced?, length: size, kernel })
}

/// A new section of `size` bytes and its address in this process.
fn create_section(size: usize) -> Option<(HANDLE, usize)> {
    let mut section: HANDLE = std::ptr::null_mut();
    let bytes = i64::try_from(size).ok()?;
    // SAFETY: all pointers are valid for the call; no attributes and no file.
    let created = unsafe {
        NtCreateSection(
            &mut section,
            SECTION_ALL_ACCESS,
            std::ptr::null(),
            &bytes,
            PAGE_READWRITE,
            SEC_COMMIT,
            std::ptr::null_mut(),
        )
    };
    if created < 0 {
        return None;
    }
    // SAFETY: returns the pseudo handle of this process.
    let own = unsafe { GetCurrentProcess() };
    let Some(kernel) = map(section, own, 0) else {
        // SAFETY: created above, closed once.
        unsafe { CloseHandle(section) };
        return None;
    };
    Some((section, kernel))
}

/// Maps all of `section` into a process, at `address` unless that is 0.
fn map(section: HANDLE, process: HANDLE, address: usize) -> Option<usize> {
    let mut base = address as *mut c_void;
    let mut size = 0;
    // SAFETY: the pointers are valid for the call; an offset of null means 0.
    let result = unsafe {
        NtMapViewOfSection(
            section,
            process,
            &mut base,
            0,
            0,
            std::ptr::null(),
            &mut size,
            VIEW_UNMAP,
            0,
            PAGE_READWRITE,
        )
    };
    (result >= 0).then_some(base as usize)
}

/// Frees the memory of a process that has stopped, and maps the section, seen at `kernel` here, in its place.
fn replace(process: &Process, section: HANDLE, allocation: &Allocation, kernel: usize) -> bool {
    let (user, size) = (allocation.base, allocation.size());
    let is_copied = |piece: &Piece| {
        let to = (kernel + (piece.address - user)) as *mut u8;
        piece.protection == RESERVED || process.read(piece.address, to, piece.length)
    };
    if !allocation.pieces.iter().all(is_copied) {
        return false;
    }
    let mut base = user as *mut c_void;
    let mut zero = 0;
    // SAFETY: frees a whole allocation of the other process, whose content has been read.
    if unsafe { NtFreeVirtualMemory(process.0, &mut base, &mut zero, MEM_RELEASE) } < 0 {
        return false;
    }
    if map(section, process.0, user) == Some(user)
        && allocation.pieces.iter().all(|piece| piece.protection == PAGE_READWRITE || protect(process, piece))
    {
        return true;
    }
    // One that is killed meanwhile takes no view, and misses nothing.
    if !process.ends_within(END) {
        report::violation(&format!("stand-in: {size} bytes of a process could not be shared and are lost"));
    }
    false
}

/// Gives a part of a view the protection that it had before. What is only reserved, which no part of a view is, faults as before, and can
/// be committed as before.
fn protect(process: &Process, piece: &Piece) -> bool {
    let (mut base, mut size, mut old) = (piece.address as *mut c_void, piece.length, 0);
    let protection = if piece.protection == RESERVED { PAGE_NOACCESS } else { piece.protection };
    // SAFETY: a part of a view that was just mapped there; the pointers are valid for the call.
    unsafe { NtProtectVirtualMemory(process.0, &mut base, &mut size, protection, &mut old) >= 0 }
}
