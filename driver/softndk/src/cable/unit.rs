//! Receive segment coalescing: TCP segments that follow one another in the queue become a unit, one list whose frame is a chain of MDLs, the first
//! segment and the payloads of the others ("Indicating Coalesced Segments"). No segment waits for another one: units are of the lists of one run.
#![expect(unsafe_code, reason = "lists that NDIS has by pointer")]

use core::{ptr, ptr::null_mut, slice};

use ndk_abi::{
    ndis::{
        NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO as Checksums, NET_BUFFER, NET_BUFFER_LIST,
        TcpIpChecksumNetBufferListInfo, TcpRecvSegCoalesceInfo,
    },
    wdm::MDL,
};
use task_offload::coalesce::{Frame, Refused, Segment, Unit};
use vxlan::{ethernet::MacAddress, header::HEADER};
use wdk_sys::ntddk::IoBuildPartialMdl;

use super::{counters::Coalesced, receive::entry};
use crate::{lists::Chain, offload::Set};

/// Connections whose units may grow at a time.
const OPEN: usize = 4;

/// A unit that may grow.
struct Open {
    unit: Unit,
    first: *mut NET_BUFFER_LIST,
    /// Where the first segment ends in its frame.
    end: usize,
    /// The last MDL of the unit, once there are two segments.
    last: *mut MDL,
}

/// Joins segments to the adapter's `address`, if the offload is on for their version of IP. Returns the lists to indicate: those of one connection in
/// their order.
///
/// # Safety
/// Queued lists of `receive`, which the caller owns.
pub(super) unsafe fn coalesce(mut queued: Chain, address: MacAddress, offloads: Set, counts: &Coalesced) -> Chain {
    let (mut lists, mut oldest) = (Chain::empty(), 0_usize);
    let mut opens = [const { None::<Open> }; OPEN];
    while let Some(list) = queued.pop() {
        // SAFETY: by contract.
        let frame = unsafe { frame(list) };
        let is_ours = frame.starts_with(&address.0);
        let is_on = |segment: &Segment| {
            is_ours && offloads.has(if segment.is_ipv6() { Set::COALESCE_IPV6 } else { Set::COALESCE_IPV4 })
        };
        match Frame::of(frame) {
            Frame::Segment(segment) if is_on(&segment) => {
                // SAFETY: by contract.
                if unsafe { join(&mut opens, list, frame, &segment, counts) } {
                    continue;
                }
                let open = Open { unit: Unit::new(segment), first: list, end: segment.payload().end, last: null_mut() };
                let place = opens.iter().position(Option::is_none).unwrap_or(oldest);
                oldest = place.wrapping_add(1) % OPEN;
                let closed = opens.get_mut(place).and_then(|place| place.replace(open));
                // SAFETY: by contract.
                unsafe { finish(closed, counts) };
            }
            other => {
                // It may be of a connection with a unit, and must not come before the segments that it follows.
                if other == Frame::Exception {
                    counts.aborts.add(1);
                }
                // SAFETY: by contract.
                opens.iter_mut().for_each(|open| unsafe { finish(open.take(), counts) });
            }
        }
        // SAFETY: by contract; `pop` has unlinked the list.
        lists.append(unsafe { Chain::of(list) });
    }
    // SAFETY: by contract.
    opens.into_iter().for_each(|open| unsafe { finish(open, counts) });
    lists
}

/// Makes a segment part of its connection's unit. False: there is none, or there is none any more.
///
/// # Safety
/// As for [`coalesce`]; `frame` is the list's.
unsafe fn join(
    opens: &mut [Option<Open>; OPEN],
    list: *mut NET_BUFFER_LIST,
    frame: &[u8],
    segment: &Segment,
    counts: &Coalesced,
) -> bool {
    for place in opens {
        let Some(open) = place else { continue };
        // SAFETY: by contract.
        match unsafe { open.join(list, frame, segment) } {
            Ok(()) => return true,
            Err(Refused::OtherConnection) => continue,
            Err(Refused::Exception) => counts.aborts.add(1),
            Err(Refused::Length) => {}
        }
        // SAFETY: by contract.
        unsafe { finish(place.take(), counts) };
        return false;
    }
    false
}

/// Finishes a unit, if there is one.
///
/// # Safety
/// As for [`coalesce`].
unsafe fn finish(open: Option<Open>, counts: &Coalesced) {
    if let Some(open) = open {
        // SAFETY: by contract.
        unsafe { open.finish(counts) };
    }
}

impl Open {
    /// Makes a segment part of the unit.
    ///
    /// # Safety
    /// As for [`coalesce`]; `frame` is the list's.
    unsafe fn join(&mut self, list: *mut NET_BUFFER_LIST, frame: &[u8], segment: &Segment) -> Result<(), Refused> {
        // SAFETY: by contract.
        let first = unsafe { self::frame(self.first) };
        self.unit.join(first, frame, segment)?;
        if self.last.is_null() {
            // SAFETY: by contract; before the frame is the datagram's header.
            self.last = unsafe { describe(self.first, 0, HEADER.saturating_add(self.end)) };
            // SAFETY: by contract.
            let buffer = unsafe { buffer(self.first) };
            // SAFETY: the list's one NET_BUFFER.
            let buffer = unsafe { &mut *buffer };
            (buffer.MdlChain, buffer.CurrentMdl) = (self.last, self.last);
        }
        let payload = segment.payload();
        // SAFETY: by contract.
        let part = unsafe { describe(list, HEADER.saturating_add(payload.start), payload.len()) };
        // SAFETY: the unit's last MDL, which is described.
        unsafe { (*self.last).Next = part };
        self.last = part;
        // SAFETY: by contract.
        let [_, others] = unsafe { &mut (*self.first).MiniportReserved };
        // SAFETY: by contract.
        unsafe { (*list).Next = others.cast() };
        *others = list.cast();
        Ok(())
    }

    /// Writes the unit's headers, and says what the list is.
    ///
    /// # Safety
    /// As for [`coalesce`].
    unsafe fn finish(self, counts: &Coalesced) {
        let Self { unit, first, .. } = self;
        let segments = unit.segments();
        if segments < 2 {
            return;
        }
        // SAFETY: by contract.
        let frame = unsafe { frame(first) };
        // The frame has its headers: `Unit` has read them.
        if unit.write_headers(frame).is_none() {
            return;
        }
        // SAFETY: by contract.
        let buffer = unsafe { buffer(first) };
        // SAFETY: the list's one NET_BUFFER.
        unsafe { (*buffer).DataLength = unit.length() as u32 };
        let right = Checksums::IP_CHECKSUM_SUCCEEDED | Checksums::TCP_CHECKSUM_SUCCEEDED;
        // DupAckCount and RscTcpTimestampDelta are 0: no unit has an acknowledgment without data, or two timestamps.
        for (place, value) in
            [(TcpIpChecksumNetBufferListInfo, right as usize), (TcpRecvSegCoalesceInfo, segments.into())]
        {
            // SAFETY: by contract.
            if let Some(info) = unsafe { &mut (*first).NetBufferListInfo }.get_mut(place) {
                *info = ptr::without_provenance_mut(value);
            }
        }
        counts.packets.add(segments.into());
        counts.octets.add(unit.payload() as u64);
        counts.events.add(1);
    }
}

/// Makes a unit's list a list of one segment again. Returns the lists of the other segments.
///
/// # Safety
/// A list of `receive`, which the caller owns.
pub(super) unsafe fn take_apart(list: *mut NET_BUFFER_LIST) -> Chain {
    // SAFETY: by contract.
    let [_, others] = unsafe { &mut (*list).MiniportReserved };
    let others = core::mem::replace(others, null_mut());
    if !others.is_null() {
        // SAFETY: by contract.
        let mdl = unsafe { entry(list) }.mdl;
        // SAFETY: by contract.
        let buffer = unsafe { buffer(list) };
        // SAFETY: the list's one NET_BUFFER.
        unsafe { (*buffer).MdlChain = mdl };
    }
    // SAFETY: null, or lists that `join` has linked.
    unsafe { Chain::of(others.cast()) }
}

/// # Safety
/// A list of `receive`, which the caller owns.
unsafe fn buffer(list: *mut NET_BUFFER_LIST) -> *mut NET_BUFFER {
    // SAFETY: by contract.
    unsafe { (*list).FirstNetBuffer }
}

/// The frame of a queued list, as long as it was when it was queued.
///
/// # Safety
/// As for [`buffer`]; the caller has no other reference to the frame.
unsafe fn frame<'a>(list: *mut NET_BUFFER_LIST) -> &'a mut [u8] {
    // SAFETY: by contract.
    let memory = unsafe { entry(list) }.memory();
    // SAFETY: by contract.
    let buffer = unsafe { buffer(list) };
    // SAFETY: the list's one NET_BUFFER.
    let length = unsafe { (*buffer).DataLength } as usize;
    // The frame follows the datagram's header.
    // SAFETY: within the list's memory.
    let start = unsafe { memory.add(HEADER) };
    // SAFETY: `length` bytes of the list's memory, which the caller owns with the list.
    unsafe { slice::from_raw_parts_mut(start, length) }
}

/// Describes a part of a list's memory by the list's second MDL.
///
/// # Safety
/// As for [`buffer`]; the memory has `offset` and `length` bytes, and `length` is not 0.
unsafe fn describe(list: *mut NET_BUFFER_LIST, offset: usize, length: usize) -> *mut MDL {
    // SAFETY: by contract.
    let entry = unsafe { entry(list) };
    let (mdl, part) = (entry.mdl, entry.part);
    // MmPrepareMdlForReuse, which is inline in wdm.h, would unmap nothing: an MDL of non-paged pool has an address without a mapping.
    // SAFETY: an MDL of non-paged memory that has the part, and one that is as long; no other list uses them.
    unsafe { IoBuildPartialMdl(mdl.cast(), part.cast(), entry.memory().wrapping_add(offset).cast(), length as u32) };
    // SAFETY: described above.
    unsafe { (*part).Next = null_mut() };
    part
}
