//! [`KernelHost`]: what the control device uses of the kernel and of its adapter.
//!
//! It shares no code with the other hosts: here the kernel locks memory and looks up handles, and RDMA can be turned off.
#![expect(unsafe_code, reason = "a trait that promises memory validity, and NDK adapters by pointer")]

use core::{
    net::IpAddr,
    ptr::NonNull,
    sync::atomic::{AtomicBool, Ordering},
};

use nd_ioctl::AdapterSource;
use ndk_abi::{
    ndis::NDIS_NDK_CAPABILITIES,
    ndkpi::{NDK_ADAPTER, NDK_ADAPTER_INFO, NDK_VERSION},
    softndk_ioctl::{
        SOFTNDK_CABLE, SOFTNDK_CABLE_PEER, SOFTNDK_DIAGNOSTICS, SOFTNDK_ENDPOINT, SOFTNDK_FAULT_RULE,
        SOFTNDK_FDB_ENTRY, SOFTNDK_START_CAPTURE,
    },
    status::{
        NDIS_STATUS_ADAPTER_NOT_READY, NTSTATUS, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_PARAMETER,
        STATUS_NOT_SUPPORTED, STATUS_SUCCESS,
    },
};
use ndk_provider::{MAX_VERSION_2, Provider, RulesError};
use platform::{Arc, Passive, PoolQuota, Weak};
use wdk_sys::ntddk::KeQueryGroupAffinity;

use crate::{
    cable::Cable,
    control::{self, current_process},
    driver,
    irp::ControlRequest,
    pin::{self, PinnedMemory},
    platform::{self as windows, Windows},
};

/// Bytes of non-paged pool that one process may take: a quarter of the memory of a small virtual machine, of 4 GiB. Enough for 10,000
/// connected queue pairs of depth 64 and 100,000 regions, or for as many regions as the adapter can have.
const MAX_POOL_BYTES: u64 = 1 << 30;

/// The host of one adapter's control device.
pub(crate) struct KernelHost {
    luid: u64,
    provider: Provider<Windows>,
    enabled: Arc<AtomicBool, Windows>,
    /// [`FAULT_INJECTION`](crate::keywords::FAULT_INJECTION).
    fault_injection: bool,
    /// [`CAPTURE`](crate::keywords::CAPTURE).
    capture: bool,
    /// Not strong: the halt waits for the cable's end before it removes the adapter from the control device.
    cable: Option<Weak<Cable, Windows>>,
    /// The test consumers, in a driver built for tests.
    #[cfg(feature = "test-consumer")]
    consumer: smb_direct::Consumer<Self>,
    #[cfg(feature = "test-consumer")]
    perf: ndk_perf::Consumer<Self>,
}

impl KernelHost {
    pub(crate) fn new(
        luid: u64,
        provider: Provider<Windows>,
        enabled: Arc<AtomicBool, Windows>,
        fault_injection: bool,
        capture: bool,
        cable: Option<Weak<Cable, Windows>>,
    ) -> Self {
        Self {
            luid,
            provider,
            enabled,
            fault_injection,
            capture,
            cable,
            #[cfg(feature = "test-consumer")]
            consumer: smb_direct::Consumer::default(),
            #[cfg(feature = "test-consumer")]
            perf: ndk_perf::Consumer::default(),
        }
    }

    /// The cable. A request holds it for the time of a call; the request's file keeps the driver loaded.
    fn live_cable(&self) -> Option<Arc<Cable, Windows>> {
        self.cable.as_ref()?.upgrade()
    }

    /// Stops the test consumers, if they run, and waits until they have closed their objects.
    #[cfg(feature = "test-consumer")]
    pub(crate) fn stop_consumer(&self, passive: &Passive<'_>) {
        self.consumer.stop(self, passive);
        self.perf.stop(passive);
    }

    /// Stops the test consumers, which cannot start again. Called when the adapter is removed from the control device.
    #[cfg(feature = "test-consumer")]
    pub(crate) fn close_consumer(&self, passive: &Passive<'_>) {
        self.consumer.close(self, passive);
        self.perf.close(passive);
    }
}

/// Replaces the fault rules of the adapter. STATUS_INVALID_PARAMETER: a rule is wrong, or there are too many.
pub(crate) fn set_fault_rules(provider: &Provider<Windows>, text: &[u8]) -> Result<(), NTSTATUS> {
    let text = core::str::from_utf8(text).map_err(|_| STATUS_INVALID_PARAMETER)?;
    provider.set_fault_rules(text).map_err(|error| match error {
        RulesError::Wrong(_) | RulesError::TooMany => STATUS_INVALID_PARAMETER,
        RulesError::OutOfMemory => STATUS_INSUFFICIENT_RESOURCES,
    })
}

// SAFETY: the provider obeys NDKPI. Posts, polls and arms call no callback: deferred calls do.
unsafe impl AdapterSource<Windows> for KernelHost {
    fn open_adapter(
        &self,
        version: NDK_VERSION,
        quota: Option<&PoolQuota<Windows>>,
        _: &Passive<'_>,
    ) -> Result<NonNull<NDK_ADAPTER>, NTSTATUS> {
        if !self.enabled.load(Ordering::Relaxed) {
            return Err(NDIS_STATUS_ADAPTER_NOT_READY);
        }
        match quota {
            // Control requests are dispatched in the requestor's thread, so the current process is the one that sent IOCTL_ND_ADAPTER_OPEN.
            Some(quota) => self.provider.open_for(version, u32::try_from(current_process()).ok(), quota),
            None => self.provider.open(version),
        }
    }

    unsafe fn close_adapter(&self, adapter: NonNull<NDK_ADAPTER>, passive: &Passive<'_>) {
        // SAFETY: the adapter came from `open_adapter`, and is closed once, by contract.
        unsafe { Provider::<Windows>::close(adapter, passive) };
    }
}

// SAFETY: the MDLs of PinnedMemory describe the requested range, locked for the requested access.
unsafe impl nd_ioctl::Host for KernelHost {
    type Platform = Windows;
    type Request = ControlRequest;
    type Pinned = PinnedMemory;

    const MAX_PINNED_BYTES: u64 = pin::MAX_PINNED_BYTES;
    const MAX_POOL_BYTES: u64 = MAX_POOL_BYTES;

    fn adapter_id(&self) -> u64 {
        self.luid
    }

    fn address(&self, index: usize) -> Option<IpAddr> {
        self.provider.address(index)
    }

    fn processors(&self) -> u64 {
        // SAFETY: any IRQL.
        unsafe { KeQueryGroupAffinity(0) }
    }

    /// The current process is the requestor's, as control requests are dispatched in the requestor's thread.
    fn pin(
        &self,
        _request: &ControlRequest,
        address: u64,
        length: usize,
        write: bool,
        passive: &Passive<'_>,
    ) -> Result<PinnedMemory, NTSTATUS> {
        PinnedMemory::lock(address, length, write, passive)
    }

    fn file_of_handle<R>(
        &self,
        _request: &ControlRequest,
        handle: u64,
        passive: &Passive<'_>,
        share: impl FnOnce(&nd_ioctl::File<Self>) -> R,
    ) -> Result<R, NTSTATUS> {
        control::file_of_handle(handle, share, passive)
    }

    fn diagnose(&self, diagnostics: &mut SOFTNDK_DIAGNOSTICS) {
        diagnostics.DriverVersion = driver::VERSION;
        self.provider.object_counts().fill(diagnostics);
        diagnostics.PinnedBytes = pin::pinned_bytes();
        diagnostics.PoolBytes = windows::pool_bytes();
    }

    fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Relaxed)
    }

    fn counter(&self, place: usize) -> Option<(&'static str, u64)> {
        self.provider.counter(place)
    }

    fn limits(&self) -> (NDK_ADAPTER_INFO, NDIS_NDK_CAPABILITIES) {
        (Provider::<Windows>::adapter_info(MAX_VERSION_2), Provider::<Windows>::capabilities())
    }

    fn endpoint(&self, place: usize) -> Option<Option<SOFTNDK_ENDPOINT>> {
        self.provider.endpoint(place)
    }

    fn fault_rule(&self, place: usize) -> Option<SOFTNDK_FAULT_RULE> {
        self.provider.fault_rule(place)
    }

    fn set_fault_rules(&self, text: &str) -> NTSTATUS {
        if !self.fault_injection {
            return STATUS_NOT_SUPPORTED;
        }
        set_fault_rules(&self.provider, text.as_bytes()).err().unwrap_or(STATUS_SUCCESS)
    }

    fn start_capture(&self, file: u64, what: &SOFTNDK_START_CAPTURE) -> NTSTATUS {
        if self.capture { self.provider.start_capture(file, what) } else { STATUS_NOT_SUPPORTED }
    }

    fn read_capture(&self, file: u64, output: &mut [u8]) -> Result<usize, NTSTATUS> {
        self.provider.read_capture(file, output)
    }

    fn end_capture(&self, file: u64) {
        self.provider.end_capture(file);
    }

    fn cable(&self) -> Option<SOFTNDK_CABLE> {
        Some(self.live_cable()?.show())
    }

    fn cable_peer(&self, place: usize) -> Option<SOFTNDK_CABLE_PEER> {
        self.live_cable()?.show_peer(place)
    }

    fn cable_fdb_entry(&self, place: usize) -> Option<SOFTNDK_FDB_ENTRY> {
        self.live_cable()?.show_fdb_entry(place)
    }

    #[cfg(feature = "test-consumer")]
    fn test_smb_direct(
        &self,
        scenario: u32,
        passive: &Passive<'_>,
    ) -> Result<ndk_abi::softndk_ioctl::SOFTNDK_TEST_SMB_DIRECT_RESULT, NTSTATUS> {
        self.consumer.serve(self, scenario, passive)
    }

    #[cfg(feature = "test-consumer")]
    fn test_link(
        &self,
        file: u64,
        ask: &ndk_abi::softndk_ioctl::SOFTNDK_TEST_LINK,
        bytes: (&[u8], &mut [u8]),
        passive: &Passive<'_>,
    ) -> Result<ndk_abi::softndk_ioctl::SOFTNDK_TEST_LINK_RESULT, NTSTATUS> {
        self.consumer.serve_link(self, file, ask, bytes, passive)
    }

    #[cfg(feature = "test-consumer")]
    fn test_perf(
        &self,
        file: u64,
        ask: &ndk_abi::softndk_ioctl::SOFTNDK_TEST_PERF,
        room: &mut [u8],
        passive: &Passive<'_>,
    ) -> Result<ndk_abi::softndk_ioctl::SOFTNDK_TEST_PERF_RESULT, NTSTATUS> {
        self.perf.serve(self, file, ask, room, passive)
    }

    #[cfg(feature = "test-consumer")]
    fn end_tests(&self, file: u64, passive: &Passive<'_>) {
        self.consumer.end(self, file, passive);
        self.perf.end(file, passive);
    }

    #[cfg(feature = "planted-faults")]
    fn plant(&self, kind: u32) -> NTSTATUS {
        crate::planted::plant(kind)
    }
}
