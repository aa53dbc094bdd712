//! What takes the place of a blue screen when a driver faults: where it happened, and the end of the process.

use windows_sys::Win32::System::{
    Diagnostics::Debug::{
        EXCEPTION_POINTERS, RtlLookupFunctionEntry, RtlVirtualUnwind, SetUnhandledExceptionFilter, UNW_FLAG_NHANDLER,
    },
    Threading::{GetCurrentProcess, TerminateProcess},
};

use crate::{base::Place, report};

/// Frames to print.
const DEPTH: usize = 24;

/// Has unhandled exceptions of any thread reported.
pub(crate) fn install() {
    // SAFETY: `unhandled` has the prototype asked for and lives as long as this module, which is never unloaded.
    unsafe { SetUnhandledExceptionFilter(Some(unhandled)) };
}

unsafe extern "system" fn unhandled(exception: *const EXCEPTION_POINTERS) -> i32 {
    // SAFETY: the system passes a valid record and context.
    let (record, mut context) = unsafe { (&*(*exception).ExceptionRecord, *(*exception).ContextRecord) };
    let [access, address, ..] = record.ExceptionInformation;
    let code = record.ExceptionCode;
    report::emit(&format!("violation: unhandled exception {code:#010x} (access {access}, address {address:#x})"));
    for _ in 0..DEPTH {
        if context.Rip == 0 {
            break;
        }
        report::emit(&format!("  at {}", Place(context.Rip as usize)));
        let mut image = 0;
        // SAFETY: any address may be looked up; no history table.
        let function = unsafe { RtlLookupFunctionEntry(context.Rip, &mut image, std::ptr::null_mut()) };
        if function.is_null() {
            break; // A leaf without unwind data, or code of nobody.
        }
        let (mut data, mut frame) = (std::ptr::null_mut(), 0);
        // SAFETY: the entry is that of the instruction pointer; the context is a copy. The stack is that of this thread.
        unsafe {
            RtlVirtualUnwind(
                UNW_FLAG_NHANDLER,
                image,
                context.Rip,
                function,
                &mut context,
                &mut data,
                &mut frame,
                std::ptr::null_mut(),
            );
        }
    }
    report::emit("irql violations 1");
    // SAFETY: ends this process; whatever locks its threads hold no longer matter.
    unsafe { TerminateProcess(GetCurrentProcess(), code.cast_unsigned()) };
    0
}
