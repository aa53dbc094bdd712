//! The language handler behind `__try` and `__except`.
//!
//! Wine 8's does not pass the exception's code to the `__except` block, where compilers expect it in rax: a driver that returns it
//! as status would see success.

use std::ffi::c_void;

use windows_sys::Win32::System::Diagnostics::Debug::{CONTEXT, EXCEPTION_POINTERS, EXCEPTION_RECORD};

/// `DISPATCHER_CONTEXT` of x64 (winnt.h).
#[repr(C)]
struct DispatcherContext {
    control_pc: usize,
    image_base: usize,
    function_entry: *const c_void,
    establisher_frame: usize,
    target_ip: usize,
    context: *mut CONTEXT,
    language_handler: *const c_void,
    handler_data: *const ScopeTable,
    history_table: *mut c_void,
    scope_index: u32,
    fill: u32,
}

/// `SCOPE_TABLE` of x64: this header, then the records.
#[repr(C)]
struct ScopeTable {
    count: u32,
}

/// One guarded range; addresses are relative to the image.
#[repr(C)]
#[derive(Clone, Copy)]
struct Scope {
    begin: u32,
    end: u32,
    /// A filter, or `EXECUTE_HANDLER`; of a range with `__finally` the termination handler.
    handler: u32,
    /// The `__except` block; 0 for `__finally`.
    target: u32,
}

const EXECUTE_HANDLER: u32 = 1;
const EXCEPTION_UNWIND: u32 = 0x66;
const CONTINUE_EXECUTION: i32 = 0;
const CONTINUE_SEARCH: i32 = 1;

#[link(name = "ntdll.dll", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn RtlUnwindEx(
        frame: usize,
        target: usize,
        record: *mut EXCEPTION_RECORD,
        value: usize,
        context: *mut CONTEXT,
        history: *mut c_void,
    );
}

/// Documented in the x64 exception handling pages of Visual C++ (`__C_specific_handler`).
#[unsafe(no_mangle)]
unsafe extern "system" fn __C_specific_handler(
    record: *mut EXCEPTION_RECORD,
    frame: usize,
    context: *mut CONTEXT,
    dispatcher: *mut DispatcherContext,
) -> i32 {
    // SAFETY: the system calls this with valid structures, and the compiler has made the scope table.
    let (record_ref, dispatcher) = unsafe { (&*record, &mut *dispatcher) };
    let base = dispatcher.image_base;
    let at = (dispatcher.control_pc - base) as u32;
    let unwinding = record_ref.ExceptionFlags & EXCEPTION_UNWIND != 0;
    // SAFETY: as above.
    let count = unsafe { (*dispatcher.handler_data).count };
    let first = if unwinding { dispatcher.scope_index } else { 0 };
    for index in first..count {
        // SAFETY: the records follow the count.
        let scope = unsafe { *dispatcher.handler_data.add(1).cast::<Scope>().add(index as usize) };
        if !(scope.begin..scope.end).contains(&at) {
            continue;
        }
        if unwinding {
            if scope.target == 0 {
                dispatcher.scope_index = index + 1;
                // SAFETY: a termination handler has this prototype.
                let finally = unsafe {
                    std::mem::transmute::<usize, unsafe extern "system" fn(u8, usize)>(base + scope.handler as usize)
                };
                // SAFETY: abnormal termination of the range, in its function's frame.
                unsafe { finally(1, frame) };
            }
            continue;
        }
        if scope.target == 0 {
            continue;
        }
        if scope.handler != EXECUTE_HANDLER {
            type Filter = unsafe extern "system" fn(*mut EXCEPTION_POINTERS, usize) -> i32;
            // SAFETY: a filter has this prototype.
            let filter = unsafe { std::mem::transmute::<usize, Filter>(base + scope.handler as usize) };
            let mut pointers = EXCEPTION_POINTERS { ExceptionRecord: record, ContextRecord: context };
            // SAFETY: the exception's own structures, in its function's frame.
            match unsafe { filter(&mut pointers, frame) } {
                ..0 => return CONTINUE_EXECUTION,
                0 => continue,
                1.. => {}
            }
        }
        let code = record_ref.ExceptionCode.cast_unsigned() as usize;
        let target = base + scope.target as usize;
        // SAFETY: unwinds to this frame and goes on at the `__except` block, with the code in rax.
        unsafe { RtlUnwindEx(frame, target, record, code, dispatcher.context, dispatcher.history_table) };
    }
    CONTINUE_SEARCH
}
