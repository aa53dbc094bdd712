//! The NDKPI dispatch tables as safe Rust, for consumers: the only consumer code that dereferences pointers to NDK
//! objects.
//!
//! Used by the control device (`driver/nd-ioctl`) and by the SMB Direct style test consumer
//! (`tests/clients/smb-direct`).
//!
//! [`Owned`] is an open object: dropping it closes it. Each object holds a *context*: the data that its callbacks and its
//! successors use, released when the close has completed. A successor's context holds the antecedents, so objects are
//! always closed successors first (NDKPI: object lifetime requirements).
//!
//! The caller locks what NDKPI does not allow to overlap: posts to one queue, polls and arms of one CQ. The methods say
//! so.
#![no_std]
#![expect(unsafe_code, reason = "calls through the dispatch tables of an NDK provider")]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod adapter;
mod connector;
mod cq;
mod listener;
mod mr;
mod mw;
mod qp;
mod source;
mod srq;

pub use adapter::{Adapter, Lam, OpenAdapters};
pub use connector::{Completed, Disconnected, Offer};
pub use cq::Notified;
pub use listener::ConnectRequested;
pub use qp::{Data, QpDepths, Work};
pub use source::{AdapterSource, Pinned};
pub use srq::{SrqNotified, SrqSize};

use core::ffi::c_void;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use ndk_abi::ndkpi::{
    NDK_CONNECTOR, NDK_CQ, NDK_FN_CLOSE_OBJECT, NDK_FN_CREATE_COMPLETION, NDK_FN_REQUEST_COMPLETION, NDK_LISTENER,
    NDK_MR, NDK_MW, NDK_OBJECT_HEADER, NDK_PD, NDK_QP, NDK_SRQ,
};
use ndk_abi::ndkpi::{
    NDK_CONNECTOR_DISPATCH, NDK_CQ_DISPATCH, NDK_LISTENER_DISPATCH, NDK_MR_DISPATCH, NDK_MW_DISPATCH, NDK_PD_DISPATCH,
    NDK_QP_DISPATCH, NDK_SRQ_DISPATCH,
};
use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INTERNAL_ERROR, STATUS_PENDING, STATUS_SUCCESS};
use platform::{Arc, Event, OutOfMemory, Passive, Platform};

/// A kind of NDK object that has a close function.
///
/// # Safety
/// `Self` starts with an `NDK_OBJECT_HEADER`.
pub unsafe trait Kind: 'static {
    /// The object's dispatch table.
    type Table: 'static;
    /// The object's dispatch pointer.
    fn dispatch(&self) -> *const Self::Table;
    /// The close entry of the table.
    fn close(table: &Self::Table) -> NDK_FN_CLOSE_OBJECT;
}

macro_rules! kinds {
    ($($object:ident $table:ident $close:ident;)*) => {$(
        // SAFETY: declared so in ndk_abi, whose layout checks put Header at offset 0.
        unsafe impl Kind for $object {
            type Table = $table;
            fn dispatch(&self) -> *const $table {
                self.Dispatch
            }
            fn close(table: &$table) -> NDK_FN_CLOSE_OBJECT {
                table.$close
            }
        }
    )*};
}

kinds! {
    NDK_PD NDK_PD_DISPATCH NdkClosePd;
    NDK_CQ NDK_CQ_DISPATCH NdkCloseCq;
    NDK_MR NDK_MR_DISPATCH NdkCloseMr;
    NDK_MW NDK_MW_DISPATCH NdkCloseMw;
    NDK_SRQ NDK_SRQ_DISPATCH NdkCloseSrq;
    NDK_QP NDK_QP_DISPATCH NdkCloseQp;
    NDK_CONNECTOR NDK_CONNECTOR_DISPATCH NdkCloseConnector;
    NDK_LISTENER NDK_LISTENER_DISPATCH NdkCloseListener;
}

/// An open object. Dropping it, at IRQL <= DISPATCH, closes it.
pub struct Owned<T: Kind, K: Send + Sync, P: Platform> {
    object: NonNull<T>,
    context: Arc<K, P>,
}

// SAFETY: NDKPI functions may be called from any thread; what they must not overlap, the callers of the methods lock.
unsafe impl<T: Kind, K: Send + Sync, P: Platform> Send for Owned<T, K, P> {}
// SAFETY: as for Send.
unsafe impl<T: Kind, K: Send + Sync, P: Platform> Sync for Owned<T, K, P> {}

impl<T: Kind, K: Send + Sync, P: Platform> Owned<T, K, P> {
    /// The data that the object's callbacks and successors use; it outlives the object.
    pub fn context(&self) -> &Arc<K, P> {
        &self.context
    }

    fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }

    fn table(&self) -> &T::Table {
        // SAFETY: the object is open: closed only by drop.
        let object = unsafe { self.object.as_ref() };
        // SAFETY: an open object has a dispatch table, which outlives it.
        unsafe { &*object.dispatch() }
    }

    /// Creates an object; `call` calls the provider's create function. Waits if that returns STATUS_PENDING.
    ///
    /// # Safety
    /// `call` passes its three arguments to the provider's create function and keeps none of them; the object that it
    /// creates is a `T`, and its callbacks get no context but `object_context`.
    unsafe fn create(
        object_context: Arc<K, P>,
        passive: &Passive<'_>,
        call: impl FnOnce(NDK_FN_CREATE_COMPLETION, *mut c_void, *mut *mut T) -> NTSTATUS,
    ) -> Result<Self, NTSTATUS> {
        let completion = Completion::<P>::new()?;
        let context = Arc::into_raw(completion.clone());
        let mut made = core::ptr::null_mut();
        let mut status = call(created::<P>, context.cast_mut().cast(), &raw mut made);
        if status == STATUS_PENDING {
            completion.event.wait(passive);
            status = completion.status();
            made = completion.object.load(Ordering::Acquire).cast();
        } else {
            // SAFETY: a create that did not return STATUS_PENDING calls no completion (NDK_FN_CREATE_COMPLETION).
            drop(unsafe { Arc::<Completion<P>, P>::from_raw(context) });
        }
        if status != STATUS_SUCCESS {
            return Err(if status.is_success() { STATUS_INTERNAL_ERROR } else { status });
        }
        let object = NonNull::new(made).ok_or(STATUS_INTERNAL_ERROR)?;
        Ok(Self { object, context: object_context })
    }
}

impl<T: Kind, K: Send + Sync, P: Platform> Drop for Owned<T, K, P> {
    fn drop(&mut self) {
        let close = T::close(self.table());
        let context = Arc::into_raw(self.context.clone());
        // SAFETY: an open object that starts with its header, closed once; the callback's context is a reference to the object's.
        let status = unsafe { close(self.object.as_ptr().cast(), closed::<K, P>, context.cast_mut().cast()) };
        if status != STATUS_PENDING {
            // SAFETY: a close that did not return STATUS_PENDING calls no completion (NDK_FN_CLOSE_OBJECT).
            drop(unsafe { Arc::<K, P>::from_raw(context) });
        }
    }
}

/// NDK_FN_CLOSE_COMPLETION: the last callback of an object.
unsafe extern "system" fn closed<K: Send + Sync, P: Platform>(context: *mut c_void) {
    // SAFETY: `drop` left one reference for this one call.
    drop(unsafe { Arc::<K, P>::from_raw(context.cast_const().cast()) });
}

/// An asynchronous call, for whose completion a thread waits.
struct Completion<P: Platform> {
    event: Arc<Event<P>, P>,
    status: AtomicI32,
    object: AtomicPtr<NDK_OBJECT_HEADER>,
}

impl<P: Platform> Completion<P> {
    fn new() -> Result<Arc<Self, P>, NTSTATUS> {
        let make = || {
            let event = Event::new()?;
            Arc::try_new(Self { event, status: AtomicI32::new(0), object: AtomicPtr::new(core::ptr::null_mut()) })
        };
        make().map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)
    }

    fn status(&self) -> NTSTATUS {
        NTSTATUS(self.status.load(Ordering::Acquire))
    }
}

/// NDK_FN_CREATE_COMPLETION.
unsafe extern "system" fn created<P: Platform>(context: *mut c_void, status: NTSTATUS, object: *mut NDK_OBJECT_HEADER) {
    // SAFETY: the create call was given one reference for this one call.
    let completion = unsafe { Arc::<Completion<P>, P>::from_raw(context.cast_const().cast()) };
    completion.object.store(object, Ordering::Release);
    completion.status.store(status.0, Ordering::Release);
    completion.event.set();
}

/// NDK_FN_REQUEST_COMPLETION.
unsafe extern "system" fn requested<P: Platform>(context: *mut c_void, status: NTSTATUS) {
    // SAFETY: `request` left one reference for this one call.
    let completion = unsafe { Arc::<Completion<P>, P>::from_raw(context.cast_const().cast()) };
    completion.status.store(status.0, Ordering::Release);
    completion.event.set();
}

/// Starts an asynchronous request and waits for its completion. Only for requests that complete without any action of
/// the program or of the peer.
fn request<P: Platform>(
    passive: &Passive<'_>,
    call: impl FnOnce(NDK_FN_REQUEST_COMPLETION, *mut c_void) -> NTSTATUS,
) -> NTSTATUS {
    let completion = match Completion::<P>::new() {
        Ok(completion) => completion,
        Err(status) => return status,
    };
    let context = Arc::into_raw(completion.clone());
    let status = call(requested::<P>, context.cast_mut().cast());
    if status == STATUS_PENDING {
        completion.event.wait(passive);
        return completion.status();
    }
    // SAFETY: a request that did not return STATUS_PENDING calls no completion (NDK_FN_REQUEST_COMPLETION).
    drop(unsafe { Arc::<Completion<P>, P>::from_raw(context) });
    status
}

/// The status as a result: anything but STATUS_SUCCESS is an error.
fn check(status: NTSTATUS) -> Result<(), NTSTATUS> {
    if status == STATUS_SUCCESS { Ok(()) } else { Err(status) }
}

/// A program's 64-bit number as a pointer, which the provider returns and nothing dereferences.
fn opaque(number: u64) -> *mut c_void {
    core::ptr::without_provenance_mut(number as usize)
}
