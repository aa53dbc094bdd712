//! softnd.dll, beside this DLL.
#![expect(unsafe_code, reason = "calls into kernel32 and the exports of softnd.dll")]

use std::{ffi::c_void, mem, ptr, sync::OnceLock};

use nd_com::class::{DllCanUnloadNow, DllGetClassObject, SOFTND_PROVIDER_V2};
use windows_core::{GUID, HRESULT, Interface};
use windows_sys::Win32::System::LibraryLoader::{
    GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, GET_MODULE_HANDLE_EX_FLAG_PIN, GetModuleHandleExW, GetProcAddress,
    LoadLibraryW,
};

/// Its exports. It is never unloaded, nor is this DLL, whose functions its tables of methods have.
pub(crate) struct Softnd {
    get_class_object: DllGetClassObject,
    can_unload_now: DllCanUnloadNow,
}

/// Loads it, the first time.
pub(crate) fn softnd() -> &'static Softnd {
    static LOADED: OnceLock<Softnd> = OnceLock::new();
    LOADED.get_or_init(Softnd::load)
}

impl Softnd {
    fn load() -> Self {
        let flags = GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_PIN;
        let here = ptr::from_ref(&SOFTND).cast::<u16>();
        let mut this = ptr::null_mut();
        // SAFETY: an address in this DLL, and a local.
        let pinned = unsafe { GetModuleHandleExW(flags, here, &raw mut this) };
        assert!(pinned != 0, "GetModuleHandleExW");
        let name: Vec<u16> = SOFTND.encode_utf16().chain([0]).collect();
        // SAFETY: a terminated string. The folder of the program is looked in first: both DLLs lie there.
        let module = unsafe { LoadLibraryW(name.as_ptr()) };
        assert!(!module.is_null(), "{SOFTND} cannot be loaded");
        // SAFETY: a loaded module and a terminated string.
        let get = unsafe { GetProcAddress(module, c"DllGetClassObject".as_ptr().cast()) };
        // SAFETY: as above.
        let can = unsafe { GetProcAddress(module, c"DllCanUnloadNow".as_ptr().cast()) };
        type Export = unsafe extern "system" fn() -> isize;
        Self {
            // SAFETY: COM's signature of this export.
            get_class_object: unsafe { mem::transmute::<Export, DllGetClassObject>(get.expect("DllGetClassObject")) },
            // SAFETY: COM's signature of this export.
            can_unload_now: unsafe { mem::transmute::<Export, DllCanUnloadNow>(can.expect("DllCanUnloadNow")) },
        }
    }

    /// # Safety
    /// The pointers are null, or of what outlives the call.
    pub(crate) unsafe fn class_object(
        &self,
        class: *const GUID,
        iid: *const GUID,
        object: *mut *mut c_void,
    ) -> HRESULT {
        // SAFETY: the caller's pointers.
        unsafe { (self.get_class_object)(class, iid, object) }
    }

    /// The provider of version 2.
    pub(crate) fn provider<I: Interface>(&self) -> I {
        let mut made = ptr::null_mut();
        // SAFETY: pointers of what outlives the call.
        let status = unsafe { self.class_object(&SOFTND_PROVIDER_V2, &I::IID, &raw mut made) };
        assert!(status.is_ok(), "DllGetClassObject: {status}");
        // SAFETY: it succeeded, so it is an object of that interface, and the reference is ours.
        unsafe { I::from_raw(made) }
    }

    pub(crate) fn can_unload(&self) -> HRESULT {
        // SAFETY: takes nothing.
        unsafe { (self.can_unload_now)() }
    }
}

static SOFTND: &str = "softnd.dll";
