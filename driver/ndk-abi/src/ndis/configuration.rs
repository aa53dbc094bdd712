//! The registry configuration of an adapter.
#![allow(missing_docs, reason = "pure layouts and numbers, named as in the documentation")]

use core::ffi::c_void;

use super::{NDIS_HANDLE, NDIS_OBJECT_HEADER};
use crate::describe::ZeroInit;
use crate::wdm::UNICODE_STRING;

c_enum! { PARAMETER_TYPES:
    /// The type of a configuration value.
    enum NDIS_PARAMETER_TYPE(i32) {
        NdisParameterInteger = 0,
        NdisParameterHexInteger = 1,
        NdisParameterString = 2,
        NdisParameterMultiString = 3,
        NdisParameterBinary = 4,
    }
}

c_structs! { CONFIGURATION_LAYOUTS:
    /// The input of NdisOpenConfigurationEx: with an adapter handle, it opens the software key of the device.
    struct NDIS_CONFIGURATION_OBJECT, size 0x18 {
        0x00 Header: NDIS_OBJECT_HEADER,
        0x08 NdisHandle: NDIS_HANDLE,
        0x10 Flags: u32,
    }

    /// A value that NdisReadConfiguration read. `ParameterType` selects the member of `ParameterData`.
    struct NDIS_CONFIGURATION_PARAMETER, size 0x18 {
        0x00 ParameterType: NDIS_PARAMETER_TYPE,
        0x08 ParameterData: NDIS_CONFIGURATION_PARAMETER_DATA,
    }

    /// Binary data; `Length` is in bytes.
    struct BINARY_DATA, size 0x10 {
        0x00 Length: u16,
        0x08 Buffer: *mut c_void,
    }
}

/// The value of an [`NDIS_CONFIGURATION_PARAMETER`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union NDIS_CONFIGURATION_PARAMETER_DATA {
    /// NdisParameterInteger, NdisParameterHexInteger.
    pub IntegerData: u32,
    /// NdisParameterString, NdisParameterMultiString.
    pub StringData: UNICODE_STRING,
    /// NdisParameterBinary.
    pub BinaryData: BINARY_DATA,
}

const _: () = assert!(size_of::<NDIS_CONFIGURATION_PARAMETER_DATA>() == 0x10);

impl core::fmt::Debug for NDIS_CONFIGURATION_PARAMETER_DATA {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("NDIS_CONFIGURATION_PARAMETER_DATA")
    }
}

impl ZeroInit for NDIS_CONFIGURATION_PARAMETER_DATA {
    const ZERO: Self = Self { StringData: UNICODE_STRING::ZERO };
}
