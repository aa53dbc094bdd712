//! Requests on sockets. Each request has an IRP, and an MDL for its bytes.

use core::{
    cell::{Cell, UnsafeCell},
    ffi::c_void,
    ptr::NonNull,
};

use ndk_abi::{
    describe::ZeroInit,
    status::{
        NTSTATUS, STATUS_ACCESS_DENIED, STATUS_ADDRESS_ALREADY_ASSOCIATED, STATUS_ADDRESS_ALREADY_EXISTS,
        STATUS_CANCELLED, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_DISCONNECTED, STATUS_CONNECTION_INVALID,
        STATUS_CONNECTION_REFUSED, STATUS_CONNECTION_RESET, STATUS_DEVICE_NOT_READY, STATUS_FILE_FORCED_CLOSED,
        STATUS_GRACEFUL_DISCONNECT, STATUS_HOST_UNREACHABLE, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_ADDRESS,
        STATUS_INVALID_ADDRESS_COMPONENT, STATUS_INVALID_DEVICE_STATE, STATUS_IO_TIMEOUT, STATUS_LOCAL_DISCONNECT,
        STATUS_NETWORK_UNREACHABLE, STATUS_PORT_UNREACHABLE, STATUS_PROTOCOL_UNREACHABLE, STATUS_REMOTE_DISCONNECT,
        STATUS_REQUEST_ABORTED, STATUS_SHARING_VIOLATION, STATUS_UNSUCCESSFUL,
    },
    wdm::{MDL, PAGE_SIZE},
    wsk::WSK_BUF,
};
use platform::{Completion, LARGEST_TRANSFER, SocketError};
use wdk_sys::ntddk::MmBuildMdlForNonPagedPool;

use crate::{
    irp::own::{Completed, KEPT, OwnIrp},
    irql::at_dispatch,
};

/// The most pages that the bytes of a request span.
const MAX_PAGES: usize = LARGEST_TRANSFER / PAGE_SIZE + 1;

/// An MDL with room for the largest transfer.
#[repr(C)]
struct Mdl {
    header: MDL,
    pages: [u64; MAX_PAGES],
}

/// A request, under way or not.
pub(crate) struct Request {
    pub(super) irp: OwnIrp,
    mdl: UnsafeCell<Mdl>,
    /// Set when the request begins, taken when it ends.
    done: Cell<Option<Completion>>,
    /// The number of bytes to send, or the most bytes to receive.
    length: Cell<usize>,
}

// SAFETY: the thread that begins the request uses it, and then the thread that ends it.
unsafe impl Send for Request {}
// SAFETY: as for Send.
unsafe impl Sync for Request {}

impl Request {
    pub(crate) const fn new() -> Self {
        Self {
            irp: OwnIrp::new(),
            mdl: UnsafeCell::new(Mdl { header: MDL::ZERO, pages: [0; MAX_PAGES] }),
            done: Cell::new(None),
            length: Cell::new(0),
        }
    }

    /// Why the request has failed. STATUS_UNSUCCESSFUL: not all bytes were sent, or WSK has no such function.
    ///
    /// # Safety
    /// The request has ended, and does not begin again before the return.
    pub(crate) unsafe fn failure(&self) -> NTSTATUS {
        // SAFETY: by contract; an IRP that was not prepared yet has the status 0.
        unsafe { self.irp.result() }.err().unwrap_or(STATUS_UNSUCCESSFUL)
    }

    /// Begins the request: it is under way from now on.
    pub(super) fn begin(&self, done: Completion) {
        self.done.set(Some(done));
    }

    /// Prepares the request's IRP for one call of WSK.
    ///
    /// # Safety
    /// As for [`OwnIrp::prepare`]. The context of `routine` is the request.
    pub(super) unsafe fn prepare(&self, routine: Completed) -> *mut c_void {
        // SAFETY: by contract.
        unsafe { self.irp.prepare(routine, (&raw const *self).cast_mut().cast()) }
    }

    /// Describes the bytes of a send or receive by the request's MDL.
    ///
    /// # Safety
    /// As for the bytes of [`platform::Sockets::send`]; WSK does not have the request's IRP yet.
    pub(crate) unsafe fn describe(&self, bytes: *const u8, length: usize) -> WSK_BUF {
        self.length.set(length);
        let offset = bytes.addr() & PAGE_SIZE.wrapping_sub(1);
        // MmInitializeMdl, which is inline in wdm.h.
        let header = MDL {
            Size: size_of::<Mdl>() as u16,
            StartVa: bytes.wrapping_sub(offset).cast_mut().cast(),
            ByteCount: length as u32,
            ByteOffset: offset as u32,
            ..MDL::ZERO
        };
        let mdl = self.mdl.get().cast::<MDL>();
        // SAFETY: the request's own MDL, which WSK does not use before it gets the IRP.
        unsafe { mdl.write(header) };
        // SAFETY: the MDL has room for the pages of the largest transfer; the bytes are in non-paged pool, by contract.
        unsafe { MmBuildMdlForNonPagedPool(mdl.cast()) };
        WSK_BUF { Mdl: mdl, Offset: 0, Length: length }
    }

    /// Has the bytes of `next` follow those of this request in one chain of MDLs.
    ///
    /// # Safety
    /// Both were described, and WSK has the IRP of neither.
    pub(crate) unsafe fn chain(&self, next: &Self) {
        // SAFETY: the request's own MDL, which WSK does not use now, by contract.
        let mdl = unsafe { &mut *self.mdl.get() };
        mdl.header.Next = next.mdl.get().cast();
    }
}

/// The address of a request that is under way.
#[derive(Clone, Copy)]
pub(super) struct UnderWay(NonNull<Request>);

impl UnderWay {
    /// # Safety
    /// `request` is under way as long as the `UnderWay` is used.
    pub(super) unsafe fn new(request: *mut Request) -> Self {
        // SAFETY: not null, by contract.
        Self(unsafe { NonNull::new_unchecked(request) })
    }

    pub(super) fn get(&self) -> &Request {
        // SAFETY: valid while the request is under way, by contract of `new`.
        unsafe { self.0.as_ref() }
    }

    /// Ends the request, which must not be used after that, as it may be freed.
    pub(super) fn end(self, result: Result<usize, SocketError>) {
        if let Some(done) = self.get().done.take() {
            // SAFETY: taken, so this is the only call; WSK is done with the request.
            unsafe { done.complete(result) };
        }
    }
}

/// Ends the request of a completed IRP. `outcome` computes the request's result from its length and WSK's result.
///
/// The unload may wait for this request as the last one, and must not proceed while this thread runs the request's routine: see
/// [`at_dispatch`].
///
/// # Safety
/// Called in the completion routine of an IRP that [`Request::prepare`] has prepared.
unsafe fn complete(context: *mut c_void, outcome: fn(usize, Result<usize, SocketError>) -> Result<usize, SocketError>) {
    // SAFETY: the context is the request, which is under way until `end`.
    let request = unsafe { UnderWay::new(context.cast()) };
    // SAFETY: the IRP was completed just now.
    let result = unsafe { request.get().irp.result() };
    let length = request.get().length.get();
    at_dispatch(|| request.end(outcome(length, result.map_err(error))));
}

/// The completion routine of receives, of datagrams, and of the end of sending: the result is WSK's.
pub(super) unsafe extern "C" fn passed_on(_: *mut c_void, _: *mut c_void, context: *mut c_void) -> NTSTATUS {
    // SAFETY: this is the completion routine.
    unsafe { complete(context, |_, result| result) };
    KEPT
}

/// The completion routine of sends: a send that has not sent all bytes has failed.
pub(super) unsafe extern "C" fn sent(_: *mut c_void, _: *mut c_void, context: *mut c_void) -> NTSTATUS {
    let all_or_nothing = |length, result: Result<usize, _>| {
        result.and_then(|count| if count == length { Ok(count) } else { Err(SocketError::Failed) })
    };
    // SAFETY: this is the completion routine.
    unsafe { complete(context, all_or_nothing) };
    KEPT
}

/// The completion routine of closes, which do not fail.
pub(super) unsafe extern "C" fn closed(_: *mut c_void, _: *mut c_void, context: *mut c_void) -> NTSTATUS {
    // SAFETY: this is the completion routine.
    unsafe { complete(context, |_, _| Ok(0)) };
    KEPT
}

/// The error of an accept that failed. No page names the status for a connection that ended before it was accepted. So every status means
/// that, except the statuses for a failure of this machine or of the listener, and for a cancelled accept.
pub(super) fn error_of_accept(status: NTSTATUS) -> SocketError {
    match status {
        STATUS_INSUFFICIENT_RESOURCES => SocketError::Failed,
        // TCP has gone: the listener has to be closed.
        STATUS_FILE_FORCED_CLOSED => SocketError::NoNetwork,
        STATUS_CANCELLED => SocketError::Canceled,
        _ => SocketError::Reset,
    }
}

/// The error for a status of any other call.
pub(super) fn error(status: NTSTATUS) -> SocketError {
    match status {
        STATUS_CONNECTION_REFUSED => SocketError::Refused,
        // WSK is not ready.
        STATUS_DEVICE_NOT_READY => SocketError::NoNetwork,
        STATUS_NETWORK_UNREACHABLE
        | STATUS_HOST_UNREACHABLE
        | STATUS_PROTOCOL_UNREACHABLE
        | STATUS_PORT_UNREACHABLE
        | STATUS_INVALID_ADDRESS
        | STATUS_INVALID_ADDRESS_COMPONENT
        // A rule of a firewall.
        | STATUS_ACCESS_DENIED => SocketError::Unreachable,
        STATUS_ADDRESS_ALREADY_EXISTS | STATUS_ADDRESS_ALREADY_ASSOCIATED | STATUS_SHARING_VIOLATION => {
            SocketError::AddressInUse
        }
        STATUS_IO_TIMEOUT => SocketError::TimedOut,
        STATUS_CONNECTION_RESET
        | STATUS_CONNECTION_ABORTED
        | STATUS_CONNECTION_DISCONNECTED
        | STATUS_LOCAL_DISCONNECT
        | STATUS_REMOTE_DISCONNECT
        | STATUS_GRACEFUL_DISCONNECT
        | STATUS_CONNECTION_INVALID
        | STATUS_REQUEST_ABORTED
        | STATUS_INVALID_DEVICE_STATE
        | STATUS_FILE_FORCED_CLOSED => SocketError::Reset,
        STATUS_CANCELLED => SocketError::Canceled,
        _ => SocketError::Failed,
    }
}
