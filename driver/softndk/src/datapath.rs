//! Ordinary frames. The adapter is the end of a wire with nobody else on it: what is sent is looked at, counted and completed, and
//! nothing is ever received. Frames for this computer NDIS loops back itself, to the bindings that ask for it: the adapter reports
//! NDIS_MAC_OPTION_NO_LOOPBACK, which also forbids a miniport to do so ("OID_GEN_MAC_OPTIONS"; docs/decisions.md).
//!
//! Send rules: each NET_BUFFER_LIST is completed once, with its status, and none that came before a pause after the pause has
//! completed.
#![expect(unsafe_code, reason = "handlers that NDIS calls, on structures that NDIS owns")]

use core::ffi::c_void;

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
    traffic::Sent,
};

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
        let of_frame = unsafe { look_at_frame(frame, sent) };
        if status == STATUS_SUCCESS {
            status = of_frame;
        }
        // SAFETY: likewise.
        frame = unsafe { (*frame).Next };
    }
    status
}

/// Looks at a frame, and counts it.
///
/// # Safety
/// `frame` is of NDIS, and the driver's until it is completed.
unsafe fn look_at_frame(frame: *mut NET_BUFFER, sent: &mut Sent) -> NDIS_STATUS {
    // SAFETY: valid, by contract.
    let length = unsafe { (*frame).DataLength };
    if !(ETHERNET_HEADER..=MAXIMUM_FRAME).contains(&length) {
        sent.errors = sent.errors.wrapping_add(1);
        return NDIS_STATUS_INVALID_LENGTH;
    }
    let mut storage = [0_u8; 6];
    // SAFETY: a valid frame, and room for as many bytes where they are not in one piece.
    let destination = unsafe { ndis::NdisGetDataBuffer(frame, 6, storage.as_mut_ptr().cast(), 1, 0) };
    if destination.is_null() {
        sent.discards = sent.discards.wrapping_add(1);
        return NDIS_STATUS_RESOURCES;
    }
    // SAFETY: as many bytes as were asked for, in the frame or in `storage`.
    let destination = unsafe { destination.cast::<[u8; 6]>().read() };
    let count = match destination {
        [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF] => &mut sent.broadcast,
        [first, ..] if first & 1 != 0 => &mut sent.multicast,
        _ => &mut sent.directed,
    };
    count.frames = count.frames.wrapping_add(1);
    count.octets = count.octets.wrapping_add(length.into());
    STATUS_SUCCESS
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
