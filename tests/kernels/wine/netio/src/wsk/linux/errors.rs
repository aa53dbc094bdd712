//! What the errors of Linux mean.

use kernel::{linux::Errno, status, violation};
use ndk_abi::status::{
    NTSTATUS, STATUS_ACCESS_DENIED, STATUS_ADDRESS_ALREADY_EXISTS, STATUS_CONNECTION_ABORTED,
    STATUS_CONNECTION_DISCONNECTED, STATUS_CONNECTION_REFUSED, STATUS_CONNECTION_RESET, STATUS_HOST_UNREACHABLE,
    STATUS_INVALID_ADDRESS_COMPONENT, STATUS_IO_TIMEOUT, STATUS_NETWORK_UNREACHABLE, STATUS_UNSUCCESSFUL,
};

/// The NTSTATUS that WSK would give.
pub(super) fn meaning(error: Errno) -> i32 {
    let meaning: NTSTATUS = match error {
        Errno::ECONNREFUSED => STATUS_CONNECTION_REFUSED,
        Errno::ENETUNREACH => STATUS_NETWORK_UNREACHABLE,
        Errno::EHOSTUNREACH => STATUS_HOST_UNREACHABLE,
        Errno::EADDRINUSE => STATUS_ADDRESS_ALREADY_EXISTS,
        Errno::EADDRNOTAVAIL => STATUS_INVALID_ADDRESS_COMPONENT,
        Errno::EACCES => STATUS_ACCESS_DENIED,
        Errno::ETIMEDOUT => STATUS_IO_TIMEOUT,
        Errno::ECONNRESET => STATUS_CONNECTION_RESET,
        Errno::ECONNABORTED => STATUS_CONNECTION_ABORTED,
        Errno::EPIPE => STATUS_CONNECTION_DISCONNECTED,
        Errno::ENOBUFS | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE => NTSTATUS(status::INSUFFICIENT_RESOURCES),
        Errno::EFAULT => {
            violation("a buffer of a WSK request is not memory of the kernel");
            STATUS_UNSUCCESSFUL
        }
        Errno::EBADF | Errno::ENOTSOCK => {
            violation("stand-in: a socket of Linux is used that is closed");
            STATUS_UNSUCCESSFUL
        }
        _ => STATUS_UNSUCCESSFUL,
    };
    meaning.0
}
