//! What each provider's DLL exports.
#![expect(unsafe_code, reason = "C exports")]

use std::{ffi::c_void, sync::Once};

use nd_com::class::SOFTND_PROVIDER_V2;
use windows_core::{GUID, HRESULT};

use crate::{deviations, softnd::softnd};

/// The class of this provider.
const CLASS: GUID = GUID::from_u128(0x5f0c_94d7_1e3b_4a86_b2f7_96d8_03ac_41e5);

#[unsafe(no_mangle)]
unsafe extern "system" fn DllGetClassObject(class: *const GUID, iid: *const GUID, object: *mut *mut c_void) -> HRESULT {
    static DEVIATE: Once = Once::new();
    DEVIATE.call_once(deviations::plant);
    // SAFETY: null, or a pointer of the caller's.
    let asked = unsafe { class.as_ref() };
    let class = if asked == Some(&CLASS) { &SOFTND_PROVIDER_V2 } else { &GUID::zeroed() };
    // SAFETY: the caller's pointers.
    unsafe { softnd().class_object(class, iid, object) }
}

#[unsafe(no_mangle)]
extern "system" fn DllCanUnloadNow() -> HRESULT {
    softnd().can_unload()
}

/// The Winsock catalog requires it; nobody calls it.
#[unsafe(no_mangle)]
extern "system" fn WSPStartup() -> i32 {
    // WSAEOPNOTSUPP.
    10045
}
