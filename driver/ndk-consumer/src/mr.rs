//! NDK_MR.

use ndk_abi::ndkpi::{NDK_MR, NDK_PD};
use ndk_abi::status::NTSTATUS;
use ndk_abi::wdm::BOOLEAN;
use platform::{Arc, Passive, Platform};

use crate::{Owned, Pinned, check, request};

impl<K: Send + Sync, P: Platform> Owned<NDK_MR, K, P> {
    /// NdkCreateMr.
    pub fn create_mr<J: Send + Sync>(
        pd: &Owned<NDK_PD, J, P>,
        fast_register: bool,
        object_context: Arc<K, P>,
        passive: &Passive<'_>,
    ) -> Result<Self, NTSTATUS> {
        let create = pd.table().NdkCreateMr;
        let call = |completion, context, out| {
            // SAFETY: an open PD; the arguments belong together.
            unsafe { create(pd.as_ptr(), BOOLEAN::from(fast_register), completion, context, out) }
        };
        // SAFETY: NdkCreateMr makes an MR, which has no callbacks.
        unsafe { Self::create(object_context, passive, call) }
    }

    /// NdkRegisterMr over the `length` bytes of `pinned`, which must outlive the registration.
    pub fn register(
        &self,
        pinned: &impl Pinned,
        length: usize,
        flags: u32,
        passive: &Passive<'_>,
    ) -> Result<(), NTSTATUS> {
        let register = self.table().NdkRegisterMr;
        let mdl = pinned.mdl().as_ptr();
        check(request::<P>(passive, |completion, context| {
            // SAFETY: an open MR and a locked MDL chain that outlives its registration.
            unsafe { register(self.as_ptr(), mdl, length, flags, completion, context) }
        }))
    }

    /// NdkDeregisterMr: when it returns, the provider no longer uses the memory.
    pub fn deregister(&self, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        let deregister = self.table().NdkDeregisterMr;
        // SAFETY: an open MR; the completion and its context belong together.
        check(request::<P>(passive, |completion, context| unsafe { deregister(self.as_ptr(), completion, context) }))
    }

    /// NdkInitializeFastRegisterMr.
    pub fn initialize_fast_register(
        &self,
        pages: u32,
        remote_access: bool,
        passive: &Passive<'_>,
    ) -> Result<(), NTSTATUS> {
        let initialize = self.table().NdkInitializeFastRegisterMr;
        check(request::<P>(passive, |completion, context| {
            // SAFETY: an open MR; the completion and its context belong together.
            unsafe { initialize(self.as_ptr(), pages, BOOLEAN::from(remote_access), completion, context) }
        }))
    }

    /// NdkGetLocalTokenFromMr, of a region that is registered or initialised for fast registration.
    pub fn local_token(&self) -> u32 {
        // SAFETY: an open MR.
        unsafe { (self.table().NdkGetLocalTokenFromMr)(self.as_ptr()) }
    }

    /// NdkGetRemoteTokenFromMr, of a region that is registered or initialised for fast registration.
    pub fn remote_token(&self) -> u32 {
        // SAFETY: an open MR.
        unsafe { (self.table().NdkGetRemoteTokenFromMr)(self.as_ptr()) }
    }
}
