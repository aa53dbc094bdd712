//! What the control device needs of the kernel around it. Implemented by softndk.sys (IRPs, MDLs, NDIS) and by the
//! in-process front end of the harness (over the simulated kernel).
#![allow(unsafe_code, reason = "traits whose implementers promise memory validity to an NDK provider")]

use core::net::IpAddr;

use ndk_abi::ndis::NDIS_NDK_CAPABILITIES;
use ndk_abi::ndkpi::NDK_ADAPTER_INFO;
use ndk_abi::softndk_ioctl::{
    SOFTNDK_DIAGNOSTICS, SOFTNDK_ENDPOINT, SOFTNDK_TEST_LINK, SOFTNDK_TEST_LINK_RESULT, SOFTNDK_TEST_SMB_DIRECT_RESULT,
};
use ndk_abi::status::{NTSTATUS, STATUS_NOT_SUPPORTED};
use ndk_consumer::{AdapterSource, Pinned};
use platform::{Passive, Platform};

use crate::File;

/// The kernel around one control device, which serves one adapter.
///
/// # Safety
/// The MDL of a [`Pinned`] describes exactly what was asked for: its pages are locked, with the access asked for, and
/// `MmGetMdlVirtualAddress` is the user address.
pub unsafe trait Host: AdapterSource<<Self as Host>::Platform> + Send + Sync + 'static {
    /// Memory, locks, events.
    type Platform: Platform;
    /// An IOCTL request.
    type Request: Request;
    /// Locked user memory.
    type Pinned: Pinned;

    /// Bytes that the whole driver locks at most, in whole pages ([`crate::locked_bytes`]). One process gets half of them at most.
    const MAX_PINNED_BYTES: u64;

    /// Bytes of non-paged pool that one process takes at most.
    const MAX_POOL_BYTES: u64;

    /// The identifier that a user passes to ADAPTER_OPEN: the NET_LUID of the network interface.
    fn adapter_id(&self) -> u64;

    /// The `index`th local address of the adapter; `None` from their number on. IRQL PASSIVE.
    fn address(&self, index: usize) -> Option<IpAddr>;

    /// The processors of group 0, one bit each.
    fn processors(&self) -> u64;

    /// Locks `length` bytes (not 0) at `address` of the process that sent `request`, for reading or for reading and
    /// writing. The range is untrusted: STATUS_ACCESS_VIOLATION if it is not the user's, or not so accessible.
    fn pin(
        &self,
        request: &Self::Request,
        address: u64,
        length: usize,
        write: bool,
        passive: &Passive<'_>,
    ) -> Result<Self::Pinned, NTSTATUS>;

    /// Gives `share` the file behind a handle of the process that sent `request`, which is the current one. The handle is untrusted:
    /// STATUS_INVALID_HANDLE or STATUS_OBJECT_TYPE_MISMATCH if it is not one of a file of this driver.
    fn file_of_handle<R>(
        &self,
        request: &Self::Request,
        handle: u64,
        passive: &Passive<'_>,
        share: impl FnOnce(&File<Self>) -> R,
    ) -> Result<R, NTSTATUS>
    where
        Self: Sized;

    /// Fills in what the whole driver knows: `DriverVersion`, the object counts (`Adapters` to `SharedEndpoints`),
    /// `PinnedBytes`, `PoolBytes`. IRQL PASSIVE.
    fn diagnose(&self, diagnostics: &mut SOFTNDK_DIAGNOSTICS);

    /// Whether RDMA is on: adapters can be opened.
    fn is_enabled(&self) -> bool {
        true
    }

    /// The name and the value of the adapter's counter at one place; `None` behind the last. Takes no lock.
    fn counter(&self, place: usize) -> Option<(&'static str, u64)>;

    /// What the adapter offers, and how many objects of each kind it has at most.
    fn limits(&self) -> (NDK_ADAPTER_INFO, NDIS_NDK_CAPABILITIES);

    /// What is at one place of the adapter's table of addresses in use, if anything is that is listed; `None` from the number of places
    /// on. What is there stays at its place. Holds no lock for longer than that takes. IRQL PASSIVE.
    fn endpoint(&self, place: usize) -> Option<Option<SOFTNDK_ENDPOINT>>;

    /// Has the test consumer perform a scenario, and wait until it is over. STATUS_NOT_SUPPORTED: the host has none.
    fn test_smb_direct(
        &self,
        _scenario: u32,
        _passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_SMB_DIRECT_RESULT, NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    /// Has the test consumer do what a request of the file with this number asks for with its link. `bytes` came with it, or `room` is for
    /// those that go back, of which the result has the number: none has both. STATUS_NOT_SUPPORTED as above.
    fn test_link(
        &self,
        _file: u64,
        _ask: &SOFTNDK_TEST_LINK,
        (_bytes, _room): (&[u8], &mut [u8]),
        _passive: &Passive<'_>,
    ) -> Result<SOFTNDK_TEST_LINK_RESULT, NTSTATUS> {
        Err(STATUS_NOT_SUPPORTED)
    }

    /// Ends the link of a file, if it has one, and waits until its objects are gone.
    fn end_test_link(&self, _file: u64, _passive: &Passive<'_>) {}

    /// Plants a fault (`SOFTNDK_TEST_PLANT_*`) to be caught by the checkers. Only builds made for that do.
    fn plant(&self, _kind: u32) -> NTSTATUS {
        STATUS_NOT_SUPPORTED
    }
}

/// One IOCTL request of a user, owned by whoever is to complete it.
///
/// A request that was pended is completed once, in one of two ways:
/// * after [`Request::unpend`] returned true: by an event, by `*_CANCEL_IO`, by the free of the object, by cleanup;
/// * inside [`crate::File::cancel`], which the host calls once for each request whose cancel routine runs. From then on
///   `unpend` returns false.
///
/// `pend` and `unpend` are called with a spin lock held that [`crate::File::cancel`] takes too. So a cancel routine waits
/// until the request is in the control device's table; it must hold no lock when it calls `cancel`.
pub trait Request: Send + Sized + 'static {
    /// The control code.
    fn code(&self) -> u32;

    /// The kernel's copy of the input. [`Request::output`] overwrites it.
    fn input(&self) -> &[u8];

    /// The output buffer. Aliases the input (METHOD_BUFFERED), so it is touched only after the input was used.
    fn output(&mut self) -> &mut [u8];

    /// Bytes of the output buffer.
    fn output_length(&self) -> usize;

    /// Completes the request. IRQL <= DISPATCH, no lock held.
    ///
    /// `information` is the number of bytes to copy out. It is more than [`Request::output_length`] only with
    /// STATUS_BUFFER_OVERFLOW, where it is the length needed. A host copies nothing beyond the buffer then; whether it can
    /// report the number depends (the I/O manager copies as many bytes as are reported, so an IRP must not say more).
    ///
    /// Returns the status it was completed with, for the dispatch routine to return: another one than `status` if the
    /// user's buffer could not be written.
    fn complete(self, status: NTSTATUS, information: usize) -> NTSTATUS;

    /// As [`Request::complete`], but as a request that was pending: marks it (IoMarkIrpPending), completes it and returns
    /// STATUS_PENDING. So the sender is always told by its event or completion port, once.
    fn complete_pending(self, status: NTSTATUS, information: usize) -> NTSTATUS;

    /// Marks the request pending (IoMarkIrpPending) and lets it be cancelled (IoSetCancelRoutine): its cancel routine
    /// calls [`crate::File::cancel`] with `id`. False: it was cancelled before and no cancel routine will run; it is not
    /// marked, the caller still owns it, and completes it.
    fn pend(&mut self, id: u64) -> bool;

    /// Takes the request back from its cancel routine (IoSetCancelRoutine(NULL)). False: the cancel routine runs or ran,
    /// and completes the request by [`crate::File::cancel`].
    fn unpend(&mut self) -> bool;
}
