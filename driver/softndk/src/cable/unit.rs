//! Receive segment coalescing: TCP segments that follow one another in the queue become a unit, one list whose frame is a chain of MDLs, the first
//! segment and the payloads of the others ("Indicating Coalesced Segments"). No segment waits for another one: units are of the lists of one run.
#![expect(unsafe_code, reason = "lists that NDIS has by pointer")]

use core::{ptr, ptr::null_mut, slice};

use ndk_abi::{
    describe::ZeroInit,
    ndis::{
        NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO as Checksums, NET_BUFFER, NET_BUFFER_LIST,
        TcpIpChecksumNetBufferListInfo, TcpRecvSegCoalesceInfo,
    },
    wdm::{MDL, PAGE_SIZE},
};
use task_offload::coalesce::{Refused, Segment, Unit};
use vxlan::header::HEADER;
use wdk_sys::ntddk::MmBuildMdlForNonPagedPool;

use super::{counters::Coalesced, receive::entry};
use crate::{lists::Chain, offload::Set};

/// A unit that may grow.
struct Open {
    unit: Unit,
    first: *mut NET_BUFFER_LIST,
    /// Where the first segment ends in its frame.
    end: usize,
    /// The last MDL of the unit, once there are two segments.
    last: *mut MDL,
}

/// Joins segments of one connection, if the offload is on for their version of IP. Returns the lists to indicate.
///
/// # Safety
/// Queued lists of `receive`, which the caller owns.
pub(super) unsafe fn coalesce(mut queued: Chain, offloads: Set, counts: &Coalesced) -> Chain {
    let mut lists = Chain::empty();
    let mut open: Option<Open> = None;
    while let Some(list) = queued.pop() {
        // SAFETY: by contract.
        let frame = unsafe { frame(list) };
        let is_on = |segment: &Segment| {
            offloads.has(if segment.is_ipv6() { Set::COALESCE_IPV6 } else { Set::COALESCE_IPV4 })
        };
        let segment = Segment::of(frame).filter(is_on);
        if let (Some(open), Some(segment)) = (&mut open, &segment) {
            // SAFETY: by contract.
            match unsafe { open.join(list, frame, segment) } {
                Ok(()) => continue,
                Err(Refused::Other) if open.unit.segments() > 1 => counts.aborts.add(1),
                Err(_) => {}
            }
        }
        if let Some(open) = open.take() {
            // SAFETY: by contract.
            unsafe { open.finish(counts) };
        }
        open = segment.map(|segment| Open {
            unit: Unit::new(segment),
            first: list,
            end: segment.payload().end,
            last: null_mut(),
        });
        // SAFETY: by contract; `pop` has unlinked the list.
        lists.append(unsafe { Chain::of(list) });
    }
    if let Some(open) = open {
        // SAFETY: by contract.
        unsafe { open.finish(counts) };
    }
    lists
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
            // SAFETY: by contract; the memory before the frame is the datagram's header.
            self.last = unsafe { describe(self.first, 0, HEADER.saturating_add(self.end)) };
            // SAFETY: the list's one NET_BUFFER.
            let buffer = unsafe { &mut *buffer(self.first) };
            (buffer.MdlChain, buffer.CurrentMdl) = (self.last, self.last);
        }
        let payload = segment.payload();
        // SAFETY: by contract.
        let part = unsafe { describe(list, HEADER.saturating_add(payload.start), payload.len()) };
        // SAFETY: the unit's last MDL, which is described.
        unsafe { (*self.last).Next = part };
        self.last = part;
        // SAFETY: by contract.
        let others = unsafe { &mut (*self.first).MiniportReserved[1] };
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
        let _the_frame_has_its_headers = unit.write_headers(frame);
        // SAFETY: the list's one NET_BUFFER.
        unsafe { (*buffer(first)).DataLength = unit.length() as u32 };
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
    let others = core::mem::replace(unsafe { &mut (*list).MiniportReserved[1] }, null_mut());
    if !others.is_null() {
        // SAFETY: by contract.
        let mdl = unsafe { entry(list) }.mdl;
        // SAFETY: the list's one NET_BUFFER.
        unsafe { (*buffer(list)).MdlChain = mdl };
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
    let length = unsafe { (*buffer(list)).DataLength } as usize;
    // The frame follows the datagram's header.
    // SAFETY: within the list's memory.
    let start = unsafe { memory.add(HEADER) };
    // SAFETY: `length` bytes of the list's memory, which the caller owns with the list.
    unsafe { slice::from_raw_parts_mut(start, length) }
}

/// Describes a part of a list's memory by the list's second MDL.
///
/// # Safety
/// As for [`buffer`]; the memory has `offset` and `length` bytes.
unsafe fn describe(list: *mut NET_BUFFER_LIST, offset: usize, length: usize) -> *mut MDL {
    // SAFETY: by contract.
    let entry = unsafe { entry(list) };
    let bytes = entry.memory().wrapping_add(offset);
    let in_page = bytes.addr() & PAGE_SIZE.wrapping_sub(1);
    // SAFETY: an MDL of the entry's, which no other list uses.
    let part = unsafe { &mut *entry.part };
    // MmInitializeMdl, which is inline in wdm.h.
    *part = MDL {
        Size: part.Size,
        StartVa: bytes.wrapping_sub(in_page).cast(),
        ByteCount: length as u32,
        ByteOffset: in_page as u32,
        ..MDL::ZERO
    };
    // SAFETY: an MDL that was allocated for the whole memory, which is non-paged.
    unsafe { MmBuildMdlForNonPagedPool(entry.part.cast()) };
    entry.part
}
