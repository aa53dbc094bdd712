//! The data path of ordinary Ethernet frames. The adapter checks, counts and completes the frames that it is given to send. With a cable it
//! sends them to the peers, and indicates theirs; without one it is alone on its link, and indicates none. NDIS loops frames back, if a binding
//! requests that by its packet filter or send flags ("Looping Back NDIS Packets"): the adapter reports NDIS_MAC_OPTION_NO_LOOPBACK, which also
//! forbids the miniport to loop frames back ("OID_GEN_MAC_OPTIONS"; docs/decisions.md).
//!
//! The miniport completes each NET_BUFFER_LIST once, with its status. It completes a pause only after the lists that it got before the
//! pause, and when NDIS has returned the lists that it indicated.
#![expect(unsafe_code, reason = "handlers that NDIS calls, on structures that NDIS owns")]

use core::{ffi::c_void, mem, ptr, slice};

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
use platform::{Arc, DISPATCH_LEVEL, Passive};
use task_offload::{
    checksum::Checksums,
    large_send::{LargeSend, MAX_HEADERS},
};
use vxlan::circular::START;

use crate::{
    adapter::Adapter,
    attributes::ETHERNET_HEADER,
    cable::{Cable, Refused, Task},
    critical_region::CriticalRegion,
    irql::{self, at_dispatch},
    lists::Chain,
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
    // A thread that is suspended would keep the slots of its frame.
    let region = (irql::current() < DISPATCH_LEVEL).then(CriticalRegion::enter);
    let (mut sent, mut done) = (Frames::default(), Chain::empty());
    let mut next = lists;
    // SAFETY: NDIS gives a valid, null-terminated chain of lists, which this driver owns until it completes them.
    while let Some(list) = unsafe { next.as_mut() } {
        next = mem::replace(&mut list.Next, ptr::null_mut());
        set_next_frame(list, list.FirstNetBuffer, 0);
        list.Status = if running { STATUS_SUCCESS } else { NDIS_STATUS_PAUSED };
        let is_done = match &cable {
            _ if !running => true,
            // SAFETY: a list of the chain.
            Some(cable) if cable.is_busy() && !unsafe { is_circular(list, cable) } => false,
            // SAFETY: a list of the chain.
            cable => unsafe { send_list(list, cable.as_ref(), adapter.mtu(), adapter.offloads.current(), &mut sent) },
        };
        match &cable {
            // SAFETY: a list of the chain, which is unlinked.
            Some(cable) if !is_done => unsafe { Cable::wait(cable, list) },
            // SAFETY: as above.
            _ => done.append(unsafe { Chain::of(list) }),
        }
    }
    drop(region);
    adapter.traffic().sent.add(&sent);
    let is_at_dispatch = flags & NDIS_SEND_FLAGS_DISPATCH_LEVEL != 0;
    let flags = if is_at_dispatch { NDIS_SEND_COMPLETE_FLAGS_DISPATCH_LEVEL } else { 0 };
    // SAFETY: lists that NDIS gave.
    unsafe { complete(adapter.miniport(), done, flags) };
    if running {
        adapter.traffic().end(1);
    }
    // The halt waits for this reference, and an unload may follow: see `at_dispatch`.
    at_dispatch(move || drop(cable));
}

/// Gives NDIS lists back. IRQL <= DISPATCH, and exactly so if the flags say so.
///
/// # Safety
/// The driver owns the lists, and the adapter is not halted before the return.
pub(crate) unsafe fn complete(miniport: NDIS_HANDLE, lists: Chain, flags: u32) {
    let mut next = lists.first;
    // SAFETY: a list of the chain.
    while let Some(list) = unsafe { next.as_mut() } {
        if Asked::of(list).is_large_send()
            && let Some(info) = list.NetBufferListInfo.get_mut(TcpLargeSendNetBufferListInfo)
        {
            let complete = NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO::COMPLETE;
            *info = ptr::without_provenance_mut(complete.0 as usize);
        }
        next = list.Next;
    }
    if !lists.first.is_null() {
        // SAFETY: by contract; the lists are unchanged but for what is the miniport's to write.
        unsafe { ndis::NdisMSendNetBufferListsComplete(miniport, lists.first, flags) };
    }
}

/// The frame of a list that is sent next, and the place of the peer that is to have it next, in the fields of the list that are the miniport's.
fn next_frame(list: &NET_BUFFER_LIST) -> (*mut NET_BUFFER, usize) {
    let [frame, peer] = list.MiniportReserved;
    (frame.cast(), peer.addr())
}

fn set_next_frame(list: &mut NET_BUFFER_LIST, frame: *mut NET_BUFFER, peer: usize) {
    list.MiniportReserved = [frame.cast(), ptr::without_provenance_mut(peer)];
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

    /// What becomes of a frame of `length` bytes that begins with `start`. `None`: the frame is not as the transport says.
    fn task<'a>(self, start: &'a [u8], length: u32, mtu: u32) -> Option<Task<'a>> {
        use NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO as Info;
        let length = length as usize;
        if self.is_large_send() {
            let info = self.large_send;
            let large = LargeSend::new(start, length, info.tcp_header_offset(), info.mss(), info.is_ipv6())?;
            let task = Task::LargeSend(large);
            return (task.length(0) <= mtu.saturating_add(ETHERNET_HEADER) as usize).then_some(task);
        }
        let ipv4_header = self.checksums.asks(Info::IP_HEADER_CHECKSUM);
        let tcp = self.checksums.asks(Info::TCP_CHECKSUM).then(|| self.checksums.tcp_header_offset());
        let checksums = match (ipv4_header, tcp) {
            (false, None) => None,
            _ => Some(Checksums::new(start, length, ipv4_header, tcp)?),
        };
        Some(Task::Frame { length, checksums })
    }
}

/// Sends the frames of a list, from its next frame on, and counts them. The first frame that fails sets the status of the list. False: the next
/// frame waits for slots of the cable. While large sends are off a list that asks for one is dropped ("Offloading the Segmentation of Large TCP
/// Packets").
///
/// # Safety
/// `list` and its frames are valid, and this driver owns them until it completes the list.
pub(crate) unsafe fn send_list(
    list: &mut NET_BUFFER_LIST,
    cable: Option<&Arc<Cable, Windows>>,
    mtu: u32,
    offloads: Set,
    sent: &mut Frames,
) -> bool {
    let asked = Asked::of(list);
    let wanted = if asked.large_send.is_ipv6() { Set::LARGE_SEND_IPV6 } else { Set::LARGE_SEND_IPV4 };
    let is_allowed = asked.large_send.is_version_2() && offloads.has(wanted);
    if asked.is_large_send() && !is_allowed && next_frame(list) == (list.FirstNetBuffer, 0) {
        sent.discards = sent.discards.wrapping_add(1);
        list.Status = NDIS_STATUS_NOT_SUPPORTED;
        return true;
    }
    loop {
        let (frame, mut peer) = next_frame(list);
        if frame.is_null() {
            return true;
        }
        // SAFETY: a frame of the list, by contract.
        match unsafe { send_frame(frame, cable, mtu, asked, &mut peer, sent) } {
            Ok(()) => {}
            Err(Refused::NoSlots) => {
                set_next_frame(list, frame, peer);
                return false;
            }
            Err(Refused::Status(status)) if list.Status == STATUS_SUCCESS => list.Status = status,
            Err(Refused::Status(_)) => {}
        }
        // SAFETY: as above.
        set_next_frame(list, unsafe { (*frame).Next }, 0);
    }
}

/// The first bytes of a frame, of which the frame has as many: in the frame, or in `storage`.
///
/// # Safety
/// `frame` is valid, and this driver owns it while the bytes are used.
unsafe fn frame_start(frame: *mut NET_BUFFER, count: u32, storage: &mut [u8; MAX_HEADERS]) -> Option<&[u8]> {
    // SAFETY: a valid frame; `storage` has room for the bytes, in case they are not contiguous.
    let start = unsafe { ndis::NdisGetDataBuffer(frame, count, storage.as_mut_ptr().cast(), 1, 0) };
    if start.is_null() {
        return None;
    }
    // SAFETY: as many bytes, in the frame or in `storage`.
    Some(unsafe { slice::from_raw_parts(start.cast_const().cast::<u8>(), count as usize) })
}

/// Whether a list has a datagram of the cable, which a route leads into the cable. Such a list must not wait for slots: Winsock Kernel ends the request
/// of the datagram, which has a slot, when the list is completed.
///
/// # Safety
/// `list` and its frames are valid, and this driver owns them.
unsafe fn is_circular(list: &NET_BUFFER_LIST, cable: &Cable) -> bool {
    // SAFETY: null, or a frame of the list, by contract.
    let Some(frame) = (unsafe { list.FirstNetBuffer.as_ref() }) else { return false };
    let mut storage = [0_u8; MAX_HEADERS];
    // SAFETY: as above.
    let start = unsafe { frame_start(list.FirstNetBuffer, frame.DataLength.min(START as u32), &mut storage) };
    start.is_some_and(|start| cable.is_circular(start))
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
    peer: &mut usize,
    sent: &mut Frames,
) -> Result<(), Refused> {
    // SAFETY: valid, by contract.
    let length = unsafe { (*frame).DataLength };
    let longest = if asked.is_large_send() { LONGEST_LARGE_SEND } else { mtu.saturating_add(ETHERNET_HEADER) };
    if !(ETHERNET_HEADER..=longest).contains(&length) {
        sent.errors = sent.errors.wrapping_add(1);
        return Err(Refused::Status(NDIS_STATUS_INVALID_LENGTH));
    }
    let needed = length.min(if asked.is_nothing() { START } else { MAX_HEADERS } as u32);
    let mut storage = [0_u8; MAX_HEADERS];
    // SAFETY: a valid frame, by contract.
    let Some(start) = (unsafe { frame_start(frame, needed, &mut storage) }) else {
        sent.discards = sent.discards.wrapping_add(1);
        return Err(Refused::Status(NDIS_STATUS_RESOURCES));
    };
    let destination = start.first_chunk::<6>();
    let Some((destination, task)) = destination.zip(asked.task(start, length, mtu)) else {
        sent.errors = sent.errors.wrapping_add(1);
        return Err(Refused::Status(NDIS_STATUS_INVALID_DATA));
    };
    if let Some(cable) = cable {
        // SAFETY: by contract.
        unsafe { Cable::send(cable, frame, start, &task, peer) }.inspect_err(|refused| {
            if let Refused::Status(_) = refused {
                sent.discards = sent.discards.wrapping_add(1);
            }
        })?;
    }
    sent.count(Kind::of(*destination), task.segments() as u64, task.octets() as u64);
    Ok(())
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

/// `MiniportCancelSend`: does nothing. A list waits for datagrams that Winsock Kernel has, and for no peer. <= DISPATCH_LEVEL.
pub(crate) unsafe extern "system" fn cancel_send(_context: NDIS_HANDLE, _id: *mut c_void) {}

/// `MiniportPause`. PASSIVE_LEVEL. RDMA traffic continues: NetEventNDKDisable ends it, a pause does not.
pub(crate) unsafe extern "system" fn pause(
    context: NDIS_HANDLE,
    _parameters: *mut NDIS_MINIPORT_PAUSE_PARAMETERS,
) -> NDIS_STATUS {
    // SAFETY: the context of this adapter, which NDIS does not halt during a pause.
    let adapter = unsafe { Adapter::from_context(context) };
    let cable = adapter.cable();
    let is_paused = adapter.traffic().pause();
    if let Some(cable) = &cable {
        Cable::pause(cable);
    }
    // As in `send`.
    at_dispatch(move || drop(cable));
    if is_paused { STATUS_SUCCESS } else { STATUS_PENDING }
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
