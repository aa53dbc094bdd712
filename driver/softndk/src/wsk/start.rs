//! The start of a socket, as a connection or as a listener: calls of WSK, one after the other, with one IRP.
//!
//! Completion routines do not call WSK, as they may run deep in a stack that has called this driver. If WSK completes the IRP before the
//! call returns, the calling thread takes the next step; else a DPC does, or a thread that cancels the IRP at that moment to close the socket.

use core::{
    cell::{Cell, UnsafeCell},
    ffi::c_void,
    ptr::{NonNull, null, null_mut},
    sync::atomic::{AtomicPtr, Ordering},
};

use ndk_abi::{
    describe::ZeroInit,
    sockaddr::{SOCKADDR, SOCKADDR_INET},
    status::{NTSTATUS, STATUS_ACCESS_DENIED, STATUS_CANCELLED, STATUS_DEVICE_NOT_READY, STATUS_NOT_IMPLEMENTED},
    wsk::{
        IPPROTO_TCP, SOCK_STREAM, WSK_FLAG_CONNECTION_SOCKET, WSK_FLAG_LISTEN_SOCKET, WSK_PROVIDER_CONNECTION_DISPATCH,
        WSK_PROVIDER_LISTEN_DISPATCH, WSK_SOCKET,
    },
};
use platform::{Completion, Platform as _, Run, SocketError};

use super::{
    client::Provider,
    request::{Request, UnderWay, closed, error, error_of_accept},
    turn::{Close, Turn},
};
use crate::{irp::own::KEPT, irql::at_dispatch, platform::Windows};

#[link(name = "ntoskrnl")]
unsafe extern "C" {
    /// The system process (ntddk.h: `extern NTKERNELAPI PEPROCESS`). This declaration names the import library, so it is the variable
    /// itself, as in C with `__declspec(dllimport)`; the wdk crates' declaration names none.
    pub(super) static PsInitialSystemProcess: *mut c_void;
}

/// A socket, and the state of its start.
pub(crate) struct Socket {
    /// WSK's socket, once it is made.
    kernel: AtomicPtr<WSK_SOCKET>,
    /// Written by the start, and by WSK during the start. `remote` too.
    local: UnsafeCell<SOCKADDR_INET>,
    remote: UnsafeCell<SOCKADDR_INET>,
    turn: Turn,
    step: Cell<Step>,
    /// Captured during the step that makes the socket.
    provider: Cell<Option<Provider>>,
    /// WSK's socket of the listener whose connection is accepted.
    listener: Cell<*mut WSK_SOCKET>,
    start: Cell<*mut Request>,
    /// The close that waits for the end of the start.
    closing: AtomicPtr<Request>,
    dpc: UnsafeCell<Run>,
}

// SAFETY: until the start is over only the thread that takes the next step (`Turn`) writes the cells, and WSK the addresses during a step;
// `start` is written before the first step, and a close reads it. When the start is over the cells are not written.
unsafe impl Send for Socket {}
// SAFETY: as for Send.
unsafe impl Sync for Socket {}

/// The steps of a start. Each is one call of WSK.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A connection: WSK makes the socket, binds it, connects it, and reports its local address.
    MakeConnection,
    BindConnection,
    Connect,
    AskConnection,
    /// A listener: WSK makes the socket, binds it, and reports its local address. The socket listens once it is bound.
    MakeListener,
    BindListener,
    AskListener,
    /// An accepted connection: WSK makes the socket, and reports both addresses.
    Accept,
}

impl Step {
    fn next(self) -> Option<Self> {
        match self {
            Self::MakeConnection => Some(Self::BindConnection),
            Self::BindConnection => Some(Self::Connect),
            Self::Connect => Some(Self::AskConnection),
            Self::MakeListener => Some(Self::BindListener),
            Self::BindListener => Some(Self::AskListener),
            Self::AskConnection | Self::AskListener | Self::Accept => None,
        }
    }

    /// The error of a step that failed with this status.
    fn error(self, status: NTSTATUS) -> SocketError {
        match (self, status) {
            // Another socket has the address exclusively. From other calls this status has another meaning.
            (Self::BindConnection | Self::BindListener, STATUS_ACCESS_DENIED) => SocketError::AddressInUse,
            // The socket was connected, so the connection has ended. WSK reports that by various statuses.
            (Self::AskConnection, status) if status != STATUS_CANCELLED => SocketError::Reset,
            (Self::Accept, status) => error_of_accept(status),
            _ => error(status),
        }
    }

    fn makes_socket(self) -> bool {
        matches!(self, Self::MakeConnection | Self::MakeListener | Self::Accept)
    }
}

impl Socket {
    pub(super) fn new() -> Self {
        Self {
            kernel: AtomicPtr::new(null_mut()),
            local: UnsafeCell::new(SOCKADDR_INET::ZERO),
            remote: UnsafeCell::new(SOCKADDR_INET::ZERO),
            turn: Turn::new(),
            step: Cell::new(Step::Accept),
            provider: Cell::new(None),
            listener: Cell::new(null_mut()),
            start: Cell::new(null_mut()),
            closing: AtomicPtr::new(null_mut()),
            dpc: UnsafeCell::new(Windows::new_dpc()),
        }
    }

    pub(super) fn kernel(&self) -> *mut WSK_SOCKET {
        self.kernel.load(Ordering::Acquire)
    }

    /// The local address, and the peer's.
    ///
    /// # Safety
    /// The start is over.
    pub(super) unsafe fn addresses(&self) -> [SOCKADDR_INET; 2] {
        // SAFETY: only the start writes the addresses, and it is over.
        let local = unsafe { self.local.get().read() };
        // SAFETY: as above.
        let remote = unsafe { self.remote.get().read() };
        [local, remote]
    }

    /// WSK's functions for a connection, or for a socket that is to become one.
    pub(super) fn connection(&self) -> *const WSK_PROVIDER_CONNECTION_DISPATCH {
        // SAFETY: WSK's socket, before its close.
        unsafe { (*self.kernel()).Dispatch }.cast()
    }

    fn listener(&self) -> *const WSK_PROVIDER_LISTEN_DISPATCH {
        // SAFETY: WSK's socket, before its close.
        unsafe { (*self.kernel()).Dispatch }.cast()
    }

    fn local(&self) -> *mut SOCKADDR {
        self.local.get().cast()
    }

    fn remote(&self) -> *mut SOCKADDR {
        self.remote.get().cast()
    }
}

/// The address of a socket.
#[derive(Clone, Copy)]
pub(super) struct Place(NonNull<Socket>);

impl Place {
    /// # Safety
    /// The socket is valid as long as the `Place` is used: in most cases as long as a request on the socket is under way.
    pub(super) unsafe fn new(socket: *mut Socket) -> Self {
        // SAFETY: not null, by contract.
        Self(unsafe { NonNull::new_unchecked(socket) })
    }

    pub(super) fn get(&self) -> &Socket {
        // SAFETY: valid as long as the `Place` is used, by contract of `new`.
        unsafe { self.0.as_ref() }
    }

    /// Starts the socket with the step `first`: with `addresses`, or as the next connection of `listener`.
    ///
    /// # Safety
    /// The contract of [`platform::Sockets`] for a start holds of the request and its completion.
    pub(super) unsafe fn start(
        self,
        request: *mut Request,
        done: Completion,
        first: Step,
        addresses: [SOCKADDR_INET; 2],
        listener: *mut WSK_SOCKET,
    ) {
        let socket = self.get();
        // SAFETY: the request was not under way before, and is valid until it ends, by contract.
        unsafe { UnderWay::new(request) }.get().begin(done);
        socket.start.set(request);
        socket.listener.set(listener);
        let [local, remote] = addresses;
        // SAFETY: no other thread uses the socket before it has started.
        unsafe { socket.local.get().write(local) };
        // SAFETY: as above.
        unsafe { socket.remote.get().write(remote) };
        // SAFETY: as above; the socket does not move while the start is under way, which is when the DPC is used.
        unsafe { Windows::initialize_dpc(socket.dpc.get(), resume, self.0.as_ptr().cast()) };
        if self.take(first) {
            self.go_on();
        }
    }

    fn request(&self) -> UnderWay {
        // SAFETY: the start is under way.
        unsafe { UnderWay::new(self.get().start.get()) }
    }

    /// Takes a step. True: the step is over, and the caller takes the next one. False: another thread takes the next step, or the start is
    /// over; the socket may be freed.
    fn take(self, step: Step) -> bool {
        let socket = self.get();
        socket.step.set(step);
        let request = self.request();
        // SAFETY: the IRP is not in use, as the step before is over; it is valid while the start is under way.
        let irp = unsafe { request.get().irp.prepare(completed, self.0.as_ptr().cast()) };
        if !socket.turn.begin() {
            self.end(Err(SocketError::Canceled));
            return false;
        }
        // SAFETY: the IRP of this step, just prepared.
        if let Err(status) = unsafe { self.call(step, irp) } {
            // SAFETY: prepared, and not given to WSK.
            unsafe { request.get().irp.refuse(status) };
            let _this_call_is_still_there = socket.turn.leave();
        }
        socket.turn.leave()
    }

    /// Calls WSK, which puts its result into the IRP. Err: WSK did not get the IRP.
    ///
    /// # Safety
    /// The IRP is prepared for this step. An earlier step has made WSK's socket, unless this step does.
    unsafe fn call(self, step: Step, irp: *mut c_void) -> Result<(), NTSTATUS> {
        let socket = self.get();
        let kernel = socket.kernel();
        let absent = STATUS_NOT_IMPLEMENTED;
        let _told_by_the_irp = match step {
            Step::MakeConnection => self.make(WSK_FLAG_CONNECTION_SOCKET, irp)?,
            Step::MakeListener => self.make(WSK_FLAG_LISTEN_SOCKET, irp)?,
            Step::BindConnection => {
                // SAFETY: the table of a connection.
                let bind = unsafe { (*socket.connection()).WskBind }.ok_or(absent)?;
                // SAFETY: a socket that is not bound, and an address that lives as long as the request.
                unsafe { bind(kernel, socket.local(), 0, irp) }
            }
            Step::BindListener => {
                // SAFETY: the table of a listening socket.
                let bind = unsafe { (*socket.listener()).WskBind }.ok_or(absent)?;
                // SAFETY: as for a connection.
                unsafe { bind(kernel, socket.local(), 0, irp) }
            }
            Step::Connect => {
                // SAFETY: the table of a connection.
                let connect = unsafe { (*socket.connection()).WskConnect }.ok_or(absent)?;
                // SAFETY: a bound socket, and an address that lives as long as the request.
                unsafe { connect(kernel, socket.remote(), 0, irp) }
            }
            Step::AskConnection => {
                // SAFETY: the table of a connection.
                let ask = unsafe { (*socket.connection()).WskGetLocalAddress }.ok_or(absent)?;
                // SAFETY: a connected socket; room for an address of its family, for as long as the request lives.
                unsafe { ask(kernel, socket.local(), irp) }
            }
            Step::AskListener => {
                // SAFETY: the table of a listening socket.
                let ask = unsafe { (*socket.listener()).WskGetLocalAddress }.ok_or(absent)?;
                // SAFETY: a bound socket; as above.
                unsafe { ask(kernel, socket.local(), irp) }
            }
            Step::Accept => {
                let listener = socket.listener.get();
                // SAFETY: WSK's socket of a listener, which is not closed before the call has returned, by contract of `accept`.
                let table = unsafe { (*listener).Dispatch }.cast::<WSK_PROVIDER_LISTEN_DISPATCH>();
                // SAFETY: the table of a listening socket.
                let accept = unsafe { (*table).WskAccept }.ok_or(absent)?;
                let (local, remote) = (socket.local(), socket.remote());
                // SAFETY: room for two addresses, for as long as the request lives; no callbacks.
                unsafe { accept(listener, 0, null_mut(), null(), local, remote, irp) }
            }
        };
        Ok(())
    }

    fn make(self, flags: u32, irp: *mut c_void) -> Result<NTSTATUS, NTSTATUS> {
        let socket = self.get();
        let provider = Provider::capture().ok_or(STATUS_DEVICE_NOT_READY)?;
        // SAFETY: the table of a provider that is captured.
        let make = unsafe { (*provider.functions()).WskSocket }.ok_or(STATUS_NOT_IMPLEMENTED)?;
        let client = provider.client();
        // The provider stays captured until the IRP is completed.
        socket.provider.set(Some(provider));
        // SAFETY: the address was written before the first step.
        let family = unsafe { (*socket.local.get()).si_family() };
        let (kind, protocol, none) = (SOCK_STREAM, IPPROTO_TCP, null_mut());
        // The system process owns the socket, as this may run in the context of any process. No owning thread is passed: no system thread
        // is known to live as long as the socket.
        // SAFETY: the kernel sets the variable at boot, and never changes it.
        let system = unsafe { PsInitialSystemProcess };
        // SAFETY: a process that never ends; no callbacks, no security descriptor.
        Ok(unsafe { make(client, family, kind, protocol, flags, none, null(), system.cast(), none, none, irp) })
    }

    /// Called when a step is over: takes the next steps, or ends the start. The socket may be freed after that.
    fn go_on(self) {
        loop {
            let socket = self.get();
            let step = socket.step.get();
            drop(socket.provider.take());
            // SAFETY: all users of the step have left it: the call, the IRP and a close.
            let result = unsafe { self.request().get().irp.result() };
            let information = match result {
                Ok(information) => information,
                Err(status) => return self.end(Err(step.error(status))),
            };
            if step.makes_socket() {
                socket.kernel.store(core::ptr::with_exposed_provenance_mut(information), Ordering::Release);
            }
            match step.next() {
                None => return self.end(Ok(0)),
                Some(next) if !self.take(next) => return,
                Some(_) => {}
            }
        }
    }

    /// Ends the start.
    fn end(self, result: Result<usize, SocketError>) {
        let request = self.request();
        if !self.get().turn.end() {
            return request.end(result);
        }
        // The close is a request under way, so the socket stays valid.
        let closing = self.get().closing.load(Ordering::Acquire);
        request.end(result);
        // SAFETY: the close is under way since `close`.
        self.shut(unsafe { UnderWay::new(closing) });
    }

    /// Closes the socket. A start under way is cancelled, and the thread that ends it closes the socket.
    ///
    /// # Safety
    /// The contract of [`platform::Sockets::close`] holds of the request and its completion.
    pub(super) unsafe fn close(self, request: *mut Request, done: Completion) {
        // SAFETY: the request was not under way before, and is valid until it ends, by contract.
        let request_under_way = unsafe { UnderWay::new(request) };
        request_under_way.get().begin(done);
        self.get().closing.store(request, Ordering::Release);
        match self.get().turn.close() {
            Close::Now => self.shut(request_under_way),
            Close::Later => {}
            Close::Cancel => {
                // SAFETY: a step is under way; the next step does not begin before this thread leaves.
                unsafe { self.request().get().irp.cancel() };
                if self.get().turn.leave() {
                    self.go_on();
                }
            }
        }
    }

    /// Closes WSK's socket, if it was made. The start is over, and no call for the socket is in progress.
    fn shut(self, request: UnderWay) {
        let kernel = self.get().kernel();
        if kernel.is_null() {
            return request.end(Ok(0));
        }
        // The tables of all kinds of sockets begin with the same functions.
        // SAFETY: the table of a socket that is not closed.
        let Some(close) = (unsafe { (*self.get().connection()).WskCloseSocket }) else {
            return request.end(Ok(0));
        };
        // SAFETY: the request is under way, and its IRP is not in use.
        let irp = unsafe { request.get().prepare(closed) };
        // SAFETY: the last call for the socket.
        let _told_by_the_irp = unsafe { close(kernel, irp) };
    }
}

/// The completion routine of all steps.
unsafe extern "C" fn completed(_: *mut c_void, _: *mut c_void, context: *mut c_void) -> NTSTATUS {
    // SAFETY: `take` made the socket the context; its start is under way.
    let place = unsafe { Place::new(context.cast()) };
    at_dispatch(|| {
        if place.get().turn.leave() {
            // SAFETY: initialised by `start`; not queued, as each step queues the DPC once at most.
            unsafe { Windows::queue_dpc(place.get().dpc.get()) };
        }
    });
    KEPT
}

/// The DPC: continues a start after a step.
unsafe extern "C" fn resume(context: *mut c_void) {
    // SAFETY: `start` made the socket the context; its start is under way.
    unsafe { Place::new(context.cast()) }.go_on();
}
