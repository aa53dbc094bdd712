//! Datagram sockets: made, bound and closed at PASSIVE_LEVEL, where the thread waits for each request. Datagrams come by WSK's event callback.
//! If TCP/IP knows UDP_SEND_MSG_SIZE, it makes datagrams of a message: one pass through TCP/IP for several datagrams ([`MessageSize`]).
//! A socket has the memory for its close from the start, as a close that fails would leave WSK with a context that is freed.

use core::{
    ffi::c_void,
    net::SocketAddr,
    ptr::{NonNull, null_mut},
};

use ndk_abi::{
    sockaddr::SOCKADDR_INET,
    status::{
        NTSTATUS, STATUS_DEVICE_NOT_READY, STATUS_INSUFFICIENT_RESOURCES, STATUS_NOT_IMPLEMENTED, STATUS_SUCCESS,
    },
    wsk::{
        IPPROTO_UDP, NPI_WSK_INTERFACE_ID, SO_WSK_EVENT_CALLBACK, SOCK_DGRAM, SOL_SOCKET, UDP_SEND_MSG_SIZE,
        WSACMSGHDR, WSK_BUF_LIST, WSK_CLIENT_DATAGRAM_DISPATCH, WSK_EVENT_CALLBACK_CONTROL, WSK_EVENT_RECEIVE_FROM,
        WSK_FLAG_DATAGRAM_SOCKET, WSK_GET_OPTION, WSK_PROVIDER_DATAGRAM_DISPATCH, WSK_SET_OPTION, WSK_SOCKET,
    },
};
use platform::{Arc, Completion, Event, Passive, SocketError};

use super::{
    client::Provider,
    request::{Request, UnderWay, passed_on},
    start::PsInitialSystemProcess,
};
use crate::{
    irp::own::{KEPT, OwnIrp},
    irql::at_dispatch,
    platform::Windows,
};

/// Bytes of the longest message: as msquic's, which most cards divide without help of software. No page names a limit.
pub(crate) const LONGEST_MESSAGE: usize = 0xF000;

/// A datagram socket that is bound.
#[derive(Clone)]
pub(crate) struct DatagramSocket {
    kernel: NonNull<WSK_SOCKET>,
    close: Waited,
    can_segment: bool,
}

/// Control information: the bytes of each datagram of a message, but for the last one, which may have fewer.
#[repr(C)]
pub(crate) struct MessageSize {
    header: WSACMSGHDR,
    size: u32,
    /// Up to WSA_CMSG_SPACE of a u32.
    padding: u32,
}

impl MessageSize {
    pub(crate) const fn new(size: u32) -> Self {
        // WSA_CMSG_LEN of ws2def.h.
        let cmsg_len = size_of::<WSACMSGHDR>().saturating_add(size_of::<u32>());
        let (cmsg_level, cmsg_type) = (IPPROTO_UDP as i32, UDP_SEND_MSG_SIZE as i32);
        Self { header: WSACMSGHDR { cmsg_len, cmsg_level, cmsg_type }, size, padding: 0 }
    }
}

// SAFETY: WSK's functions may be called by any thread, and by several at a time.
unsafe impl Send for DatagramSocket {}
// SAFETY: as for Send.
unsafe impl Sync for DatagramSocket {}

impl DatagramSocket {
    /// Makes a socket, binds it to `local`, and enables `dispatch`'s callback, which gets `context`.
    ///
    /// # Safety
    /// `context` is what the callback expects, and stays so until [`DatagramSocket::close`] has returned.
    pub(crate) unsafe fn open(
        local: SocketAddr,
        dispatch: &'static WSK_CLIENT_DATAGRAM_DISPATCH,
        context: *mut c_void,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let mut local = SOCKADDR_INET::new(local);
        let [make, bind, ask, close] = [Waited::new()?, Waited::new()?, Waited::new()?, Waited::new()?];
        // SAFETY: by contract.
        let kernel = unsafe { make_socket(local.si_family(), dispatch, context, &make, passive) }?;
        let mut socket = Self { kernel, close, can_segment: false };
        let bound = socket.bind(&mut local, &bind, passive).and_then(|()| socket.enable_callback(passive));
        socket.can_segment = bound.is_ok() && socket.has_message_size(&ask, passive);
        if bound.is_err() {
            // SAFETY: just made: no other thread knows the socket.
            unsafe { socket.close(passive) };
        }
        bound.map(|()| socket)
    }

    fn table(&self) -> *const WSK_PROVIDER_DATAGRAM_DISPATCH {
        // SAFETY: WSK's socket, before its close.
        unsafe { (*self.kernel.as_ptr()).Dispatch }.cast()
    }

    fn bind(&self, local: &mut SOCKADDR_INET, request: &Waited, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        // SAFETY: the table of a datagram socket.
        let bind = unsafe { (*self.table()).WskBind }.ok_or(STATUS_NOT_IMPLEMENTED)?;
        let local = (&raw mut *local).cast();
        // SAFETY: a socket that is not bound, and an address that outlives the request.
        let call = |irp| unsafe { bind(self.kernel.as_ptr(), local, 0, irp) };
        request.make(call, passive).map(|_| ())
    }

    fn enable_callback(&self, _passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        // SAFETY: the table of a datagram socket.
        let control = unsafe { (*self.table()).WskControlSocket }.ok_or(STATUS_NOT_IMPLEMENTED)?;
        let id = NPI_WSK_INTERFACE_ID;
        let mut input = WSK_EVENT_CALLBACK_CONTROL { NpiId: &raw const id, EventMask: WSK_EVENT_RECEIVE_FROM };
        let (code, level) = (SO_WSK_EVENT_CALLBACK, SOL_SOCKET);
        let (size, input, none) = (size_of_val(&input), (&raw mut input).cast(), null_mut());
        // SAFETY: a bound socket; without an IRP the call is synchronous, and the input outlives it.
        let status = unsafe {
            control(self.kernel.as_ptr(), WSK_SET_OPTION, code, level, size, input, 0, none, null_mut(), null_mut())
        };
        if status == STATUS_SUCCESS { Ok(()) } else { Err(status) }
    }

    /// Whether a send may have a [`MessageSize`].
    pub(crate) fn can_segment(&self) -> bool {
        self.can_segment
    }

    /// Whether WSK knows UDP_SEND_MSG_SIZE.
    fn has_message_size(&self, request: &Waited, passive: &Passive<'_>) -> bool {
        // SAFETY: the table of a datagram socket.
        let Some(control) = (unsafe { (*self.table()).WskControlSocket }) else { return false };
        let (code, level, mut size, none) = (UDP_SEND_MSG_SIZE, IPPROTO_UDP, 0_u32, null_mut());
        let output = (&raw mut size).cast();
        // SAFETY: a bound socket, and an output that outlives the request.
        let call = |irp| unsafe {
            control(
                self.kernel.as_ptr(),
                WSK_GET_OPTION,
                code,
                level,
                0,
                none,
                size_of::<u32>(),
                output,
                null_mut(),
                irp,
            )
        };
        request.make(call, passive).is_ok()
    }

    /// Closes the socket. After the return no callback runs, and no request is with WSK; the routines of requests may still run.
    ///
    /// # Safety
    /// No call for the socket is in progress, and none follows.
    pub(crate) unsafe fn close(&self, passive: &Passive<'_>) {
        // SAFETY: the table of a datagram socket.
        let Some(close) = (unsafe { (*self.table()).WskCloseSocket }) else { return };
        // SAFETY: no other call is in progress, by contract.
        let call = |irp| unsafe { close(self.kernel.as_ptr(), irp) };
        let _closes_do_not_fail = self.close.make(call, passive);
    }

    /// Sends a list of datagrams, or of messages of which TCP/IP makes datagrams of this size. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// The contract of [`platform::Sockets::send`] holds of `request`, `done` and the bytes of each datagram. The list, its MDLs, the size and the
    /// address stay as they are until the request has ended; the socket is not closed before the return.
    pub(crate) unsafe fn send(
        &self,
        request: *mut Request,
        done: Completion,
        datagrams: *mut WSK_BUF_LIST,
        to: &SOCKADDR_INET,
        size: Option<&MessageSize>,
    ) {
        // SAFETY: the request is under way from now on, by contract.
        let request = unsafe { UnderWay::new(request) };
        request.get().begin(done);
        // SAFETY: the table of a datagram socket; the oldest Windows of the INF has the entry.
        let send = unsafe { (*self.table()).WskSendMessages };
        let Some(send) = send else { return request.end(Err(SocketError::Failed)) };
        // SAFETY: the request was not under way before.
        let irp = unsafe { request.get().prepare(passed_on) };
        let to = (&raw const *to).cast_mut().cast();
        let control = size.map_or(null_mut(), |size| (&raw const *size).cast_mut().cast());
        let length = if size.is_some() { size_of::<MessageSize>() as u32 } else { 0 };
        // SAFETY: a bound socket; list, size and address stay, by contract.
        let _told_by_the_irp = unsafe { send(self.kernel.as_ptr(), datagrams, 0, to, length, control, irp) };
    }
}

/// Makes a datagram socket, which WSK returns in the IRP's `Information`.
///
/// # Safety
/// As for [`DatagramSocket::open`].
unsafe fn make_socket(
    family: u16,
    dispatch: &'static WSK_CLIENT_DATAGRAM_DISPATCH,
    context: *mut c_void,
    request: &Waited,
    passive: &Passive<'_>,
) -> Result<NonNull<WSK_SOCKET>, NTSTATUS> {
    // Captured until the request has ended.
    let provider = Provider::capture().ok_or(STATUS_DEVICE_NOT_READY)?;
    // SAFETY: the table of a provider that is captured.
    let make = unsafe { (*provider.functions()).WskSocket }.ok_or(STATUS_NOT_IMPLEMENTED)?;
    let (client, kind, protocol, none) = (provider.client(), SOCK_DGRAM, IPPROTO_UDP, null_mut());
    let (flags, dispatch) = (WSK_FLAG_DATAGRAM_SOCKET, (&raw const *dispatch).cast());
    // SAFETY: the kernel sets the variable at boot, and never changes it.
    let system = unsafe { PsInitialSystemProcess };
    // SAFETY: a process that never ends; callbacks and a context as the caller's contract says; no security descriptor.
    let call =
        |irp| unsafe { make(client, family, kind, protocol, flags, context, dispatch, system.cast(), none, none, irp) };
    let socket = core::ptr::with_exposed_provenance_mut(request.make(call, passive)?);
    NonNull::new(socket).ok_or(STATUS_INSUFFICIENT_RESOURCES)
}

/// The memory of one request whose thread waits.
#[derive(Clone)]
struct Waited {
    irp: Arc<OwnIrp, Windows>,
    done: Arc<Event<Windows>, Windows>,
}

impl Waited {
    fn new() -> Result<Self, NTSTATUS> {
        let without_memory = |_| STATUS_INSUFFICIENT_RESOURCES;
        let irp = Arc::try_new(OwnIrp::new()).map_err(without_memory)?;
        Ok(Self { irp, done: Event::new().map_err(without_memory)? })
    }

    /// Makes the request by `call`, and waits until WSK has completed its IRP. Returns the IRP's `Information`. Called once.
    fn make(&self, call: impl FnOnce(*mut c_void) -> NTSTATUS, passive: &Passive<'_>) -> Result<usize, NTSTATUS> {
        let context = Arc::into_raw(self.done.clone()).cast_mut().cast();
        // SAFETY: the IRP is not in use, and `self` keeps it in its place until the event is set.
        let irp = unsafe { self.irp.prepare(completed, context) };
        let _told_by_the_irp = call(irp);
        self.done.wait(passive);
        // SAFETY: the IRP is completed, as its routine has set the event.
        unsafe { self.irp.result() }
    }
}

/// The completion routine of [`Waited::make`]: sets the event.
unsafe extern "C" fn completed(_: *mut c_void, _: *mut c_void, context: *mut c_void) -> NTSTATUS {
    // SAFETY: `make` has left a reference to the event for this routine.
    let done = unsafe { Arc::<Event<Windows>, Windows>::from_raw(context.cast_const().cast()) };
    // The thread that waits may unload the driver: see `at_dispatch`.
    at_dispatch(move || done.set());
    KEPT
}
