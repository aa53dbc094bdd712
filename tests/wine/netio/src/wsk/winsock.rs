//! Winsock beneath it: non-blocking by overlapped operations. Errors are the NTSTATUS that WSK would give.

use std::{
    ffi::c_void,
    hash::{BuildHasher, RandomState},
    ptr::null_mut,
    sync::OnceLock,
    time::Duration,
};

use kernel::status;
use ndk_abi::{
    sockaddr::{AF_INET, AF_INET6, SOCKADDR, SOCKADDR_INET},
    status::{
        NTSTATUS, STATUS_ACCESS_DENIED, STATUS_ADDRESS_ALREADY_EXISTS, STATUS_CONNECTION_ABORTED,
        STATUS_CONNECTION_REFUSED, STATUS_CONNECTION_RESET, STATUS_HOST_UNREACHABLE, STATUS_INVALID_ADDRESS_COMPONENT,
        STATUS_IO_TIMEOUT, STATUS_NETWORK_UNREACHABLE, STATUS_UNSUCCESSFUL,
    },
};
use windows_sys::Win32::{
    Foundation::HANDLE,
    Networking::WinSock::{
        AcceptEx, INVALID_SOCKET, IPPROTO_TCP, LINGER, LPFN_CONNECTEX, SD_SEND, SIO_GET_EXTENSION_FUNCTION_POINTER,
        SO_EXCLUSIVEADDRUSE, SO_LINGER, SO_UPDATE_ACCEPT_CONTEXT, SO_UPDATE_CONNECT_CONTEXT, SOCK_STREAM, SOCKET,
        SOL_SOCKET, TCP_NODELAY, WSA_FLAG_OVERLAPPED, WSA_IO_PENDING, WSABUF, WSADATA, WSAEACCES, WSAEADDRINUSE,
        WSAEADDRNOTAVAIL, WSAECONNABORTED, WSAECONNREFUSED, WSAECONNRESET, WSAEHOSTUNREACH, WSAENETUNREACH, WSAENOBUFS,
        WSAETIMEDOUT, WSAGetLastError, WSAID_CONNECTEX, WSAIoctl, WSARecv, WSASend, WSASocketW, WSAStartup, bind,
        closesocket, getpeername, getsockname, listen, setsockopt, shutdown,
    },
    System::IO::{CancelIoEx, OVERLAPPED},
};

/// Bytes that AcceptEx wants for an address.
pub(super) const ACCEPT_ADDRESS: usize = size_of::<SOCKADDR_INET>() + 16;

/// The way there and back, simulated.
const BETWEEN_COMPUTERS: Duration = Duration::from_millis(2);

type Result<T> = std::result::Result<T, i32>;

pub(super) fn startup() {
    let mut data = WSADATA::default();
    // SAFETY: a place for the answer.
    unsafe { WSAStartup(0x0202, &mut data) };
}

fn last_error() -> i32 {
    // SAFETY: no preconditions.
    let error = unsafe { WSAGetLastError() };
    let meaning: NTSTATUS = match error {
        WSAECONNREFUSED => STATUS_CONNECTION_REFUSED,
        WSAENETUNREACH => STATUS_NETWORK_UNREACHABLE,
        WSAEHOSTUNREACH => STATUS_HOST_UNREACHABLE,
        WSAEADDRINUSE => STATUS_ADDRESS_ALREADY_EXISTS,
        WSAEADDRNOTAVAIL => STATUS_INVALID_ADDRESS_COMPONENT,
        WSAEACCES => STATUS_ACCESS_DENIED,
        WSAETIMEDOUT => STATUS_IO_TIMEOUT,
        WSAECONNRESET => STATUS_CONNECTION_RESET,
        WSAECONNABORTED => STATUS_CONNECTION_ABORTED,
        WSAENOBUFS => NTSTATUS(status::INSUFFICIENT_RESOURCES),
        _ => STATUS_UNSUCCESSFUL,
    };
    meaning.0
}

/// Of functions that return 0 on success.
fn check(result: i32) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(last_error()) }
}

/// Of functions that begin an overlapped operation. Ok: its end comes by the port.
fn begun(result: bool) -> Result<()> {
    // SAFETY: no preconditions.
    if result || unsafe { WSAGetLastError() } == WSA_IO_PENDING { Ok(()) } else { Err(last_error()) }
}

/// Bytes of an address of this family.
pub(super) fn address_length(family: u16) -> Option<i32> {
    match family {
        AF_INET => Some(0x10),
        AF_INET6 => Some(0x1C),
        _ => None,
    }
}

/// A stream socket.
pub(super) fn stream(family: u16) -> Result<SOCKET> {
    // SAFETY: no protocol information is given.
    let socket =
        unsafe { WSASocketW(family.into(), SOCK_STREAM, IPPROTO_TCP, std::ptr::null(), 0, WSA_FLAG_OVERLAPPED) };
    if socket == INVALID_SOCKET { Err(last_error()) } else { Ok(socket) }
}

fn set<T>(socket: SOCKET, level: i32, option: i32, value: &T) -> Result<()> {
    // SAFETY: an open socket, a value of this size.
    check(unsafe { setsockopt(socket, level, option, (&raw const *value).cast(), size_of::<T>() as i32) })
}

/// No other socket may have the address that this one will be bound to.
pub(super) fn exclude_others(socket: SOCKET) -> Result<()> {
    set(socket, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, &1_u32)
}

pub(super) fn no_delay(socket: SOCKET) -> Result<()> {
    set(socket, IPPROTO_TCP, TCP_NODELAY, &1_u32)
}

/// Ports that Windows gives to who asks for any (the default since Windows Vista); those of Wine's system are others.
const DYNAMIC_PORTS: std::ops::RangeInclusive<u16> = 49152..=u16::MAX;

/// Port 0 picks one, as likely one as another: a process that went through them in order would take the ports that another one, which
/// does the same on this system, has just given back and wants again.
pub(super) fn bind_to(socket: SOCKET, address: SOCKADDR_INET) -> Result<()> {
    let length = address_length(address.si_family()).unwrap_or(0);
    // SAFETY: an address of that length.
    let bind_to = |address: &SOCKADDR_INET| check(unsafe { bind(socket, (&raw const *address).cast(), length) });
    if address.Ipv6.sin6_port != 0 {
        return bind_to(&address);
    }
    let taken = [STATUS_ADDRESS_ALREADY_EXISTS.0, STATUS_ACCESS_DENIED.0];
    let mut result = Err(STATUS_ADDRESS_ALREADY_EXISTS.0);
    let mut next = RandomState::new().hash_one(()) as u16;
    for _ in DYNAMIC_PORTS {
        if !result.is_err_and(|error| taken.contains(&error)) {
            break;
        }
        let port = DYNAMIC_PORTS.start() | next;
        next = next.wrapping_add(1);
        let mut chosen = address;
        // The port is in the same place in both families.
        chosen.Ipv6.sin6_port = port.to_be();
        result = bind_to(&chosen);
    }
    result
}

/// Connections that wait to be accepted, as in `driver/hosted`. Wine takes SOMAXCONN for 5, and Linux drops the SYN of each connection beyond.
const BACKLOG: i32 = 1024;

pub(super) fn start_listening(socket: SOCKET) -> Result<()> {
    // SAFETY: an open socket.
    check(unsafe { listen(socket, BACKLOG) })
}

/// The own address, or the peer's.
pub(super) fn address(socket: SOCKET, own: bool) -> Result<SOCKADDR_INET> {
    let mut address = SOCKADDR_INET { Ipv6: ndk_abi::describe::ZeroInit::ZERO };
    let mut length = size_of::<SOCKADDR_INET>() as i32;
    let place = (&raw mut address).cast();
    let result = if own {
        // SAFETY: an open socket, a place for an address of this length.
        unsafe { getsockname(socket, place, &mut length) }
    } else {
        // SAFETY: as above.
        unsafe { getpeername(socket, place, &mut length) }
    };
    check(result).map(|()| address)
}

/// After how long the peer of a connection has what is sent. All are on one system: those at 127.0.0.1 count as on one computer, as do
/// those at other addresses than 127.0.0.0/8.
pub(super) fn round_trip(socket: SOCKET) -> Duration {
    let own = address(socket, true)
        .map_or([0; 4], |own| if own.si_family() == AF_INET { own.Ipv4().sin_addr } else { [0; 4] });
    if own[0] == 127 && own != [127, 0, 0, 1] { BETWEEN_COMPUTERS } else { Duration::ZERO }
}

/// # Safety
/// As for all that follow: the operation and its buffers live until its end has come.
pub(super) unsafe fn connect(
    socket: SOCKET,
    address: *const SOCKADDR,
    length: i32,
    operation: *mut OVERLAPPED,
) -> Result<()> {
    static CONNECT: OnceLock<LPFN_CONNECTEX> = OnceLock::new();
    let connect = CONNECT.get_or_init(|| {
        let mut function: LPFN_CONNECTEX = None;
        let mut bytes = 0;
        // SAFETY: an open socket, an identifier, a place for a pointer.
        unsafe {
            WSAIoctl(
                socket,
                SIO_GET_EXTENSION_FUNCTION_POINTER,
                std::ptr::from_ref(&WSAID_CONNECTEX).cast(),
                size_of_val(&WSAID_CONNECTEX) as u32,
                (&raw mut function).cast::<c_void>(),
                size_of::<LPFN_CONNECTEX>() as u32,
                &mut bytes,
                null_mut(),
                None,
            )
        };
        function
    });
    let Some(connect) = connect else { return Err(status::NOT_SUPPORTED) };
    // SAFETY: passed on to the caller; nothing is sent.
    begun(unsafe { connect(socket, address.cast(), length, std::ptr::null(), 0, null_mut(), operation) } != 0)
}

/// Completes what ConnectEx leaves open.
pub(super) fn connected(socket: SOCKET) -> Result<()> {
    // SAFETY: an open socket; the option has no value.
    check(unsafe { setsockopt(socket, SOL_SOCKET, SO_UPDATE_CONNECT_CONTEXT, std::ptr::null(), 0) })
}

/// # Safety
/// As for `connect`.
pub(super) unsafe fn accept(
    listener: SOCKET,
    socket: SOCKET,
    addresses: *mut c_void,
    operation: *mut OVERLAPPED,
) -> Result<()> {
    let (mut bytes, length) = (0, ACCEPT_ADDRESS as u32);
    // SAFETY: passed on to the caller; nothing is received.
    begun(unsafe { AcceptEx(listener, socket, addresses, 0, length, length, &mut bytes, operation) } != 0)
}

/// Completes what AcceptEx leaves open.
pub(super) fn accepted(listener: SOCKET, socket: SOCKET) -> Result<()> {
    set(socket, SOL_SOCKET, SO_UPDATE_ACCEPT_CONTEXT, &listener)
}

/// # Safety
/// As for `connect`.
pub(super) unsafe fn send(socket: SOCKET, parts: &[WSABUF], operation: *mut OVERLAPPED) -> Result<()> {
    // SAFETY: passed on to the caller.
    let result = unsafe { WSASend(socket, parts.as_ptr(), parts.len() as u32, null_mut(), 0, operation, None) };
    begun(result == 0)
}

/// # Safety
/// As for `connect`.
pub(super) unsafe fn receive(socket: SOCKET, parts: &[WSABUF], operation: *mut OVERLAPPED) -> Result<()> {
    let mut flags = 0;
    // SAFETY: passed on to the caller.
    let result =
        unsafe { WSARecv(socket, parts.as_ptr(), parts.len() as u32, null_mut(), &mut flags, operation, None) };
    begun(result == 0)
}

pub(super) fn finish(socket: SOCKET) -> Result<()> {
    // SAFETY: an open socket.
    check(unsafe { shutdown(socket, SD_SEND) })
}

/// Ends one operation of a socket, or all of them: their ends come all the same.
pub(super) fn cancel(socket: SOCKET, operation: *mut OVERLAPPED) {
    // SAFETY: an open socket; an operation of it that has not ended, or null. It may end meanwhile: then nothing is found.
    unsafe { CancelIoEx(socket as HANDLE, operation) };
}

/// Closes a socket, by a reset if so asked. Wine shuts down what it closes: before the reset the peer may see an end.
pub(super) fn close(socket: SOCKET, reset: bool) {
    if reset {
        let _it_may_be_dead = set(socket, SOL_SOCKET, SO_LINGER, &LINGER { l_onoff: 1, l_linger: 0 });
    }
    // SAFETY: an open socket, closed once.
    unsafe { closesocket(socket) };
}
