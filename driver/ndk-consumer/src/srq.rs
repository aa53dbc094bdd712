//! NDK_SRQ.

use core::ffi::c_void;

use ndk_abi::ndkpi::{NDK_FN_SRQ_NOTIFICATION_CALLBACK, NDK_PD, NDK_SGE, NDK_SRQ};
use ndk_abi::status::NTSTATUS;
use ndk_abi::wdm::GROUP_AFFINITY;
use platform::{Arc, Passive, Platform};

use crate::{Owned, check, opaque, request};

/// The receiver of an SRQ's notifications.
pub trait SrqNotified: Send + Sync + 'static {
    /// The SRQ has fewer receives than its threshold, or has failed. IRQL <= DISPATCH.
    fn notified(&self, status: NTSTATUS);
}

/// Size and threshold of an SRQ.
#[allow(missing_docs, reason = "named as the parameters of NdkCreateSrq")]
pub struct SrqSize {
    pub depth: u32,
    pub sges: u32,
    pub threshold: u32,
}

impl<K: SrqNotified, P: Platform> Owned<NDK_SRQ, K, P> {
    /// NdkCreateSrq.
    pub fn create_srq<J: Send + Sync>(
        pd: &Owned<NDK_PD, J, P>,
        size: &SrqSize,
        affinity: Option<GROUP_AFFINITY>,
        events: Arc<K, P>,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let mut affinity = affinity;
        let affinity = affinity.as_mut().map_or(core::ptr::null_mut(), |affinity| &raw mut *affinity);
        let callback_context = Arc::as_ptr(&events).cast_mut().cast();
        let create = pd.table().NdkCreateSrq;
        let &SrqSize { depth, sges, threshold } = size;
        let callback: NDK_FN_SRQ_NOTIFICATION_CALLBACK = notified::<K>;
        let call = |completion, context, out| {
            let (pd, callback) = (pd.as_ptr(), Some(callback));
            // SAFETY: an open PD; the callback's context is the object's; the affinity is only read during the call.
            unsafe {
                create(pd, depth, sges, threshold, callback, callback_context, affinity, completion, context, out)
            }
        };
        // SAFETY: NdkCreateSrq makes an SRQ.
        unsafe { Self::create(events, passive, call) }
    }

    /// NdkModifySrq: 0 leaves a value as it is; a threshold arms the notification.
    pub fn modify(&self, depth: u32, threshold: u32, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        let modify = self.table().NdkModifySrq;
        check(request::<P>(passive, |completion, context| {
            // SAFETY: an open SRQ; the completion and its context belong together.
            unsafe { modify(self.as_ptr(), depth, threshold, completion, context) }
        }))
    }

    /// NdkSrqReceive. Not to overlap with itself.
    pub fn receive(&self, context: u64, sges: &[NDK_SGE]) -> NTSTATUS {
        let count = u32::try_from(sges.len()).unwrap_or(u32::MAX);
        // SAFETY: an open SRQ, `count` entries; the provider checks their contents.
        unsafe { (self.table().NdkSrqReceive)(self.as_ptr(), opaque(context), sges.as_ptr(), count) }
    }
}

/// NDK_FN_SRQ_NOTIFICATION_CALLBACK.
unsafe extern "system" fn notified<K: SrqNotified>(context: *mut c_void, status: NTSTATUS) {
    // SAFETY: the context of the SRQ, which lives until its close has completed: after the last notification.
    let events = unsafe { &*context.cast_const().cast::<K>() };
    events.notified(status);
}
