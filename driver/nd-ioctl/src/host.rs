//! The interface between the control device and the kernel that it runs in, or a stand-in for that kernel.
#![allow(unsafe_code, reason = "traits whose implementers promise memory validity to an NDK provider")]

use core::net::IpAddr;

use ndk_abi::ndis::NDIS_NDK_CAPABILITIES;
use ndk_abi::ndkpi::NDK_ADAPTER_INFO;
use ndk_abi::softndk_ioctl::{
    SOFTNDK_CABLE, SOFTNDK_CABLE_PEER, SOFTNDK_DIAGNOSTICS, SOFTNDK_ENDPOINT, SOFTNDK_FAULT_RULE, SOFTNDK_FDB_ENTRY,
    SOFTNDK_START_CAPTURE, SOFTNDK_TEST_LINK, SOFTNDK_TEST_LINK_RESULT, SOFTNDK_TEST_PERF, SOFTNDK_TEST_PERF_RESULT,
    SOFTNDK_TEST_SMB_DIRECT_RESULT,
};
use ndk_abi::status::{NTSTATUS, STATUS_INVALID_DEVICE_STATE, STATUS_NOT_SUPPORTED};
use ndk_consumer::{AdapterSource, Pinned};
use platform::{Passive, Platform};

use crate::File;

/// The kernel around one control device, which serves one adapter.
///
/// Four types implement it: `KernelHost` of softndk.sys, `ProcessHost` of softnd.dll, and for tests `LocalHost` of conformance and `TestHost` of
/// the crate `users`. Each passes `address`, `counter`, `limits` and `endpoint` on to its provider, by a line each: this crate knows no provider,
/// so it works with any.
///
/// # Safety
/// The MDL of a [`Pinned`] describes exactly the requested range: its pages are locked, for the requested access, and
/// `MmGetMdlVirtualAddress` is the user address.
pub unsafe trait Host: AdapterSource<<Self as Host>::Platform> + Send + Sync + 'static {
    /// The kernel's memory, locks and events.
    type Platform: Platform;
    /// An IOCTL request.
    type Request: Request;
    /// Locked user memory.
    type Pinned: Pinned;

    /// The most bytes that the whole driver locks, in whole pages ([`crate::locked_bytes`]). One process locks at most half of them.
    const MAX_PINNED_BYTES: u64;

    /// The most bytes of non-paged pool that one process takes.
    const MAX_POOL_BYTES: u64;

    /// The identifier that a program passes to ADAPTER_OPEN: the NET_LUID of the network interface.
    fn adapter_id(&self) -> u64;

    /// Local address number `index` of the adapter; `None` behind the last one. IRQL PASSIVE.
    fn address(&self, index: usize) -> Option<IpAddr>;

    /// The processors of group 0, one bit each.
    fn processors(&self) -> u64;

    /// Locks `length` bytes (not 0) at `address` of the process that sent `request`, for reading or for reading and writing. The range is
    /// untrusted. STATUS_ACCESS_VIOLATION: it is not user memory, or does not allow the access.
    fn pin(
        &self,
        request: &Self::Request,
        address: u64,
        length: usize,
        write: bool,
        passive: &Passive<'_>,
    ) -> Result<Self::Pinned, NTSTATUS>;

    /// Calls `share` with the file of a handle of the current process, which sent `request`. The handle is untrusted. STATUS_INVALID_HANDLE
    /// or STATUS_OBJECT_TYPE_MISMATCH: it is not the handle of a file of this driver.
    fn file_of_handle<R>(
        &self,
        request: &Self::Request,
        handle: u64,
        passive: &Passive<'_>,
        share: impl FnOnce(&File<Self>) -> R,
    ) -> Result<R, NTSTATUS>
    where
        Self: Sized;

    /// Fills in the fields that the driver keeps for all its files: `DriverVersion`, the object counts (`Adapters` to `SharedEndpoints`),
    /// `PinnedBytes`, `PoolBytes`. IRQL PASSIVE.
    fn diagnose(&self, diagnostics: &mut SOFTNDK_DIAGNOSTICS);

    /// Whether RDMA is on, so that adapters can be opened.
    fn is_enabled(&self) -> bool {
        true
    }

    /// The name and the value of the adapter's counter number `place`; `None` behind the last counter. Takes no lock.
    fn counter(&self, place: usize) -> Option<(&'static str, u64)>;

    /// The adapter's information, and the most objects of each kind that it has.
    fn limits(&self) -> (NDK_ADAPTER_INFO, NDIS_NDK_CAPABILITIES);

    /// Entry number `place` of the adapter's table of addresses in use; `Some(None)`: the entry has no endpoint to list; `None`: the table
    /// has no such entry. An endpoint stays at its place. A lock is held for this one entry only. IRQL PASSIVE.
    fn endpoint(&self, place: usize) -> Option<Option<SOFTNDK_ENDPOINT>>;

    /// Fault rule number `place` of the adapter; `None` behind the last one. IRQL PASSIVE.
    fn fault_rule(&self, _place: usize) -> Option<SOFTNDK_FAULT_RULE> {
        None
    }

    /// Replaces the adapter's fault rules. STATUS_NOT_SUPPORTED: fault injection is off; STATUS_INVALID_PARAMETER: a rule is wrong, or there are
    /// too many; STATUS_INSUFFICIENT_RESOURCES.
    fn set_fault_rules(&self, _text: &str) -> NTSTATUS {
        STATUS_NOT_SUPPORTED
    }

    /// Starts the capture of the file with number `file`. STATUS_NOT_SUPPORTED: captures are off; STATUS_DEVICE_BUSY: the adapter has a
    /// capture; STATUS_INSUFFICIENT_RESOURCES.
    fn start_capture(&self, _file: u64, _what: &SOFTNDK_START_CAPTURE) -> NTSTATUS {
        STATUS_NOT_SUPPORTED
    }

    /// Writes SOFTNDK_CAPTURE and the oldest records of a file's capture to `output`, and returns their bytes. STATUS_INVALID_DEVICE_STATE: the
    /// file has no capture; STATUS_BUFFER_TOO_SMALL. A lock is held for one record at a time.
    fn read_capture(&self, _file: u64, _output: &mut [u8]) -> Result<usize, NTSTATUS> {
        Err(STATUS_INVALID_DEVICE_STATE)
    }

    /// Ends the capture of a file, if it has one.
    fn end_capture(&self, _file: u64) {}

    /// The adapter's cable; `Version`, `Size`, `PeerCount` and `FdbCount` are not used. `None`: the adapter has no cable. IRQL PASSIVE.
    fn cable(&self) -> Option<SOFTNDK_CABLE> {
        None
    }

    /// Peer number `place` of the cable; `None` behind the last one. IRQL PASSIVE.
    fn cable_peer(&self, _place: usize) -> Option<SOFTNDK_CABLE_PEER> {
        None
    }

    /// Entry number `place` of the cable's forwarding database, which has SOFTNDK_CABLE_FDB places; `None`: the place is empty. A lock is
    /// held for this one entry only. IRQL PASSIVE.
    fn cable_fdb_entry(&self, _place: usize) -> Option<SOFTNDK_FDB_ENTRY> {
        None
    }

    /// Runs a scenario of the test consumer and waits for its end. STATUS_NOT_SUPPORTED: the host has no test consumer.
    fn test_smb_direct(
        &self,
        _scenario: u32,
        _passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_SMB_DIRECT_RESULT, NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    /// Carries out `ask` on the test consumer's link of the file with number `file`. `bytes` follow the request, or `room` is for the bytes
    /// that the result counts (`Length`); at least one of the two is empty. STATUS_NOT_SUPPORTED: the host has no test consumer.
    fn test_link(
        &self,
        _file: u64,
        _ask: &SOFTNDK_TEST_LINK,
        (_bytes, _room): (&[u8], &mut [u8]),
        _passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_LINK_RESULT, NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    /// Is one end of a measurement of the test consumer, for the file with number `file`, and writes samples to `room`. STATUS_NOT_SUPPORTED: the
    /// host has no test consumer.
    fn test_perf(
        &self,
        _file: u64,
        _ask: &SOFTNDK_TEST_PERF,
        _room: &mut [u8],
        _passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_PERF_RESULT, NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    /// Ends the test consumer's link and measurements of a file, if it has any, and waits until their objects are gone.
    fn end_tests(&self, _file: u64, _passive: &Passive<'_>) {}

    /// Plants a fault (`SOFTNDK_TEST_PLANT_*`) that the checkers have to find. Only test builds implement it.
    fn plant(&self, _kind: u32) -> NTSTATUS {
        STATUS_NOT_SUPPORTED
    }
}

/// One IOCTL request of a program. The owner of the value completes the request.
///
/// A pended request is completed once, in one of two ways:
/// * after [`Request::unpend`] has returned true: for an event, for `*_CANCEL_IO`, at the free of the object, or in a cleanup;
/// * inside [`crate::File::cancel`], which the host calls once for each request whose cancel routine runs. From the start of that routine
///   on, `unpend` returns false.
///
/// `pend` and `unpend` are called with a spin lock held that [`crate::File::cancel`] takes too. So a cancel routine waits until the request
/// is in the table of pended requests; it must hold no lock when it calls `cancel`.
pub trait Request: Send + Sized + 'static {
    /// The control code.
    fn code(&self) -> u32;

    /// The kernel's copy of the input. [`Request::output`] overwrites it.
    fn input(&self) -> &[u8];

    /// The output buffer. It aliases the input (METHOD_BUFFERED), so callers read the input first.
    fn output(&mut self) -> &mut [u8];

    /// Bytes of the output buffer.
    fn output_length(&self) -> usize;

    /// Completes the request. IRQL <= DISPATCH, no lock held.
    ///
    /// `information` is the number of bytes to copy out. It exceeds [`Request::output_length`] only with STATUS_BUFFER_OVERFLOW, and is the
    /// length needed then. The host copies nothing beyond the buffer: the I/O manager would, as it copies as many bytes as the IRP reports,
    /// so softndk.sys copies such an output itself. It writes to the current process, so only a dispatch routine completes a request so.
    ///
    /// Returns the status that the request was completed with, which the dispatch routine returns: not `status` if the program's buffer
    /// could not be written.
    fn complete(self, status: NTSTATUS, information: usize) -> NTSTATUS;

    /// As [`Request::complete`], for a request that is reported as pended: marks it pending (IoMarkIrpPending), completes it and returns
    /// STATUS_PENDING. So the I/O manager reports the end by event or completion port, once.
    fn complete_pending(self, status: NTSTATUS, information: usize) -> NTSTATUS;

    /// Marks the request pending (IoMarkIrpPending) and makes it cancellable (IoSetCancelRoutine): its cancel routine calls
    /// [`crate::File::cancel`] with `id`. False: the request was cancelled before and no cancel routine will run; the request is not
    /// marked, and the caller still owns and completes it.
    fn pend(&mut self, id: u64) -> bool;

    /// Takes the request back from its cancel routine (IoSetCancelRoutine(NULL)). False: the cancel routine runs or ran, and completes the
    /// request by [`crate::File::cancel`].
    fn unpend(&mut self) -> bool;
}
