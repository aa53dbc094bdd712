//! The data path of ordinary Ethernet frames. The adapter checks, counts and completes the frames that it is given to send. With a cable it
//! sends them to the peers, and indicates theirs; without one it is alone on its link, and indicates none. NDIS loops frames back, if a binding requests that by its packet filter or send flags ("Looping Back NDIS
//! Packets"): the adapter reports NDIS_MAC_OPTION_NO_LOOPBACK, which also forbids the miniport to loop frames back ("OID_GEN_MAC_OPTIONS";
//! docs/decisions.md).
//!
//! The miniport completes each NET_BUFFER_LIST once, with its status. It completes a pause only after the lists that it got before the
//! pause, and when NDIS has returned the lists that it indicated.
#![expect(unsafe_code, reason = "handlers that NDIS calls, on structures that NDIS owns")]

use core::{ffi::c_void, ptr, slice};

use ndk_abi::{
    ndis::{
        NDIS_HANDLE, NDIS_MINIPORT_PAUSE_PARAMETERS, NDIS_MINIPORT_RESTART_PARAMETERS, NDIS_PORT_NUMBER,
        NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL, NDIS_SEND_FLAGS_DISPATCH_LEVEL,
        NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO, NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO, NET_BUFFER,
        NET_BUFFER_LIST, TcpIpChecksumNetBufferListInfo, TcpLargeSendNetBufferListInfo,
    },
    status::{
        NDIS_STATUS, NDIS_STATUS_INVALID_DATA, NDIS_STATUS_INVALID_LENGTH, NDIS_STATUS_NOT_SUPPORTED,
        NDIS_STATUS_PAUSED, NDIS_STATUS_RESOURCES, STATUS_PENDING, STATUS_SUCCESS,
    },
};
use platform::{Arc, Passive};
use task_offload::{
    checksum::Checksums,
    large_send::{LargeSend, MAX_HEADERS},
};
use vxlan::ethernet::HEADER;

use crate::{
    adapter::Adapter,
    attributes::ETHERNET_HEADER,
    cable::{Cable, Task},
    irql::at_dispatch,
    ndis,
    offload::{MAX_OFFLOAD_SIZE, Set},
    platform::Windows,
    traffic::{Frames, Kind},
};

/// Bytes of a large send's frame, at most.
const LONGEST_LARGE_SEND: u32 = MAX_OFFLOAD_SIZE + MAX_HEADERS as u32;

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
            unsafe { send_list(list, cable.as_ref(), adapter.mtu(), adapter.offloads.current(), &mut sent) }
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

/// What the transport leaves to the miniport for the frames of a list.
#[derive(Clone, Copy)]
struct Asked {
    checksums: NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO,
    large_send: NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO,
}

impl Asked {
    fn of(list: &NET_BUFFER_LIST) -> Self {
        let info = |place: usize| list.NetBufferListInfo.get(place).map_or(0, |info| info.addr() as u32);
        Self {
            checksums: NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO(info(TcpIpChecksumNetBufferListInfo)),
            large_send: NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO(info(TcpLargeSendNetBufferListInfo)),
        }
    }

    fn is_large_send(self) -> bool {
        self.large_send.0 != 0
    }

    fn is_nothing(self) -> bool {
        use NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO as Info;
        !self.is_large_send() && !self.checksums.asks(Info::IP_HEADER_CHECKSUM | Info::TCP_CHECKSUM)
    }

    /// The task of a frame of `length` bytes that begins with `start`. `None`: the frame is not as the transport says.
    fn task<'a>(self, start: &'a [u8], length: u32, mtu: u32) -> Option<Task<'a>> {
        use NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO as Info;
        let length = length as usize;
        if !self.is_large_send() {
            let tcp = self.checksums.asks(Info::TCP_CHECKSUM).then(|| self.checksums.tcp_header_offset());
            let ipv4_header = self.checksums.asks(Info::IP_HEADER_CHECKSUM);
            return Checksums::new(start, length, ipv4_header, tcp).map(Task::Checksums);
        }
        let info = self.large_send;
        let large = LargeSend::new(start, length, info.tcp_header_offset(), info.mss(), info.is_ipv6())?;
        let longest = large.headers().saturating_add(large.payload(0));
        (longest <= mtu.saturating_add(ETHERNET_HEADER) as usize).then_some(Task::LargeSend(large))
    }
}

/// Sends and counts the frames of a list. Returns the status of the first frame that failed. A large send while these are off is dropped
/// ("Offloading the Segmentation of Large TCP Packets").
///
/// # Safety
/// `list` and its frames are valid, and this driver owns them until it completes the list.
unsafe fn send_list(
    list: &mut NET_BUFFER_LIST,
    cable: Option<&Arc<Cable, Windows>>,
    mtu: u32,
    offloads: Set,
    sent: &mut Frames,
) -> NDIS_STATUS {
    let mut status = STATUS_SUCCESS;
    let asked = Asked::of(list);
    if asked.is_large_send() {
        if let Some(info) = list.NetBufferListInfo.get_mut(TcpLargeSendNetBufferListInfo) {
            let complete = NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO::COMPLETE;
            *info = ptr::without_provenance_mut(complete.0 as usize);
        }
        let wanted = if asked.large_send.is_ipv6() { Set::LARGE_SEND_IPV6 } else { Set::LARGE_SEND_IPV4 };
        if !asked.large_send.is_version_2() || !offloads.has(wanted) {
            sent.discards = sent.discards.wrapping_add(1);
            return NDIS_STATUS_NOT_SUPPORTED;
        }
    }
    let mut frame = list.FirstNetBuffer;
    while !frame.is_null() {
        // SAFETY: a frame of the list, by contract.
        let of_frame = unsafe { send_frame(frame, cable, mtu, asked, sent) };
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
    asked: Asked,
    sent: &mut Frames,
) -> NDIS_STATUS {
    // SAFETY: valid, by contract.
    let length = unsafe { (*frame).DataLength };
    let longest = if asked.is_large_send() { LONGEST_LARGE_SEND } else { mtu.saturating_add(ETHERNET_HEADER) };
    if !(ETHERNET_HEADER..=longest).contains(&length) {
        sent.errors = sent.errors.wrapping_add(1);
        return NDIS_STATUS_INVALID_LENGTH;
    }
    let needed = if asked.is_nothing() { ETHERNET_HEADER } else { length.min(MAX_HEADERS as u32) };
    let mut storage = [0_u8; MAX_HEADERS];
    // SAFETY: a valid frame; `storage` has room for the bytes, in case they are not contiguous.
    let start = unsafe { ndis::NdisGetDataBuffer(frame, needed, storage.as_mut_ptr().cast(), 1, 0) };
    if start.is_null() {
        sent.discards = sent.discards.wrapping_add(1);
        return NDIS_STATUS_RESOURCES;
    }
    // SAFETY: as many bytes, in the frame or in `storage`.
    let start = unsafe { slice::from_raw_parts(start.cast_const().cast::<u8>(), needed as usize) };
    let Some((header, _)) = start.split_first_chunk::<HEADER>() else { return NDIS_STATUS_INVALID_LENGTH };
    let task = if asked.is_nothing() { Some(Task::Nothing) } else { asked.task(start, length, mtu) };
    let Some(task) = task else {
        sent.errors = sent.errors.wrapping_add(1);
        return NDIS_STATUS_INVALID_DATA;
    };
    let (frames, octets) = match &task {
        // Each segment has the headers.
        Task::LargeSend(large) => {
            let more = (large.segments() as u64).saturating_sub(1).wrapping_mul(large.headers() as u64);
            (large.segments() as u64, u64::from(length).wrapping_add(more))
        }
        _ => (1, length.into()),
    };
    if let Some(cable) = cable {
        // SAFETY: by contract.
        if let Err(status) = unsafe { Cable::send(cable, frame, header, length, &task) } {
            sent.discards = sent.discards.wrapping_add(1);
            return status;
        }
    }
    let [a, b, c, d, e, f, ..] = *header;
    sent.count(Kind::of([a, b, c, d, e, f]), frames, octets);
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
