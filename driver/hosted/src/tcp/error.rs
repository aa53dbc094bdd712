//! Translates errors of the host's sockets to [`SocketError`].

use std::io::{self, ErrorKind};

use platform::SocketError;

use super::host;

/// An error of opening or binding a socket.
pub(super) fn of_bind(error: &io::Error) -> SocketError {
    match error.kind() {
        // The error on Windows if another socket has the address exclusively (SO_EXCLUSIVEADDRUSE).
        ErrorKind::PermissionDenied if cfg!(windows) => SocketError::AddressInUse,
        ErrorKind::AddrNotAvailable => SocketError::Unreachable,
        _ if host::is_no_such_family(error) => SocketError::Unreachable,
        _ => of_any(error),
    }
}

/// An error of a connect.
pub(super) fn of_connect(error: &io::Error) -> SocketError {
    match error.kind() {
        // A connection between the two addresses exists already, or no port is left.
        ErrorKind::AddrNotAvailable => SocketError::AddressInUse,
        // A broadcast address, a firewall rule, or an address that needs an interface but names none.
        ErrorKind::PermissionDenied | ErrorKind::InvalidInput => SocketError::Unreachable,
        _ => of_any(error),
    }
}

/// An error of an established connection.
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
