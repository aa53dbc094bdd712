//! What a miniport is sent, and what that has to come to.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use kernel::violation;
use ndk_abi::{ndis::*, status::NDIS_STATUS_MEDIA_DISCONNECTED};

use super::{
    batch::{BROADCAST, Batch, DIRECTED, FRAME, HEADER, Info, MULTICAST, frame},
    begin, finish, send,
};
use crate::{
    adapter::{Adapter, PATIENCE},
    lock, offload,
    oid::{Operation, request},
};

/// OID_GEN_STATISTICS.
fn statistics(adapter: &Adapter) -> Option<NDIS_STATISTICS_INFO> {
    let answer = request(adapter, Operation::Query, false, OID_GEN_STATISTICS, &[0; 0x98]);
    let read = || {
        // SAFETY: the answer has as many bytes, and the structure is of numbers.
        unsafe { answer.data.as_ptr().cast::<NDIS_STATISTICS_INFO>().read_unaligned() }
    };
    (answer.status.is_success() && answer.transferred == 0x98).then(read)
}

/// Frames of all kinds, alone and in chains, at both levels; those of a wrong length; cancels. What OID_GEN_STATISTICS says that it
/// counts has to be counted.
pub(crate) fn check(adapter: &Arc<Adapter>) {
    let (source, mtu, connected) = {
        let attributes = lock(&adapter.attributes);
        (attributes.mac_address, attributes.mtu as usize, attributes.connected)
    };
    if !connected {
        return check_disconnected(adapter, source);
    }
    let whole = |destination, length| frame(destination, source, length);
    let before = statistics(adapter);
    for at_dispatch in [false, true] {
        let batches = [
            vec![vec![whole(BROADCAST, FRAME)]],
            vec![
                vec![whole(DIRECTED, FRAME), whole(MULTICAST, 777)],
                vec![whole(MULTICAST, mtu + HEADER)],
                vec![whole(BROADCAST, FRAME), whole(DIRECTED, HEADER), whole(DIRECTED, 1000)],
            ],
        ];
        for lists in batches {
            let Some(statuses) = send(adapter, Batch::new(&lists), at_dispatch) else { return };
            if !statuses.iter().all(|status| status.is_success()) {
                violation(&format!("sends to a running adapter were completed with {statuses:?}"));
            }
        }
        cancel(adapter, at_dispatch);
    }
    let after = statistics(adapter);
    if let (Some(before), Some(after)) = (&before, &after) {
        // Twice: at either level.
        let multicast = (2 * 2, 2 * (777 + mtu + HEADER));
        let sent = [
            ("directed", (3 * 2, 2 * (FRAME + HEADER + 1000))),
            ("multicast", multicast),
            ("broadcast", (2 * 2, 2 * 2 * FRAME)),
        ];
        check_statistics(before, after, sent);
    }
    for wrong in [HEADER - 1, mtu + HEADER + 1] {
        let lists = [vec![whole(DIRECTED, FRAME)], vec![whole(DIRECTED, wrong)]];
        let Some(statuses) = send(adapter, Batch::new(&lists), false) else { return };
        let counts_errors =
            after.as_ref().is_some_and(|a| a.SupportedStatistics & NDIS_STATISTICS_FLAGS_VALID_XMIT_ERROR != 0);
        if counts_errors && (!statuses[0].is_success() || statuses[1].is_success()) {
            violation(&format!("a frame, and one of {wrong} bytes, were completed with {statuses:?}"));
        }
    }
    if let (Some(before), Some(after)) = (after, statistics(adapter))
        && after.SupportedStatistics & NDIS_STATISTICS_FLAGS_VALID_XMIT_ERROR != 0
        && after.ifOutErrors - before.ifOutErrors != 2
    {
        violation("OID_GEN_STATISTICS: two frames of a wrong length are not two errors");
    }
    check_large_sends(adapter, source, mtu);
}

/// A TCP segment over IPv4 with these bytes of payload, whose checksums are left to the miniport.
fn tcp_segment(source: [u8; 6], payload: usize) -> Vec<u8> {
    const IP: [u8; 20] = [0x45, 0, 0, 0, 0x7F, 0xFE, 0x40, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    const TCP: [u8; 20] = [0x01, 0xBD, 0xC0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x18, 0x20, 0, 0, 0, 0, 0];
    let mut ip = IP;
    ip[2..4].copy_from_slice(&((IP.len() + TCP.len() + payload) as u16).to_be_bytes());
    [&DIRECTED[..], &source, &[0x08, 0x00], &ip, &TCP, &vec![0x5A; payload]].concat()
}

/// A large send counts as its segments; one that is not as it says, and one while they are off, is refused.
fn check_large_sends(adapter: &Arc<Adapter>, source: [u8; 6], mtu: usize) {
    const TCP_HEADER: usize = HEADER + 20;
    const HEADERS: usize = TCP_HEADER + 20;
    type LargeSend = NDIS_TCP_LARGE_SEND_OFFLOAD_NET_BUFFER_LIST_INFO;
    let offloads = lock(&adapter.attributes).offloads;
    if offloads.is_none_or(|state| state.current.large_send[offload::IPV4].is_none()) {
        return;
    }
    let mss = mtu - 40;
    let frame = tcp_segment(source, 2 * mss + 7);
    let send = |mss: usize, tcp: usize, version: u32| {
        let large_send = LargeSend::new(mss as u32, tcp as u32, version).0;
        let info = Info { checksums: 0, large_send, headers: Some(HEADERS) };
        send(adapter, Batch::with_info([(std::slice::from_ref(&frame), info)]), false)
    };
    let before = statistics(adapter);
    let Some(statuses) = send(mss, TCP_HEADER, NDIS_TCP_LARGE_SEND_OFFLOAD_IPv4) else { return };
    if !statuses.iter().all(|status| status.is_success()) {
        violation(&format!("a large send was completed with {statuses:?}"));
    }
    if let Some((before, after)) = before.zip(statistics(adapter))
        && after.SupportedStatistics & NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_XMIT != 0
    {
        let frames = after.ifHCOutUcastPkts - before.ifHCOutUcastPkts;
        let octets = after.ifHCOutUcastOctets - before.ifHCOutUcastOctets;
        // Others may send beside it.
        if frames < 3 || octets < (frame.len() + 2 * HEADERS) as u64 {
            violation(&format!("OID_GEN_STATISTICS: a large send of 3 segments is {frames} frames of {octets} bytes"));
        }
    }
    let refused = |what: &str, mss, tcp, version| {
        if let Some(statuses) = send(mss, tcp, version)
            && statuses.iter().any(|status| status.is_success())
        {
            violation(&format!("a large send {what} was completed with {statuses:?}"));
        }
    };
    refused("of segments that are too long", mss + 1, TCP_HEADER, NDIS_TCP_LARGE_SEND_OFFLOAD_IPv4);
    refused("of segments without payload", 0, TCP_HEADER, NDIS_TCP_LARGE_SEND_OFFLOAD_IPv4);
    refused("with its TCP header elsewhere", mss, TCP_HEADER + 4, NDIS_TCP_LARGE_SEND_OFFLOAD_IPv4);
    refused("of IPv6, which is IPv4", mss, TCP_HEADER, NDIS_TCP_LARGE_SEND_OFFLOAD_IPv6);
    offload::without_large_sends(adapter, || {
        refused("while they are off", mss, TCP_HEADER, NDIS_TCP_LARGE_SEND_OFFLOAD_IPv4);
    });
}

/// A frame while the link is down: it is refused as such, unless the link comes up soon.
fn check_disconnected(adapter: &Arc<Adapter>, source: [u8; 6]) {
    let batch = Batch::new(&[vec![frame(BROADCAST, source, FRAME)]]);
    let Some(statuses) = send(adapter, batch, false) else { return };
    let refused = statuses.iter().all(|status| *status == NDIS_STATUS_MEDIA_DISCONNECTED);
    let start = Instant::now();
    let mut connected = lock(&adapter.attributes).connected;
    while !refused && !connected && start.elapsed() < PATIENCE {
        thread::sleep(Duration::from_millis(10));
        connected = lock(&adapter.attributes).connected;
    }
    if !refused && !connected {
        violation(&format!("a send while the link is down was completed with {statuses:?}"));
    }
}

/// What was sent, by destination, with frames and bytes, has to be in the statistics that say that they have it.
fn check_statistics(before: &NDIS_STATISTICS_INFO, after: &NDIS_STATISTICS_INFO, sent: [(&str, (usize, usize)); 3]) {
    type Place = fn(&NDIS_STATISTICS_INFO) -> u64;
    let places: [(u32, Place, u32, Place); 3] = [
        (
            NDIS_STATISTICS_FLAGS_VALID_DIRECTED_FRAMES_XMIT,
            |s| s.ifHCOutUcastPkts,
            NDIS_STATISTICS_FLAGS_VALID_DIRECTED_BYTES_XMIT,
            |s| s.ifHCOutUcastOctets,
        ),
        (
            NDIS_STATISTICS_FLAGS_VALID_MULTICAST_FRAMES_XMIT,
            |s| s.ifHCOutMulticastPkts,
            NDIS_STATISTICS_FLAGS_VALID_MULTICAST_BYTES_XMIT,
            |s| s.ifHCOutMulticastOctets,
        ),
        (
            NDIS_STATISTICS_FLAGS_VALID_BROADCAST_FRAMES_XMIT,
            |s| s.ifHCOutBroadcastPkts,
            NDIS_STATISTICS_FLAGS_VALID_BROADCAST_BYTES_XMIT,
            |s| s.ifHCOutBroadcastOctets,
        ),
    ];
    let check = |what: &str, flag: u32, place: Place, expected: usize| {
        let counted = place(after).wrapping_sub(place(before));
        if after.SupportedStatistics & flag != 0 && counted != expected as u64 {
            violation(&format!("OID_GEN_STATISTICS: {expected} {what} were sent, {counted} are counted"));
        }
    };
    let mut all = 0;
    for ((what, (frames, octets)), (frames_flag, frames_at, octets_flag, octets_at)) in sent.into_iter().zip(places) {
        check(&format!("{what} frames"), frames_flag, frames_at, frames);
        check(&format!("bytes in {what} frames"), octets_flag, octets_at, octets);
        all += octets;
    }
    check("bytes", NDIS_STATISTICS_FLAGS_VALID_BYTES_XMIT, |s| s.ifHCOutOctets, all);
}

/// ndis/nc-ndis-miniport_cancel_send: at most DISPATCH_LEVEL, for an identifier that may be of nothing that is sent.
fn cancel(adapter: &Adapter, at_dispatch: bool) {
    let Some(handler) = adapter.driver.characteristics.CancelSendHandler else { return };
    // SAFETY: the driver's handler, called as documented.
    let call = || unsafe { handler(adapter.context(), std::ptr::without_provenance_mut(0x5EED)) };
    if at_dispatch {
        kernel::at_dispatch(|| kernel::balanced("MiniportCancelSend", call));
    } else {
        kernel::balanced("MiniportCancelSend", call);
    }
}

/// Pauses and restarts a running adapter while threads send at both levels, and sends while it is paused.
pub(crate) fn check_pauses(adapter: &Arc<Adapter>) {
    const PAUSES: usize = 20;
    let source = lock(&adapter.attributes).mac_address;
    let lists = || {
        vec![
            vec![frame(BROADCAST, source, FRAME), frame(DIRECTED, source, FRAME)],
            vec![frame(MULTICAST, source, FRAME)],
        ]
    };
    let over = AtomicBool::new(false);
    SLOW.store(true, Ordering::Release);
    std::thread::scope(|scope| {
        for at_dispatch in [false, false, true] {
            let (over, lists) = (&over, &lists);
            scope.spawn(move || {
                while !over.load(Ordering::Acquire) && send(adapter, Batch::new(&lists()), at_dispatch).is_some() {}
            });
        }
        for _ in 0..PAUSES {
            adapter.pause();
            send(adapter, Batch::new(&lists()), false);
            adapter.restart();
        }
        over.store(true, Ordering::Release);
    });
    SLOW.store(false, Ordering::Release);
}

/// Whether a miniport that looks at a frame at PASSIVE_LEVEL is delayed there, so that pauses come while it sends.
pub(super) static SLOW: AtomicBool = AtomicBool::new(false);

/// For tests: pauses with a send under way, for which the pause has to wait, and restarts.
pub(crate) fn pause_with_send(adapter: &Arc<Adapter>) {
    let source = lock(&adapter.attributes).mac_address;
    let batch = Batch::new(&[vec![frame(BROADCAST, source, FRAME)]]);
    begin(adapter, &batch, false);
    adapter.pause();
    adapter.restart();
    finish(adapter, batch);
}

/// For tests: the protocol keeps what is indicated until the adapter is pausing.
pub(crate) fn hold_receives(adapter: &Adapter) {
    adapter.packets.receives.hold();
}

/// For tests: pauses with lists out, for which the pause has to wait, and restarts.
pub(crate) fn pause_with_receives(adapter: &Adapter) {
    if !adapter.packets.receives.is_holding() {
        violation("stand-in: no list is out that a pause could wait for");
    }
    adapter.pause();
    adapter.restart();
}
