//! The differences between the sockets of Linux and Windows.
#![cfg_attr(windows, expect(unsafe_code, reason = "calls of Windows"))]

use std::io;

use socket2::{SockRef, Socket};

#[cfg(unix)]
mod system {
    use std::{thread, time::Duration};

    use super::{SockRef, Socket, io};

    /// Lets a socket bind to a port of connections that have ended. The bind still fails if another socket listens
    /// there, or has the address for itself.
    pub(crate) fn reserve(socket: &Socket) -> io::Result<()> {
        socket.set_reuse_address(true)
    }

    /// Does nothing: mio accepts sockets close-on-exec, so child processes do not inherit them.
    pub(crate) fn keep_from_children(_: &SockRef<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Limits the send buffer of a connection within this machine; Linux doubles the number. Without a limit the buffer
    /// grows to megabytes, more than the processor's cache: that halves the rate and doubles the processor time
    /// (docs/performance.md).
    pub(crate) fn limit(socket: &SockRef<'_>) -> io::Result<()> {
        socket.set_send_buffer_size(160 << 10)
    }

    /// Does nothing: a thread that has waited for events belongs to nothing.
    pub(crate) fn leave_port() {}

    /// Waits for an unpark, so long at most.
    pub(crate) fn park(time: Duration) {
        thread::park_timeout(time);
    }

    pub(crate) const CONNECTING: i32 = libc::EINPROGRESS;
    pub(crate) const NO_SUCH_FAMILY: i32 = libc::EAFNOSUPPORT;
    pub(crate) const SENDS_NO_MORE: i32 = libc::EPIPE;
}

#[cfg(windows)]
mod system {
    use std::{
        ptr::{null_mut, without_provenance_mut},
        sync::OnceLock,
        thread,
        time::Duration,
    };

    use windows_sys::Win32::{
        Foundation::INVALID_HANDLE_VALUE,
        Networking::WinSock::{WSAEAFNOSUPPORT, WSAESHUTDOWN, WSAEWOULDBLOCK},
        System::IO::{CreateIoCompletionPort, GetQueuedCompletionStatus},
    };

    use super::{SockRef, Socket, io};

    /// Does nothing: Windows lets a socket bind to a port of connections that have ended. SO_REUSEADDR would let other
    /// sockets take the address, and SO_EXCLUSIVEADDRUSE keeps the address busy as long as connections live that were
    /// accepted there.
    pub(crate) fn reserve(_: &Socket) -> io::Result<()> {
        Ok(())
    }

    /// Keeps child processes from inheriting the socket: they would keep accepted connections open after this process
    /// has ended.
    pub(crate) fn keep_from_children(socket: &SockRef<'_>) -> io::Result<()> {
        socket.set_no_inherit(true)
    }

    /// Does nothing: no other setting has been measured on Windows.
    pub(crate) fn limit(_: &SockRef<'_>) -> io::Result<()> {
        Ok(())
    }

    /// Ends the thread's association with mio's completion port. The port counts its threads that run, and lets no more
    /// than one for each processor take packets; a thread belongs to the port for which it has waited last (Microsoft's
    /// page "I/O Completion Ports").
    pub(crate) fn leave_port() {
        static PORT: OnceLock<usize> = OnceLock::new();
        // SAFETY: a port without a file.
        let port =
            PORT.get_or_init(|| unsafe { CreateIoCompletionPort(INVALID_HANDLE_VALUE, null_mut(), 0, 0) }.addr());
        let (mut bytes, mut key, mut overlapped) = (0, 0, null_mut());
        let port = without_provenance_mut(*port);
        // SAFETY: locals; nobody sends packets to this port. Without a port the call fails.
        unsafe { GetQueuedCompletionStatus(port, &raw mut bytes, &raw mut key, &raw mut overlapped, 0) };
    }

    /// Waits so long. A wait for an unpark would last until a tick of the clock, which may be 15 ms; std sleeps by a timer
    /// of high resolution.
    pub(crate) fn park(time: Duration) {
        thread::sleep(time);
    }

    pub(crate) const CONNECTING: i32 = WSAEWOULDBLOCK;
    pub(crate) const NO_SUCH_FAMILY: i32 = WSAEAFNOSUPPORT;
    pub(crate) const SENDS_NO_MORE: i32 = WSAESHUTDOWN;
}

pub(super) use system::{keep_from_children, leave_port, limit, park, reserve};

/// Whether an error means that the connect is under way.
pub(super) fn is_connecting(error: &io::Error) -> bool {
    error.raw_os_error() == Some(system::CONNECTING)
}

/// Whether an error means that the host lacks IPv6, or IPv4.
pub(super) fn is_no_such_family(error: &io::Error) -> bool {
    error.raw_os_error() == Some(system::NO_SUCH_FAMILY)
}

/// Whether the error of a send means that the connection is dead. The socket's own shutdown gives this error too, but
/// no send follows a `finish`.
pub(super) fn is_no_sending(error: &io::Error) -> bool {
    error.raw_os_error() == Some(system::SENDS_NO_MORE)
}
