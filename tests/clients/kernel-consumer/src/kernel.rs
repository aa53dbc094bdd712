//! The consumer's requirements on the kernel around it, beside the platform.
#![allow(unsafe_code, reason = "a trait whose implementers promise memory validity to an NDK provider")]

use core::net::IpAddr;
use core::ptr::NonNull;

use ndk_consumer::{AdapterSource, Pinned};
use platform::Platform;

/// The kernel around a consumer, with one RDMA adapter.
///
/// # Safety
/// The MDL of [`Kernel::describe`] describes exactly the memory that the caller passed.
pub unsafe trait Kernel: AdapterSource<<Self as Kernel>::Platform> + Send + Sync + 'static {
    /// Memory, locks, events.
    type Platform: Platform;
    /// An MDL; dropping it frees the MDL, not the memory.
    type Mdl: Pinned;

    /// Builds an MDL for `length` bytes of non-paged pool (IoAllocateMdl, MmBuildMdlForNonPagedPool). The MDL's virtual address is the
    /// memory's. `None`: out of memory. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// The memory came from [`Platform::allocate`] and is freed after the MDL.
    unsafe fn describe(memory: NonNull<u8>, length: usize) -> Option<Self::Mdl>;

    /// An address of the adapter, to listen on and to connect to. `None`: the adapter has no address.
    fn address(&self) -> Option<IpAddr>;
}
