//! System calls of Linux, and what their errors mean.

use std::arch::asm;

use kernel::{status, violation};
use ndk_abi::status::{
    NTSTATUS, STATUS_ACCESS_DENIED, STATUS_ADDRESS_ALREADY_EXISTS, STATUS_CONNECTION_ABORTED,
    STATUS_CONNECTION_DISCONNECTED, STATUS_CONNECTION_REFUSED, STATUS_CONNECTION_RESET, STATUS_HOST_UNREACHABLE,
    STATUS_INVALID_ADDRESS_COMPONENT, STATUS_IO_TIMEOUT, STATUS_NETWORK_UNREACHABLE, STATUS_UNSUCCESSFUL,
};

use super::File;

/// Numbers of system calls (asm/unistd_64.h).
#[derive(Clone, Copy)]
#[repr(usize)]
pub(super) enum Syscall {
    Read = 0,
    Write = 1,
    Close = 3,
    Socket = 41,
    Connect = 42,
    SendMsg = 46,
    RecvMsg = 47,
    Shutdown = 48,
    Bind = 49,
    Listen = 50,
    GetSockName = 51,
    GetPeerName = 52,
    SetSockOpt = 54,
    GetSockOpt = 55,
    EpollWait = 232,
    EpollCtl = 233,
    Accept4 = 288,
    EventFd2 = 290,
    EpollCreate1 = 291,
}

/// A number of an error (asm-generic/errno.h).
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Errno(pub(super) i32);

impl Errno {
    const EINTR: Self = Self(4);
    const EBADF: Self = Self(9);
    pub(super) const EAGAIN: Self = Self(11);
    const ENOMEM: Self = Self(12);
    const EACCES: Self = Self(13);
    const EFAULT: Self = Self(14);
    const ENFILE: Self = Self(23);
    const EMFILE: Self = Self(24);
    const EPIPE: Self = Self(32);
    const ENOTSOCK: Self = Self(88);
    const EADDRINUSE: Self = Self(98);
    const EADDRNOTAVAIL: Self = Self(99);
    const ENETUNREACH: Self = Self(101);
    const ECONNABORTED: Self = Self(103);
    const ECONNRESET: Self = Self(104);
    const ENOBUFS: Self = Self(105);
    pub(super) const EISCONN: Self = Self(106);
    const ETIMEDOUT: Self = Self(110);
    const ECONNREFUSED: Self = Self(111);
    const EHOSTUNREACH: Self = Self(113);
    pub(super) const EALREADY: Self = Self(114);
    pub(super) const EINPROGRESS: Self = Self(115);

    /// The NTSTATUS that WSK would give.
    pub(super) fn meaning(self) -> i32 {
        let meaning: NTSTATUS = match self {
            Self::ECONNREFUSED => STATUS_CONNECTION_REFUSED,
            Self::ENETUNREACH => STATUS_NETWORK_UNREACHABLE,
            Self::EHOSTUNREACH => STATUS_HOST_UNREACHABLE,
            Self::EADDRINUSE => STATUS_ADDRESS_ALREADY_EXISTS,
            Self::EADDRNOTAVAIL => STATUS_INVALID_ADDRESS_COMPONENT,
            Self::EACCES => STATUS_ACCESS_DENIED,
            Self::ETIMEDOUT => STATUS_IO_TIMEOUT,
            Self::ECONNRESET => STATUS_CONNECTION_RESET,
            Self::ECONNABORTED => STATUS_CONNECTION_ABORTED,
            Self::EPIPE => STATUS_CONNECTION_DISCONNECTED,
            Self::ENOBUFS | Self::ENOMEM | Self::EMFILE | Self::ENFILE => NTSTATUS(status::INSUFFICIENT_RESOURCES),
            Self::EFAULT => {
                violation("a buffer of a WSK request is not memory of the kernel");
                STATUS_UNSUCCESSFUL
            }
            Self::EBADF | Self::ENOTSOCK => {
                violation("stand-in: a socket of Linux is used that is closed");
                STATUS_UNSUCCESSFUL
            }
            _ => STATUS_UNSUCCESSFUL,
        };
        meaning.0
    }
}

/// Makes a system call, again where a signal has interrupted it: that comes before anything is done.
///
/// # Safety
/// The arguments are what it wants, and memory that they name is good for it.
pub(super) unsafe fn call(name: Syscall, arguments: [usize; 6]) -> Result<usize, Errno> {
    loop {
        // SAFETY: passed on to the caller.
        match unsafe { call_once(name, arguments) } {
            Err(Errno::EINTR) => {}
            result => return result,
        }
    }
}

/// # Safety
/// As for [`call`].
unsafe fn call_once(name: Syscall, arguments: [usize; 6]) -> Result<usize, Errno> {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: isize;
    // SAFETY: how Linux is called on this processor; passed on to the caller.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") name as isize => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") sixth,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    usize::try_from(result).map_err(|_| Errno(-result as i32))
}

/// Calls one that gets a file and numbers.
pub(super) fn plain(name: Syscall, file: File, arguments: [usize; 2]) -> Result<usize, Errno> {
    // SAFETY: no memory is named.
    unsafe { call(name, [file as usize, arguments[0], arguments[1], 0, 0, 0]) }
}
