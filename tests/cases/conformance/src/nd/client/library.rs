//! softnd.dll, loaded by its path.
#![expect(unsafe_code, reason = "calls into kernel32 and the DLL's exports")]

use std::{ffi::c_void, os::windows::ffi::OsStrExt as _, path::Path, ptr};

use anyhow::{Context as _, ensure};
use nd_com::class::{IClassFactory, SOFTND_PROVIDER_V1, SOFTND_PROVIDER_V2};
use ndk_abi::{
    describe::ZeroInit as _,
    softndk_ioctl::SOFTNDK_DIAGNOSTICS,
    status::{NTSTATUS, STATUS_NOT_SUPPORTED},
};
use windows_core::{GUID, HRESULT, Interface};
use windows_sys::Win32::{
    Foundation::{FreeLibrary, HMODULE},
    System::LibraryLoader::{GetProcAddress, LoadLibraryW},
};

use super::{ask, call};
use crate::{error::Result, nd::Version};

type GetClassObject = unsafe extern "system" fn(*const GUID, *const GUID, *mut *mut c_void) -> HRESULT;
type Diagnostics = unsafe extern "system" fn(*mut SOFTNDK_DIAGNOSTICS, u32) -> HRESULT;
type CanUnloadNow = unsafe extern "system" fn() -> HRESULT;

/// A loaded softnd.dll, or another provider's DLL. All objects have to be released before it is dropped.
pub(crate) struct Library {
    module: HMODULE,
    /// Of version 1 and of version 2.
    classes: [GUID; 2],
    get_class_object: GetClassObject,
    can_unload_now: CanUnloadNow,
    /// softnd.dll alone has it.
    diagnostics: Option<Diagnostics>,
    has_startup: bool,
}

// SAFETY: a module belongs to the process, and its exports may be called from any thread.
unsafe impl Send for Library {}
// SAFETY: as for Send.
unsafe impl Sync for Library {}

impl Library {
    /// Loads softnd.dll and looks its exports up.
    pub(crate) fn load(path: &Path) -> anyhow::Result<Self> {
        Self::load_with(path, [SOFTND_PROVIDER_V1, SOFTND_PROVIDER_V2])
    }

    /// The same for the DLL of a provider with other classes, of version 1 and of version 2.
    pub(crate) fn load_with(path: &Path, classes: [GUID; 2]) -> anyhow::Result<Self> {
        let name: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
        // SAFETY: a terminated string.
        let module = unsafe { LoadLibraryW(name.as_ptr()) };
        ensure!(!module.is_null(), "cannot load {}: {}", path.display(), std::io::Error::last_os_error());
        // SAFETY: a loaded module and a terminated string.
        let get = unsafe { GetProcAddress(module, c"DllGetClassObject".as_ptr().cast()) };
        // SAFETY: as above.
        let can = unsafe { GetProcAddress(module, c"DllCanUnloadNow".as_ptr().cast()) };
        // SAFETY: as above.
        let startup = unsafe { GetProcAddress(module, c"WSPStartup".as_ptr().cast()) };
        // SAFETY: as above.
        let diagnostics = unsafe { GetProcAddress(module, c"SoftndDiagnostics".as_ptr().cast()) };
        let get = get.context("the DLL has no DllGetClassObject")?;
        let can = can.context("the DLL has no DllCanUnloadNow")?;
        Ok(Self {
            module,
            classes,
            // SAFETY: COM's signature of this export.
            get_class_object: unsafe {
                std::mem::transmute::<unsafe extern "system" fn() -> isize, GetClassObject>(get)
            },
            // SAFETY: COM's signature of this export.
            can_unload_now: unsafe { std::mem::transmute::<unsafe extern "system" fn() -> isize, CanUnloadNow>(can) },
            diagnostics: diagnostics.map(|diagnostics| {
                // SAFETY: the DLL's signature of this export.
                unsafe { std::mem::transmute::<unsafe extern "system" fn() -> isize, Diagnostics>(diagnostics) }
            }),
            has_startup: startup.is_some(),
        })
    }

    /// The class of its provider of a version.
    pub(crate) fn class(&self, version: Version) -> &GUID {
        let [v1, v2] = &self.classes;
        match version {
            Version::V1 => v1,
            Version::V2 => v2,
        }
    }

    /// Whether it exports WSPStartup, which the Winsock catalog requires, and which is never called.
    pub(crate) fn has_startup(&self) -> bool {
        self.has_startup
    }

    /// DllGetClassObject for an interface.
    pub(crate) fn class_object<I: Interface>(&self, class: &GUID) -> std::result::Result<I, HRESULT> {
        let mut object = ptr::without_provenance_mut(1);
        // SAFETY: pointers to what outlives the call.
        let returned = unsafe { (self.get_class_object)(class, &I::IID, &raw mut object) };
        if returned.is_err() {
            assert!(object.is_null(), "DllGetClassObject fails and leaves a pointer");
            return Err(returned);
        }
        // SAFETY: it succeeded, so it is an object of that interface, and the reference is ours.
        Ok(unsafe { I::from_raw(object) })
    }

    /// DllGetClassObject without a place for the answer.
    pub(crate) fn class_object_nowhere(&self, class: &GUID) -> HRESULT {
        // SAFETY: a null pointer is to be refused.
        unsafe { (self.get_class_object)(class, &IClassFactory::IID, ptr::null_mut()) }
    }

    /// SoftndDiagnostics: what lives in the device.
    pub(crate) fn diagnostics(&self) -> std::result::Result<SOFTNDK_DIAGNOSTICS, NTSTATUS> {
        let diagnostics = self.diagnostics.ok_or(STATUS_NOT_SUPPORTED)?;
        let mut found = SOFTNDK_DIAGNOSTICS::ZERO;
        // SAFETY: a local of that length.
        let returned = unsafe { diagnostics(&raw mut found, size_of::<SOFTNDK_DIAGNOSTICS>() as u32) };
        if returned.is_ok() { Ok(found) } else { Err(NTSTATUS(returned.0)) }
    }

    /// DllCanUnloadNow.
    pub(crate) fn can_unload(&self) -> bool {
        // SAFETY: takes nothing.
        unsafe { (self.can_unload_now)() }.0 == 0
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if self.can_unload() {
            // SAFETY: ours, and no object is alive.
            unsafe { FreeLibrary(self.module) };
        }
    }
}

/// IClassFactory.
pub(crate) struct ClassFactory(pub(crate) IClassFactory);

impl ClassFactory {
    /// CreateInstance, on its own.
    pub(crate) fn create<I: Interface>(&self) -> Result<I> {
        let mut object = ptr::null_mut();
        ask!(IClassFactory::CreateInstance, self.0, ptr::null_mut(), &I::IID, &raw mut object)?;
        // SAFETY: it succeeded, so it is an object of that interface, and the reference is ours.
        Ok(unsafe { I::from_raw(object) })
    }

    /// CreateInstance as part of `outer`.
    pub(crate) fn create_within<I: Interface>(&self, outer: &impl Interface) -> NTSTATUS {
        let mut object = ptr::null_mut();
        call!(IClassFactory::CreateInstance, self.0, outer.as_raw(), &I::IID, &raw mut object)
    }

    pub(crate) fn lock(&self, lock: bool) -> Result<()> {
        ask!(IClassFactory::LockServer, self.0, i32::from(lock))
    }
}
