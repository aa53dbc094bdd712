//! The end of rings. A ring that replaces an ended one has ended too.

use std::{
    mem::offset_of,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use ndk_abi::{describe::ZeroInit, nd_ioctl::*, ndkpi::*, softndk_ioctl::*, softndk_ring::*, status::*};
use simkernel::{boot, watchdog};
use users::{
    User, World,
    rings::{DEPTH, Ring, Ringed, connect, push, with_mappings},
    start,
    user::{handle, work},
};
use zerocopy::IntoBytes;

const LIMIT: Duration = Duration::from_secs(60);
const ROOM: usize = size_of::<ND_RESOURCE_DESCRIPTOR>() + size_of::<ND_MAPPING_RESULT>();

fn state(ring: &Ring) -> u32 {
    ring.word(offset_of!(SOFTNDK_RING, State)).load(Ordering::Acquire)
}

/// Waits until `State` of a ring is `with`.
fn ends(ring: &Ring, with: u32) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while state(ring) != with {
        assert!(Instant::now() < deadline, "the ring goes on");
        thread::yield_now();
    }
}

#[test]
fn a_ring_of_receives() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let ringed = Ringed::new(&user, &World::new(&user)).unwrap();
        assert!(push(&mut ringed.rings[1].writer(), &work(NdkOperationTypeSend, 0, 1), &[]));
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.srq)), STATUS_SUCCESS);
        ends(&ringed.rings[1], SOFTNDK_RING_ENDED);
        let modify = ND_SRQ_MODIFY {
            Version: 1,
            QueueDepth: DEPTH,
            CeMappingCount: 1,
            CbMappingsOffset: size_of::<ND_SRQ_MODIFY>() as u32,
            SrqHandle: ringed.srq,
            ..ND_SRQ_MODIFY::ZERO
        };
        let other = Ring::receives(&user);
        let modify = with_mappings(modify.as_bytes(), &[other.mapping()]);
        assert_eq!(user.send_bytes(IOCTL_ND_SRQ_MODIFY, &modify, ROOM).wait(), STATUS_SUCCESS);
        assert_eq!(state(&other), SOFTNDK_RING_ENDED);
    });
}

#[test]
fn a_ring_of_completions() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let ringed = Ringed::new(&user, &World::new(&user)).unwrap();
        ringed.rings[0].word(offset_of!(SOFTNDK_RING, Head)).store(u32::MAX / 2, Ordering::Release);
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.cq)), STATUS_SUCCESS);
        ends(&ringed.rings[0], STATUS_INTERNAL_ERROR.to_u32());
        let modify = ND_CQ_MODIFY {
            Version: 1,
            QueueDepth: DEPTH,
            CeMappingCount: 1,
            CbMappingsOffset: size_of::<ND_CQ_MODIFY>() as u32,
            CqHandle: ringed.cq,
        };
        let other = Ring::completions(&user);
        let modify = with_mappings(modify.as_bytes(), &[other.mapping()]);
        assert_eq!(user.send_bytes(IOCTL_ND_CQ_MODIFY, &modify, ROOM).wait(), STATUS_SUCCESS);
        assert_eq!(state(&other), STATUS_INTERNAL_ERROR.to_u32());
    });
}

#[test]
fn a_disconnect_ends_the_rings_of_both_sides() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let (peer, user) = (User::new(&device), User::new(&device));
        let (at, from) = (World::listening(&peer), World::new(&user));
        let [theirs, own] = [Ringed::new(&peer, &at).unwrap(), Ringed::new(&user, &from).unwrap()];
        connect(&user, [from.connector, own.qp], &peer, [at.connector, theirs.qp], at.listener);
        assert_eq!(user.call(IOCTL_ND_CONNECTOR_DISCONNECT, &handle(from.connector)), STATUS_SUCCESS);
        for ring in own.rings[2..4].iter().chain(&theirs.rings[2..4]) {
            ends(ring, SOFTNDK_RING_ENDED);
        }
    });
}

/// They ask for doorbells, which are refused.
#[test]
fn the_rings_of_a_freed_queue_pair() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let ringed = Ringed::new(&user, &World::new(&user)).unwrap();
        assert_eq!(user.call(IOCTL_ND_QP_FREE, &handle(ringed.qp)), STATUS_SUCCESS);
        for ring in &ringed.rings[2..4] {
            let asleep = ring.word(offset_of!(SOFTNDK_RING, Asleep)).load(Ordering::Acquire);
            assert_eq!((state(ring), asleep), (SOFTNDK_RING_ENDED, 1));
        }
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp)), STATUS_INVALID_HANDLE);
    });
}
