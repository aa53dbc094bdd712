//! What errors of the host's sockets are to the device.

use std::io::{self, ErrorKind};

use platform::SocketError;

use super::host;

/// Of a socket that could not be made, or not have its address.
pub(super) fn of_bind(error: &io::Error) -> SocketError {
    match error.kind() {
        // Windows says so of an address that another socket has for itself (SO_EXCLUSIVEADDRUSE).
        ErrorKind::PermissionDenied if cfg!(windows) => SocketError::AddressInUse,
        ErrorKind::AddrNotAvailable => SocketError::Unreachable,
        _ if host::is_no_such_family(error) => SocketError::Unreachable,
        _ => of_any(error),
    }
}

/// Of a connection that does not come about.
pub(super) fn of_connect(error: &io::Error) -> SocketError {
    match error.kind() {
        // The two addresses have a connection, or no port is left.
        ErrorKind::AddrNotAvailable => SocketError::AddressInUse,
        // A broadcast address, or a rule of the host; an address that needs an interface, and names none.
        ErrorKind::PermissionDenied | ErrorKind::InvalidInput => SocketError::Unreachable,
        _ => of_any(error),
    }
}

/// Of a connection that there is.
pub(super) fn of_any(error: &io::Error) -> SocketError {
    match error.kind() {
        ErrorKind::ConnectionRefused => SocketError::Refused,
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable | ErrorKind::NetworkDown => SocketError::Unreachable,
        ErrorKind::AddrInUse => SocketError::AddressInUse,
        ErrorKind::TimedOut => SocketError::TimedOut,
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::NotConnected => SocketError::Reset,
        _ if host::is_no_sending(error) => SocketError::Reset,
        _ => SocketError::Failed,
    }
}
