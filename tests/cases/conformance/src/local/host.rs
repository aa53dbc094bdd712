//! What the control device and the test consumer need of the kernel around them.
//!
//! The crate `users` has a host of its own, for the simulated kernel only. This one is for any [`Kernel`], locks memory that processes of a test
//! may share, and has the test consumer.
#![expect(unsafe_code, reason = "implements nd-ioctl's unsafe traits: adapters and pinned memory go by pointer")]

use std::{
    net::IpAddr,
    ptr::NonNull,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use nd_ioctl::{AdapterSource, File, Host, Pinned};
use ndk_abi::{
    ndis::NDIS_NDK_CAPABILITIES,
    ndkpi::{NDK_ADAPTER, NDK_ADAPTER_INFO, NDK_VERSION},
    softndk_ioctl::{
        SOFTNDK_DIAGNOSTICS, SOFTNDK_ENDPOINT, SOFTNDK_FAULT_RULE, SOFTNDK_START_CAPTURE, SOFTNDK_TEST_LINK,
        SOFTNDK_TEST_LINK_RESULT, SOFTNDK_TEST_PERF, SOFTNDK_TEST_PERF_RESULT, SOFTNDK_TEST_SMB_DIRECT_RESULT,
    },
    status::{NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_INVALID_PARAMETER, STATUS_NOT_SUPPORTED, STATUS_SUCCESS},
    wdm::MDL,
};
use ndk_provider::{MAX_VERSION_2, Provider};
use platform::{Passive, PoolQuota};
use users::{handles::Handles, request::TestRequest};

use super::Kernel;
use crate::memory::Region;

/// The NET_LUID of the network interface.
const ADAPTER_ID: u64 = 0x0006_0080_0000_0000;

/// The process as the kernel of one device.
pub(super) struct LocalHost<K: Kernel> {
    provider: Provider<K>,
    /// Bytes.
    pinned: Arc<AtomicU64>,
    consumers: Option<Consumers<Self>>,
    pub(super) handles: Handles<Self>,
}

/// The test consumers.
struct Consumers<H: smb_direct::Kernel> {
    smb_direct: smb_direct::Consumer<H>,
    perf: ndk_perf::Consumer<H>,
}

impl<K: Kernel> LocalHost<K> {
    pub(super) fn new(addresses: &[IpAddr], test_consumer: bool) -> Self {
        let provider = Provider::new(addresses).expect("memory for an adapter");
        let consumers = test_consumer
            .then(|| Consumers { smb_direct: smb_direct::Consumer::default(), perf: ndk_perf::Consumer::default() });
        Self { provider, pinned: Arc::default(), consumers, handles: Handles::default() }
    }

    fn consumers(&self) -> Result<&Consumers<Self>, NTSTATUS> {
        self.consumers.as_ref().ok_or(STATUS_NOT_SUPPORTED)
    }

    pub(super) fn stop_consumers(&self, passive: &Passive<'_>) {
        if let Some(consumers) = &self.consumers {
            consumers.smb_direct.stop(self, passive);
            consumers.perf.stop(passive);
        }
    }
}

// SAFETY: the provider obeys NDKPI; all its callbacks come from DPCs.
unsafe impl<K: Kernel> AdapterSource<K> for LocalHost<K> {
    fn open_adapter(
        &self,
        version: NDK_VERSION,
        quota: Option<&PoolQuota<K>>,
        _: &Passive<'_>,
    ) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS> {
        match quota {
            // Any number does: there is one process.
            Some(quota) => self.provider.open_for(version, Some(1), quota),
            None => self.provider.open(version),
        }
    }

    unsafe fn close_adapter(&self, adapter: NonNull<NDK_ADAPTER>, passive: &Passive<'_>) {
        // SAFETY: the caller's contract is the same.
        unsafe { Provider::<K>::close(adapter, passive) }.wait(passive);
    }
}

// SAFETY: a pin describes the range that was asked for.
unsafe impl<K: Kernel> Host for LocalHost<K> {
    type Platform = K;
    type Request = TestRequest;
    type Pinned = LocalPinned<K>;

    const MAX_PINNED_BYTES: u64 = 8 << 30;
    const MAX_POOL_BYTES: u64 = 1 << 30;

    fn adapter_id(&self) -> u64 {
        ADAPTER_ID
    }

    fn address(&self, index: usize) -> Option<IpAddr> {
        self.provider.address(index)
    }

    fn processors(&self) -> u64 {
        1
    }

    fn pin(
        &self,
        _: &TestRequest,
        address: u64,
        length: usize,
        _write: bool,
        _: &Passive<'_>,
    ) -> Result<LocalPinned<K>, NTSTATUS> {
        // Test buffers are all the user memory there is. All of them can be written.
        let (region, bytes) = Region::find(address, length).ok_or(STATUS_ACCESS_VIOLATION)?;
        let locked = nd_ioctl::locked_bytes(address, length).ok_or(STATUS_ACCESS_VIOLATION)?;
        // SAFETY: the pin keeps the region, which is readable and writable, for longer than the MDL.
        let mdl = unsafe { K::lock(bytes, length) };
        self.pinned.fetch_add(locked, Ordering::Relaxed);
        Ok(LocalPinned { mdl, locked, total: self.pinned.clone(), _region: region })
    }

    fn file_of_handle<R>(
        &self,
        _: &TestRequest,
        handle: u64,
        _: &Passive<'_>,
        share: impl FnOnce(&File<Self>) -> R,
    ) -> Result<R, NTSTATUS> {
        self.handles.file(handle).map(|file| share(&file))
    }

    fn fault_rule(&self, place: usize) -> Option<SOFTNDK_FAULT_RULE> {
        self.provider.fault_rule(place)
    }

    fn start_capture(&self, file: u64, what: &SOFTNDK_START_CAPTURE) -> NTSTATUS {
        self.provider.start_capture(file, what)
    }

    fn read_capture(&self, file: u64, output: &mut [u8]) -> Result<usize, NTSTATUS> {
        self.provider.read_capture(file, output)
    }

    fn end_capture(&self, file: u64) {
        self.provider.end_capture(file);
    }

    fn set_fault_rules(&self, text: &str) -> NTSTATUS {
        self.provider.set_fault_rules(text).map_or(STATUS_INVALID_PARAMETER, |()| STATUS_SUCCESS)
    }

    fn test_smb_direct(
        &self,
        scenario: u32,
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_SMB_DIRECT_RESULT, NTSTATUS> {
        self.consumers()?.smb_direct.serve(self, scenario, passive)
    }

    fn test_link(
        &self,
        file: u64,
        ask: &SOFTNDK_TEST_LINK,
        bytes: (&[u8], &mut [u8]),
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_LINK_RESULT, NTSTATUS> {
        self.consumers()?.smb_direct.serve_link(self, file, ask, bytes, passive)
    }

    fn test_perf(
        &self,
        file: u64,
        ask: &SOFTNDK_TEST_PERF,
        room: &mut [u8],
        passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_PERF_RESULT, NTSTATUS> {
        self.consumers()?.perf.serve(self, file, ask, room, passive)
    }

    fn end_tests(&self, file: u64, passive: &Passive<'_>) {
        if let Some(consumers) = &self.consumers {
            consumers.smb_direct.end(self, file, passive);
            consumers.perf.end(file, passive);
        }
    }

    fn diagnose(&self, diagnostics: &mut SOFTNDK_DIAGNOSTICS) {
        self.provider.object_counts().fill(diagnostics);
        diagnostics.PinnedBytes = self.pinned.load(Ordering::Relaxed);
        diagnostics.PoolBytes = K::pool_bytes();
    }

    fn counter(&self, place: usize) -> Option<(&'static str, u64)> {
        self.provider.counter(place)
    }

    fn limits(&self) -> (NDK_ADAPTER_INFO, NDIS_NDK_CAPABILITIES) {
        (Provider::<K>::adapter_info(MAX_VERSION_2), Provider::<K>::capabilities())
    }

    fn endpoint(&self, place: usize) -> Option<Option<SOFTNDK_ENDPOINT>> {
        self.provider.endpoint(place)
    }
}

// SAFETY: the MDL is of the memory that was given.
unsafe impl<K: Kernel> smb_direct::Kernel for LocalHost<K> {
    type Platform = K;
    type Mdl = PoolMdl<K>;

    unsafe fn describe(memory: NonNull<u8>, length: usize) -> Option<PoolMdl<K>> {
        // SAFETY: the caller keeps the memory for longer than the MDL.
        Some(PoolMdl(unsafe { K::lock(memory, length) }))
    }

    fn address(&self) -> Option<IpAddr> {
        self.provider.address(0)
    }
}

/// An MDL of the test consumer.
pub(super) struct PoolMdl<K: Kernel>(K::Mdl);

// SAFETY: the MDL lives as long as this.
unsafe impl<K: Kernel> Pinned for PoolMdl<K> {
    fn mdl(&self) -> NonNull<MDL> {
        K::address(&self.0)
    }
}

/// Locked memory of a test.
pub(super) struct LocalPinned<K: Kernel> {
    mdl: K::Mdl,
    /// Bytes.
    locked: u64,
    total: Arc<AtomicU64>,
    _region: Arc<Region>,
}

// SAFETY: the MDL lives as long as this, and its pages as long as the region.
unsafe impl<K: Kernel> Pinned for LocalPinned<K> {
    fn mdl(&self) -> NonNull<MDL> {
        K::address(&self.mdl)
    }
}

impl<K: Kernel> Drop for LocalPinned<K> {
    fn drop(&mut self) {
        self.total.fetch_sub(self.locked, Ordering::Relaxed);
    }
}
