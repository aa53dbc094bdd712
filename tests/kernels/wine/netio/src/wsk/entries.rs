//! The functions that clients call.

use std::{
    ffi::c_void,
    hash::{BuildHasher, RandomState},
    ptr::null_mut,
    sync::Arc,
};

use kernel::{ntoskrnl, status, violation};
use ndk_abi::{
    sockaddr::{SOCKADDR, SOCKADDR_INET},
    status::{NTSTATUS, STATUS_ACCESS_DENIED, STATUS_ADDRESS_ALREADY_EXISTS},
    wsk::{
        IPPROTO_TCP, IPPROTO_UDP, SOCK_DGRAM, SOCK_STREAM, WSK_BUF, WSK_FLAG_CONNECTION_SOCKET,
        WSK_FLAG_DATAGRAM_SOCKET, WSK_FLAG_LISTEN_SOCKET, WSK_FLAG_NODELAY, WSK_PROVIDER_CONNECTION_DISPATCH,
        WSK_PROVIDER_DATAGRAM_DISPATCH, WSK_PROVIDER_DISPATCH, WSK_PROVIDER_LISTEN_DISPATCH, WSK_SOCKET,
        WSK_VERSION_1_0,
    },
};

use super::{
    client,
    datagrams::{self, Events},
    linux::{self, Part},
    mdl, ndk,
    operations::{self, Accept, What, finish},
    other_computer, port,
    request::Request,
    socket::{self, Call, Kind, Phase, Socket, misuse, not_of_kind},
};
use crate::lock;

const STATUS_INVALID_HANDLE: i32 = 0xC000_0008_u32.cast_signed();

/// Tables hold pointers, but nobody writes to them.
struct Table<T>(T);
// SAFETY: constant.
unsafe impl<T> Sync for Table<T> {}

static PROVIDER: Table<WSK_PROVIDER_DISPATCH> = Table(WSK_PROVIDER_DISPATCH {
    Version: WSK_VERSION_1_0,
    Reserved: 0,
    WskSocket: Some(make_socket),
    WskSocketConnect: null_mut(),
    WskControlClient: ndk::control_client as *const () as *mut c_void,
    WskGetAddressInfo: null_mut(),
    WskFreeAddressInfo: null_mut(),
    WskGetNameInfo: null_mut(),
});

static LISTENER: Table<WSK_PROVIDER_LISTEN_DISPATCH> = Table(WSK_PROVIDER_LISTEN_DISPATCH {
    WskControlSocket: null_mut(),
    WskCloseSocket: Some(close),
    WskBind: Some(bind),
    WskAccept: Some(accept),
    WskInspectComplete: null_mut(),
    WskGetLocalAddress: Some(local_address),
});

static CONNECTION: Table<WSK_PROVIDER_CONNECTION_DISPATCH> = Table(WSK_PROVIDER_CONNECTION_DISPATCH {
    WskControlSocket: null_mut(),
    WskCloseSocket: Some(close),
    WskBind: Some(bind),
    WskConnect: Some(connect),
    WskGetLocalAddress: Some(local_address),
    WskGetRemoteAddress: null_mut(),
    WskSend: Some(send),
    WskReceive: Some(receive),
    WskDisconnect: Some(disconnect),
    WskRelease: null_mut(),
});

static DATAGRAM: Table<WSK_PROVIDER_DATAGRAM_DISPATCH> = Table(WSK_PROVIDER_DATAGRAM_DISPATCH {
    WskControlSocket: Some(datagrams::entries::control),
    WskCloseSocket: Some(close),
    WskBind: Some(bind),
    WskSendTo: null_mut(),
    WskReceiveFrom: null_mut(),
    WskRelease: Some(datagrams::entries::release),
    WskGetLocalAddress: Some(local_address),
    WskSendMessages: Some(datagrams::entries::send_messages),
});

pub(super) fn provider() -> *const WSK_PROVIDER_DISPATCH {
    &raw const PROVIDER.0
}

/// The functions of a socket.
pub(super) fn of(kind: Kind) -> *const c_void {
    match kind {
        Kind::Listener => (&raw const LISTENER.0).cast(),
        Kind::Connection => (&raw const CONNECTION.0).cast(),
        Kind::Datagram => (&raw const DATAGRAM.0).cast(),
    }
}

/// Lets a call of a function in, for a socket of these kinds in these phases, and notes it. Err: the status of a call that broke a rule.
pub(super) fn admit(
    function: &str,
    socket: Option<Arc<Socket>>,
    kinds: &[Kind],
    phases: &[Phase],
) -> Result<(Arc<Socket>, Call), i32> {
    let Some(socket) = socket else { return Err(closed(function)) };
    let mut state = lock(&socket.state);
    let (phase, closing) = (state.phase, state.closing);
    let is_of_kind = kinds.contains(&socket.kind);
    let call = (!closing && is_of_kind && phases.contains(&phase)).then(|| Call::enter(&socket, &mut state));
    drop(state);
    match call {
        Some(call) => return Ok((socket, call)),
        None if closing => return Err(closed(function)),
        None if !is_of_kind => not_of_kind(function, &socket),
        None => misuse(function, &socket, phase),
    }
    Err(status::INVALID_DEVICE_STATE)
}

/// Takes the request of a call, as far as [`admit`] lets it in.
pub(super) fn enter(
    function: &str,
    socket: *mut WSK_SOCKET,
    irp: *mut c_void,
    kinds: &[Kind],
    phases: &[Phase],
) -> Result<(Arc<Socket>, Call, Request), NTSTATUS> {
    let mut request = Request::begin(function, irp).ok_or(NTSTATUS(status::INVALID_PARAMETER))?;
    let found = socket::find(socket);
    if let Some(found) = &found {
        request.kind = found.kind;
    }
    match admit(function, found, kinds, phases) {
        Ok((socket, call)) => Ok((socket, call, request)),
        Err(status) => Err(NTSTATUS(finish(request, status, 0))),
    }
}

/// Notes the use of a socket that is closed, or is being closed.
fn closed(function: &str) -> i32 {
    violation(&format!("{function}: no such socket, or it is closed"));
    STATUS_INVALID_HANDLE
}

/// The result of a function that `enter` may have ended.
pub(super) fn answer(result: Result<i32, NTSTATUS>) -> NTSTATUS {
    result.map_or_else(|ended| ended, NTSTATUS)
}

/// Ends a request by what the system has answered.
fn done(request: Request, result: Result<(), i32>) -> i32 {
    finish(request, result.err().unwrap_or(status::SUCCESS), 0)
}

/// A request that breaks a rule, or asks for what is not simulated.
pub(super) fn refuse(request: Request, text: &str, status: i32) -> i32 {
    violation(text);
    finish(request, status, 0)
}

/// wsk/nc-wsk-pfn_wsk_socket.
unsafe extern "system" fn make_socket(
    client: *mut c_void,
    family: u16,
    kind: u16,
    protocol: u32,
    flags: u32,
    context: *mut c_void,
    dispatch: *const c_void,
    process: *mut c_void,
    thread: *mut c_void,
    security: *mut c_void,
    irp: *mut c_void,
) -> NTSTATUS {
    let client = client as usize;
    let Some(mut request) = Request::begin("WskSocket", irp) else { return NTSTATUS(status::INVALID_PARAMETER) };
    request.call = client::Call::begin(client);
    if request.call.is_none() {
        return NTSTATUS(refuse(request, "WskSocket: the provider is not captured", status::INVALID_PARAMETER));
    }
    // SAFETY: it is compared only.
    let owner = process.is_null() || unsafe { ntoskrnl::SoftNdkStandInIsSystemProcess(process) } != 0;
    if !owner || !thread.is_null() {
        return NTSTATUS(refuse(
            request,
            "WskSocket: an owner that is not the system process",
            status::INVALID_PARAMETER,
        ));
    }
    let has_callbacks = !context.is_null() || !dispatch.is_null();
    let kind = match (flags, kind, protocol) {
        (WSK_FLAG_LISTEN_SOCKET, SOCK_STREAM, IPPROTO_TCP) if !has_callbacks => Some(Kind::Listener),
        (WSK_FLAG_CONNECTION_SOCKET, SOCK_STREAM, IPPROTO_TCP) if !has_callbacks => Some(Kind::Connection),
        (WSK_FLAG_DATAGRAM_SOCKET, SOCK_DGRAM, IPPROTO_UDP) => Some(Kind::Datagram),
        _ => None,
    }
    .filter(|_| linux::address_length(family).is_some() && security.is_null());
    let Some(kind) = kind else {
        return NTSTATUS(refuse(
            request,
            "WskSocket: only streams without callbacks, and datagrams, are simulated",
            status::NOT_SUPPORTED,
        ));
    };
    NTSTATUS(match socket::open(kind, family) {
        Ok(file) => {
            client::gets_socket(client);
            let socket = socket::make(kind, family, client, file, Phase::Made, Events::new(context, dispatch));
            finish(request, status::SUCCESS, socket as usize)
        }
        Err(status) => finish(request, status, 0),
    })
}

/// An address of the client's, if it is of this family.
///
/// # Safety
/// It is as long as its family says.
pub(super) unsafe fn copy(address: *const SOCKADDR, family: u16) -> Option<SOCKADDR_INET> {
    // SAFETY: passed on to the caller.
    let is_of_family = unsafe { (*address).sa_family } == family;
    let length = linux::address_length(family).filter(|_| is_of_family)?;
    let mut copy = SOCKADDR_INET { Ipv6: ndk_abi::describe::ZeroInit::ZERO };
    // SAFETY: an address of that length, which is no more than there is room for.
    unsafe { (&raw mut copy).cast::<u8>().copy_from(address.cast(), length) };
    Some(copy)
}

/// Ports of which Windows picks one for port 0 (the default since Windows Vista); Linux would pick from others.
const DYNAMIC_PORTS: std::ops::RangeInclusive<u16> = 49152..=u16::MAX;

/// Port 0 picks one, as likely one as another: a process that went through them in order would take the ports that another one, which
/// does the same on this system, has just given back and wants again.
fn bind_to(socket: &Socket, address: SOCKADDR_INET) -> Result<(), i32> {
    if address.Ipv6.sin6_port != 0 {
        // No two datagram sockets of Linux have one address.
        if socket.kind == Kind::Datagram {
            return linux::bind_to_unused(socket.file, address);
        }
        if !address.socket_addr().is_some_and(|address| socket.take_address(address)) {
            return Err(STATUS_ADDRESS_ALREADY_EXISTS.0);
        }
        return linux::bind(socket.file, address).inspect_err(|_| socket.give_address());
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
        result = linux::bind_to_unused(socket.file, chosen);
    }
    result
}

/// wsk/nc-wsk-pfn_wsk_bind.
unsafe extern "system" fn bind(
    socket: *mut WSK_SOCKET,
    address: *mut SOCKADDR,
    flags: u32,
    irp: *mut c_void,
) -> NTSTATUS {
    let entered = enter("WskBind", socket, irp, &Kind::ALL, &[Phase::Made]);
    answer(entered.map(|(socket, _call, request)| {
        // SAFETY: the client's address.
        let Some(local) = (unsafe { copy(address, socket.family) }).filter(|_| flags == 0) else {
            return refuse(request, "WskBind: an address of another family, or flags", status::INVALID_PARAMETER);
        };
        let listens = socket.kind == Kind::Listener;
        let entered = other_computer::of(local).map_or(Ok(()), |namespace| socket.enter(&namespace));
        let bound = entered.and_then(|()| bind_to(&socket, local));
        let result = bound.and_then(|()| if listens { linux::start_listening(socket.file) } else { Ok(()) });
        if result.is_ok() {
            lock(&socket.state).phase = Phase::Bound;
        }
        done(request, result)
    }))
}

/// wsk/nc-wsk-pfn_wsk_connect.
unsafe extern "system" fn connect(
    socket: *mut WSK_SOCKET,
    address: *mut SOCKADDR,
    flags: u32,
    irp: *mut c_void,
) -> NTSTATUS {
    let entered = enter("WskConnect", socket, irp, &[Kind::Connection], &[Phase::Bound]);
    answer(entered.map(|(socket, _call, request)| {
        // SAFETY: the client's address.
        let Some(remote) = (unsafe { copy(address, socket.family) }).filter(|_| flags == 0) else {
            return refuse(request, "WskConnect: an address of another family, or flags", status::INVALID_PARAMETER);
        };
        lock(&socket.state).phase = Phase::Connecting;
        operations::start(socket, request, What::Connect(remote))
    }))
}

/// wsk/nc-wsk-pfn_wsk_accept.
unsafe extern "system" fn accept(
    socket: *mut WSK_SOCKET,
    flags: u32,
    context: *mut c_void,
    dispatch: *const c_void,
    local: *mut SOCKADDR,
    remote: *mut SOCKADDR,
    irp: *mut c_void,
) -> NTSTATUS {
    let entered = enter("WskAccept", socket, irp, &[Kind::Listener], &[Phase::Bound]);
    answer(entered.map(|(socket, _call, request)| {
        if flags != 0 || !context.is_null() || !dispatch.is_null() {
            return refuse(request, "WskAccept: callbacks are not simulated", status::NOT_SUPPORTED);
        }
        operations::start(socket, request, What::Accept(Accept { local, remote }))
    }))
}

/// wsk/nc-wsk-pfn_wsk_get_local_address.
unsafe extern "system" fn local_address(socket: *mut WSK_SOCKET, address: *mut SOCKADDR, irp: *mut c_void) -> NTSTATUS {
    let entered =
        enter("WskGetLocalAddress", socket, irp, &Kind::ALL, &[Phase::Bound, Phase::Connecting, Phase::Connected]);
    answer(entered.map(|(socket, _call, request)| {
        let length = linux::address_length(socket.family).unwrap_or(0);
        let result = linux::address(socket.file, true).map(|own| {
            // SAFETY: the client's place, for an address of the socket's family.
            unsafe { address.cast::<u8>().copy_from((&raw const own).cast(), length) };
        });
        done(request, result)
    }))
}

/// Sends or receives.
unsafe fn transfer(
    function: &str,
    socket: *mut WSK_SOCKET,
    buffer: *mut WSK_BUF,
    irp: *mut c_void,
    what: impl FnOnce(Vec<Part>) -> Option<What>,
) -> NTSTATUS {
    let entered = enter(function, socket, irp, &[Kind::Connection], &[Phase::Connected]);
    answer(entered.map(|(socket, _call, request)| {
        // SAFETY: passed on to the caller.
        let Some(parts) = (unsafe { mdl::parts(function, buffer) }) else {
            return finish(request, status::INVALID_PARAMETER, 0);
        };
        match what(parts) {
            Some(What::Send { .. }) if lock(&socket.state).finished => {
                refuse(request, "WskSend: after WskDisconnect", status::INVALID_DEVICE_STATE)
            }
            Some(what) => operations::start(socket, request, what),
            None => {
                let text = format!("{function}: no bytes, or flags that are not simulated");
                refuse(request, &text, status::NOT_SUPPORTED)
            }
        }
    }))
}

/// wsk/nc-wsk-pfn_wsk_send.
unsafe extern "system" fn send(
    socket: *mut WSK_SOCKET,
    buffer: *mut WSK_BUF,
    flags: u32,
    irp: *mut c_void,
) -> NTSTATUS {
    // SAFETY: passed on to the caller.
    unsafe {
        transfer("WskSend", socket, buffer, irp, |parts| {
            let now = flags == WSK_FLAG_NODELAY;
            (!parts.is_empty() && (now || flags == 0)).then_some(What::Send { parts, sent: 0, now })
        })
    }
}

/// wsk/nc-wsk-pfn_wsk_receive.
unsafe extern "system" fn receive(
    socket: *mut WSK_SOCKET,
    buffer: *mut WSK_BUF,
    flags: u32,
    irp: *mut c_void,
) -> NTSTATUS {
    // SAFETY: passed on to the caller.
    unsafe {
        transfer("WskReceive", socket, buffer, irp, |parts| {
            (!parts.is_empty() && flags == 0).then_some(What::Receive(parts))
        })
    }
}

/// wsk/nc-wsk-pfn_wsk_disconnect.
unsafe extern "system" fn disconnect(
    socket: *mut WSK_SOCKET,
    buffer: *mut WSK_BUF,
    flags: u32,
    irp: *mut c_void,
) -> NTSTATUS {
    let entered = enter("WskDisconnect", socket, irp, &[Kind::Connection], &[Phase::Connected]);
    answer(entered.map(|(socket, _call, request)| {
        if !buffer.is_null() || flags != 0 {
            return refuse(request, "WskDisconnect: last bytes and resets are not simulated", status::NOT_SUPPORTED);
        }
        if std::mem::replace(&mut lock(&socket.state).finished, true) {
            return refuse(request, "WskDisconnect: again", status::INVALID_DEVICE_STATE);
        }
        operations::start_finish(socket, request)
    }))
}

/// wsk/nc-wsk-pfn_wsk_close_socket.
unsafe extern "system" fn close(socket: *mut WSK_SOCKET, irp: *mut c_void) -> NTSTATUS {
    let any = [Phase::Made, Phase::Bound, Phase::Connecting, Phase::Connected];
    let entered = enter("WskCloseSocket", socket, irp, &Kind::ALL, &any);
    answer(entered.map(|(socket, _call, request)| {
        let mut state = lock(&socket.state);
        let again = std::mem::replace(&mut state.closing, true);
        // This one is a call, too.
        let others = state.calls > 1;
        drop(state);
        if again {
            return finish(request, closed("WskCloseSocket"), 0);
        }
        if others {
            violation("WskCloseSocket: another function of the socket has not returned");
        }
        port::post(socket.kind, move || socket::close(&socket, request));
        status::PENDING
    }))
}
