//! Emulation of `mov` from and to CR8: drivers read and write the IRQL with inline code, which faults in a user process.

use windows_sys::Win32::System::Diagnostics::Debug::{AddVectoredExceptionHandler, CONTEXT, EXCEPTION_POINTERS};

use crate::irql;

const STATUS_PRIVILEGED_INSTRUCTION: i32 = 0xC000_0096_u32 as i32;
const EXCEPTION_CONTINUE_EXECUTION: i32 = -1;
const EXCEPTION_CONTINUE_SEARCH: i32 = 0;

/// Puts the handler in front of all others.
pub(crate) fn install() {
    // SAFETY: `handler` has the prototype asked for and lives as long as this module, which is never unloaded.
    unsafe { AddVectoredExceptionHandler(1, Some(handler)) };
}

/// A decoded `mov r64, cr8` (read) or `mov cr8, r64` (write).
struct Cr8Move {
    write: bool,
    register: u8,
    length: u64,
}

/// Decodes the instruction at `code`: REX prefix with R (CR8 needs it) and perhaps B, then 0F 20 (read) or 0F 22 (write), then a
/// ModRM byte with the control register in `reg` and the general one in `rm` (Intel SDM volume 2, MOV to/from control registers).
fn decode(code: [u8; 4]) -> Option<Cr8Move> {
    let [rex, 0x0F, opcode, modrm] = code else { return None };
    if rex & 0xF4 != 0x44 || (modrm >> 3) & 7 != 0 {
        return None;
    }
    let write = match opcode {
        0x20 => false,
        0x22 => true,
        _ => return None,
    };
    Some(Cr8Move { write, register: (modrm & 7) | ((rex & 1) << 3), length: 4 })
}

fn register(context: &mut CONTEXT, number: u8) -> &mut u64 {
    match number {
        0 => &mut context.Rax,
        1 => &mut context.Rcx,
        2 => &mut context.Rdx,
        3 => &mut context.Rbx,
        4 => &mut context.Rsp,
        5 => &mut context.Rbp,
        6 => &mut context.Rsi,
        7 => &mut context.Rdi,
        8 => &mut context.R8,
        9 => &mut context.R9,
        10 => &mut context.R10,
        11 => &mut context.R11,
        12 => &mut context.R12,
        13 => &mut context.R13,
        14 => &mut context.R14,
        _ => &mut context.R15,
    }
}

unsafe extern "system" fn handler(exception: *mut EXCEPTION_POINTERS) -> i32 {
    // SAFETY: the system passes a valid exception record and context for the duration of the call.
    let (record, context) = unsafe { (&*(*exception).ExceptionRecord, &mut *(*exception).ContextRecord) };
    if record.ExceptionCode != STATUS_PRIVILEGED_INSTRUCTION {
        return EXCEPTION_CONTINUE_SEARCH;
    }
    // SAFETY: the faulting instruction was fetched from there. The move is four bytes; a shorter privileged instruction at the very
    // end of a mapping cannot occur in a module, whose code section is padded to a page.
    let code = unsafe { (context.Rip as *const [u8; 4]).read() };
    let Some(found) = decode(code) else { return EXCEPTION_CONTINUE_SEARCH };
    let value = register(context, found.register);
    if found.write {
        let level = *value as u8;
        if level < irql::current() {
            irql::lower(level);
        } else {
            irql::raise(level);
        }
    } else {
        *value = irql::current().into();
    }
    context.Rip += found.length;
    EXCEPTION_CONTINUE_EXECUTION
}
