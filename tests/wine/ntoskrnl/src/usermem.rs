//! Memory of the requesting process, locked by the driver.
//!
//! On Windows a locked page is one page with two addresses. Here the driver lives in another process, so the region that holds the
//! pages is replaced, at the same address, by a view of a section that both processes map: writes on either side are seen at once
//! by the other. Locks that overlap find the same section. Of a file that the process has mapped, the driver gets a view of its own.
//! Memory that cannot be replaced (stacks, heaps, images) is copied when it is locked and, if locked for writing, copied back when it
//! is unlocked.

use std::{
    ffi::c_void,
    sync::{Arc, Mutex, Weak},
};

use windows_sys::Win32::{
    Foundation::{CloseHandle, HANDLE},
    System::{
        Memory::{MEM_MAPPED, MEM_PRIVATE, MEM_RELEASE, PAGE_READWRITE},
        Threading::GetCurrentProcess,
    },
};

use crate::{
    answer, mapped, report,
    user_process::{Process, await_stop},
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
    fn NtSuspendProcess(process: HANDLE) -> i32;
    fn NtResumeProcess(process: HANDLE) -> i32;
}

pub(crate) const PAGE_SIZE: usize = 0x1000;
const SECTION_ALL_ACCESS: u32 = 0xF_001F;
const SEC_COMMIT: u32 = 0x800_0000;
const VIEW_UNMAP: u32 = 2;
/// How long the end of a process that is killed may take, in milliseconds.
const END: u32 = 2000;

/// A range of another process's memory that is visible in this one, from `user` there at `kernel` here.
struct Region {
    process: Arc<Process>,
    id: u32,
    user: usize,
    length: usize,
    kernel: usize,
    kind: Kind,
}

enum Kind {
    /// A view of what the other process sees at `user`.
    Shared,
    /// A copy, written back at the end if it was locked for writing.
    Copied { layout: std::alloc::Layout, write: Mutex<bool> },
}

impl Drop for Region {
    fn drop(&mut self) {
        match &self.kind {
            // SAFETY: the view was mapped for this region, and no lock refers to it any more.
            Kind::Shared => unsafe {
                NtUnmapViewOfSection(GetCurrentProcess(), self.kernel as *const c_void);
            },
            Kind::Copied { layout, write } => {
                if *report::lock(write) {
                    self.process.write(self.user, self.kernel as *const u8, self.length);
                }
                // SAFETY: allocated with this layout for this region.
                unsafe { std::alloc::dealloc((self.kernel & !(PAGE_SIZE - 1)) as *mut u8, *layout) };
            }
        }
    }
}

/// The shared regions of a process. They stay for as long as it lives: the next lock of the same memory finds them.
struct Sharer {
    process: Arc<Process>,
    id: u32,
    regions: Vec<Arc<Region>>,
}

static SHARED: Mutex<Vec<Sharer>> = Mutex::new(Vec::new());
/// Copies live as long as a lock of them.
static COPIED: Mutex<Vec<Weak<Region>>> = Mutex::new(Vec::new());

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

/// Locks `length` bytes at `address` of process `id`; None if they are not accessible as asked.
pub(crate) fn lock(id: u32, address: usize, length: usize, write: bool) -> Option<Locked> {
    // One lock at a time, so that two of the same memory cannot both replace it.
    let mut sharers = report::lock(&SHARED);
    // Each question is a call of Wine's server: one for a process, which may have thousands of regions.
    let is_locked = |region: &Arc<Region>| Arc::strong_count(region) > 1;
    sharers.retain(|sharer| sharer.regions.iter().any(is_locked) || !sharer.process.has_ended());

    let process = Arc::new(Process::open(id)?);
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
    let Found { region, is_new } = answer??;
    if is_new {
        match sharer {
            Some(sharer) => sharer.regions.push(Arc::clone(&region)),
            None => sharers.push(Sharer { process, id, regions: vec![Arc::clone(&region)] }),
        }
    }
    let address = (region.kernel + (address - region.user)) as *mut u8;
    Some(Locked { address, _region: Some(region) })
}

/// What a range is seen by.
struct Found {
    region: Arc<Region>,
    /// It is kept for the locks to come.
    is_new: bool,
}

/// Looks for it among the regions that are `known` to be shared, else makes one.
fn find(
    process: &Arc<Process>,
    id: u32,
    address: usize,
    length: usize,
    write: bool,
    known: Vec<Arc<Region>>,
) -> Option<Found> {
    if !process.accessible(address, length, write) {
        return None;
    }
    // Of a file there is any number of views: this one is as good as an earlier one.
    if let Some((user, length, kernel)) = mapped::once_more(process, address, length) {
        let region = Region { process: Arc::clone(process), id, user, length, kernel, kind: Kind::Shared };
        return Some(Found { region: Arc::new(region), is_new: false });
    }
    if let Some(region) = known.into_iter().find(|region| still_shared(process, region)) {
        return Some(Found { region, is_new: false });
    }
    if let Some(region) = share(process, id, address, length) {
        return Some(Found { region: Arc::new(region), is_new: true });
    }
    copy(process, id, address, length, write).map(|region| Found { region, is_new: false })
}

/// Whether the process still has the region's section at its place, and has not unmapped it and put something else there.
fn still_shared(process: &Process, region: &Region) -> bool {
    process
        .query(region.user)
        .is_some_and(|found| found.Type == MEM_MAPPED && found.AllocationBase as usize == region.user)
}

/// Replaces the allocation around a range by a view of a section, with the same content. The process is suspended meanwhile, so
/// that none of its threads sees the gap.
fn share(process: &Arc<Process>, id: u32, address: usize, length: usize) -> Option<Region> {
    let (user, size) = process.allocation(address, MEM_PRIVATE)?;
    if address - user + length > size {
        return None;
    }
    let (section, kernel) = create_section(size)?;
    // SAFETY: a process handle; resumed below on every path.
    let suspended = unsafe { NtSuspendProcess(process.0) } >= 0;
    let replaced = suspended && {
        await_stop(process);
        process.read(user, kernel as *mut u8, size) && replace(process, section, user, size)
    };
    if suspended {
        // SAFETY: suspended above.
        unsafe { NtResumeProcess(process.0) };
    }
    // SAFETY: the views keep the section alive; the handle is closed once.
    unsafe { CloseHandle(section) };
    if !replaced {
        // SAFETY: mapped above and not handed out.
        unsafe { NtUnmapViewOfSection(GetCurrentProcess(), kernel as *const c_void) };
        return None;
    }
    Some(Region { process: Arc::clone(process), id, user, length: size, kernel, kind: Kind::Shared })
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

fn replace(process: &Process, section: HANDLE, user: usize, size: usize) -> bool {
    let mut base = user as *mut c_void;
    let mut zero = 0;
    // SAFETY: frees a whole allocation of the other process, whose content has been read.
    if unsafe { NtFreeVirtualMemory(process.0, &mut base, &mut zero, MEM_RELEASE) } < 0 {
        return false;
    }
    if map(section, process.0, user) == Some(user) {
        return true;
    }
    // One that is killed meanwhile takes no view, and misses nothing.
    if !process.ends_within(END) {
        report::violation(&format!("stand-in: {size} bytes of a process could not be shared and are lost"));
    }
    false
}

/// Copies a range, or finds a copy that has it.
fn copy(process: &Arc<Process>, id: u32, address: usize, length: usize, write: bool) -> Option<Arc<Region>> {
    let mut copied = report::lock(&COPIED);
    copied.retain(|region| region.strong_count() > 0);
    let existing = copied.iter().filter_map(Weak::upgrade).find(|region| within(region, id, address, length));
    if let Some(region) = existing {
        if let Kind::Copied { write: flag, .. } = &region.kind {
            *report::lock(flag) |= write;
        }
        return Some(region);
    }
    // Byte-exact: copying back whole pages would undo what the process wrote around the range meanwhile. The copy keeps the
    // offset in the page, which drivers may look at.
    let layout = std::alloc::Layout::from_size_align(address % PAGE_SIZE + length.max(1), PAGE_SIZE).ok()?;
    // SAFETY: the layout is not empty.
    let buffer = unsafe { std::alloc::alloc_zeroed(layout) };
    if buffer.is_null() {
        return None;
    }
    let kernel = buffer as usize + address % PAGE_SIZE;
    if !process.read(address, kernel as *mut u8, length) {
        // SAFETY: allocated above.
        unsafe { std::alloc::dealloc(buffer, layout) };
        return None;
    }
    let kind = Kind::Copied { layout, write: Mutex::new(write) };
    let region = Arc::new(Region { process: Arc::clone(process), id, user: address, length, kernel, kind });
    copied.push(Arc::downgrade(&region));
    Some(region)
}
