//! What Linux and Windows do not have in common.

use std::io;

use socket2::{SockRef, Socket};

#[cfg(unix)]
mod system {
    use super::{SockRef, Socket, io};

    /// Another socket that listens there, or has the address for itself, is in the way still; connections that are over are not.
    pub(crate) fn reserve(socket: &Socket) -> io::Result<()> {
        socket.set_reuse_address(true)
    }

    /// No program that this one starts has them: mio accepts them so.
    pub(crate) fn keep_from_children(_: &SockRef<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Bytes that wait for the acknowledgement of a peer on this machine, of which Linux takes twice as many. Else it goes up to megabytes,
    /// which leave the processor's cache: half the rate, and twice the processor time (docs/performance.md).
    pub(crate) fn limit(socket: &SockRef<'_>) -> io::Result<()> {
        socket.set_send_buffer_size(160 << 10)
    }

    pub(crate) const CONNECTING: i32 = libc::EINPROGRESS;
    pub(crate) const NO_SUCH_FAMILY: i32 = libc::EAFNOSUPPORT;
    pub(crate) const SENDS_NO_MORE: i32 = libc::EPIPE;
}

#[cfg(windows)]
mod system {
    use windows_sys::Win32::Networking::WinSock::{WSAEAFNOSUPPORT, WSAESHUTDOWN, WSAEWOULDBLOCK};

    use super::{SockRef, Socket, io};

    /// As Windows does by itself. SO_REUSEADDR would let others take the address away, and SO_EXCLUSIVEADDRUSE keeps it busy as long as
    /// connections live that were accepted there.
    pub(crate) fn reserve(_: &Socket) -> io::Result<()> {
        Ok(())
    }

    /// A program that this one starts would have those that were accepted, and its end would not close them.
    pub(crate) fn keep_from_children(socket: &SockRef<'_>) -> io::Result<()> {
        socket.set_no_inherit(true)
    }

    /// As Windows does by itself: nothing else has been measured there.
    pub(crate) fn limit(_: &SockRef<'_>) -> io::Result<()> {
        Ok(())
    }

    pub(crate) const CONNECTING: i32 = WSAEWOULDBLOCK;
    pub(crate) const NO_SUCH_FAMILY: i32 = WSAEAFNOSUPPORT;
    pub(crate) const SENDS_NO_MORE: i32 = WSAESHUTDOWN;
}

pub(super) use system::{keep_from_children, limit, reserve};

/// A connect that has not ended yet.
pub(super) fn is_connecting(error: &io::Error) -> bool {
    error.raw_os_error() == Some(system::CONNECTING)
}

/// The host does not have IPv6, or IPv4.
pub(super) fn is_no_such_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(system::NO_SUCH_FAMILY)
}

/// Who has not finished can send nothing on a connection that is dead.
pub(super) fn is_no_sending(error: &io::Error) -> bool {
    error.raw_os_error() == Some(system::SENDS_NO_MORE)
}
