//! Units of receive segment coalescing that a miniport indicates ("Indicating Coalesced Segments", "Rules for Coalescing TCP/IP Segments").

use std::sync::atomic::{AtomicU64, Ordering};

use kernel::violation;
use ndk_abi::ndis::*;

use super::{batch::HEADER, virtio};
use crate::{
    adapter::Adapter,
    lock,
    offload::{IPV4, IPV6, State},
    oid::{Operation, request},
};

/// Bytes of the longest frame: the longest packet of IP, behind Ethernet's header.
pub(super) const LONGEST: usize = HEADER + 0xFFFF;
const IPV6_HEADER: usize = 40;
const TCP: u8 = 6;
const PSH: u8 = 8;
const ACK: u8 = 0x10;

/// Units of an adapter, their segments, and bytes of payload; units of IPv6.
#[derive(Default)]
pub(crate) struct Counts([AtomicU64; 4]);

impl Counts {
    pub(super) fn add(&self, unit: &Unit) {
        let counts = [1, unit.segments as u64, unit.payload as u64, u64::from(unit.version == IPV6)];
        for (count, more) in self.0.iter().zip(counts) {
            count.fetch_add(more, Ordering::Relaxed);
        }
    }

    /// Compares them with OID_TCP_RSC_STATISTICS, of a miniport that coalesces. PASSIVE_LEVEL, no list is indicated at this time.
    pub(crate) fn check(&self, adapter: &Adapter) {
        const SIZE: usize = size_of::<NDIS_RSC_STATISTICS_INFO>();
        let can = lock(&adapter.attributes).offloads.is_some_and(|state| state.capabilities.coalesce.contains(&true));
        if !can || adapter.packets.unchecked.load(Ordering::Relaxed) {
            return;
        }
        let answer = request(adapter, Operation::Query, false, OID_TCP_RSC_STATISTICS, &[0; SIZE]);
        if !answer.status.is_success() || answer.transferred as usize != SIZE {
            return violation(&format!("OID_TCP_RSC_STATISTICS: {} of a miniport that coalesces", answer.status));
        }
        // SAFETY: the answer has as many bytes, and the structure is of numbers.
        let told = unsafe { answer.data.as_ptr().cast::<NDIS_RSC_STATISTICS_INFO>().read_unaligned() };
        let told = [told.CoalesceEvents, told.CoalescedPkts, told.CoalescedOctets];
        let [units, segments, octets, of_ipv6] = self.0.each_ref().map(|count| count.load(Ordering::Relaxed));
        let found = [units, segments, octets];
        if told != found {
            violation(&format!("OID_TCP_RSC_STATISTICS: {told:?} events, packets and octets, of {found:?}"));
        }
        kernel::trace(&format!("ndis: coalesced: {} {of_ipv6} units of IPv4 and of IPv6", units - of_ipv6));
    }
}

/// Segments that were joined, as Linux wants to know of it.
pub(super) struct Unit {
    pub(super) version: usize,
    /// Bytes before the TCP header, and with it.
    pub(super) tcp: usize,
    pub(super) headers: usize,
    /// Bytes of payload of a segment.
    pub(super) mss: usize,
    segments: usize,
    payload: usize,
}

/// The unit in a list, by the start of its frame of `length` bytes, unchecked.
pub(super) fn of(list: &NET_BUFFER_LIST, start: &[u8], length: usize) -> Option<Unit> {
    let segments = list.NetBufferListInfo[TcpRecvSegCoalesceInfo].addr() & 0xFFFF;
    if segments == 0 {
        return None;
    }
    let (version, tcp) = tcp(start)?;
    let headers = tcp + usize::from(start[tcp + 12] >> 4) * 4;
    let payload = length.checked_sub(headers)?;
    Some(Unit { version, tcp, headers, mss: payload.div_ceil(segments), segments, payload })
}

/// Looks at what a list says of coalescing. `longest`: bytes of the longest frame on the network.
pub(super) fn check(list: &NET_BUFFER_LIST, frame: &[u8], longest: usize, offloads: Option<State>) -> Option<Unit> {
    let info = |place: usize| list.NetBufferListInfo[place].addr();
    let [segments, duplicates] = [info(TcpRecvSegCoalesceInfo) & 0xFFFF, info(TcpRecvSegCoalesceInfo) >> 16];
    if segments == 0 {
        if duplicates != 0 || info(RscTcpTimestampDelta) != 0 {
            violation("RSC: duplicate acknowledgments or timestamps of a list that is no unit");
        }
        return None;
    }
    let wrong = |what: &str| violation(&format!("RSC: a unit of {segments} segments, {} bytes: {what}", frame.len()));
    let Some((version, tcp)) = tcp(frame) else {
        wrong("its frame is not TCP's");
        return None;
    };
    if !offloads.is_some_and(|state| state.current.coalesce[version]) {
        wrong("they are off");
    }
    if segments < 2 {
        wrong("of one segment");
    }
    if duplicates != 0 {
        wrong("NDIS would turn RSC off for its duplicate acknowledgments");
    }
    type Checksums = NDIS_TCP_IP_CHECKSUM_NET_BUFFER_LIST_INFO;
    let right = (Checksums::IP_CHECKSUM_SUCCEEDED | Checksums::TCP_CHECKSUM_SUCCEEDED) as usize;
    if info(TcpIpChecksumNetBufferListInfo) != right {
        wrong("it does not say that its checksums are right");
    }
    let unit = of(list, frame, frame.len()).filter(|unit| unit.payload > 0 && unit.mss + unit.headers <= longest);
    let Some(unit) = unit else {
        wrong("no such segments fit into the network");
        return None;
    };
    if frame[tcp + 13] & !PSH != ACK || ![0, 12].contains(&(unit.headers - tcp - 20)) {
        wrong("of segments with flags or options that are not to be joined");
    }
    if !virtio::has_right_checksums(frame, version, tcp) {
        wrong("its checksums are wrong");
    }
    if virtio::packet_length(frame, version) + HEADER != frame.len() {
        wrong("its packet is not as long as its frame");
    }
    Some(unit)
}

/// The version of IP of a TCP segment without options or extensions of IP, and where its TCP header begins.
fn tcp(frame: &[u8]) -> Option<(usize, usize)> {
    let (version, protocol, tcp) = match frame.get(12..HEADER)? {
        [0x08, 0x00] if frame.get(HEADER) == Some(&0x45) => (IPV4, HEADER + 9, HEADER + 20),
        [0x86, 0xDD] => (IPV6, HEADER + 6, HEADER + IPV6_HEADER),
        _ => return None,
    };
    (frame.get(protocol) == Some(&TCP) && frame.len() >= tcp + 20).then_some((version, tcp))
}
