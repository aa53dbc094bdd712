//! Methods of objects, replaced in the tables of softnd.dll.
#![expect(unsafe_code, reason = "writes to tables of methods")]

use std::{
    ffi::c_void,
    ptr,
    sync::atomic::{AtomicPtr, Ordering::Relaxed},
};

use windows_sys::Win32::System::Memory::{PAGE_READWRITE, VirtualProtect};

/// A method that was replaced.
pub(crate) struct Original(AtomicPtr<c_void>);

impl Original {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// The address of the method that was there.
    pub(crate) fn address(&self) -> *mut c_void {
        self.0.load(Relaxed)
    }

    /// Puts `replacement` into the place `index` of the table that `object`, and each object of its kind, has.
    ///
    /// # Safety
    /// `object` is a live COM object; `replacement` is a function with the signature of that method.
    pub(crate) unsafe fn replace(&self, object: *mut c_void, index: usize, replacement: *mut c_void) {
        let table = object.cast::<*mut *mut c_void>();
        // SAFETY: an object begins with the address of its table.
        let table = unsafe { *table };
        // SAFETY: the table has a method of that index.
        let place = unsafe { table.add(index) };
        let mut before = 0;
        // SAFETY: the pages of a place in a loaded module.
        let done = unsafe { VirtualProtect(place.cast(), size_of::<usize>(), PAGE_READWRITE, &raw mut before) };
        assert!(done != 0, "VirtualProtect");
        // SAFETY: the caller says that it fits; nobody calls methods yet, as the provider has not been given to the program.
        self.0.store(unsafe { ptr::replace(place, replacement) }, Relaxed);
    }
}
