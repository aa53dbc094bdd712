//! What a client of Winsock Kernel must not do.

use core::sync::atomic::{AtomicPtr, Ordering};

use ndk_abi::{
    describe::ZeroInit,
    sockaddr::{AF_INET, SOCKADDR_INET},
    wsk::*,
};

use super::*;
use crate::checks::Storage;

static REGISTRATION: Storage<WSK_REGISTRATION> = Storage::new();

/// Breaks a rule as a client, with a socket that is not bound.
pub(super) unsafe fn with_socket(misuse: impl FnOnce(&Client, *mut WSK_SOCKET)) {
    // SAFETY: static memory, one at a time.
    unsafe {
        REGISTRATION.get().write(WSK_REGISTRATION::ZERO);
        if let Some(client) = Client::new(REGISTRATION.get()) {
            let (_, socket) = client.socket(AF_INET, WSK_FLAG_CONNECTION_SOCKET);
            misuse(&client, socket);
            close(socket);
            client.end();
        }
    }
}

/// Names what lies behind the system process as the owner of a socket.
pub(crate) unsafe fn own_by_nobody() {
    // SAFETY: wrong on purpose: the stand-in does not use it.
    unsafe {
        with_socket(|client, _| {
            let behind = PsInitialSystemProcess.cast::<*mut c_void>().read();
            client.socket_of(behind, AF_INET, WSK_FLAG_CONNECTION_SOCKET);
        });
    }
}

/// Registers, and never deregisters.
pub(crate) unsafe fn leak() {
    static LEAKED: Storage<WSK_REGISTRATION> = Storage::new();
    // SAFETY: static memory.
    unsafe { register(LEAKED.get()) };
}

pub(crate) unsafe fn register_at_dispatch() {
    // SAFETY: wrong on purpose; static memory.
    unsafe {
        KfRaiseIrql(2);
        register(REGISTRATION.get());
        KeLowerIrql(0);
        WskDeregister(REGISTRATION.get());
    }
}

/// Binds by an IRP whose completion routine is this, if it has one, called when this control of its location says.
unsafe fn bind_by(routine: *mut c_void, control: u8) {
    static REQUEST: Storage<Request> = Storage::new();
    // SAFETY: wrong on purpose; the request ends before the sleep does.
    unsafe {
        with_socket(|_, socket| {
            let irp = REQUEST.get().cast::<c_void>();
            IoInitializeIrp(irp, IRP_BYTES as u16, 1);
            set_routine(irp.cast(), routine, null_mut());
            *next_location(irp.cast()).add(3) = control;
            let mut address = own(AF_INET, 0);
            if let Some(bind) = connection(socket).WskBind {
                bind(socket, (&raw mut address).cast(), 0, irp);
            }
            crate::checks::sleep(100);
        });
    }
}

/// Nobody is told of the end.
pub(crate) unsafe fn without_routine() {
    // SAFETY: wrong on purpose.
    unsafe { bind_by(null_mut(), ALWAYS) };
}

/// Nobody is told of an end by an error.
pub(crate) unsafe fn on_success_only() {
    const INVOKE_ON_SUCCESS: u8 = 0x40;
    // SAFETY: wrong on purpose.
    unsafe { bind_by(ignores as *mut c_void, INVOKE_ON_SUCCESS) };
}

unsafe extern "system" fn ignores(_device: *mut c_void, _irp: *mut c_void, _context: *mut c_void) -> i32 {
    KEPT
}

unsafe extern "system" fn lets_go(_device: *mut c_void, _irp: *mut c_void, event: *mut c_void) -> i32 {
    // SAFETY: an initialised event.
    unsafe { KeSetEvent(event.cast(), 0, 0) };
    SUCCESS
}

/// A completion routine that returns a success has the IRP completed on, beyond its only stack location.
pub(crate) unsafe fn not_kept() {
    // SAFETY: wrong on purpose: the stand-in goes no further.
    unsafe {
        with_socket(|_, socket| {
            static REQUEST: Storage<Request> = Storage::new();
            let request = REQUEST.get();
            Request::start(request, |irp| {
                set_routine(irp.cast(), lets_go as *mut c_void, (&raw mut (*request).event).cast());
                let mut address = own(AF_INET, 0);
                if let Some(bind) = connection(socket).WskBind {
                    bind(socket, (&raw mut address).cast(), 0, irp);
                }
                Request::end(request);
            });
        });
    }
}

static SOCKET: AtomicPtr<WSK_SOCKET> = AtomicPtr::new(null_mut());
static INNER: Storage<Request> = Storage::new();
static ADDRESS: Storage<SOCKADDR_INET> = Storage::new();

unsafe extern "system" fn calls_on(_device: *mut c_void, _irp: *mut c_void, event: *mut c_void) -> i32 {
    let socket = SOCKET.load(Ordering::Relaxed);
    // SAFETY: wrong on purpose, with memory that stays.
    unsafe {
        Request::start(INNER.get(), |irp| {
            if let Some(ask) = connection(socket).WskGetLocalAddress {
                ask(socket, ADDRESS.get().cast(), irp);
            }
        });
        KeSetEvent(event.cast(), 0, 0);
    }
    KEPT
}

pub(crate) unsafe fn call_in_routine() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_socket(|_, socket| {
            static REQUEST: Storage<Request> = Storage::new();
            let request = REQUEST.get();
            SOCKET.store(socket, Ordering::Relaxed);
            let mut address = own(AF_INET, 0);
            Request::start(request, |irp| {
                set_routine(irp.cast(), calls_on as *mut c_void, (&raw mut (*request).event).cast());
                if let Some(bind) = connection(socket).WskBind {
                    bind(socket, (&raw mut address).cast(), 0, irp);
                }
                Request::end(request);
            });
            Request::end(INNER.get());
        });
    }
}

pub(crate) unsafe fn connect_unbound() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_socket(|_, socket| {
            connect(socket, own(AF_INET, 1));
        });
    }
}

pub(crate) unsafe fn use_closed() {
    // SAFETY: wrong on purpose: what the client has of a socket stays.
    unsafe {
        with_socket(|client, _| {
            let (_, other) = client.socket(AF_INET, WSK_FLAG_CONNECTION_SOCKET);
            close(other);
            let mut address = own(AF_INET, 0);
            wait(|irp| {
                if let Some(bind) = connection(other).WskBind {
                    bind(other, (&raw mut address).cast(), 0, irp);
                }
            });
        });
    }
}

/// Calls a function of a socket that is being closed, by a table that was read before.
unsafe fn with_closing(misuse: impl FnOnce(&WSK_PROVIDER_CONNECTION_DISPATCH, *mut WSK_SOCKET, *mut c_void)) {
    let (mut closing, mut late) = (Request::new(), Request::new());
    let (closing, late) = (&raw mut closing, &raw mut late);
    // SAFETY: wrong on purpose; the requests end before they go.
    unsafe {
        with_socket(|client, _| {
            let (_, socket) = client.socket(AF_INET, WSK_FLAG_CONNECTION_SOCKET);
            let table = connection(socket);
            Request::start(closing, |irp| {
                if let Some(close) = table.WskCloseSocket {
                    close(socket, irp);
                }
            });
            Request::start(late, |irp| misuse(table, socket, irp));
            Request::end(closing);
            Request::end(late);
        });
    }
}

pub(crate) unsafe fn close_twice() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_closing(|table, socket, irp| {
            if let Some(close) = table.WskCloseSocket {
                close(socket, irp);
            }
        });
    }
}

pub(crate) unsafe fn use_closing() {
    let mut address = SOCKADDR_INET::ZERO;
    // SAFETY: wrong on purpose.
    unsafe {
        with_closing(|table, socket, irp| {
            if let Some(ask) = table.WskGetLocalAddress {
                ask(socket, (&raw mut address).cast(), irp);
            }
        });
    }
}

/// Breaks a rule with a connection from and to this address.
unsafe fn with_connection(at: SOCKADDR_INET, misuse: impl FnOnce(*mut WSK_SOCKET, &Bytes)) {
    // SAFETY: wrong on purpose; what is used is given back.
    unsafe {
        with_socket(|client, _| {
            let (_, from) = client.socket(AF_INET, WSK_FLAG_LISTEN_SOCKET);
            bind(from, at);
            let (_, socket) = client.socket(AF_INET, WSK_FLAG_CONNECTION_SOCKET);
            bind(socket, at);
            connect(socket, address_of(from));
            let bytes = Bytes::new();
            misuse(socket, &bytes);
            close(socket);
            close(from);
            bytes.free();
        });
    }
}

pub(crate) unsafe fn send_more_than_described() {
    // SAFETY: wrong on purpose: nothing beyond the MDLs is touched.
    unsafe {
        with_connection(own(AF_INET, 0), |socket, bytes| {
            send(socket, bytes.part(0, LENGTH + 1));
        });
    }
}

pub(crate) unsafe fn send_one_at_a_time() {
    // SAFETY: slow on purpose: each send ends before the next begins.
    unsafe {
        with_connection(elsewhere(), |socket, bytes| {
            (0..1000).for_each(|_| {
                send(socket, bytes.part(0, 1));
            });
        });
    }
}

pub(crate) unsafe fn send_after_disconnect() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_connection(own(AF_INET, 0), |socket, bytes| {
            disconnect(socket);
            send(socket, bytes.part(0, 1));
        });
    }
}

pub(crate) unsafe fn disconnect_twice() {
    // SAFETY: wrong on purpose.
    unsafe {
        with_connection(own(AF_INET, 0), |socket, _| {
            disconnect(socket);
            disconnect(socket);
        });
    }
}
