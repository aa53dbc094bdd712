//! TCP and UDP of the system that Wine runs on, by system calls of Linux, which Wine 8 lets pass. Winsock would have Wine's server do each step of
//! each socket, all of a prefix on one thread: some thirty requests for a connection that is accepted and closed. A good peer would wait
//! for those of all others, and not for the driver, when many come or go at once.
//!
//! Nothing here waits but for [`Poll`]. Errors are the NTSTATUS that WSK would give.

mod errors;
pub(super) mod udp;

use std::{thread, time::Duration};

pub(super) use kernel::linux::File;
use kernel::linux::{Errno, Syscall, call, plain};
use ndk_abi::{
    describe::ZeroInit,
    sockaddr::{AF_INET, AF_INET6, SOCKADDR_INET},
    status::STATUS_UNSUCCESSFUL,
};

use errors::meaning;

/// The way there and back, simulated.
const BETWEEN_COMPUTERS: Duration = Duration::from_millis(2);

/// Connections that wait to be accepted, as in `driver/hosted`.
const BACKLOG: usize = 1024;

/// Err: an NTSTATUS.
type Result<T> = std::result::Result<T, i32>;

const SOL_SOCKET: usize = 1;
const SO_REUSEADDR: usize = 2;
const SO_ERROR: usize = 4;
const SO_LINGER: usize = 13;
const SOCK_STREAM: usize = 1;
/// Not for the programs that Wine starts; and no call waits.
const CLOEXEC: usize = 0o2_000_000;
const NONBLOCK: usize = 0o4_000;
const IPPROTO_TCP: usize = 6;
const TCP_NODELAY: usize = 1;
const IPPROTO_IPV6: usize = 41;
const IPV6_V6ONLY: usize = 26;
const LINUX_AF_INET6: u16 = 10;
const MSG_NOSIGNAL: usize = 0x4000;
/// Parts that one call takes at most (UIO_MAXIOV).
const PARTS: usize = 1024;
const SHUT_WR: usize = 1;
const CLONE_NEWNET: usize = 0x4000_0000;
const EPOLL_CTL_ADD: usize = 1;
const EPOLLIN: u32 = 1;
const EPOLLOUT: u32 = 4;
/// An event is told once, when it comes.
const EPOLLET: u32 = 1 << 31;

/// Sockets of which one wait tells at most: few, so that jobs do not wait for many.
const EVENTS: usize = 8;

/// Bytes in one piece (struct iovec).
#[repr(C)]
pub(super) struct Part {
    pub(super) start: *mut u8,
    pub(super) length: usize,
}

/// struct msghdr.
#[repr(C)]
struct Message {
    name: usize,
    name_length: u32,
    parts: *const Part,
    count: usize,
    control: usize,
    control_length: usize,
    flags: i32,
}

/// struct epoll_event, which is packed on this processor.
#[derive(Clone, Copy)]
#[repr(C, packed)]
struct Event {
    events: u32,
    key: usize,
}

/// The result of a call that may have to be made again: `None`, when the socket is told of.
fn unless_later<T>(result: std::result::Result<T, Errno>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::EAGAIN | Errno::EALREADY | Errno::EINPROGRESS) => Ok(None),
        Err(error) => Err(meaning(error)),
    }
}

/// Bytes of an address of this family.
pub(super) fn address_length(family: u16) -> Option<usize> {
    match family {
        AF_INET => Some(0x10),
        AF_INET6 => Some(0x1C),
        _ => None,
    }
}

/// An address as Linux has it, which has another number for IPv6, and how long it is.
fn of_linux(mut address: SOCKADDR_INET) -> (SOCKADDR_INET, usize) {
    let length = address_length(address.si_family()).unwrap_or(0);
    if address.si_family() == AF_INET6 {
        address.Ipv6.sin6_family = LINUX_AF_INET6;
    }
    (address, length)
}

fn set<T>(socket: File, level: usize, option: usize, value: &T) -> Result<()> {
    let value = (&raw const *value).expose_provenance();
    // SAFETY: a value of this size, which is read.
    unsafe { call(Syscall::SetSockOpt, [socket as usize, level, option, value, size_of::<T>(), 0]) }
        .map(drop)
        .map_err(meaning)
}

/// A stream socket.
pub(super) fn stream(family: u16) -> Result<File> {
    open(family, SOCK_STREAM, IPPROTO_TCP)
}

/// A socket of this type and protocol.
fn open(family: u16, kind: usize, protocol: usize) -> Result<File> {
    let domain = if family == AF_INET6 { LINUX_AF_INET6 } else { family };
    let socket = plain(Syscall::Socket, domain.into(), [kind | CLOEXEC | NONBLOCK, protocol]).map_err(meaning)?;
    let socket = socket as File;
    if family == AF_INET6 {
        set(socket, IPPROTO_IPV6, IPV6_V6ONLY, &1_u32).inspect_err(|_| close(socket, false))?;
    }
    Ok(socket)
}

/// Puts the socket that `make` makes in the network namespace `namespace`, a path, in the place of `socket`.
pub(super) fn enter(socket: File, namespace: &str, make: impl FnOnce() -> Result<File> + Send + 'static) -> Result<()> {
    let path = [namespace.as_bytes(), &[0]].concat();
    // The namespace is the thread's, which ends.
    let made = thread::spawn(move || {
        let address = path.as_ptr().expose_provenance();
        // SAFETY: a path that ends with 0.
        let file = unsafe { call(Syscall::Open, [address, CLOEXEC, 0, 0, 0, 0]) }.map_err(meaning)? as File;
        let entered = plain(Syscall::SetNs, file, [CLONE_NEWNET, 0]).map_err(meaning);
        close(file, false);
        entered.and_then(|_| make())
    });
    let made = made.join().unwrap_or(Err(STATUS_UNSUCCESSFUL.0))?;
    let replaced = plain(Syscall::Dup3, made, [socket as usize, CLOEXEC]).map(drop).map_err(meaning);
    close(made, false);
    replaced
}

/// Lets a socket be bound to an address of connections that have ended. No socket gets the address of another one that listens.
fn reuse(socket: File) -> Result<()> {
    set(socket, SOL_SOCKET, SO_REUSEADDR, &1_u32)
}

/// Binds to this address and port.
pub(super) fn bind(socket: File, address: SOCKADDR_INET) -> Result<()> {
    reuse(socket)?;
    bind_to_unused(socket, address)
}

/// Binds to this address and port, if no other socket has them, or had them a short time ago.
pub(super) fn bind_to_unused(socket: File, address: SOCKADDR_INET) -> Result<()> {
    let (address, length) = of_linux(address);
    // SAFETY: an address of that length, which is read.
    unsafe { call(Syscall::Bind, [socket as usize, (&raw const address).expose_provenance(), length, 0, 0, 0]) }
        .map(drop)
        .map_err(meaning)
}

pub(super) fn no_delay(socket: File, on: bool) -> Result<()> {
    set(socket, IPPROTO_TCP, TCP_NODELAY, &u32::from(on))
}

/// The connections that it accepts have from it that their address may be used again.
pub(super) fn start_listening(socket: File) -> Result<()> {
    reuse(socket)?;
    plain(Syscall::Listen, socket, [BACKLOG, 0]).map(drop).map_err(meaning)
}

/// The own address, or the peer's.
pub(super) fn address(socket: File, own: bool) -> Result<SOCKADDR_INET> {
    let mut address = SOCKADDR_INET { Ipv6: ZeroInit::ZERO };
    let mut length = size_of::<SOCKADDR_INET>() as u32;
    let name = if own { Syscall::GetSockName } else { Syscall::GetPeerName };
    let places = [(&raw mut address).expose_provenance(), (&raw mut length).expose_provenance()];
    // SAFETY: a place for an address of this length.
    unsafe { call(name, [socket as usize, places[0], places[1], 0, 0, 0]) }.map_err(meaning)?;
    if address.si_family() == LINUX_AF_INET6 {
        address.Ipv6.sin6_family = AF_INET6;
    }
    Ok(address)
}

/// After how long the peer of a connection has what is sent. All are on one system: those at 127.0.0.1 count as on one computer, as do
/// those at other addresses than 127.0.0.0/8.
pub(super) fn round_trip(socket: File) -> Duration {
    let own = address(socket, true)
        .map_or([0; 4], |own| if own.si_family() == AF_INET { own.Ipv4().sin_addr } else { [0; 4] });
    if own[0] == 127 && own != [127, 0, 0, 1] { BETWEEN_COMPUTERS } else { Duration::ZERO }
}

/// Connects, or says what has come of it so far.
pub(super) fn connect(socket: File, address: SOCKADDR_INET) -> Result<Option<()>> {
    let (address, length) = of_linux(address);
    // SAFETY: an address of that length, which is read.
    match unsafe {
        call(Syscall::Connect, [socket as usize, (&raw const address).expose_provenance(), length, 0, 0, 0])
    } {
        Err(Errno::EISCONN) => Ok(Some(())),
        result => unless_later(result.map(drop)),
    }
}

/// The next connection of a listener.
pub(super) fn accept(listener: File) -> Result<Option<File>> {
    // SAFETY: no place for an address is named.
    let accepted = unsafe { call(Syscall::Accept4, [listener as usize, 0, 0, CLOEXEC | NONBLOCK, 0, 0]) };
    unless_later(accepted.map(|socket| socket as File))
}

/// # Safety
/// The parts are good to be read, or for [`receive`] written.
pub(super) unsafe fn send(socket: File, parts: &[Part]) -> Result<Option<usize>> {
    // SAFETY: passed on to the caller.
    unsafe { transfer(Syscall::SendMsg, socket, parts) }
}

/// # Safety
/// As for [`send`].
pub(super) unsafe fn receive(socket: File, parts: &[Part]) -> Result<Option<usize>> {
    // SAFETY: passed on to the caller.
    unsafe { transfer(Syscall::RecvMsg, socket, parts) }
}

unsafe fn transfer(name: Syscall, socket: File, parts: &[Part]) -> Result<Option<usize>> {
    let message = Message {
        name: 0,
        name_length: 0,
        parts: parts.as_ptr(),
        // A send goes on with the rest.
        count: parts.len().min(PARTS),
        control: 0,
        control_length: 0,
        flags: 0,
    };
    let message = (&raw const message).expose_provenance();
    // SAFETY: passed on to the caller.
    unless_later(unsafe { call(name, [socket as usize, message, MSG_NOSIGNAL, 0, 0, 0]) })
}

/// The error that Linux has not told of, and tells of no more.
pub(super) fn error(socket: File) -> Result<()> {
    let (mut error, mut length) = (0, size_of::<i32>() as u32);
    let places = [(&raw mut error).expose_provenance(), (&raw mut length).expose_provenance()];
    // SAFETY: a place for a number of this length.
    unsafe { call(Syscall::GetSockOpt, [socket as usize, SOL_SOCKET, SO_ERROR, places[0], places[1], 0]) }
        .map_err(meaning)?;
    if error == 0 { Ok(()) } else { Err(meaning(Errno(error))) }
}

pub(super) fn finish(socket: File) -> Result<()> {
    plain(Syscall::Shutdown, socket, [SHUT_WR, 0]).map(drop).map_err(meaning)
}

/// Closes a socket, by a reset if so asked.
pub(super) fn close(socket: File, reset: bool) {
    if reset {
        // struct linger: on, no time.
        let _it_may_be_dead = set(socket, SOL_SOCKET, SO_LINGER, &[1_i32, 0]);
    }
    let _closed_anyhow = plain(Syscall::Close, socket, [0, 0]);
}

/// What tells of sockets: each is told of when it may be able to go on.
#[derive(Clone, Copy)]
pub(super) struct Poll {
    epoll: File,
    /// Which is rung by [`Poll::ring`], and has no key.
    bell: File,
}

impl Poll {
    pub(super) fn new() -> Result<Self> {
        let epoll = plain(Syscall::EpollCreate1, CLOEXEC as File, [0, 0]).map_err(meaning)? as File;
        let bell = plain(Syscall::EventFd2, 0, [CLOEXEC | NONBLOCK, 0]).map_err(meaning)? as File;
        let poll = Self { epoll, bell };
        poll.watch(bell, 0).map(|()| poll)
    }

    /// Tells of a socket by this key, until it is closed; now, too, if it can go on.
    pub(super) fn watch(self, file: File, key: usize) -> Result<()> {
        let event = Event { events: EPOLLIN | EPOLLOUT | EPOLLET, key };
        let event = (&raw const event).expose_provenance();
        // SAFETY: an event, which is read.
        unsafe { call(Syscall::EpollCtl, [self.epoll as usize, EPOLL_CTL_ADD, file as usize, event, 0, 0]) }
            .map(drop)
            .map_err(meaning)
    }

    /// Ends a wait, or the next one.
    pub(super) fn ring(self) {
        let one = 1_u64;
        // SAFETY: eight bytes, which are read.
        let _rung =
            unsafe { call(Syscall::Write, [self.bell as usize, (&raw const one).expose_provenance(), 8, 0, 0, 0]) };
    }

    /// Says which sockets may be able to go on, and `waits` for one. Err: there is nothing to be waited for.
    pub(super) fn wait(self, waits: bool) -> Result<Vec<usize>> {
        let milliseconds = if waits { usize::MAX } else { 0 };
        let mut events = [Event { events: 0, key: 0 }; EVENTS];
        let place = (&raw mut events).expose_provenance();
        // SAFETY: `place` has room for `events.len()` events, and Linux writes no more; -1: epoll_wait has no limit of time.
        let count = unsafe { call(Syscall::EpollWait, [self.epoll as usize, place, events.len(), milliseconds, 0, 0]) }
            .map_err(meaning)?;
        let mut keys = events[..count].iter().map(|event| event.key).collect::<Vec<_>>();
        if keys.contains(&0) {
            let mut rung = 0_u64;
            let place = (&raw mut rung).expose_provenance();
            // SAFETY: a place for eight bytes.
            let _silent_again = unsafe { call(Syscall::Read, [self.bell as usize, place, 8, 0, 0, 0]) };
            keys.retain(|key| *key != 0);
        }
        Ok(keys)
    }
}
