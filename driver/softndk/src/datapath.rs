//! The data path of ordinary Ethernet frames. The adapter checks, counts and completes the frames that it is given to send. With a cable it
//! sends them to the peers, and indicates theirs; without one it is alone on its link, and indicates none. NDIS loops frames back, if a binding requests that by its packet filter or send flags ("Looping Back NDIS
//! Packets"): the adapter reports NDIS_MAC_OPTION_NO_LOOPBACK, which also forbids the miniport to loop frames back ("OID_GEN_MAC_OPTIONS";
//! docs/decisions.md).
//!
//! The miniport completes each NET_BUFFER_LIST once, with its status. It completes a pause only after the lists that it got before the
//! pause, and when NDIS has returned the lists that it indicated.
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
use platform::{Arc, Passive};
use vxlan::ethernet::HEADER;

use crate::{
    adapter::Adapter,
    attributes::ETHERNET_HEADER,
    cable::Cable,
    irql::at_dispatch,
    ndis,
    platform::Windows,
    traffic::{Frames, Kind},
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
    let running = adapter.traffic().begin(1);
    let cable = adapter.cable();
    let mut sent = Frames::default();
    let mut next = lists;
    // SAFETY: NDIS gives a valid, null-terminated chain of lists, which this driver owns until it completes them.
    while let Some(list) = unsafe { next.as_mut() } {
        list.Status = if running {
            // SAFETY: a list of the chain.
            unsafe { send_list(list, cable.as_ref(), adapter.mtu(), &mut sent) }
        } else {
            NDIS_STATUS_PAUSED
        };
        next = list.Next;
    }
    adapter.traffic().sent.add(&sent);
    let is_at_dispatch = flags & NDIS_SEND_FLAGS_DISPATCH_LEVEL != 0;
    let flags = if is_at_dispatch { NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL } else { 0 };
    // SAFETY: the chain that NDIS gave, complete and unchanged but for its statuses.
    unsafe { ndis::NdisMSendNetBufferListsComplete(adapter.miniport(), lists, flags) };
    if running {
        adapter.traffic().end(1);
    }
    // The halt waits for this reference, and an unload may follow: see `at_dispatch`.
    at_dispatch(move || drop(cable));
}

/// Sends and counts the frames of a list. Returns the status of the first frame that failed.
///
/// # Safety
/// `list` and its frames are valid, and this driver owns them until it completes the list.
unsafe fn send_list(
    list: &NET_BUFFER_LIST,
    cable: Option<&Arc<Cable, Windows>>,
    mtu: u32,
    sent: &mut Frames,
) -> NDIS_STATUS {
    let mut status = STATUS_SUCCESS;
    let mut frame = list.FirstNetBuffer;
    while !frame.is_null() {
        // SAFETY: a frame of the list, by contract.
        let of_frame = unsafe { send_frame(frame, cable, mtu, sent) };
        if status == STATUS_SUCCESS {
            status = of_frame;
        }
        // SAFETY: as above.
        frame = unsafe { (*frame).Next };
    }
    status
}

/// Checks a frame, sends it over the cable, if there is one, and counts it.
///
/// # Safety
/// `frame` is valid, and this driver owns it until it completes the frame's list.
unsafe fn send_frame(
    frame: *mut NET_BUFFER,
    cable: Option<&Arc<Cable, Windows>>,
    mtu: u32,
    sent: &mut Frames,
) -> NDIS_STATUS {
    // SAFETY: valid, by contract.
    let length = unsafe { (*frame).DataLength };
    if !(ETHERNET_HEADER..=mtu.saturating_add(ETHERNET_HEADER)).contains(&length) {
        sent.errors = sent.errors.wrapping_add(1);
        return NDIS_STATUS_INVALID_LENGTH;
    }
    let mut storage = [0_u8; HEADER];
    // SAFETY: a valid frame; `storage` has room for the bytes, in case they are not contiguous.
    let header = unsafe { ndis::NdisGetDataBuffer(frame, ETHERNET_HEADER, storage.as_mut_ptr().cast(), 1, 0) };
    if header.is_null() {
        sent.discards = sent.discards.wrapping_add(1);
        return NDIS_STATUS_RESOURCES;
    }
    // SAFETY: the bytes, in the frame or in `storage`.
    let header = unsafe { header.cast::<[u8; HEADER]>().read() };
    if let Some(cable) = cable {
        // SAFETY: by contract.
        if let Err(status) = unsafe { Cable::send(cable, frame, &header, length) } {
            sent.discards = sent.discards.wrapping_add(1);
            return status;
        }
    }
    let [a, b, c, d, e, f, ..] = header;
    sent.count(Kind::of([a, b, c, d, e, f]), length.into());
    STATUS_SUCCESS
}

/// `MiniportReturnNetBufferLists`. <= DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn return_lists(context: NDIS_HANDLE, lists: *mut NET_BUFFER_LIST, _flags: u32) {
    // SAFETY: the context of this adapter, which NDIS does not halt before it has returned all lists.
    let adapter = unsafe { Adapter::from_context(context) };
    if let Some(cable) = adapter.cable() {
        // SAFETY: NDIS returns lists that the cable has indicated.
        unsafe { cable.take_back(lists) };
        // As in `send`.
        at_dispatch(move || drop(cable));
    }
}

/// `MiniportCancelSend`: does nothing, as `send` completes all lists before it returns. <= DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn cancel_send(_context: NDIS_HANDLE, _id: *mut c_void) {}

/// `MiniportPause`. PASSIVE_LEVEL. RDMA traffic continues: NetEventNDKDisable ends it, a pause does not.
pub(crate) unsafe extern "system" fn pause(
    context: NDIS_HANDLE,
    _parameters: *mut NDIS_MINIPORT_PAUSE_PARAMETERS,
) -> NDIS_STATUS {
    // SAFETY: the context of this adapter, which NDIS does not halt during a pause.
    let adapter = unsafe { Adapter::from_context(context) };
    if adapter.traffic().pause() { STATUS_SUCCESS } else { STATUS_PENDING }
}

/// `MiniportRestart`. PASSIVE_LEVEL. NDIS also restarts an adapter when TCP/IP has bound to it.
pub(crate) unsafe extern "system" fn restart(
    context: NDIS_HANDLE,
    _parameters: *mut NDIS_MINIPORT_RESTART_PARAMETERS,
) -> NDIS_STATUS {
    // SAFETY: NDIS calls this at PASSIVE_LEVEL.
    let passive = unsafe { Passive::assume::<Windows>() };
    // SAFETY: the context of this adapter, which NDIS does not halt during a restart.
    let adapter = unsafe { Adapter::from_context(context) };
    adapter.follow_tcpip(&passive);
    if let Some(cable) = adapter.cable() {
        Cable::start(&cable, &passive);
    }
    adapter.traffic().restart();
    STATUS_SUCCESS
}
