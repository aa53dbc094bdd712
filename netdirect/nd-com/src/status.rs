//! Return values of NDSPI. Each ND_* has the number of an NTSTATUS, the others are COM's. Besides [`ND_SUCCESS`],
//! [`ND_TIMEOUT`] and [`ND_PENDING`] are successes.

use ndk_abi::status::NTSTATUS;
use windows_core::HRESULT;

macro_rules! statuses {
    ($($name:ident = $value:literal;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "`")]
            pub const $name: HRESULT = HRESULT($value as i32);
        )*

        /// The name of a return value, for messages.
        #[must_use]
        pub fn name(status: HRESULT) -> Option<&'static str> {
            const NAMES: &[(HRESULT, &str)] = &[$(($name, stringify!($name)),)*];
            NAMES.iter().find(|(value, _)| *value == status).map(|(_, name)| *name)
        }
    };
}

statuses! {
    ND_SUCCESS = 0x0000_0000_u32;
    ND_TIMEOUT = 0x0000_0102_u32;
    ND_PENDING = 0x0000_0103_u32;
    ND_BUFFER_OVERFLOW = 0x8000_0005_u32;
    ND_DEVICE_BUSY = 0x8000_0011_u32;
    ND_NO_MORE_ENTRIES = 0x8000_001A_u32;
    ND_UNSUCCESSFUL = 0xC000_0001_u32;
    ND_ACCESS_VIOLATION = 0xC000_0005_u32;
    ND_INVALID_HANDLE = 0xC000_0008_u32;
    ND_INVALID_DEVICE_REQUEST = 0xC000_0010_u32;
    ND_INVALID_PARAMETER = 0xC000_000D_u32;
    ND_NO_MEMORY = 0xC000_0017_u32;
    ND_INVALID_PARAMETER_MIX = 0xC000_0030_u32;
    ND_DATA_OVERRUN = 0xC000_003C_u32;
    ND_SHARING_VIOLATION = 0xC000_0043_u32;
    ND_INSUFFICIENT_RESOURCES = 0xC000_009A_u32;
    ND_DEVICE_NOT_READY = 0xC000_00A3_u32;
    ND_IO_TIMEOUT = 0xC000_00B5_u32;
    ND_NOT_SUPPORTED = 0xC000_00BB_u32;
    ND_INTERNAL_ERROR = 0xC000_00E5_u32;
    ND_INVALID_PARAMETER_1 = 0xC000_00EF_u32;
    ND_INVALID_PARAMETER_2 = 0xC000_00F0_u32;
    ND_INVALID_PARAMETER_3 = 0xC000_00F1_u32;
    ND_INVALID_PARAMETER_4 = 0xC000_00F2_u32;
    ND_INVALID_PARAMETER_5 = 0xC000_00F3_u32;
    ND_INVALID_PARAMETER_6 = 0xC000_00F4_u32;
    ND_INVALID_PARAMETER_7 = 0xC000_00F5_u32;
    ND_INVALID_PARAMETER_8 = 0xC000_00F6_u32;
    ND_INVALID_PARAMETER_9 = 0xC000_00F7_u32;
    ND_INVALID_PARAMETER_10 = 0xC000_00F8_u32;
    ND_CANCELED = 0xC000_0120_u32;
    ND_REMOTE_ERROR = 0xC000_013D_u32;
    ND_INVALID_ADDRESS = 0xC000_0141_u32;
    ND_INVALID_DEVICE_STATE = 0xC000_0184_u32;
    ND_INVALID_BUFFER_SIZE = 0xC000_0206_u32;
    ND_TOO_MANY_ADDRESSES = 0xC000_0209_u32;
    ND_ADDRESS_ALREADY_EXISTS = 0xC000_020A_u32;
    ND_CONNECTION_REFUSED = 0xC000_0236_u32;
    ND_CONNECTION_INVALID = 0xC000_023A_u32;
    ND_CONNECTION_ACTIVE = 0xC000_023B_u32;
    ND_NETWORK_UNREACHABLE = 0xC000_023C_u32;
    ND_HOST_UNREACHABLE = 0xC000_023D_u32;
    ND_CONNECTION_ABORTED = 0xC000_0241_u32;
    ND_DEVICE_REMOVED = 0xC000_02B6_u32;
    E_NOINTERFACE = 0x8000_4002_u32;
    E_POINTER = 0x8000_4003_u32;
    CLASS_E_NOAGGREGATION = 0x8004_0110_u32;
    CLASS_E_CLASSNOTAVAILABLE = 0x8004_0111_u32;
}

/// The return value for a status of the driver.
pub const fn from_nt(status: NTSTATUS) -> HRESULT {
    HRESULT(status.0)
}
