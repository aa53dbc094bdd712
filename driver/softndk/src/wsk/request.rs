//! Requests: an IRP each, and an MDL for bytes.

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
        STATUS_REQUEST_ABORTED, STATUS_SHARING_VIOLATION,
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

/// Pages that bytes of a request may touch.
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
    /// Written when it begins, read when it ends.
    done: Cell<Option<Completion>>,
    /// Bytes to be sent.
    length: Cell<usize>,
}

// SAFETY: it is used by whoever begins it and then by whoever ends it.
unsafe impl Send for Request {}
// SAFETY: as for Send.
unsafe impl Sync for Request {}

impl Request {
    pub(super) const fn new() -> Self {
        Self {
            irp: OwnIrp::new(),
            mdl: UnsafeCell::new(Mdl { header: MDL::ZERO, pages: [0; MAX_PAGES] }),
            done: Cell::new(None),
            length: Cell::new(0),
        }
    }

    /// It is under way from now on.
    pub(super) fn begin(&self, done: Completion) {
        self.done.set(Some(done));
    }

    /// Prepares its IRP to be given to one call of WSK.
    ///
    /// # Safety
    /// As for [`OwnIrp::prepare`]. The context of `routine` is the request.
    pub(super) unsafe fn prepare(&self, routine: Completed) -> *mut c_void {
        // SAFETY: passed on.
        unsafe { self.irp.prepare(routine, (&raw const *self).cast_mut().cast()) }
    }

    /// Describes the bytes that it moves.
    ///
    /// # Safety
    /// As for the bytes of [`platform::Sockets::send`]; it is not under way.
    pub(super) unsafe fn describe(&self, bytes: *const u8, length: usize) -> WSK_BUF {
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
        // SAFETY: this request's own, which nobody uses before it is under way.
        unsafe { mdl.write(header) };
        // SAFETY: the MDL has room for the pages of the largest transfer; the bytes are in non-paged pool, by contract.
        unsafe { MmBuildMdlForNonPagedPool(mdl.cast()) };
        WSK_BUF { Mdl: mdl, Offset: 0, Length: length }
    }
}

/// Where a request is that is under way.
#[derive(Clone, Copy)]
pub(super) struct UnderWay(NonNull<Request>);

impl UnderWay {
    /// # Safety
    /// `request` is under way and stays so as long as this is used.
    pub(super) unsafe fn new(request: *mut Request) -> Self {
        // SAFETY: not null, by contract.
        Self(unsafe { NonNull::new_unchecked(request) })
    }

    pub(super) fn get(&self) -> &Request {
        // SAFETY: valid while it is under way, by contract of `new`.
        unsafe { self.0.as_ref() }
    }

    /// Ends it. It is not to be used any more, and may be gone.
    pub(super) fn end(self, result: Result<usize, SocketError>) {
        if let Some(done) = self.get().done.take() {
            // SAFETY: taken, so this is the only call; WSK uses the request no more.
            unsafe { done.complete(result) };
        }
    }
}

/// Ends the request whose IRP was completed, by what `outcome` makes of the number of its bytes and of what WSK says.
///
/// What ends may be the last that the unloading of this driver waits for: see [`at_dispatch`].
///
/// # Safety
/// In the completion routine of an IRP that [`Request::prepare`] has prepared.
unsafe fn complete(context: *mut c_void, outcome: fn(usize, Result<usize, SocketError>) -> Result<usize, SocketError>) {
    // SAFETY: the context is the request, which is under way until `end`.
    let request = unsafe { UnderWay::new(context.cast()) };
    // SAFETY: it was completed just now.
    let result = unsafe { request.get().irp.result() };
    let length = request.get().length.get();
    at_dispatch(|| request.end(outcome(length, result.map_err(error))));
}

/// Of a receive, and of the end of sending: what WSK says.
pub(super) unsafe extern "C" fn passed_on(_: *mut c_void, _: *mut c_void, context: *mut c_void) -> NTSTATUS {
    // SAFETY: a completion routine.
    unsafe { complete(context, |_, result| result) };
    KEPT
}

/// Of a send: all of it, or it failed.
pub(super) unsafe extern "C" fn sent(_: *mut c_void, _: *mut c_void, context: *mut c_void) -> NTSTATUS {
    let all_or_nothing = |length, result: Result<usize, _>| {
        result.and_then(|count| if count == length { Ok(count) } else { Err(SocketError::Failed) })
    };
    // SAFETY: a completion routine.
    unsafe { complete(context, all_or_nothing) };
    KEPT
}

/// Of a close, which does not fail.
pub(super) unsafe extern "C" fn closed(_: *mut c_void, _: *mut c_void, context: *mut c_void) -> NTSTATUS {
    // SAFETY: a completion routine.
    unsafe { complete(context, |_, _| Ok(0)) };
    KEPT
}

/// The meaning of the failure of an accept. What WSK says of a connection that has gone before it was accepted is not documented: any
/// status, but those that say what they do of this machine or of the listener.
pub(super) fn error_of_accept(status: NTSTATUS) -> SocketError {
    match status {
        STATUS_INSUFFICIENT_RESOURCES => SocketError::Failed,
        // TCP has gone: the listener has to be closed.
        STATUS_FILE_FORCED_CLOSED => SocketError::NoNetwork,
        STATUS_CANCELLED => SocketError::Canceled,
        _ => SocketError::Reset,
    }
}

/// The meaning of a status, of whatever call.
pub(super) fn error(status: NTSTATUS) -> SocketError {
    match status {
        STATUS_CONNECTION_REFUSED => SocketError::Refused,
        // WSK is not there.
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
