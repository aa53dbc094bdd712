//! Control devices (NdisRegisterDeviceEx).
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use core::ffi::c_void;

use super::NDIS_OBJECT_HEADER;
use crate::status::NTSTATUS;
use crate::wdm::{GUID, UNICODE_STRING};

c_structs! { DEVICE_LAYOUTS:
    /// A control device. `MajorFunctions` has 28 entries (IRP_MJ_MAXIMUM_FUNCTION + 1). Always give an SDDL string.
    struct NDIS_DEVICE_OBJECT_ATTRIBUTES, size 0x38 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x08 DeviceName: *mut UNICODE_STRING,
        0x10 SymbolicName: *mut UNICODE_STRING,
        0x18 MajorFunctions: *mut Option<DRIVER_DISPATCH>,
        0x20 ExtensionSize: u32,
        0x28 DefaultSDDLString: *const UNICODE_STRING,
        0x30 DeviceClassGuid: *const GUID,
    }
}

c_fns! { DEVICE_PROTOTYPES:
    /// A dispatch routine of the device, with DEVICE_OBJECT and IRP. IRQL at most DISPATCH_LEVEL.
    fn DRIVER_DISPATCH(DeviceObject: *mut c_void, Irp: *mut c_void) -> NTSTATUS;
}
