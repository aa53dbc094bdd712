//! NDK_CQ.

use core::ffi::c_void;

use ndk_abi::ndkpi::{NDK_CQ, NDK_RESULT_EX};
use ndk_abi::status::NTSTATUS;
use ndk_abi::wdm::GROUP_AFFINITY;
use platform::{Arc, Passive, Platform};

use crate::{Adapter, Owned, check, request};

/// The receiver of a CQ's notifications.
pub trait Notified: Send + Sync + 'static {
    /// An armed CQ has a completion that satisfies the arm, or the CQ has failed. IRQL <= DISPATCH; the provider
    /// serialises the calls for one CQ.
    fn notified(&self, status: NTSTATUS);
}

impl<K: Notified, P: Platform> Owned<NDK_CQ, K, P> {
    /// NdkCreateCq.
    pub fn create_cq(
        adapter: &Adapter<P>,
        depth: u32,
        affinity: Option<GROUP_AFFINITY>,
        events: Arc<K, P>,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let mut affinity = affinity;
        let affinity = affinity.as_mut().map_or(core::ptr::null_mut(), |affinity| &raw mut *affinity);
        let callback_context = Arc::as_ptr(&events).cast_mut().cast();
        let create = adapter.table().NdkCreateCq;
        let call = |completion, context, out| {
            let adapter = adapter.as_ptr();
            // SAFETY: an open adapter; the callback's context is the object's; the affinity is only read during the call.
            unsafe { create(adapter, depth, notified::<K>, callback_context, affinity, completion, context, out) }
        };
        // SAFETY: NdkCreateCq makes a CQ.
        unsafe { Self::create(events, passive, call) }
    }

    /// NdkArmCq. Not to overlap with itself or [`Self::results`].
    pub fn arm(&self, kind: u32) {
        // SAFETY: an open CQ.
        unsafe { (self.table().NdkArmCq)(self.as_ptr(), kind) };
    }

    /// NdkGetCqResultsEx: takes results and returns their number. Not to overlap with itself or [`Self::arm`].
    pub fn results(&self, results: &mut [NDK_RESULT_EX]) -> usize {
        let room = u32::try_from(results.len()).unwrap_or(u32::MAX);
        // SAFETY: an open CQ and room for `room` results.
        let count = unsafe { (self.table().NdkGetCqResultsEx)(self.as_ptr(), results.as_mut_ptr(), room) };
        results.len().min(count as usize)
    }

    /// NdkResizeCq.
    pub fn resize(&self, depth: u32, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        let resize = self.table().NdkResizeCq;
        // SAFETY: an open CQ; the completion and its context belong together.
        check(request::<P>(passive, |completion, context| unsafe { resize(self.as_ptr(), depth, completion, context) }))
    }

    /// NdkControlCqInterruptModeration. Not to overlap with itself.
    pub fn moderate(&self, interval: u32, count: u32) -> Result<(), NTSTATUS> {
        // SAFETY: an open CQ.
        check(unsafe { (self.table().NdkControlCqInterruptModeration)(self.as_ptr(), interval, count) })
    }
}

/// NDK_FN_CQ_NOTIFICATION_CALLBACK.
unsafe extern "system" fn notified<K: Notified>(context: *mut c_void, status: NTSTATUS) {
    // SAFETY: the context of the CQ, which lives until its close has completed: after the last notification.
    let events = unsafe { &*context.cast_const().cast::<K>() };
    events.notified(status);
}
