//! Winsock Kernel: requests that are waited for.

mod bytes;
pub(crate) mod checks;
pub(crate) mod datagrams;
pub(crate) mod endings;
pub(crate) mod planted;

use core::{
    ffi::c_void,
    ptr::{null, null_mut},
    sync::atomic::{AtomicU32, Ordering},
};

use ndk_abi::{
    describe::ZeroInit,
    sockaddr::{SOCKADDR_IN, SOCKADDR_IN6, SOCKADDR_INET},
    wsk::*,
};

use crate::imports::*;
pub(crate) use bytes::{Bytes, LENGTH};

pub(crate) const SUCCESS: i32 = 0;
pub(crate) const PENDING: i32 = 0x103;
pub(crate) const NEVER: i32 = 0x102;
pub(crate) const KEPT: i32 = 0xC000_0016_u32.cast_signed();
/// `IoSizeOfIrp(1)`.
pub(crate) const IRP_BYTES: usize = 0x118;
const SECONDS: i64 = -10_000_000;

/// How many requests have ended, ever.
static ENDED: AtomicU32 = AtomicU32::new(0);

/// A request with its IRP, in memory of this driver's own.
#[repr(C, align(16))]
pub(crate) struct Request {
    irp: [u8; IRP_BYTES],
    event: Kevent,
    /// When it ended: the how manyth.
    place: AtomicU32,
}

impl Request {
    pub(crate) const fn new() -> Self {
        Self { irp: [0; IRP_BYTES], event: Kevent([0; 3]), place: AtomicU32::new(0) }
    }

    /// Gives its IRP to `call`.
    ///
    /// # Safety
    /// Not under way, and not moved before it has ended. `call` gives the IRP to WSK.
    pub(crate) unsafe fn start(this: *mut Self, call: impl FnOnce(*mut c_void)) {
        // SAFETY: as documented; the next stack location is that before the one behind.
        unsafe {
            let irp = (&raw mut (*this).irp).cast::<u8>();
            IoInitializeIrp(irp.cast(), IRP_BYTES as u16, 1);
            KeInitializeEvent(&raw mut (*this).event, 0, 0);
            (*this).place.store(0, Ordering::Relaxed);
            set_routine(irp, ended as *mut c_void, this.cast());
            call(irp.cast());
        }
    }

    /// Waits for its end: status and information.
    ///
    /// # Safety
    /// It was started.
    pub(crate) unsafe fn end(this: *mut Self) -> (i32, usize) {
        let timeout = 10 * SECONDS;
        // SAFETY: an initialised event; the IRP has ended when it is set.
        unsafe {
            if KeWaitForSingleObject((&raw mut (*this).event).cast(), 0, 0, 0, &timeout) != 0 {
                return (NEVER, 0);
            }
            let irp = (&raw const (*this).irp).cast::<u8>();
            (irp.add(0x30).cast::<i32>().read(), irp.add(0x38).cast::<usize>().read())
        }
    }

    pub(crate) fn irp(this: *mut Self) -> *mut c_void {
        this.cast()
    }

    pub(crate) fn place(&self) -> u32 {
        self.place.load(Ordering::Relaxed)
    }
}

/// IoSetCompletionRoutine.
///
/// # Safety
/// An IRP with a location that is not in use.
pub(crate) unsafe fn set_routine(irp: *mut u8, routine: *mut c_void, context: *mut c_void) {
    // SAFETY: see above.
    unsafe {
        let next = next_location(irp);
        next.add(0x38).cast::<*mut c_void>().write(routine);
        next.add(0x40).cast::<*mut c_void>().write(context);
        next.add(3).write(ALWAYS);
    }
}

/// SL_INVOKE_ON_CANCEL, _ON_SUCCESS, _ON_ERROR.
const ALWAYS: u8 = 0xE0;

/// IoGetNextIrpStackLocation.
unsafe fn next_location(irp: *mut u8) -> *mut u8 {
    // SAFETY: where an IRP has its current location.
    unsafe { irp.add(0xB8).cast::<*mut u8>().read().sub(0x48) }
}

unsafe extern "system" fn ended(_device: *mut c_void, _irp: *mut c_void, request: *mut c_void) -> i32 {
    // SAFETY: the request, which waits for this.
    unsafe {
        let request = request.cast::<Request>();
        (*request).place.store(ENDED.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        KeSetEvent(&raw mut (*request).event, 0, 0);
    }
    KEPT
}

/// Does something by a request, and waits for its end.
pub(crate) unsafe fn wait(call: impl FnOnce(*mut c_void)) -> (i32, usize) {
    let mut request = Request::new();
    let request = &raw mut request;
    // SAFETY: it does not move; what never ends is fatal to the test anyhow.
    unsafe {
        Request::start(request, call);
        Request::end(request)
    }
}

/// A registered client with a captured provider.
pub(crate) struct Client {
    registration: *mut WSK_REGISTRATION,
    provider: WSK_PROVIDER_NPI,
}

static DISPATCH: Constant<WSK_CLIENT_DISPATCH> =
    Constant(WSK_CLIENT_DISPATCH { Version: WSK_VERSION_1_0, Reserved: 0, WskClientEvent: null_mut() });
struct Constant<T>(T);
// SAFETY: never written.
unsafe impl<T> Sync for Constant<T> {}

/// # Safety
/// A registration that stays where it is.
pub(crate) unsafe fn register(registration: *mut WSK_REGISTRATION) -> i32 {
    let mut npi = WSK_CLIENT_NPI { ClientContext: null_mut(), Dispatch: &raw const DISPATCH.0 };
    // SAFETY: see above.
    unsafe { WskRegister(&mut npi, registration) }
}

impl Client {
    /// # Safety
    /// As for `register`.
    pub(crate) unsafe fn new(registration: *mut WSK_REGISTRATION) -> Option<Self> {
        let mut provider = WSK_PROVIDER_NPI::ZERO;
        // SAFETY: see above; captured at DISPATCH_LEVEL, as it may be without a wait.
        let statuses = unsafe {
            let registered = register(registration);
            KfRaiseIrql(2);
            let captured = WskCaptureProviderNPI(registration, WSK_NO_WAIT, &mut provider);
            KeLowerIrql(0);
            (registered, captured)
        };
        (statuses == (SUCCESS, SUCCESS)).then_some(Self { registration, provider })
    }

    /// Releases and deregisters.
    pub(crate) unsafe fn end(self) {
        // SAFETY: captured and registered.
        unsafe {
            WskReleaseProviderNPI(self.registration);
            WskDeregister(self.registration);
        }
    }

    pub(crate) unsafe fn socket(&self, family: u16, flags: u32) -> (i32, *mut WSK_SOCKET) {
        // SAFETY: a variable of the kernel that does not change.
        let system = unsafe { PsInitialSystemProcess };
        // SAFETY: the caller's contract is the same.
        unsafe { self.socket_of(system, family, flags) }
    }

    pub(crate) unsafe fn socket_of(&self, owner: *mut c_void, family: u16, flags: u32) -> (i32, *mut WSK_SOCKET) {
        // SAFETY: no callbacks.
        unsafe { self.make(owner, family, (SOCK_STREAM, IPPROTO_TCP, flags), null_mut(), null()) }
    }

    /// A socket of this type, protocol and these flags. The context and the table outlive it.
    unsafe fn make(
        &self,
        owner: *mut c_void,
        family: u16,
        (kind, protocol, flags): (u16, u32, u32),
        context: *mut c_void,
        dispatch: *const c_void,
    ) -> (i32, *mut WSK_SOCKET) {
        let none = null_mut();
        // SAFETY: a captured provider.
        let (status, socket) = unsafe {
            wait(|irp| {
                if let Some(make) = (*self.provider.Dispatch).WskSocket {
                    make(
                        self.provider.Client,
                        family,
                        kind,
                        protocol,
                        flags,
                        context,
                        dispatch,
                        owner,
                        none,
                        none,
                        irp,
                    );
                }
            })
        };
        (status, core::ptr::with_exposed_provenance_mut(socket))
    }
}

pub(crate) unsafe fn connection(socket: *mut WSK_SOCKET) -> &'static WSK_PROVIDER_CONNECTION_DISPATCH {
    // SAFETY: a socket whose table outlives it.
    unsafe { &*(*socket).Dispatch.cast() }
}

pub(crate) unsafe fn listener(socket: *mut WSK_SOCKET) -> &'static WSK_PROVIDER_LISTEN_DISPATCH {
    // SAFETY: as above.
    unsafe { &*(*socket).Dispatch.cast() }
}

/// An own address with this port, in network byte order.
pub(crate) fn own(family: u16, port: u16) -> SOCKADDR_INET {
    if family == ndk_abi::sockaddr::AF_INET {
        let address = SOCKADDR_IN { sin_family: family, sin_port: port, sin_addr: [127, 0, 0, 1], ..SOCKADDR_IN::ZERO };
        SOCKADDR_INET::from_ipv4(address)
    } else {
        let mut address = SOCKADDR_IN6 { sin6_family: family, sin6_port: port, ..SOCKADDR_IN6::ZERO };
        address.sin6_addr[15] = 1;
        SOCKADDR_INET { Ipv6: address }
    }
}

/// An address of another computer, in the eyes of the stand-in.
pub(crate) fn elsewhere() -> SOCKADDR_INET {
    let address = SOCKADDR_IN { sin_family: ndk_abi::sockaddr::AF_INET, sin_addr: [127, 0, 0, 5], ..SOCKADDR_IN::ZERO };
    SOCKADDR_INET::from_ipv4(address)
}

pub(crate) unsafe fn bind(socket: *mut WSK_SOCKET, mut address: SOCKADDR_INET) -> i32 {
    // SAFETY: a socket of either kind: the entry is at the same place.
    unsafe {
        wait(|irp| {
            if let Some(bind) = connection(socket).WskBind {
                bind(socket, (&raw mut address).cast(), 0, irp);
            }
        })
        .0
    }
}

pub(crate) unsafe fn connect(socket: *mut WSK_SOCKET, mut address: SOCKADDR_INET) -> i32 {
    // SAFETY: a connection.
    unsafe {
        wait(|irp| {
            if let Some(connect) = connection(socket).WskConnect {
                connect(socket, (&raw mut address).cast(), 0, irp);
            }
        })
        .0
    }
}

pub(crate) unsafe fn close(socket: *mut WSK_SOCKET) -> i32 {
    // SAFETY: a socket of either kind: the entry is at the same place.
    unsafe {
        wait(|irp| {
            if let Some(close) = connection(socket).WskCloseSocket {
                close(socket, irp);
            }
        })
        .0
    }
}

/// The local address of a listener.
pub(crate) unsafe fn address_of(socket: *mut WSK_SOCKET) -> SOCKADDR_INET {
    let mut address = SOCKADDR_INET::ZERO;
    // SAFETY: a listener; the address does not move.
    unsafe {
        wait(|irp| {
            if let Some(ask) = listener(socket).WskGetLocalAddress {
                ask(socket, (&raw mut address).cast(), irp);
            }
        });
    }
    address
}

/// Begins a send.
pub(crate) unsafe fn start_send(request: *mut Request, socket: *mut WSK_SOCKET, mut bytes: WSK_BUF) {
    // SAFETY: a connection, bytes that live.
    unsafe {
        Request::start(request, |irp| {
            if let Some(send) = connection(socket).WskSend {
                send(socket, &mut bytes, WSK_FLAG_NODELAY, irp);
            }
        });
    }
}

pub(crate) unsafe fn send(socket: *mut WSK_SOCKET, bytes: WSK_BUF) -> (i32, usize) {
    let mut request = Request::new();
    let request = &raw mut request;
    // SAFETY: it does not move before it has ended.
    unsafe {
        start_send(request, socket, bytes);
        Request::end(request)
    }
}

/// Begins a receive: what the call returns.
pub(crate) unsafe fn start_receive(request: *mut Request, socket: *mut WSK_SOCKET, mut bytes: WSK_BUF) -> i32 {
    let mut returned = PENDING;
    // SAFETY: a connection, bytes that live.
    unsafe {
        Request::start(request, |irp| {
            if let Some(receive) = connection(socket).WskReceive {
                returned = receive(socket, &mut bytes, 0, irp).0;
            }
        });
    }
    returned
}

pub(crate) unsafe fn receive(socket: *mut WSK_SOCKET, bytes: WSK_BUF) -> (i32, usize) {
    let mut request = Request::new();
    let request = &raw mut request;
    // SAFETY: it does not move before it has ended.
    unsafe {
        start_receive(request, socket, bytes);
        Request::end(request)
    }
}

/// Begins a disconnect.
pub(crate) unsafe fn start_disconnect(request: *mut Request, socket: *mut WSK_SOCKET) {
    // SAFETY: a connection.
    unsafe {
        Request::start(request, |irp| {
            if let Some(disconnect) = connection(socket).WskDisconnect {
                disconnect(socket, null_mut(), 0, irp);
            }
        });
    }
}

pub(crate) unsafe fn disconnect(socket: *mut WSK_SOCKET) -> i32 {
    let mut request = Request::new();
    let request = &raw mut request;
    // SAFETY: it does not move before it has ended.
    unsafe {
        start_disconnect(request, socket);
        Request::end(request).0
    }
}

/// An accept, with what it tells.
pub(crate) struct Accept {
    pub(crate) request: Request,
    pub(crate) local: SOCKADDR_INET,
    pub(crate) remote: SOCKADDR_INET,
}

impl Accept {
    pub(crate) const fn new() -> Self {
        Self { request: Request::new(), local: SOCKADDR_INET::ZERO, remote: SOCKADDR_INET::ZERO }
    }

    pub(crate) unsafe fn start(this: *mut Self, socket: *mut WSK_SOCKET) {
        // SAFETY: a listener; it does not move before it has ended.
        unsafe {
            let (local, remote) = (&raw mut (*this).local, &raw mut (*this).remote);
            Request::start(&raw mut (*this).request, |irp| {
                if let Some(accept) = listener(socket).WskAccept {
                    accept(socket, 0, null_mut(), null(), local.cast(), remote.cast(), irp);
                }
            });
        }
    }
}
