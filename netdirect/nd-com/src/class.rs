//! The exports of a provider's DLL, and its class factory.
#![allow(missing_docs, clippy::missing_safety_doc, reason = "methods of an interface that is documented elsewhere")]

use std::ffi::c_void;

use windows_core::{GUID, HRESULT, IUnknown, IUnknown_Vtbl, interface};

/// `DllGetClassObject`: the class object of a provider. The first parameter is the identifier of its catalog entry; the
/// second is [`IClassFactory`] or an interface of the provider itself.
pub type DllGetClassObject = unsafe extern "system" fn(*const GUID, *const GUID, *mut *mut c_void) -> HRESULT;

/// `DllCanUnloadNow`: S_OK if no object of the DLL is in use.
pub type DllCanUnloadNow = unsafe extern "system" fn() -> HRESULT;

/// The identifier of SoftNDK's version 2 provider in the Winsock catalog, and its class.
pub const SOFTND_PROVIDER_V2: GUID = GUID::from_u128(0x3d1c_7a52_9b0e_4c6f_8a47_2f6b_5e90_d1c3);

/// The identifier of SoftNDK's version 1 provider in the Winsock catalog, and its class.
pub const SOFTND_PROVIDER_V1: GUID = GUID::from_u128(0xa86f_04b9_5d32_4e17_b3c8_71e4_0c29_f65a);

/// Makes objects of a class.
#[interface("00000001-0000-0000-C000-000000000046")]
pub unsafe trait IClassFactory: IUnknown {
    pub fn CreateInstance(&self, pUnkOuter: *mut c_void, riid: *const GUID, ppvObject: *mut *mut c_void) -> HRESULT;
    pub fn LockServer(&self, fLock: i32) -> HRESULT;
}
