//! Handles of NDK objects, with their entries as methods.
#![expect(unsafe_code, reason = "calls functions of a C interface, through pointers to objects")]

use std::{
    ffi::c_void,
    ptr::{NonNull, null},
};

use ndk_abi::{
    ndkpi::*,
    status::{NTSTATUS, STATUS_PENDING, STATUS_SUCCESS},
    wdm::GUID,
};

use super::{
    Request, Waiter,
    call::{call, handle},
    waiter,
};

mod adapter;
mod connection;
mod pd;
mod queue;

pub(crate) use adapter::{adapter_info_sized, lam_sized};
pub(crate) use pd::QpSizes;

handle!(
    /// A completion queue; `notified` gets its notifications.
    Cq(NDK_CQ, NdkObjectTypeCq) { notified: &'static Waiter }, NdkCloseCq);
handle!(
    /// A protection domain.
    Pd(NDK_PD, NdkObjectTypePd) {}, NdkClosePd);
handle!(
    /// A memory region.
    Mr(NDK_MR, NdkObjectTypeMr) {}, NdkCloseMr);
handle!(
    /// A memory window.
    Mw(NDK_MW, NdkObjectTypeMw) {}, NdkCloseMw);
handle!(
    /// A shared receive queue; `notified` gets its notifications.
    Srq(NDK_SRQ, NdkObjectTypeSrq) { notified: &'static Waiter }, NdkCloseSrq);
handle!(
    /// A queue pair.
    Qp(NDK_QP, NdkObjectTypeQp) {}, NdkCloseQp);
handle!(
    /// A connector.
    Connector(NDK_CONNECTOR, NdkObjectTypeConnector) {}, NdkCloseConnector);
handle!(
    /// A listener; `events` gets its connectors.
    Listener(NDK_LISTENER, NdkObjectTypeListener) { events: &'static Waiter }, NdkCloseListener);
handle!(
    /// A shared endpoint.
    SharedEndpoint(NDK_SHARED_ENDPOINT, NdkObjectTypeSharedEndpoint) {}, NdkCloseSharedEndpoint);

/// The words of an object's head that belong to the consumer.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    dispatch: *mut *const c_void,
    interposed: *const c_void,
    reserved: *mut [*mut c_void; 4],
}

// SAFETY: the consumer's words, on any thread.
unsafe impl Send for Head {}

impl Head {
    const MARKS: [usize; 4] = [1, 2, 3, 4];

    fn new(dispatch: *mut *const c_void, reserved: *mut [*mut c_void; 4]) -> Self {
        // SAFETY: in an open object.
        let interposed = unsafe { dispatch.read() };
        Self { dispatch, interposed, reserved }
    }

    fn mark(&self) {
        // SAFETY: in an open object, the consumer's to write.
        unsafe { self.reserved.write(Self::MARKS.map(number)) };
    }

    /// Whether they are still what the consumer made of them; the object is open.
    pub(crate) fn is_ours(&self) -> bool {
        // SAFETY: in an open object.
        let dispatch = unsafe { self.dispatch.read() };
        // SAFETY: in an open object.
        let reserved = unsafe { self.reserved.read() };
        dispatch == self.interposed && reserved.map(|word| word.addr()) == Self::MARKS
    }
}

/// An adapter, which NDIS closes.
#[derive(Clone, Copy)]
pub(crate) struct Adapter(pub(crate) NonNull<NDK_ADAPTER>);

// SAFETY: NDK objects may be used on any thread.
unsafe impl Send for Adapter {}
// SAFETY: as above.
unsafe impl Sync for Adapter {}

/// The outcome of a create call: inline in `out`, or by callback.
fn made<T>(returned: NTSTATUS, out: *mut T, completion: &'static Waiter) -> Result<NonNull<T>, NTSTATUS> {
    let (status, object) = match returned {
        STATUS_PENDING => {
            assert!(out.is_null(), "the out parameter of a pending create is not touched");
            let call = completion.wait_for(1)[0];
            (call.status, std::ptr::with_exposed_provenance_mut(call.value))
        }
        inline => {
            assert_eq!(completion.count(), 0, "called although the answer was inline");
            (inline, out)
        }
    };
    if status == STATUS_SUCCESS { Ok(NonNull::new(object).expect("an object")) } else { Err(status) }
}

/// A context or address that is a number.
fn number(value: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(value)
}
