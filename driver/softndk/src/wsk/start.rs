//! From nothing to a connection, or to a listener: some calls of WSK, one after the other, with one IRP.
//!
//! WSK is not to be called from completion routines (they may be deep in a stack that has called this driver): what follows one is
//! done by the call that has taken the step before, or else by a DPC.

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
    /// The system process (ntddk.h: `extern NTKERNELAPI PEPROCESS`). With the library that it is imported from, a declaration is the
    /// variable itself, as in C with `__declspec(dllimport)`; the crates' declare no library.
    static PsInitialSystemProcess: *mut c_void;
}

/// A socket, and its start.
pub(crate) struct Socket {
    /// WSK's, once there is one.
    kernel: AtomicPtr<WSK_SOCKET>,
    /// Written by the start, and by WSK for it.
    local: UnsafeCell<SOCKADDR_INET>,
    remote: UnsafeCell<SOCKADDR_INET>,
    turn: Turn,
    step: Cell<Step>,
    /// While the step that makes the socket is taken.
    provider: Cell<Option<Provider>>,
    /// Whose connection is accepted.
    listener: Cell<*mut WSK_SOCKET>,
    start: Cell<*mut Request>,
    /// The close that waits for the end of the start.
    closing: AtomicPtr<Request>,
    dpc: UnsafeCell<Run>,
}

// SAFETY: the cells are for whoever takes the next step (`Turn`), before the start is over; then nothing is written.
unsafe impl Send for Socket {}
// SAFETY: as for Send.
unsafe impl Sync for Socket {}

/// The calls of a start.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A socket for a connection, and its bind; then it connects, and is asked for its address.
    MakeConnection,
    BindConnection,
    Connect,
    AskConnection,
    /// A socket that listens: as soon as it is bound.
    MakeListener,
    BindListener,
    AskListener,
    /// WSK gives a socket, and its addresses.
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

    /// The meaning of its failure.
    fn error(self, status: NTSTATUS) -> SocketError {
        match (self, status) {
            // Only who binds is refused an address because another has it for itself.
            (Self::BindConnection | Self::BindListener, STATUS_ACCESS_DENIED) => SocketError::AddressInUse,
            // It was connected; WSK says what it has no address for in various ways.
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

    /// The own address, and the peer's.
    ///
    /// # Safety
    /// It has started.
    pub(super) unsafe fn addresses(&self) -> [SOCKADDR_INET; 2] {
        // SAFETY: written by the start only, which is over.
        let local = unsafe { self.local.get().read() };
        // SAFETY: the same.
        let remote = unsafe { self.remote.get().read() };
        [local, remote]
    }

    /// The functions of a connection, or of a socket that shall be one.
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

/// Where a socket is.
#[derive(Clone, Copy)]
pub(super) struct Place(NonNull<Socket>);

impl Place {
    /// # Safety
    /// The socket is valid as long as this is used: in most cases as long as a request on it is under way.
    pub(super) unsafe fn new(socket: *mut Socket) -> Self {
        // SAFETY: not null, by contract.
        Self(unsafe { NonNull::new_unchecked(socket) })
    }

    pub(super) fn get(&self) -> &Socket {
        // SAFETY: valid as long as it is used, by contract of `new`.
        unsafe { self.0.as_ref() }
    }

    /// Starts: from these addresses, or for the next connection of a listener.
    ///
    /// # Safety
    /// The request and its completion are those of a start, by contract of [`platform::Sockets`].
    pub(super) unsafe fn start(
        self,
        request: *mut Request,
        done: Completion,
        first: Step,
        addresses: [SOCKADDR_INET; 2],
        listener: *mut WSK_SOCKET,
    ) {
        let socket = self.get();
        // SAFETY: not under way before, and valid until it ends, by contract.
        unsafe { UnderWay::new(request) }.get().begin(done);
        socket.start.set(request);
        socket.listener.set(listener);
        let [local, remote] = addresses;
        // SAFETY: nobody else uses the socket before it has started.
        unsafe { socket.local.get().write(local) };
        // SAFETY: the same.
        unsafe { socket.remote.get().write(remote) };
        // SAFETY: as above; the DPC is used while the start is under way, in its place.
        unsafe { Windows::initialize_dpc(socket.dpc.get(), resume, self.0.as_ptr().cast()) };
        if self.take(first) {
            self.go_on();
        }
    }

    fn request(&self) -> UnderWay {
        // SAFETY: the start is under way.
        unsafe { UnderWay::new(self.get().start.get()) }
    }

    /// Takes a step. True: it is over, and it is for the caller to go on. False: the socket may be gone.
    fn take(self, step: Step) -> bool {
        let socket = self.get();
        socket.step.set(step);
        let request = self.request();
        // SAFETY: its last use is over, as nobody is at a step; valid while the start is under way.
        let irp = unsafe { request.get().irp.prepare(completed, self.0.as_ptr().cast()) };
        if !socket.turn.begin() {
            self.end(Err(SocketError::Canceled));
            return false;
        }
        // SAFETY: the IRP of this step, just prepared.
        if let Err(status) = unsafe { self.call(step, irp) } {
            // SAFETY: prepared, and not given away.
            unsafe { request.get().irp.refuse(status) };
            let _this_call_is_still_there = socket.turn.leave();
        }
        socket.turn.leave()
    }

    /// Calls WSK; what it returns is told by the IRP too. Err: the IRP was not given to it.
    ///
    /// # Safety
    /// The IRP is prepared for this step, and one before has made the socket if this one does not.
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
        // Kept until the IRP is completed.
        socket.provider.set(Some(provider));
        // SAFETY: the address was written before the first step.
        let family = unsafe { (*socket.local.get()).si_family() };
        let (kind, protocol, none) = (SOCK_STREAM, IPPROTO_TCP, null_mut());
        // The current process may be any: this is not only called by its own threads. A thread is not named: there is none of the
        // system's that is known to live.
        // SAFETY: set by the kernel, and never changed.
        let system = unsafe { PsInitialSystemProcess };
        // SAFETY: a process that never ends; no callbacks, no security descriptor.
        Ok(unsafe { make(client, family, kind, protocol, flags, none, null(), system.cast(), none, none, irp) })
    }

    /// A step is over: takes the others, or ends the start. The socket may be gone then.
    fn go_on(self) {
        loop {
            let socket = self.get();
            let step = socket.step.get();
            drop(socket.provider.take());
            // SAFETY: all who were at the step have left.
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

    /// The start is over.
    fn end(self, result: Result<usize, SocketError>) {
        let request = self.request();
        if !self.get().turn.end() {
            return request.end(result);
        }
        // That of the close keeps the socket.
        let closing = self.get().closing.load(Ordering::Acquire);
        request.end(result);
        // SAFETY: under way since `close`.
        self.shut(unsafe { UnderWay::new(closing) });
    }

    /// Closes the socket, at once or when its start is over, of which it asks for an early end.
    ///
    /// # Safety
    /// The request and its completion are those of a close, by contract of [`platform::Sockets`].
    pub(super) unsafe fn close(self, request: *mut Request, done: Completion) {
        // SAFETY: not under way before, and valid until it ends, by contract.
        let request_under_way = unsafe { UnderWay::new(request) };
        request_under_way.get().begin(done);
        self.get().closing.store(request, Ordering::Release);
        match self.get().turn.close() {
            Close::Now => self.shut(request_under_way),
            Close::Later => {}
            Close::Cancel => {
                // SAFETY: a step is being taken; the next is not, before this one leaves.
                unsafe { self.request().get().irp.cancel() };
                if self.get().turn.leave() {
                    self.go_on();
                }
            }
        }
    }

    /// Closes WSK's socket, if there is one. The start is over, and no call for the socket in progress.
    fn shut(self, request: UnderWay) {
        let kernel = self.get().kernel();
        if kernel.is_null() {
            return request.end(Ok(0));
        }
        // All tables begin alike.
        // SAFETY: the table of a socket, which is closed once.
        let Some(close) = (unsafe { (*self.get().connection()).WskCloseSocket }) else {
            return request.end(Ok(0));
        };
        // SAFETY: under way, and its IRP not in use.
        let irp = unsafe { request.get().prepare(closed) };
        // SAFETY: the last call for the socket.
        let _told_by_the_irp = unsafe { close(kernel, irp) };
    }
}

/// The completion routine of all steps.
unsafe extern "C" fn completed(_: *mut c_void, _: *mut c_void, context: *mut c_void) -> NTSTATUS {
    // SAFETY: the socket that `take` made the context; its start is under way.
    let place = unsafe { Place::new(context.cast()) };
    at_dispatch(|| {
        if place.get().turn.leave() {
            // SAFETY: initialised by `start`; not queued, as each step queues it once at most.
            unsafe { Windows::queue_dpc(place.get().dpc.get()) };
        }
    });
    KEPT
}

/// The DPC.
unsafe extern "C" fn resume(context: *mut c_void) {
    // SAFETY: the socket that `start` made the context; its start is under way.
    unsafe { Place::new(context.cast()) }.go_on();
}
