//! The test consumers, the one in the style of SMB Direct and the one that measures, in a driver that is built for tests (feature
//! `test-consumer`).
//!
//! A test consumer runs on the thread of the control request that starts it, opens NDK adapters as the control device does, and uses only
//! their dispatch tables. It ends by itself; when the adapter is halted or RDMA is turned off, the driver stops it and waits for its end.
#![expect(unsafe_code, reason = "MDLs are structures of the memory manager, used by pointer")]

use core::{
    net::IpAddr,
    ptr::{NonNull, null_mut},
};

use nd_ioctl::Pinned;
use ndk_abi::wdm::MDL;
use smb_direct::Kernel;
use wdk_sys::ntddk::{IoAllocateMdl, IoFreeMdl, MmBuildMdlForNonPagedPool};

use crate::{host::KernelHost, platform::Windows};

/// `cargo xtask build` checks that the driver of the package does not contain this text.
const MARK: &[u8] = b"SoftNDK test consumer";

/// An MDL for non-paged pool. Freed at IRQL <= DISPATCH.
pub(crate) struct PoolMdl(NonNull<MDL>);

// SAFETY: an MDL of non-paged pool may be used and freed from any thread.
unsafe impl Send for PoolMdl {}
// SAFETY: as for Send; it does not change after `describe`.
unsafe impl Sync for PoolMdl {}

impl Drop for PoolMdl {
    fn drop(&mut self) {
        // SAFETY: allocated by `describe`, freed once, after its last use. It has no pages to unlock.
        unsafe { IoFreeMdl(self.0.as_ptr().cast()) };
    }
}

// SAFETY: the MDL does not change until the drop; non-paged pool is never paged out.
unsafe impl Pinned for PoolMdl {
    fn mdl(&self) -> NonNull<MDL> {
        self.0
    }
}

// SAFETY: MmBuildMdlForNonPagedPool describes the memory that the MDL was allocated for.
unsafe impl Kernel for KernelHost {
    type Platform = Windows;
    type Mdl = PoolMdl;

    unsafe fn describe(memory: NonNull<u8>, length: usize) -> Option<PoolMdl> {
        core::hint::black_box(MARK);
        let length = u32::try_from(length).ok()?;
        // SAFETY: describes the range only; no IRP is involved.
        let mdl = unsafe { IoAllocateMdl(memory.as_ptr().cast(), length, 0, 0, null_mut()) };
        let mdl = PoolMdl(NonNull::new(mdl.cast())?);
        // SAFETY: a new MDL for non-paged pool, which is what the platform allocates.
        unsafe { MmBuildMdlForNonPagedPool(mdl.0.as_ptr().cast()) };
        Some(mdl)
    }

    fn address(&self) -> Option<IpAddr> {
        nd_ioctl::Host::address(self, 0)
    }
}
