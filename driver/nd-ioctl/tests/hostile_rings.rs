//! Rings whose program breaks the rules: that queue ends, its posted requests are reported, and no other queue ends.

use std::{
    mem::offset_of,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use nd_rings::Memory as _;
use ndk_abi::{ndkpi::*, softndk_ioctl::*, softndk_ring::*, status::*};
use simkernel::{boot, watchdog};
use users::{
    User, World,
    rings::{Ring, Ringed, connect, push},
    start,
    user::{handle, work},
};

const LIMIT: Duration = Duration::from_secs(60);

/// The contexts and statuses of the next `count` completions.
fn completions(user: &User<'_>, ringed: &Ringed, count: usize) -> Vec<(u64, NTSTATUS)> {
    let mut ring = ringed.completions();
    let mut found = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while found.len() < count {
        assert!(Instant::now() < deadline, "{} of {count} completions: {found:?}", found.len());
        let take = |completion: SOFTNDK_COMPLETION| found.push((completion.RequestContext, completion.Status));
        if ring.poll(count, take) > 0 && ring.needs_doorbell() {
            assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.cq)), STATUS_SUCCESS);
        }
        thread::yield_now();
    }
    found
}

/// Two users with connected queue pairs; `check` gets the sender, whose peer has posted four receives.
fn connected(check: impl Fn(&User<'_>, &Ringed)) {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let (peer, user) = (User::new(&device), User::new(&device));
        let (at, from) = (World::listening(&peer), World::new(&user));
        let rings = [Ringed::new(&peer, &at).unwrap(), Ringed::new(&user, &from).unwrap()];
        connect(&user, [from.connector, rings[1].qp], &peer, [at.connector, rings[0].qp], at.listener);
        let [_, mut receives] = rings[0].writers();
        for context in 0..4 {
            assert!(push(&mut receives, &work(NdkOperationTypeReceive, 0, context), &[]));
        }
        assert_eq!(peer.call(IOCTL_SOFTNDK_DOORBELL, &handle(rings[0].qp)), STATUS_SUCCESS);
        check(&user, &rings[1]);
        // The objects of the other user still work.
        assert_eq!(peer.call(IOCTL_SOFTNDK_DOORBELL, &handle(rings[0].srq_qp)), STATUS_SUCCESS);
    });
}

/// A request has more SGEs than an entry holds: the sends before it were deferred, and must not wait for ever.
// Shows T21.
#[test]
fn an_entry_that_cannot_be_ends_its_queue() {
    connected(|user, ringed| {
        let [mut sends, _] = ringed.writers();
        for context in 1..=2 {
            assert!(push(&mut sends, &work(NdkOperationTypeSend, 0, context), &[]));
        }
        assert!(push(&mut sends, &SOFTNDK_POST { SgeCount: 100, ..work(NdkOperationTypeSend, 0, 3) }, &[]));
        assert!(push(&mut sends, &work(NdkOperationTypeSend, 0, 4), &[]));
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp)), STATUS_SUCCESS);
        let found = completions(user, ringed, 4);
        for (index, (context, status)) in found.iter().take(2).enumerate() {
            assert_eq!(*context, index as u64 + 1);
            assert!([STATUS_SUCCESS, STATUS_CANCELLED].contains(status), "{status}");
        }
        assert_eq!(found[2..], [(3, STATUS_INVALID_PARAMETER), (4, STATUS_CANCELLED)]);
        assert_eq!(sends.memory().state(), SOFTNDK_RING_ENDED);
    });
}

/// A ring has an operation of the other ring.
#[test]
fn a_receive_among_initiator_requests_ends_them() {
    connected(|user, ringed| {
        let [mut sends, _] = ringed.writers();
        assert!(push(&mut sends, &work(NdkOperationTypeSend, 0, 1), &[]));
        assert!(push(&mut sends, &work(NdkOperationTypeReceive, 0, 2), &[]));
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp)), STATUS_SUCCESS);
        let found = completions(user, ringed, 2);
        assert_eq!(found[0].0, 1);
        assert_eq!(found[1], (2, STATUS_INVALID_PARAMETER));
    });
}

/// A ring with a posted request does not sleep: the request's completion schedules a run. Once the CQ has ended, posted requests get no
/// completions, and the ring sleeps without them.
#[test]
fn a_queue_whose_cq_has_ended_goes_on() {
    connected(|user, ringed| {
        let [mut sends, mut receives] = ringed.writers();
        assert!(push(&mut receives, &work(NdkOperationTypeReceive, 0, 1), &[]));
        assert!(push(&mut sends, &work(NdkOperationTypeSend, 0, 2), &[]));
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp)), STATUS_SUCCESS);
        // The receive is read from its ring before the send.
        assert_eq!(completions(user, ringed, 1)[0].0, 2);
        let asleep = |ring: &Ring| ring.word(offset_of!(SOFTNDK_RING, Asleep)).load(Ordering::Acquire) != 0;
        let falls_asleep = |ring: &Ring| {
            let deadline = Instant::now() + Duration::from_secs(10);
            while !asleep(ring) {
                assert!(Instant::now() < deadline, "the queue awaits a completion");
                thread::yield_now();
            }
        };
        // A run looks at the ring of receives first, then at this one.
        falls_asleep(&ringed.rings[2]);
        assert!(!asleep(&ringed.rings[3]), "the receive is not complete");
        ringed.rings[0].word(offset_of!(SOFTNDK_RING, Head)).store(u32::MAX / 2, Ordering::Release);
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.cq)), STATUS_SUCCESS);
        falls_asleep(&ringed.rings[3]);
    });
}

/// The program's index is impossible: posted requests are reported, and the queue ends.
// Shows T19.
#[test]
fn a_wild_index_ends_its_queue() {
    connected(|user, ringed| {
        let [mut sends, _] = ringed.writers();
        assert!(push(&mut sends, &work(NdkOperationTypeSend, 0, 1), &[]));
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp)), STATUS_SUCCESS);
        assert_eq!(completions(user, ringed, 1)[0].0, 1);
        sends.memory().tail().store(u32::MAX / 2, Ordering::Release);
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp)), STATUS_SUCCESS);
        let deadline = Instant::now() + Duration::from_secs(10);
        while sends.memory().state() != SOFTNDK_RING_ENDED {
            assert!(Instant::now() < deadline, "the queue goes on");
            thread::yield_now();
        }
    });
}
