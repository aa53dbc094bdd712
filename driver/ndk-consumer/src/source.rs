//! The resources that a host gives to a consumer: NDK adapters, and locked memory.
#![allow(unsafe_code, reason = "traits whose implementers promise memory validity to an NDK provider")]

use core::ptr::NonNull;

use ndk_abi::ndkpi::{NDK_ADAPTER, NDK_VERSION};
use ndk_abi::status::NTSTATUS;
use ndk_abi::wdm::MDL;
use platform::{Passive, Platform, PoolQuota};

/// The source of NDK adapters: NDIS, or a host that calls the provider itself.
///
/// # Safety
/// The adapters obey NDKPI until they are closed. In particular `NdkGetCqResultsEx`, `NdkArmCq` and the post functions,
/// if called above PASSIVE_LEVEL, call no callback of the consumer before they return: callbacks come from DPCs.
pub unsafe trait AdapterSource<P: Platform> {
    /// Opens the NDK adapter, as OPEN_NDK_ADAPTER_HANDLER does. With a quota the adapter is for the program that asks,
    /// and objects made through it count against the quota; without one it is for a kernel consumer. Errors:
    /// `NDIS_STATUS_*`.
    fn open_adapter(
        &self,
        version: NDK_VERSION,
        quota: Option<&PoolQuota<P>>,
        passive: &Passive<'_>,
    ) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS>;

    /// Closes the adapter, as CLOSE_NDK_ADAPTER_HANDLER does: blocks until all of its objects are gone and their
    /// callbacks have returned.
    ///
    /// # Safety
    /// `adapter` came from [`AdapterSource::open_adapter`], is closed once, and the close of each of its objects has
    /// been called.
    unsafe fn close_adapter(&self, adapter: NonNull<NDK_ADAPTER>, passive: &Passive<'_>);
}

/// Memory that stays locked, or is non-paged, until this is dropped, at any IRQL <= DISPATCH.
///
/// # Safety
/// The MDL stays valid and unchanged, and its pages stay locked, until the drop.
pub unsafe trait Pinned: Send + Sync + 'static {
    /// The first MDL of the chain.
    fn mdl(&self) -> NonNull<MDL>;
}
