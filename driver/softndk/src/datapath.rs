//! Ordinary frames. The adapter is the end of a wire with nobody else on it: what is sent is looked at, counted and completed, and
//! nothing is ever received. Frames for this computer NDIS loops back itself, to the bindings that ask for it: the adapter reports
//! NDIS_MAC_OPTION_NO_LOOPBACK, which also forbids a miniport to do so ("OID_GEN_MAC_OPTIONS"; docs/decisions.md).
//!
//! Send rules: each NET_BUFFER_LIST is completed once, with its status, and none that came before a pause after the pause has
//! completed.
#![expect(unsafe_code, reason = "handlers that NDIS calls, on structures that NDIS owns")]

use core::{
    ffi::c_void,
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
};

use ndk_abi::{
    ndis::{
        NDIS_HANDLE, NDIS_MINIPORT_PAUSE_PARAMETERS, NDIS_MINIPORT_RESTART_PARAMETERS, NDIS_PORT_NUMBER,
        NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL, NDIS_SEND_FLAGS_DISPATCH_LEVEL, NET_BUFFER, NET_BUFFER_LIST,
    },
    status::{
        NDIS_STATUS, NDIS_STATUS_INVALID_LENGTH, NDIS_STATUS_PAUSED, NDIS_STATUS_RESOURCES, STATUS_PENDING,
        STATUS_SUCCESS,
    },
};
use platform::Passive;

use crate::{
    adapter::Adapter,
    attributes::{ETHERNET_HEADER, MAXIMUM_FRAME},
    ndis,
    platform::Windows,
};

/// Set while the adapter is paused; the bits below count the sends in progress.
const PAUSED: u32 = 1 << 31;

/// Frames, and the bytes in them.
#[derive(Clone, Copy, Default)]
pub(crate) struct Count {
    pub(crate) frames: u64,
    pub(crate) octets: u64,
}

/// What was sent, by destination, and frames that were not.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sent {
    pub(crate) directed: Count,
    pub(crate) multicast: Count,
    pub(crate) broadcast: Count,
    /// Of a length that no frame has.
    pub(crate) errors: u64,
    /// That could not be looked at.
    pub(crate) discards: u64,
}

impl Sent {
    /// All that were sent.
    pub(crate) fn frames(&self) -> u64 {
        let Self { directed, multicast, broadcast, .. } = self;
        directed.frames.wrapping_add(multicast.frames).wrapping_add(broadcast.frames)
    }

    /// Looks at a frame, and counts it.
    ///
    /// # Safety
    /// `frame` is of NDIS, and the driver's until it is completed.
    unsafe fn frame(&mut self, frame: *mut NET_BUFFER) -> NDIS_STATUS {
        // SAFETY: valid, by contract.
        let length = unsafe { (*frame).DataLength };
        if !(ETHERNET_HEADER..=MAXIMUM_FRAME).contains(&length) {
            self.errors = self.errors.wrapping_add(1);
            return NDIS_STATUS_INVALID_LENGTH;
        }
        let mut storage = [0_u8; 6];
        // SAFETY: a valid frame, and room for as many bytes where they are not in one piece.
        let destination = unsafe { ndis::NdisGetDataBuffer(frame, 6, storage.as_mut_ptr().cast(), 1, 0) };
        if destination.is_null() {
            self.discards = self.discards.wrapping_add(1);
            return NDIS_STATUS_RESOURCES;
        }
        // SAFETY: as many bytes as were asked for, in the frame or in `storage`.
        let destination = unsafe { destination.cast::<[u8; 6]>().read() };
        let count = match destination {
            [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF] => &mut self.broadcast,
            [first, ..] if first & 1 != 0 => &mut self.multicast,
            _ => &mut self.directed,
        };
        count.frames = count.frames.wrapping_add(1);
        count.octets = count.octets.wrapping_add(length.into());
        STATUS_SUCCESS
    }
}

/// A [`Count`] that grows.
struct Counter {
    frames: AtomicU64,
    octets: AtomicU64,
}

impl Counter {
    const fn new() -> Self {
        Self { frames: AtomicU64::new(0), octets: AtomicU64::new(0) }
    }

    fn read(&self) -> Count {
        Count { frames: self.frames.load(Ordering::Relaxed), octets: self.octets.load(Ordering::Relaxed) }
    }

    fn add(&self, more: Count) {
        self.frames.fetch_add(more.frames, Ordering::Relaxed);
        self.octets.fetch_add(more.octets, Ordering::Relaxed);
    }
}

/// Whether frames flow, and how many did.
pub(crate) struct Traffic {
    state: AtomicU32,
    directed: Counter,
    multicast: Counter,
    broadcast: Counter,
    errors: AtomicU64,
    discards: AtomicU64,
}

impl Traffic {
    /// An adapter starts paused.
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU32::new(PAUSED),
            directed: Counter::new(),
            multicast: Counter::new(),
            broadcast: Counter::new(),
            errors: AtomicU64::new(0),
            discards: AtomicU64::new(0),
        }
    }

    /// What was sent so far.
    pub(crate) fn sent(&self) -> Sent {
        Sent {
            directed: self.directed.read(),
            multicast: self.multicast.read(),
            broadcast: self.broadcast.read(),
            errors: self.errors.load(Ordering::Relaxed),
            discards: self.discards.load(Ordering::Relaxed),
        }
    }

    /// Enters a send; `false` while paused.
    fn begin_send(&self) -> bool {
        let enter = |state: u32| if state & PAUSED == 0 { state.checked_add(1) } else { None };
        self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, enter).is_ok()
    }

    /// Leaves it. `true`: it was the last one, and a pause waits for it.
    fn end_send(&self) -> bool {
        self.state.fetch_sub(1, Ordering::Release) == PAUSED + 1
    }

    /// Lets no more sends in. `true`: none is in progress.
    fn pause(&self) -> bool {
        self.state.fetch_or(PAUSED, Ordering::AcqRel) == 0
    }

    fn restart(&self) {
        self.state.fetch_and(!PAUSED, Ordering::Release);
    }

    fn count(&self, more: &Sent) {
        self.directed.add(more.directed);
        self.multicast.add(more.multicast);
        self.broadcast.add(more.broadcast);
        self.errors.fetch_add(more.errors, Ordering::Relaxed);
        self.discards.fetch_add(more.discards, Ordering::Relaxed);
    }
}

/// `MiniportSendNetBufferLists`. <= DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn send(
    context: NDIS_HANDLE,
    lists: *mut NET_BUFFER_LIST,
    _port: NDIS_PORT_NUMBER,
    flags: u32,
) {
    // SAFETY: the context of this adapter, which NDIS does not halt during a send.
    let adapter = unsafe { Adapter::from_context(context) };
    let running = adapter.traffic().begin_send();
    let mut sent = Sent::default();
    let mut next = lists;
    // SAFETY: NDIS gives a valid, null-terminated chain of lists, ours until it is completed.
    while let Some(list) = unsafe { next.as_mut() } {
        list.Status = if running {
            // SAFETY: one of them.
            unsafe { look_at(list, &mut sent) }
        } else {
            NDIS_STATUS_PAUSED
        };
        next = list.Next;
    }
    adapter.traffic().count(&sent);
    let at_dispatch = flags & NDIS_SEND_FLAGS_DISPATCH_LEVEL != 0;
    let flags = if at_dispatch { NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL } else { 0 };
    // SAFETY: the chain that NDIS gave, complete and unchanged but for its statuses.
    unsafe { ndis::NdisMSendNetBufferListsComplete(adapter.miniport(), lists, flags) };
    if running && adapter.traffic().end_send() {
        // SAFETY: `pause` returned STATUS_PENDING; this is the only send that saw the count reach 0 since.
        unsafe { ndis::NdisMPauseComplete(adapter.miniport()) };
    }
}

/// The status of a list: that of its first frame that failed.
///
/// # Safety
/// `list` is of NDIS, with its frames, and the driver's until it is completed.
unsafe fn look_at(list: &NET_BUFFER_LIST, sent: &mut Sent) -> NDIS_STATUS {
    let mut status = STATUS_SUCCESS;
    let mut frame = list.FirstNetBuffer;
    while !frame.is_null() {
        // SAFETY: a frame of the list, by contract.
        let of_frame = unsafe { sent.frame(frame) };
        if status == STATUS_SUCCESS {
            status = of_frame;
        }
        // SAFETY: likewise.
        frame = unsafe { (*frame).Next };
    }
    status
}

/// `MiniportReturnNetBufferLists`: never called, as nothing is received. <= DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn return_lists(_context: NDIS_HANDLE, _lists: *mut NET_BUFFER_LIST, _flags: u32) {}

/// `MiniportCancelSend`: sends are complete when they return. <= DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn cancel_send(_context: NDIS_HANDLE, _id: *mut c_void) {}

/// `MiniportPause`. PASSIVE_LEVEL. RDMA traffic does not stop: that is NetEventNDKDisable's job.
pub(crate) unsafe extern "system" fn pause(
    context: NDIS_HANDLE,
    _parameters: *mut NDIS_MINIPORT_PAUSE_PARAMETERS,
) -> NDIS_STATUS {
    // SAFETY: the context of this adapter, which NDIS does not halt during a pause.
    let adapter = unsafe { Adapter::from_context(context) };
    if adapter.traffic().pause() { STATUS_SUCCESS } else { STATUS_PENDING }
}

/// `MiniportRestart`. PASSIVE_LEVEL. NDIS restarts an adapter when TCP/IP has bound to it, among other times.
pub(crate) unsafe extern "system" fn restart(
    context: NDIS_HANDLE,
    _parameters: *mut NDIS_MINIPORT_RESTART_PARAMETERS,
) -> NDIS_STATUS {
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the context of this adapter, which NDIS does not halt during a restart.
    let adapter = unsafe { Adapter::from_context(context) };
    adapter.follow_tcpip(&passive);
    adapter.traffic().restart();
    STATUS_SUCCESS
}
