//! A consumer in the kernel that is not softndk.sys: it opens the adapter by Winsock Kernel, as Microsoft's NDKPerf.sys does, and makes
//! and closes a protection domain. `DriverEntry` does it all, and its status says how that went.
//!
//! What a service of another name does is wrong, and has to be noticed: `SoftNdkElsewhere` asks for another interface, `SoftNdkLeaver`
//! leaves the provider captured.
#![no_std]
#![allow(non_snake_case, reason = "imports carry their documented names")]

use core::{ffi::c_void, ptr::null_mut};

use ndk_abi::{
    describe::ZeroInit,
    ndkpi::*,
    status::{NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_SUCCESS, STATUS_UNSUCCESSFUL},
    wdm::UNICODE_STRING,
    wsk::*,
};

/// PFN_WSK_CONTROL_CLIENT.
type ControlClient = unsafe extern "system" fn(
    *mut c_void,
    u32,
    usize,
    *mut c_void,
    usize,
    *mut c_void,
    *mut usize,
    *mut c_void,
) -> NTSTATUS;

const WSK_INFINITE_WAIT: u32 = u32::MAX;
/// Of the stand-in for ndis: the adapter's interface.
const INTERFACE: u32 = 77;
/// Where a DRIVER_OBJECT has its DriverUnload.
const DRIVER_UNLOAD: usize = 0x68;

#[link(name = "netio.sys", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn WskRegister(npi: *mut WSK_CLIENT_NPI, registration: *mut WSK_REGISTRATION) -> NTSTATUS;
    fn WskDeregister(registration: *mut WSK_REGISTRATION);
    fn WskCaptureProviderNPI(registration: *mut WSK_REGISTRATION, wait: u32, npi: *mut WSK_PROVIDER_NPI) -> NTSTATUS;
    fn WskReleaseProviderNPI(registration: *mut WSK_REGISTRATION);
    fn ConvertInterfaceIndexToLuid(index: u32, luid: *mut u64) -> i32;
    fn ConvertInterfaceLuidToAlias(luid: *const u64, alias: *mut u16, length: usize) -> i32;
}

#[link(name = "ntoskrnl.exe", kind = "raw-dylib", modifiers = "+verbatim")]
unsafe extern "system" {
    fn KeBugCheckEx(code: u32, p1: usize, p2: usize, p3: usize, p4: usize) -> !;
}

struct Constant(WSK_CLIENT_DISPATCH);
// SAFETY: never written.
unsafe impl Sync for Constant {}
static DISPATCH: Constant =
    Constant(WSK_CLIENT_DISPATCH { Version: WSK_VERSION_1_0, Reserved: 0, WskClientEvent: null_mut() });

/// `Err` unless a check holds.
fn check(holds: bool) -> Result<(), NTSTATUS> {
    if holds { Ok(()) } else { Err(STATUS_UNSUCCESSFUL) }
}

fn done(status: NTSTATUS) -> Result<(), NTSTATUS> {
    if status == STATUS_SUCCESS { Ok(()) } else { Err(status) }
}

/// Entry point of the image.
#[unsafe(no_mangle)]
unsafe extern "system" fn DriverEntry(driver: *mut c_void, path: *mut UNICODE_STRING) -> NTSTATUS {
    // SAFETY: the driver object, and the path of the service's key.
    let leaves = unsafe {
        driver.byte_add(DRIVER_UNLOAD).cast::<*mut c_void>().write(unload as *mut c_void);
        ends_with(&*path, "Leaver")
    };
    // SAFETY: as above.
    let interface = if unsafe { ends_with(&*path, "Elsewhere") } { INTERFACE + 1 } else { INTERFACE };
    // SAFETY: PASSIVE_LEVEL.
    unsafe { as_client(leaves, |provider| open(provider, interface)) }.err().unwrap_or(STATUS_SUCCESS)
}

unsafe extern "system" fn unload(_driver: *mut c_void) {}

/// # Safety
/// A counted string.
unsafe fn ends_with(path: &UNICODE_STRING, end: &str) -> bool {
    // SAFETY: passed on to the caller.
    let characters = unsafe { core::slice::from_raw_parts(path.Buffer, usize::from(path.Length) / 2) };
    characters.len() >= end.len() && characters[characters.len() - end.len()..].iter().copied().eq(end.encode_utf16())
}

/// Does something with the provider captured, which is released unless it is to be left.
unsafe fn as_client(
    leaves: bool,
    work: impl FnOnce(&WSK_PROVIDER_NPI) -> Result<(), NTSTATUS>,
) -> Result<(), NTSTATUS> {
    let mut npi = WSK_CLIENT_NPI { ClientContext: null_mut(), Dispatch: &raw const DISPATCH.0 };
    let (mut registration, mut provider) = (WSK_REGISTRATION::ZERO, WSK_PROVIDER_NPI::ZERO);
    // SAFETY: the registration stays where it is until it is ended; of one that is left the stand-in knows the address only.
    unsafe {
        done(WskRegister(&mut npi, &mut registration))?;
        let result = done(WskCaptureProviderNPI(&mut registration, WSK_INFINITE_WAIT, &mut provider)).and_then(|()| {
            let result = work(&provider);
            if !leaves {
                WskReleaseProviderNPI(&mut registration);
            }
            result
        });
        if !leaves {
            WskDeregister(&mut registration);
        }
        result
    }
}

/// Opens the adapter of an interface, uses it and closes it.
unsafe fn open(provider: &WSK_PROVIDER_NPI, interface: u32) -> Result<(), NTSTATUS> {
    // SAFETY: the provider's table; its entry is a PFN_WSK_CONTROL_CLIENT.
    let control = unsafe { core::mem::transmute::<*mut c_void, ControlClient>((*provider.Dispatch).WskControlClient) };
    let mut functions = [0_usize; 2];
    let code = WSKNDK_GET_WSK_PROVIDER_NDK_DISPATCH;
    let ask = |room: usize, place: *mut [usize; 2]| {
        // SAFETY: room for so many bytes; without an IRP it ends within the call.
        unsafe { control(provider.Client, code, 0, null_mut(), room, place.cast(), null_mut(), null_mut()) }
    };
    check(ask(8, &mut functions) == STATUS_INVALID_PARAMETER)?;
    done(ask(size_of_val(&functions), &mut functions))?;
    // SAFETY: it was filled with a table of this layout.
    let functions = unsafe { core::mem::transmute::<[usize; 2], WSK_PROVIDER_NDK_DISPATCH>(functions) };
    let (Some(open), Some(close)) = (functions.WskOpenNdkAdapter, functions.WskCloseNdkAdapter) else {
        return Err(STATUS_UNSUCCESSFUL);
    };
    let mut adapter = null_mut();
    // SAFETY: a place for it; PASSIVE_LEVEL.
    done(unsafe { open(provider.Client, NDK_VERSION { Major: 2, Minor: 0 }, interface, &mut adapter) })?;
    // SAFETY: open, with no other user.
    let result = unsafe { use_of(adapter) };
    // SAFETY: opened above.
    unsafe { close(provider.Client, adapter) };
    result.and_then(|()| names())
}

/// Makes a protection domain, which here is made and closed within the calls.
unsafe fn use_of(adapter: *mut NDK_ADAPTER) -> Result<(), NTSTATUS> {
    let mut domain = null_mut();
    // SAFETY: an open adapter and what it makes.
    unsafe {
        check((*adapter).Header.Version >= NDK_VERSION { Major: 2, Minor: 0 })?;
        done(((*(*adapter).Dispatch).NdkCreatePd)(adapter, created, null_mut(), &mut domain))?;
        done(((*(*domain).Dispatch).NdkClosePd)(domain.cast(), closed, null_mut()))
    }
}

unsafe extern "system" fn created(_context: *mut c_void, _status: NTSTATUS, _object: *mut NDK_OBJECT_HEADER) {}

unsafe extern "system" fn closed(_context: *mut c_void) {}

/// The interface's name, by its index.
fn names() -> Result<(), NTSTATUS> {
    let (mut luid, mut alias) = (0, [0_u16; 257]);
    // SAFETY: places of the sizes that are given.
    unsafe {
        check(ConvertInterfaceIndexToLuid(INTERFACE, &mut luid) == 0)?;
        check(ConvertInterfaceLuidToAlias(&luid, alias.as_mut_ptr(), alias.len()) == 0)?;
        check(ConvertInterfaceIndexToLuid(INTERFACE + 1, &mut luid) != 0)?;
    }
    check(alias[0] != 0)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    // SAFETY: ends the process that stands for the kernel. The code is "RUST".
    unsafe { KeBugCheckEx(0x5255_5354, 0, 0, 0, 0) }
}
