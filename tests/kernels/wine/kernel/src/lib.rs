//! What the ndis and wdfldr stand-ins use of the ntoskrnl stand-in: its report, its IRQL, kernel types and functions.

use std::ffi::{CString, c_char, c_void};

use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW,
};
pub use windows_sys::{
    Wdk::Foundation::{DEVICE_OBJECT, DRIVER_OBJECT, FILE_OBJECT, IO_STACK_LOCATION, IRP},
    Win32::Foundation::UNICODE_STRING,
};

pub mod linux;
pub mod ntoskrnl;
pub mod workers;

/// NTSTATUS values that the stand-ins use.
#[expect(missing_docs, reason = "names of the documentation")]
pub mod status {
    pub const SUCCESS: i32 = 0;
    pub const PENDING: i32 = 0x103;
    pub const INFO_LENGTH_MISMATCH: i32 = 0xC000_0004_u32.cast_signed();
    pub const INVALID_PARAMETER: i32 = 0xC000_000D_u32.cast_signed();
    pub const INVALID_DEVICE_REQUEST: i32 = 0xC000_0010_u32.cast_signed();
    pub const ACCESS_DENIED: i32 = 0xC000_0022_u32.cast_signed();
    pub const NOT_IMPLEMENTED: i32 = 0xC000_0002_u32.cast_signed();
    pub const INSUFFICIENT_RESOURCES: i32 = 0xC000_009A_u32.cast_signed();
    pub const NOT_SUPPORTED: i32 = 0xC000_00BB_u32.cast_signed();
    pub const INVALID_DEVICE_STATE: i32 = 0xC000_0184_u32.cast_signed();
    pub const DELETE_PENDING: i32 = 0xC000_0056_u32.cast_signed();
}

/// Threads run here.
pub const PASSIVE_LEVEL: u8 = 0;
/// Asynchronous procedure calls are blocked.
pub const APC_LEVEL: u8 = 1;
/// Spin locks and DPCs run here.
pub const DISPATCH_LEVEL: u8 = 2;

fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "?")).unwrap_or_default()
}

/// Records a broken rule in the report of the run.
pub fn violation(text: &str) {
    // SAFETY: a NUL-terminated string that lives for the call.
    unsafe { ntoskrnl::SoftNdkStandInViolation(c_string(text).as_ptr()) };
}

/// Adds `delta` to the number of live objects of one kind.
pub fn object(kind: &str, delta: i32) {
    // SAFETY: a NUL-terminated string that lives for the call.
    unsafe { ntoskrnl::SoftNdkStandInObject(c_string(kind).as_ptr(), delta) };
}

/// Prints a line on the debug channel.
pub fn trace(text: &str) {
    // SAFETY: the format consumes exactly one NUL-terminated string.
    unsafe { ntoskrnl::DbgPrint(c"%s\n".as_ptr(), c_string(text).as_ptr()) };
}

/// Keeps the module of the caller's crate in memory for as long as the process lives. A stand-in goes with the last driver that
/// imports it, but threads of its own are still waiting in it then.
pub fn pin() {
    let mut module = std::ptr::null_mut();
    let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
    // SAFETY: with FROM_ADDRESS the second parameter is any address in the module: this function is linked into it.
    unsafe { GetModuleHandleExW(flags, (pin as *const ()).cast(), &mut module) };
}

/// The calling thread's IRQL.
#[must_use]
pub fn irql() -> u8 {
    // SAFETY: no preconditions.
    unsafe { ntoskrnl::KeGetCurrentIrql() }
}

/// How many spin locks the calling thread has taken so far.
#[must_use]
pub fn spin_locks_taken() -> u64 {
    // SAFETY: no preconditions.
    unsafe { ntoskrnl::SoftNdkStandInSpinLocksTaken() }
}

fn in_critical_region() -> bool {
    // SAFETY: no preconditions.
    unsafe { ntoskrnl::KeAreApcsDisabled() != 0 }
}

/// Reports a call of `function` above its documented maximum IRQL.
pub fn at_most(maximum: u8, function: &str) {
    if irql() > maximum {
        violation(&format!("{function} called above IRQL {maximum}"));
    }
}

/// Runs `callback` of the driver and reports it if it returns at another IRQL than it was called at, or in a critical region
/// that it entered.
pub fn balanced<T>(what: &str, callback: impl FnOnce() -> T) -> T {
    let before = irql();
    let in_region = in_critical_region();
    let result = callback();
    let after = irql();
    if in_critical_region() != in_region {
        violation(&format!("{what} returned in another critical region than it was called in"));
    }
    if after != before {
        violation(&format!("{what} was called at IRQL {before} and returned at {after}"));
        restore(after, before);
    }
    result
}

/// Runs `callback` at DISPATCH_LEVEL.
pub fn at_dispatch<T>(callback: impl FnOnce() -> T) -> T {
    // SAFETY: raising is balanced by the lowering below.
    let old = unsafe { ntoskrnl::KfRaiseIrql(DISPATCH_LEVEL) };
    let result = callback();
    restore(irql(), old);
    result
}

/// DPCs that a thread runs at most before it goes on.
const DPCS: u32 = 64;

/// As [`at_dispatch`], and then runs DPCs that were queued on this processor, as Windows does before the thread goes on. The thread holds no
/// lock.
pub fn at_dispatch_before_dpcs(callback: impl FnOnce()) {
    at_dispatch(|| {
        callback();
        // SAFETY: at DISPATCH_LEVEL.
        unsafe { ntoskrnl::SoftNdkStandInRunDpcs(DPCS) };
    });
}

fn restore(from: u8, to: u8) {
    if from < to {
        // SAFETY: raises to the level at which this thread is meant to be.
        unsafe { ntoskrnl::KfRaiseIrql(to) };
    } else {
        // SAFETY: lowers to the level at which this thread is meant to be.
        unsafe { ntoskrnl::KeLowerIrql(to) };
    }
}

/// The characters of a counted string; empty for null.
///
/// # Safety
/// `string` is null or points to a valid UNICODE_STRING.
#[must_use]
pub unsafe fn unicode(string: *const UNICODE_STRING) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: passed on to the caller.
    let string = unsafe { &*string };
    if string.Buffer.is_null() {
        return String::new();
    }
    // SAFETY: a counted string has `Length` bytes at `Buffer`.
    let characters = unsafe { std::slice::from_raw_parts(string.Buffer, usize::from(string.Length) / 2) };
    String::from_utf16_lossy(characters)
}

/// A counted string together with its characters.
pub struct UnicodeBuffer {
    characters: Vec<u16>,
}

impl UnicodeBuffer {
    /// Takes over the text of `string`.
    #[must_use]
    pub fn new(string: &str) -> Self {
        Self { characters: string.encode_utf16().collect() }
    }

    /// The counted string; valid as long as this value.
    #[must_use]
    pub fn as_unicode_string(&self) -> UNICODE_STRING {
        let bytes = (self.characters.len() * 2) as u16;
        UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: self.characters.as_ptr().cast_mut() }
    }
}

/// A pointer that may go to another thread: what it points to is shared between threads by contract of the DDI.
pub struct Shared<T>(pub *mut T);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

// SAFETY: see above; the value itself is only an address.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The address. A method, so that a closure captures the whole value and not just the pointer in it.
    #[must_use]
    pub fn get(self) -> *mut T {
        self.0
    }
}

/// Untyped pointers to the driver's memory.
pub type Context = Shared<c_void>;

/// A NUL-terminated string of the driver as text; empty for null.
///
/// # Safety
/// `string` is null or NUL-terminated.
#[must_use]
pub unsafe fn c_text(string: *const c_char) -> String {
    if string.is_null() {
        return String::new();
    }
    // SAFETY: passed on to the caller.
    unsafe { std::ffi::CStr::from_ptr(string) }.to_string_lossy().into_owned()
}
