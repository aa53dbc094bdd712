//! Ordinary frames. The adapter has no wire: what is sent is counted, completed and gone; nothing is ever received.
//!
//! Send rules: each NET_BUFFER_LIST is completed once, with its status, and none after a pause has completed.
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
    status::{NDIS_STATUS, NDIS_STATUS_PAUSED, STATUS_PENDING, STATUS_SUCCESS},
};

use crate::{adapter::Adapter, ndis};

/// Set while the adapter is paused; the bits below count the sends in progress.
const PAUSED: u32 = 1 << 31;

/// Whether frames flow, and how many did.
pub(crate) struct Traffic {
    state: AtomicU32,
    frames: AtomicU64,
    octets: AtomicU64,
}

impl Traffic {
    /// An adapter starts paused.
    pub(crate) const fn new() -> Self {
        Self { state: AtomicU32::new(PAUSED), frames: AtomicU64::new(0), octets: AtomicU64::new(0) }
    }

    /// Frames sent.
    pub(crate) fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// Bytes in them.
    pub(crate) fn octets(&self) -> u64 {
        self.octets.load(Ordering::Relaxed)
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

    fn count(&self, frames: u64, octets: u64) {
        self.frames.fetch_add(frames, Ordering::Relaxed);
        self.octets.fetch_add(octets, Ordering::Relaxed);
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
    let status = if running { STATUS_SUCCESS } else { NDIS_STATUS_PAUSED };
    let (mut frames, mut octets) = (0_u64, 0_u64);
    let mut next = lists;
    // SAFETY: NDIS gives a valid, null-terminated chain of lists, ours until it is completed.
    while let Some(list) = unsafe { next.as_mut() } {
        list.Status = status;
        let mut buffer: *const NET_BUFFER = list.FirstNetBuffer;
        // SAFETY: likewise the buffers of a list.
        while let Some(frame) = unsafe { buffer.as_ref() } {
            frames = frames.wrapping_add(1);
            octets = octets.wrapping_add(u64::from(frame.DataLength));
            buffer = frame.Next;
        }
        next = list.Next;
    }
    if running {
        adapter.traffic().count(frames, octets);
    }
    let at_dispatch = flags & NDIS_SEND_FLAGS_DISPATCH_LEVEL != 0;
    let flags = if at_dispatch { NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL } else { 0 };
    // SAFETY: the chain that NDIS gave, complete and unchanged but for its statuses.
    unsafe { ndis::NdisMSendNetBufferListsComplete(adapter.miniport(), lists, flags) };
    if running && adapter.traffic().end_send() {
        // SAFETY: `pause` returned STATUS_PENDING; this is the only send that saw the count reach 0 since.
        unsafe { ndis::NdisMPauseComplete(adapter.miniport()) };
    }
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

/// `MiniportRestart`. PASSIVE_LEVEL.
pub(crate) unsafe extern "system" fn restart(
    context: NDIS_HANDLE,
    _parameters: *mut NDIS_MINIPORT_RESTART_PARAMETERS,
) -> NDIS_STATUS {
    // SAFETY: the context of this adapter, which NDIS does not halt during a restart.
    let adapter = unsafe { Adapter::from_context(context) };
    adapter.traffic().restart();
    STATUS_SUCCESS
}
