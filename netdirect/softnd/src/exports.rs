//! The exports of the DLL, and its class factory.
#![expect(unsafe_code, reason = "C exports, COM")]

use std::ffi::c_void;

use nd_com::{
    class::{IClassFactory, IClassFactory_Impl, SOFTND_PROVIDER_V1, SOFTND_PROVIDER_V2},
    status::{CLASS_E_CLASSNOTAVAILABLE, CLASS_E_NOAGGREGATION, E_POINTER, ND_SUCCESS, from_nt},
    v1::INDProvider,
    v2::IND2Provider,
};
use ndk_abi::softndk_ioctl::SOFTNDK_DIAGNOSTICS;
use windows_core::{GUID, HRESULT, IUnknown, Interface, implement};
use windows_sys::Win32::Foundation::S_FALSE;

use crate::{
    arguments::give,
    core::device,
    hold::{self, Hold},
    v1, v2,
};

/// The class factory of the providers.
#[implement(IClassFactory, Agile = false)]
struct Factory {
    class: GUID,
    _hold: Hold,
}

/// Makes the provider that has the interface `asked`; for IUnknown and unknown interfaces, the provider of the class.
fn provider(class: &GUID, asked: &GUID) -> IUnknown {
    let is_v1 = match *asked {
        INDProvider::IID => true,
        IND2Provider::IID => false,
        _ => *class == SOFTND_PROVIDER_V1,
    };
    if is_v1 { v1::Provider::new().into() } else { v2::Provider::new().into() }
}

impl IClassFactory_Impl for Factory_Impl {
    unsafe fn CreateInstance(&self, outer: *mut c_void, iid: *const GUID, object: *mut *mut c_void) -> HRESULT {
        // SAFETY: null, or a pointer of the caller's.
        let Some(asked) = (unsafe { iid.as_ref() }) else { return E_POINTER };
        let make = || if outer.is_null() { Ok(provider(&self.class, asked)) } else { Err(CLASS_E_NOAGGREGATION) };
        // SAFETY: the caller's pointers.
        unsafe { give(iid, object, make) }
    }

    unsafe fn LockServer(&self, lock: i32) -> HRESULT {
        if lock != 0 {
            hold::add();
        } else {
            hold::remove();
        }
        ND_SUCCESS
    }
}

/// Returns a provider's class object, or the provider itself if the program asks for its interface: programs do either.
#[unsafe(no_mangle)]
unsafe extern "system" fn DllGetClassObject(class: *const GUID, iid: *const GUID, object: *mut *mut c_void) -> HRESULT {
    // SAFETY: null, or a pointer of the caller's.
    let (Some(class), Some(asked)) = (unsafe { class.as_ref() }, unsafe { iid.as_ref() }) else { return E_POINTER };
    let make = || {
        if ![SOFTND_PROVIDER_V2, SOFTND_PROVIDER_V1].contains(class) {
            Err(CLASS_E_CLASSNOTAVAILABLE)
        } else if [INDProvider::IID, IND2Provider::IID].contains(asked) {
            Ok(provider(class, asked))
        } else {
            Ok(IUnknown::from(Factory { class: *class, _hold: Hold::new() }))
        }
    };
    // SAFETY: the caller's pointers.
    unsafe { give(iid, object, make) }
}

/// Whether the DLL may be unloaded.
#[unsafe(no_mangle)]
extern "system" fn DllCanUnloadNow() -> HRESULT {
    HRESULT(if hold::is_held() { S_FALSE } else { 0 })
}

/// Returns counts of the first adapter's live objects, including the file that this call opens; for tests. E_POINTER: `found`
/// is null, or `length` is too small.
#[unsafe(no_mangle)]
unsafe extern "system" fn SoftndDiagnostics(found: *mut SOFTNDK_DIAGNOSTICS, length: u32) -> HRESULT {
    if found.is_null() || (length as usize) < size_of::<SOFTNDK_DIAGNOSTICS>() {
        return E_POINTER;
    }
    match device::diagnostics() {
        Ok(known) => {
            // SAFETY: the caller's pointer, to as many bytes.
            unsafe { found.write_unaligned(known) };
            ND_SUCCESS
        }
        Err(status) => from_nt(status),
    }
}

/// The installer of catalog entries looks for this export. Winsock never calls it for a NetworkDirect provider.
#[unsafe(no_mangle)]
extern "system" fn WSPStartup() -> i32 {
    windows_sys::Win32::Networking::WinSock::WSASYSNOTREADY
}
