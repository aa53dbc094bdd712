//! User memory, locked and written to from a thread of the driver's.

use core::{
    ffi::c_void,
    sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering},
};

use ndk_abi::wdm::MDL;

use crate::{imports, protocol::Memory};

pub(crate) const SLOTS: usize = 4;

/// A locked range, and the thread that counts in it.
struct Slot {
    mdl: AtomicPtr<MDL>,
    address: AtomicPtr<u64>,
    stop: AtomicBool,
    running: AtomicU32,
}

static TABLE: [Slot; SLOTS] = [const {
    Slot {
        mdl: AtomicPtr::new(core::ptr::null_mut()),
        address: AtomicPtr::new(core::ptr::null_mut()),
        stop: AtomicBool::new(false),
        running: AtomicU32::new(0),
    }
}; SLOTS];

// MmProbeAndLockPages raises an exception, and Rust has no handler for one: this calls it with one, as a C driver's __try would.
// The table's fields are begin, end, filter (1: handle all), target; on arrival at the target rax has the exception's code.
core::arch::global_asm!(
    ".globl selftest_probe_and_lock",
    ".seh_proc selftest_probe_and_lock",
    "selftest_probe_and_lock:",
    "sub rsp, 40",
    ".seh_stackalloc 40",
    ".seh_endprologue",
    ".Lselftest_begin:",
    "call {probe}",
    "nop",
    ".Lselftest_end:",
    "xor eax, eax",
    ".Lselftest_out:",
    "add rsp, 40",
    "ret",
    ".Lselftest_caught:",
    "jmp .Lselftest_out",
    ".seh_handler __C_specific_handler, @except",
    ".seh_handlerdata",
    ".long 1",
    ".rva .Lselftest_begin",
    ".rva .Lselftest_end",
    ".long 1",
    ".rva .Lselftest_caught",
    ".text",
    ".seh_endproc",
    probe = sym probe,
);

unsafe extern "system" fn probe(mdl: *mut MDL, mode: i8, operation: i32) {
    // SAFETY: passed on to the caller.
    unsafe { imports::MmProbeAndLockPages(mdl, mode, operation) };
}

unsafe extern "system" {
    /// MmProbeAndLockPages; the exception's code, or 0.
    fn selftest_probe_and_lock(mdl: *mut MDL, mode: i8, operation: i32) -> i32;
}

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn __C_specific_handler();
}

/// Keeps the import, which only the unwind data names.
#[used]
static HANDLER: unsafe extern "system" fn() = __C_specific_handler;

unsafe extern "system" fn count(context: *mut c_void) {
    // SAFETY: the slot is in a static table.
    let slot = unsafe { &*context.cast::<Slot>() };
    let word = slot.address.load(Ordering::Relaxed);
    while !slot.stop.load(Ordering::Acquire) {
        // SAFETY: the memory stays locked until this thread has stopped.
        unsafe { word.write_volatile(word.read_volatile().wrapping_add(1)) };
        crate::checks::sleep(1);
    }
    slot.running.store(0, Ordering::Release);
}

/// Locks memory of the requestor and starts to count in it; the value found, or a status.
///
/// # Safety
/// Called in the requestor's context.
pub(crate) unsafe fn lock(memory: Memory) -> Result<u64, i32> {
    const USER_MODE: i8 = 1;
    const IO_WRITE_ACCESS: i32 = 1;
    const INVALID_PARAMETER: i32 = 0xC000_000D_u32.cast_signed();
    let slot = TABLE.get(memory.slot as usize).ok_or(INVALID_PARAMETER)?;
    // SAFETY: documented calls; what fails is undone.
    unsafe {
        let mdl = imports::IoAllocateMdl(memory.address as *mut c_void, memory.length, 0, 0, core::ptr::null_mut());
        if mdl.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let code = selftest_probe_and_lock(mdl, USER_MODE, IO_WRITE_ACCESS);
        if code != 0 {
            imports::IoFreeMdl(mdl);
            return Err(code);
        }
        let address = imports::MmMapLockedPagesSpecifyCache(mdl, 0, 1, core::ptr::null_mut(), 0, 16).cast::<u64>();
        let found = address.read_volatile();
        slot.mdl.store(mdl, Ordering::Relaxed);
        slot.address.store(address, Ordering::Relaxed);
        slot.stop.store(false, Ordering::Relaxed);
        slot.running.store(1, Ordering::Relaxed);
        let mut thread = 0;
        let context = (&raw const *slot).cast_mut().cast();
        imports::PsCreateSystemThread(
            &mut thread,
            0x1F_FFFF,
            core::ptr::null(),
            0,
            core::ptr::null_mut(),
            count,
            context,
        );
        imports::ZwClose(thread);
        Ok(found)
    }
}

/// Stops counting and unlocks; nothing if the slot is free.
pub(crate) fn unlock(index: usize) {
    let Some(slot) = TABLE.get(index) else { return };
    let mdl = slot.mdl.swap(core::ptr::null_mut(), Ordering::AcqRel);
    if mdl.is_null() {
        return;
    }
    slot.stop.store(true, Ordering::Release);
    while slot.running.load(Ordering::Acquire) != 0 {
        crate::checks::sleep(1);
    }
    // SAFETY: locked by `lock`, and no longer used.
    unsafe {
        imports::MmUnlockPages(mdl);
        imports::IoFreeMdl(mdl);
    }
}
