//! The published NetworkDirect IOCTL protocol, version 1, between a user-mode NetworkDirect provider and a kernel
//! driver. The protocol is the control path only; SoftNDK's data path is [`crate::softndk_ioctl`].
//!
//! The control codes are buffered. `PROVIDER_INIT` comes first on a file, unless `PROVIDER_BIND_FILE` binds the file to
//! another one. A buffer too small for an address list or for private data gets STATUS_BUFFER_OVERFLOW. Source:
//! `ndioctl.h` of microsoft/NetworkDirect (MIT).

pub mod adapter;
pub mod codes;
pub mod kernel;
pub mod mappings;
pub mod requests;

pub use adapter::*;
pub use codes::*;
pub use kernel::*;
pub use mappings::*;
pub use requests::*;

c_consts! { PROTOCOL_VERSIONS: u32;
    /// The first field of every input.
    ND_IOCTL_VERSION = 1;
}

c_consts! { CONTROL_CODE_PARTS: u32;
    /// The device type in a control code.
    FILE_DEVICE_NETWORK = 0x12;
    /// The I/O manager copies input and output through one kernel buffer.
    METHOD_BUFFERED = 0;
    /// Any handle may send the code.
    FILE_ANY_ACCESS = 0;
    /// The handle must be open for reading.
    FILE_READ_DATA = 1;
    /// The handle must be open for writing.
    FILE_WRITE_DATA = 2;
}

/// `CTL_CODE`: device type, 12-bit function, transfer method and the access a handle needs.
#[must_use]
pub const fn ctl_code(device_type: u32, function: u32, method: u32, access: u32) -> u32 {
    device_type << 16 | access << 14 | function << 2 | method
}

/// The control code of an operation on a resource: function = resource * 64 + operation.
#[must_use]
pub const fn nd_control_code(resource: u32, operation: u32) -> u32 {
    ctl_code(FILE_DEVICE_NETWORK, resource << 6 | operation, METHOD_BUFFERED, FILE_ANY_ACCESS)
}
