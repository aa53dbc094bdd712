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

    /// Nothing is in the way of a connection, from a port that connections which are over had, but what `reserve` says.
    pub(crate) fn reserve_for_one(socket: &Socket) -> io::Result<()> {
        reserve(socket)
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
    #![expect(unsafe_code, reason = "an option that socket2 does not have")]

    use std::os::windows::io::AsRawSocket as _;

    use windows_sys::Win32::Networking::WinSock::{
        SO_EXCLUSIVEADDRUSE, SOCKET_ERROR, SOL_SOCKET, WSAEAFNOSUPPORT, WSAESHUTDOWN, WSAEWOULDBLOCK, setsockopt,
    };

    use super::{SockRef, Socket, io};

    /// Nobody else can listen there: SO_REUSEADDR would let others take the address away, and is no option here.
    pub(crate) fn reserve(socket: &Socket) -> io::Result<()> {
        let (handle, on) = (socket.as_raw_socket() as usize, 1_i32);
        // SAFETY: an open socket, and an option that is a BOOL.
        let result = unsafe {
            setsockopt(handle, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (&raw const on).cast(), size_of::<i32>() as i32)
        };
        if result == SOCKET_ERROR { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Connections that are over are not in the way here.
    pub(crate) fn reserve_for_one(_: &Socket) -> io::Result<()> {
        Ok(())
    }

    /// As Windows does by itself: nothing else has been measured there.
    pub(crate) fn limit(_: &SockRef<'_>) -> io::Result<()> {
        Ok(())
    }

    pub(crate) const CONNECTING: i32 = WSAEWOULDBLOCK;
    pub(crate) const NO_SUCH_FAMILY: i32 = WSAEAFNOSUPPORT;
    pub(crate) const SENDS_NO_MORE: i32 = WSAESHUTDOWN;
}

pub(super) use system::{limit, reserve, reserve_for_one};

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
