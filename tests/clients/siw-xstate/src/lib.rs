//! Preloaded (LD_PRELOAD) into the peer of `cargo xtask interop`, a user-mode Linux: it lets that start where the processor has AMX.
//!
//! A user-mode Linux of version 6.12 has 2,696 bytes for the registers of a program, which is all of them up to AVX-512 and the
//! protection keys. It asks its host for so many (PTRACE_GETREGSET) and gives so many back (PTRACE_SETREGSET). A host with AMX has 11,008 of
//! them, and takes all or none: EFAULT, and the peer's kernel panics. So [`ptrace`] is here once more, and puts zeros where the rest would
//! be. Nothing is lost: a header says which registers are in use, and no program uses those of AMX that has not asked the host for them.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![expect(unsafe_code, reason = "stands in for a function of C, and calls others")]

use std::arch::x86_64::__cpuid_count;
use std::ffi::{c_long, c_uint, c_void};
use std::mem::transmute;
use std::slice;
use std::sync::{Mutex, OnceLock};

use libc::{PTRACE_SETREGSET, RTLD_NEXT, dlsym, iovec, pid_t};

/// The set of registers that XSAVE writes: `linux/elf.h`.
const NT_X86_XSTATE: usize = 0x202;

/// For registers with zeros behind them. Not on the stack, which is one of 16 KiB in a user-mode Linux.
static REGISTERS: Mutex<[u8; 16 << 10]> = Mutex::new([0; 16 << 10]);

/// C has variable arguments there; on x64 those come as others do.
type Ptrace = unsafe extern "C" fn(c_uint, pid_t, *mut c_void, *mut c_void) -> c_long;

/// Does what the C library's does, but for registers that are too few for the kernel.
///
/// # Safety
/// As ptrace(2); the registers of PTRACE_SETREGSET are described by an iovec.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ptrace(request: c_uint, pid: pid_t, address: *mut c_void, data: *mut c_void) -> c_long {
    let Some(next) = next() else { return -1 };
    if request == PTRACE_SETREGSET && address.addr() == NT_X86_XSTATE {
        // SAFETY: the caller promises it; nobody else has it during the call.
        let given = unsafe { &*data.cast::<iovec>() };
        // SAFETY: what the caller describes by it is readable.
        let given = unsafe { slice::from_raw_parts(given.iov_base.cast::<u8>(), given.iov_len) };
        // Taken if a signal has interrupted this very function.
        if let Ok(mut buffer) = REGISTERS.try_lock()
            && let Some(padded) = padded(given, registers_size(), &mut *buffer)
        {
            let mut padded = iovec { iov_base: padded.as_mut_ptr().cast(), iov_len: padded.len() };
            // SAFETY: the same request, with registers that live in the buffer, which is locked.
            return unsafe { next(request, pid, address, (&raw mut padded).cast()) };
        }
    }
    // SAFETY: the caller's own request.
    unsafe { next(request, pid, address, data) }
}

/// The C library's function.
fn next() -> Option<Ptrace> {
    static NEXT: OnceLock<Option<Ptrace>> = OnceLock::new();
    *NEXT.get_or_init(|| {
        // SAFETY: the name is a string of C.
        let found = unsafe { dlsym(RTLD_NEXT, c"ptrace".as_ptr()) };
        // SAFETY: null, or the address of a function that is called like that.
        unsafe { transmute::<*mut c_void, Option<Ptrace>>(found) }
    })
}

/// How many bytes the host takes: the registers of all that it has turned on. Leaf 0xD, sub-leaf 0 of CPUID has it in EBX (Intel's
/// manual, volume 1, 13.2).
fn registers_size() -> usize {
    #[allow(unused_unsafe, reason = "a safe function in newer compilers")]
    // SAFETY: each processor that runs x64 has CPUID.
    let leaf = unsafe { __cpuid_count(0xd, 0) };
    leaf.ebx as usize
}

/// `given` with as many zeros behind it as `size` asks for; none if they need none, or do not fit.
fn padded<'a>(given: &[u8], size: usize, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
    if given.len() >= size {
        return None;
    }
    let padded = buffer.get_mut(..size)?;
    let (registers, rest) = padded.split_at_mut_checked(given.len())?;
    registers.copy_from_slice(given);
    rest.fill(0);
    Some(padded)
}

#[cfg(test)]
mod tests;
