//! System calls of Linux, on which Wine runs, and which Wine 8 lets pass.

use std::arch::asm;

/// A file of Linux.
pub type File = i32;

/// Numbers of system calls (asm/unistd_64.h).
#[derive(Clone, Copy)]
#[repr(usize)]
pub enum Syscall {
    Read = 0,
    Write = 1,
    Open = 2,
    Close = 3,
    Poll = 7,
    Ioctl = 16,
    WriteV = 20,
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
    Dup3 = 292,
    SetNs = 308,
}

/// A number of an error (asm-generic/errno.h).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    pub const EINTR: Self = Self(4);
    pub const EBADF: Self = Self(9);
    pub const EAGAIN: Self = Self(11);
    pub const ENOMEM: Self = Self(12);
    pub const EACCES: Self = Self(13);
    pub const EFAULT: Self = Self(14);
    pub const EINVAL: Self = Self(22);
    pub const ENFILE: Self = Self(23);
    pub const EMFILE: Self = Self(24);
    pub const EPIPE: Self = Self(32);
    pub const ENOTSOCK: Self = Self(88);
    pub const EMSGSIZE: Self = Self(90);
    pub const EADDRINUSE: Self = Self(98);
    pub const EADDRNOTAVAIL: Self = Self(99);
    pub const ENETUNREACH: Self = Self(101);
    pub const ECONNABORTED: Self = Self(103);
    pub const ECONNRESET: Self = Self(104);
    pub const ENOBUFS: Self = Self(105);
    pub const EISCONN: Self = Self(106);
    pub const ETIMEDOUT: Self = Self(110);
    pub const ECONNREFUSED: Self = Self(111);
    pub const EHOSTUNREACH: Self = Self(113);
    pub const EALREADY: Self = Self(114);
    pub const EINPROGRESS: Self = Self(115);
}

/// Makes a system call, again where a signal has interrupted it: that comes before anything is done.
///
/// # Safety
/// The arguments are what it wants, and memory that they name is good for it.
pub unsafe fn call(name: Syscall, arguments: [usize; 6]) -> Result<usize, Errno> {
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
pub fn plain(name: Syscall, file: File, arguments: [usize; 2]) -> Result<usize, Errno> {
    // SAFETY: no memory is named.
    unsafe { call(name, [file as usize, arguments[0], arguments[1], 0, 0, 0]) }
}
