//! NDK_MW: create, and the bind and the invalidation by a queue pair.

use ndk_abi::ndkpi::{NDK_MR, NDK_MW, NDK_PD, NDK_QP};
use ndk_abi::status::NTSTATUS;
use platform::{Arc, Passive, Platform};

use crate::{Owned, opaque};

impl<K: Send + Sync, P: Platform> Owned<NDK_MW, K, P> {
    /// NdkCreateMw.
    pub fn create_mw<J: Send + Sync>(
        pd: &Owned<NDK_PD, J, P>,
        object_context: Arc<K, P>,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let create = pd.table().NdkCreateMw;
        let call = |completion, context, out| {
            // SAFETY: an open PD; the arguments belong together.
            unsafe { create(pd.as_ptr(), completion, context, out) }
        };
        // SAFETY: NdkCreateMw makes an MW, which has no callbacks.
        unsafe { Self::create(object_context, passive, call) }
    }

    /// NdkGetRemoteTokenFromMw: the token of the latest bind.
    pub fn remote_token(&self) -> u32 {
        // SAFETY: an open MW.
        unsafe { (self.table().NdkGetRemoteTokenFromMw)(self.as_ptr()) }
    }
}

impl<Q: Send + Sync, P: Platform> Owned<NDK_QP, Q, P> {
    /// NdkBind to `length` bytes at `address` of a region. Not to overlap with other posts to the initiator queue.
    pub fn bind<K: Send + Sync, M: Send + Sync>(
        &self,
        context: u64,
        mw: &Owned<NDK_MW, K, P>,
        mr: &Owned<NDK_MR, M, P>,
        (address, length): (u64, usize),
        flags: u32,
    ) -> NTSTATUS {
        let (bind, mr, mw) = (self.table().NdkBind, mr.as_ptr(), mw.as_ptr());
        // SAFETY: an open QP, MR and MW; the provider checks the range.
        unsafe { bind(self.as_ptr(), opaque(context), mr, mw, opaque(address), length, flags) }
    }

    /// NdkInvalidate of a window. Not to overlap with other posts to the initiator queue.
    pub fn invalidate_window<K: Send + Sync>(&self, context: u64, mw: &Owned<NDK_MW, K, P>, flags: u32) -> NTSTATUS {
        let invalidate = self.table().NdkInvalidate;
        // SAFETY: an open QP and MW.
        unsafe { invalidate(self.as_ptr(), opaque(context), mw.as_ptr().cast(), flags) }
    }
}
