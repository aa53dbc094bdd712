//! Another process: what it is asked about its memory, and how it is stopped.

use std::ffi::c_void;

use windows_sys::Win32::{
    Foundation::{CloseHandle, HANDLE},
    System::{
        Diagnostics::Debug::{CONTEXT, CONTEXT_CONTROL_AMD64},
        Memory::{
            MEM_COMMIT, MEM_FREE, MEMORY_BASIC_INFORMATION, PAGE_EXECUTE_READWRITE, PAGE_EXECUTE_WRITECOPY, PAGE_GUARD,
            PAGE_NOACCESS, PAGE_READWRITE, PAGE_WRITECOPY, VirtualQueryEx,
        },
        Threading::{OpenProcess, PROCESS_ALL_ACCESS, THREAD_GET_CONTEXT, WaitForSingleObject},
    },
};

#[link(name = "ntdll.dll", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn NtReadVirtualMemory(process: HANDLE, from: *const c_void, to: *mut c_void, size: usize, done: *mut usize)
    -> i32;
    fn NtGetNextThread(
        process: HANDLE,
        before: HANDLE,
        access: u32,
        attributes: u32,
        flags: u32,
        thread: *mut HANDLE,
    ) -> i32;
    fn NtGetContextThread(thread: HANDLE, context: *mut CONTEXT) -> i32;
}

/// What Wine says of a thread that has not stopped after 100 ms, STATUS_ACCESS_DENIED; and how often that is asked.
const STILL_RUNNING: i32 = 0xC000_0022_u32.cast_signed();
const STOPS: usize = 100;

/// Another process, open for the lifetime of this value. What it is asked is asked by [`crate::answer::of`].
pub(crate) struct Process(pub(crate) HANDLE);

// SAFETY: a process handle may be used on any thread.
unsafe impl Send for Process {}
// SAFETY: as above.
unsafe impl Sync for Process {}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and closed once.
        unsafe { CloseHandle(self.0) };
    }
}

impl Process {
    pub(crate) fn open(id: u32) -> Option<Self> {
        // SAFETY: no pointers involved.
        let handle = unsafe { OpenProcess(PROCESS_ALL_ACCESS, 0, id) };
        (!handle.is_null()).then_some(Self(handle))
    }

    pub(crate) fn query(&self, address: usize) -> Option<MEMORY_BASIC_INFORMATION> {
        let mut information = MEMORY_BASIC_INFORMATION::default();
        let size = size_of_val(&information);
        // SAFETY: the structure is writable and of the size given; the address is only looked up.
        let got = unsafe { VirtualQueryEx(self.0, address as *const c_void, &mut information, size) };
        (got == size).then_some(information)
    }

    /// Whether all of a range is committed and readable, and writable if `write`.
    pub(crate) fn accessible(&self, address: usize, length: usize, write: bool) -> bool {
        let Some(end) = address.checked_add(length) else { return false };
        let mut next = address;
        while next < end {
            let Some(region) = self.query(next) else { return false };
            let writable = PAGE_READWRITE | PAGE_WRITECOPY | PAGE_EXECUTE_READWRITE | PAGE_EXECUTE_WRITECOPY;
            let allowed = region.State == MEM_COMMIT
                && region.Protect & (PAGE_NOACCESS | PAGE_GUARD) == 0
                && (!write || region.Protect & writable != 0);
            if !allowed {
                return false;
            }
            next = region.BaseAddress as usize + region.RegionSize;
        }
        true
    }

    /// The allocation around `address`, if all of it is of that kind.
    pub(crate) fn allocation(&self, address: usize, kind: u32) -> Option<Allocation> {
        let base = self.query(address)?.AllocationBase as usize;
        let mut allocation = Allocation { base, pieces: vec![] };
        loop {
            let region = self.query(base + allocation.size())?;
            if region.State == MEM_FREE || region.AllocationBase as usize != base {
                break;
            }
            if region.Type != kind {
                return None;
            }
            let protection = if region.State == MEM_COMMIT { region.Protect } else { RESERVED };
            let address = region.BaseAddress as usize;
            allocation.pieces.push(Piece { address, length: region.RegionSize, protection });
        }
        (!allocation.pieces.is_empty()).then_some(allocation)
    }

    pub(crate) fn read(&self, from: usize, to: *mut u8, length: usize) -> bool {
        let mut done = 0;
        // SAFETY: `to` has room for `length` bytes; the source is checked by the system.
        let result = unsafe { NtReadVirtualMemory(self.0, from as *const c_void, to.cast(), length, &mut done) };
        result >= 0 && done == length
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ends_within(0)
    }

    /// Whether it has ended, or does so in the next milliseconds.
    pub(crate) fn ends_within(&self, milliseconds: u32) -> bool {
        // SAFETY: a process handle can be waited for.
        unsafe { WaitForSingleObject(self.0, milliseconds) == 0 }
    }
}

/// What was allocated, or mapped, at once.
pub(crate) struct Allocation {
    pub(crate) base: usize,
    /// One behind the other.
    pub(crate) pieces: Vec<Piece>,
}

/// A part of an allocation whose pages are alike.
pub(crate) struct Piece {
    pub(crate) address: usize,
    pub(crate) length: usize,
    /// PAGE_*, or [`RESERVED`].
    pub(crate) protection: u32,
}

/// The protection of what has not been committed.
pub(crate) const RESERVED: u32 = 0;

impl Allocation {
    pub(crate) fn size(&self) -> usize {
        self.pieces.iter().map(|piece| piece.length).sum()
    }
}

/// Waits until the threads of a suspended process have stopped. Wine asks them to by a signal, and does not wait: one that is about to
/// allocate does so first, and may get the gap.
pub(crate) fn await_stop(process: &Process) {
    let mut thread = std::ptr::null_mut();
    loop {
        let mut next = std::ptr::null_mut();
        // SAFETY: open handles, or null for the first; the pointer is valid for the call.
        let found = unsafe { NtGetNextThread(process.0, thread, THREAD_GET_CONTEXT, 0, 0, &mut next) } >= 0;
        if !thread.is_null() {
            // SAFETY: opened by the call before, closed once.
            unsafe { CloseHandle(thread) };
        }
        if !found {
            return;
        }
        thread = next;
        // A thread has a context when it has stopped. Wine waits 100 ms for it.
        let mut context = CONTEXT { ContextFlags: CONTEXT_CONTROL_AMD64, ..CONTEXT::default() };
        // SAFETY: an open handle, and a context of this machine.
        let is_running = || unsafe { NtGetContextThread(thread, &mut context) } == STILL_RUNNING;
        let _one_that_ends_allocates_nothing = std::iter::repeat_with(is_running).take(STOPS).all(|running| running);
    }
}
