//! Which process the calling thread works for.

use std::{cell::RefCell, collections::BTreeSet, ffi::c_void, sync::Mutex};

use windows_sys::Win32::{
    Foundation::CloseHandle,
    System::Threading::{
        GetCurrentProcessId, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, QueryFullProcessImageNameW,
    },
};

use crate::{
    base,
    irql::{self, APC_LEVEL, DISPATCH_LEVEL, PASSIVE_LEVEL},
    report::{lock, object, violation},
};

base::wine! {
    fn IoGetCurrentProcess() -> *mut c_void;
    fn PsGetCurrentProcessId() -> usize;
    fn PsGetProcessId(process: *mut c_void) -> usize;
}

thread_local! {
    /// Processes this thread is attached to, the latest last.
    static ATTACHED: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// The current process: the one attached to; else, in a dispatch routine, the requestor; else the system's, which is this one.
pub(crate) fn current() -> *mut c_void {
    match ATTACHED.with_borrow(|stack| stack.last().copied()) {
        Some(process) => process as *mut c_void,
        // SAFETY: no preconditions.
        None => unsafe { IoGetCurrentProcess() },
    }
}

pub(crate) fn current_id() -> u32 {
    let id = match ATTACHED.with_borrow(|stack| stack.last().copied()) {
        // SAFETY: an attached process is a valid process object.
        Some(process) => unsafe { PsGetProcessId(process as *mut c_void) },
        // SAFETY: no preconditions.
        None => unsafe { PsGetCurrentProcessId() },
    };
    id as u32
}

/// Whether the current process is the one the driver runs in.
pub(crate) fn current_is_own() -> bool {
    // SAFETY: no preconditions.
    current_id() == unsafe { GetCurrentProcessId() }
}

mod export {
    use super::*;

    /// wdm/nf-wdm-iogetcurrentprocess: any IRQL. Also `PsGetCurrentProcess`, which is a macro for it.
    #[unsafe(no_mangle)]
    extern "system" fn IoGetCurrentProcess() -> *mut c_void {
        current()
    }

    /// ntddk/nf-ntddk-psgetcurrentprocessid: any IRQL.
    #[unsafe(no_mangle)]
    extern "system" fn PsGetCurrentProcessId() -> usize {
        current_id() as usize
    }
}

/// ntifs/nf-ntifs-kestackattachprocess: at most APC_LEVEL, no locks held; `state` is a KAPC_STATE (0x30 bytes).
#[unsafe(no_mangle)]
unsafe extern "system" fn KeStackAttachProcess(process: *mut c_void, state: *mut usize) {
    irql::at_most(APC_LEVEL, "KeStackAttachProcess");
    let depth = ATTACHED.with_borrow_mut(|stack| {
        stack.push(process as usize);
        stack.len()
    });
    // SAFETY: the caller gives a KAPC_STATE.
    unsafe { state.write(depth) };
}

/// ntifs/nf-ntifs-keunstackdetachprocess: at most APC_LEVEL, on the thread that attached, in reverse order.
#[unsafe(no_mangle)]
unsafe extern "system" fn KeUnstackDetachProcess(state: *const usize) {
    irql::at_most(APC_LEVEL, "KeUnstackDetachProcess");
    // SAFETY: the caller gives the KAPC_STATE of the attachment.
    let depth = unsafe { state.read() };
    let matches = ATTACHED.with_borrow_mut(|stack| stack.len() == depth && stack.pop().is_some());
    if !matches {
        violation("KeUnstackDetachProcess: not the latest attachment of this thread");
    }
}

/// ntifs/nf-ntifs-iogetrequestorprocessid: at most DISPATCH_LEVEL; 0 if the IRP has no thread.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoGetRequestorProcessId(irp: *mut c_void) -> u32 {
    base::wine! {
        fn IoGetRequestorProcess(irp: *mut c_void) -> *mut c_void;
    }
    irql::at_most(DISPATCH_LEVEL, "IoGetRequestorProcessId");
    // SAFETY: the caller gives an IRP.
    let process = unsafe { IoGetRequestorProcess(irp) };
    if process.is_null() {
        return 0;
    }
    // SAFETY: a process object that the IRP keeps alive.
    unsafe { PsGetProcessId(process) as u32 }
}

/// ntddk/nf-ntddk-iois32bitprocess: at most DISPATCH_LEVEL. Without an IRP it is about the current process. Wine's 64-bit build runs
/// no 32-bit programs: one counts as such if the name of its file ends in `32.exe`.
#[unsafe(no_mangle)]
unsafe extern "system" fn IoIs32bitProcess(irp: *mut c_void) -> u8 {
    irql::at_most(DISPATCH_LEVEL, "IoIs32bitProcess");
    // SAFETY: the caller gives an IRP, or null.
    let id = if irp.is_null() { current_id() } else { unsafe { IoGetRequestorProcessId(irp) } };
    image_name(id).is_some_and(|name| name.to_ascii_lowercase().ends_with("32.exe")).into()
}

/// The path of the program that a process runs.
fn image_name(id: u32) -> Option<String> {
    // SAFETY: no pointers involved.
    let process = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, id) };
    if process.is_null() {
        return None;
    }
    let mut name = [0; 1024];
    let mut length = name.len() as u32;
    // SAFETY: an open process; as many characters as it is told, and both outlive the call.
    let found = unsafe { QueryFullProcessImageNameW(process, 0, name.as_mut_ptr(), &mut length) } != 0;
    // SAFETY: opened above, closed once.
    unsafe { CloseHandle(process) };
    found.then(|| String::from_utf16_lossy(&name[..length as usize]))
}

/// Routines that want to know of processes, by address.
static NOTIFY_ROUTINES: Mutex<BTreeSet<usize>> = Mutex::new(BTreeSet::new());

/// ntddk/nf-ntddk-pssetcreateprocessnotifyroutine: PASSIVE_LEVEL. Recorded only, so that one left behind shows: no process of Wine
/// that begins or ends is known here.
#[unsafe(no_mangle)]
extern "system" fn PsSetCreateProcessNotifyRoutine(routine: usize, remove: u8) -> i32 {
    const STATUS_INVALID_PARAMETER: i32 = 0xC000_000D_u32.cast_signed();
    const STATUS_PROCEDURE_NOT_FOUND: i32 = 0xC000_007A_u32.cast_signed();
    irql::at_most(PASSIVE_LEVEL, "PsSetCreateProcessNotifyRoutine");
    let mut routines = lock(&NOTIFY_ROUTINES);
    let (changed, delta, otherwise) = match remove {
        0 => (routines.insert(routine), 1, STATUS_INVALID_PARAMETER),
        _ => (routines.remove(&routine), -1, STATUS_PROCEDURE_NOT_FOUND),
    };
    if !changed {
        violation("PsSetCreateProcessNotifyRoutine: registered already, or not at all");
        return otherwise;
    }
    object("process notify routine", delta);
    0
}
