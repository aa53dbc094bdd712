//! Objects behind handles.

use std::{
    ffi::{CStr, c_void},
    sync::OnceLock,
};

use crate::{
    base::{self, status},
    irql::{self, PASSIVE_LEVEL},
    report::violation,
};

base::wine! {
    fn ObReferenceObjectByHandle(
        handle: *mut c_void,
        access: u32,
        kind: *mut c_void,
        mode: u8,
        object: *mut *mut c_void,
        information: *mut c_void,
    ) -> i32;
}

/// A pointer that Wine's ntoskrnl exports as data.
macro_rules! exported {
    ($name:literal) => {{
        static CELL: OnceLock<usize> = OnceLock::new();
        const NAME: &CStr = $name;
        // SAFETY: the address of an exported variable that is a pointer.
        unsafe { (base::lookup(&CELL, NAME) as *const *mut c_void).read() }
    }};
}

mod export {
    use super::*;

    /// wdm/nf-wdm-obreferenceobjectbyhandle: PASSIVE_LEVEL; the type is one of those that the kernel exports, by its value.
    #[unsafe(no_mangle)]
    unsafe extern "system" fn ObReferenceObjectByHandle(
        handle: *mut c_void,
        access: u32,
        kind: *mut c_void,
        mode: u8,
        object: *mut *mut c_void,
        information: *mut c_void,
    ) -> i32 {
        irql::at_most(PASSIVE_LEVEL, "ObReferenceObjectByHandle");
        let types =
            [exported!(c"IoFileObjectType"), exported!(c"ExEventObjectType"), exported!(c"ExSemaphoreObjectType")];
        if !kind.is_null() && !types.contains(&kind) {
            violation("ObReferenceObjectByHandle: the type is none of the kernel's");
            return status::INVALID_PARAMETER;
        }
        // SAFETY: the caller's contract is the same.
        unsafe { super::ObReferenceObjectByHandle(handle, access, kind, mode, object, information) }
    }

    /// For the other stand-ins: whether this is `PsInitialSystemProcess`.
    #[unsafe(no_mangle)]
    extern "system" fn SoftNdkStandInIsSystemProcess(process: *mut c_void) -> u8 {
        (process == exported!(c"PsInitialSystemProcess")).into()
    }
}
