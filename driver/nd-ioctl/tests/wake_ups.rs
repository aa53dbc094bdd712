//! Wake-ups: a doorbell wakes a ring of requests, a notification completes the requests that wait for a completion.

use std::{mem::offset_of, sync::atomic::Ordering};

use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, softndk_ring::*, status::*};
use simkernel::{boot_seeded, pause, scope, seeds};
use users::{
    User, World,
    rings::{Ring, Ringed, connect, push},
    start,
    user::{Answer, handle, work},
};

/// Longer than the driver polls an empty ring.
const PAUSES: u32 = 100_000;

/// Whether `so` becomes true by itself.
fn becomes(mut so: impl FnMut() -> bool) -> bool {
    (0..PAUSES).any(|_| {
        pause();
        so()
    })
}

/// A request by control code counts as outstanding before its post. A run may see the count at any moment; if the post is refused, the queue
/// must not go on awaiting the completion.
#[test]
fn a_ring_sleeps_after_a_refused_request_by_code() {
    for seed in seeds(200) {
        let _session = boot_seeded(seed);
        let device = start();
        let user = User::new(&device);
        let world = World::new(&user);
        let ringed = Ringed::new(&user, &world).unwrap();
        for _ in 0..4 {
            // There is no such region or window.
            let invalidate = SOFTNDK_POST { ObjectHandle: u64::MAX, ..work(NdkOperationTypeInvalidate, ringed.qp, 9) };
            assert_eq!(user.post(&invalidate, &[], &[]), STATUS_INVALID_HANDLE);
        }
        let asleep = ringed.rings[2].word(offset_of!(SOFTNDK_RING, Asleep));
        assert!(becomes(|| asleep.load(Ordering::Acquire) != 0), "seed {seed}: it awaits a completion");
    }
}

/// After a deferred or silent request by control code the ring is polled for the next request.
#[test]
fn a_ring_is_looked_at_after_a_deferred_or_silent_request_by_code() {
    for seed in seeds(100) {
        let (flag, completed) = if seed % 2 == 0 { (NDK_OP_FLAG_DEFER, 2) } else { (NDK_OP_FLAG_SILENT_SUCCESS, 1) };
        let _session = boot_seeded(seed);
        let device = start();
        let (peer, user) = (User::new(&device), User::new(&device));
        let (at, from) = (World::listening(&peer), World::new(&user));
        let [theirs, own] = [Ringed::new(&peer, &at).unwrap(), Ringed::new(&user, &from).unwrap()];
        connect(&user, [from.connector, own.qp], &peer, [at.connector, theirs.qp], at.listener);
        for context in 0..2 {
            assert!(push(&mut theirs.writers()[1], &work(NdkOperationTypeReceive, 0, context), &[]));
            peer.call(IOCTL_SOFTNDK_DOORBELL, &handle(theirs.qp));
        }
        // Wakes the ring.
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(own.qp)), STATUS_SUCCESS);
        let by_code = SOFTNDK_POST { Flags: flag, ..work(NdkOperationTypeSend, own.qp, 1) };
        assert_eq!(user.post(&by_code, &[], &[]), STATUS_SUCCESS);
        // The driver has finished its work for the request.
        (0..1000).for_each(|_| pause());
        let [mut sends, _] = own.writers();
        assert!(push(&mut sends, &work(NdkOperationTypeSend, 0, 2), &[]));
        if own.rings[2].word(offset_of!(SOFTNDK_RING, Asleep)).load(Ordering::SeqCst) != 0 {
            assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(own.qp)), STATUS_SUCCESS);
        }
        let mut completions = own.completions();
        let mut found = 0;
        for _ in 0..PAUSES {
            found += completions.poll(2, |completion| assert_eq!(completion.Status, STATUS_SUCCESS));
            if found == completed {
                break;
            }
            pause();
        }
        assert_eq!(found, completed, "seed {seed}: what completes");
        (0..1000).for_each(|_| pause());
        assert_eq!(completions.poll(1, |_| {}), 0, "seed {seed}: one too many");
    }
}

/// Both rings of a queue pair are about to sleep when the program puts a request into one of them, for which no doorbell rings: the driver
/// finds the request, though the other ring sleeps.
#[test]
fn a_ring_is_looked_at_though_the_other_one_sleeps() {
    for seed in seeds(200) {
        let _session = boot_seeded(seed);
        let device = start();
        let user = User::new(&device);
        let ringed = Ringed::new(&user, &World::new(&user)).unwrap();
        let [_, _, initiator, receives, _] = &ringed.rings;
        let word = |ring: &Ring, offset| ring.word(offset).load(Ordering::Acquire);
        let asleep = |ring| word(ring, offset_of!(SOFTNDK_RING, Asleep)) != 0;
        assert!(becomes(|| asleep(initiator) && asleep(receives)), "seed {seed}: they poll on");
        // Without requests both rings sleep again after one poll; the request comes beside that poll.
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp)), STATUS_SUCCESS);
        (0..seed / 2 % 8).for_each(|_| pause());
        // An operation of the other ring, which ends this ring when the driver reads it.
        let (ring, kind) =
            if seed % 2 == 0 { (initiator, NdkOperationTypeReceive) } else { (receives, NdkOperationTypeSend) };
        let mut writer = ring.writer();
        assert!(push(&mut writer, &work(kind, 0, 1), &[]));
        if writer.needs_doorbell() {
            assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp)), STATUS_SUCCESS);
        }
        let ended = || word(ring, offset_of!(SOFTNDK_RING, State)) == SOFTNDK_RING_ENDED;
        assert!(becomes(ended), "seed {seed}: nobody looks");
    }
}

/// Whether a request ends by itself.
fn ends(answer: &Answer) -> bool {
    becomes(|| !answer.is_pending())
}

/// A cancelled CQ_NOTIFY uses up no notification: the next CQ_NOTIFY completes for the completion that has arrived. But if the first one
/// has succeeded, the next one does not complete for that completion, however soon it follows.
// Shows S311.
#[test]
fn a_cancelled_request_takes_no_notification_along() {
    let mut cancelled = 0;
    for seed in seeds(200) {
        let _session = boot_seeded(seed);
        let device = start();
        let user = User::new(&device);
        let world = World::new(&user);
        let ringed = Ringed::new(&user, &world).unwrap();
        assert!(push(&mut ringed.writers()[1], &work(NdkOperationTypeReceive, 0, 1), &[]));
        let kind = if seed % 2 == 0 { ND_CQ_NOTIFY_ANY } else { ND_CQ_NOTIFY_SOLICITED };
        let first = user.notify(ringed.cq, kind);
        let mut second = None;
        scope(|scope| {
            // The flush cancels the receive.
            scope.spawn(|| assert_eq!(user.call(IOCTL_ND_QP_FLUSH, &handle(ringed.qp)), STATUS_SUCCESS));
            scope.spawn(|| {
                if seed % 3 != 0 {
                    first.shared.cancel(&user.file);
                }
                assert!(ends(&first), "seed {seed}: neither cancelled nor told");
                second = Some(user.notify(ringed.cq, kind));
            });
        });
        let second = second.unwrap();
        if first.wait() == STATUS_CANCELLED {
            cancelled += 1;
            assert!(ends(&second), "seed {seed}: nobody is told");
            assert_eq!(second.wait(), STATUS_SUCCESS);
        } else {
            (0..1000).for_each(|_| pause());
            assert!(second.is_pending(), "seed {seed}: told twice");
            second.shared.cancel(&user.file);
            assert_eq!(second.wait(), STATUS_CANCELLED);
        }
    }
    assert!(cancelled > 0, "none was cancelled first");
}

/// A completion that the program has read from the ring completes no CQ_NOTIFY that is sent after that, also if the driver has just written it.
// Shows S301.
#[test]
fn a_completion_that_was_read_is_not_told() {
    for seed in seeds(400) {
        let _session = boot_seeded(seed);
        let device = start();
        let user = User::new(&device);
        let world = World::new(&user);
        let ringed = Ringed::new(&user, &world).unwrap();
        assert!(push(&mut ringed.writers()[1], &work(NdkOperationTypeReceive, 0, 1), &[]));
        let mut told = None;
        scope(|scope| {
            // The flush cancels the receive.
            scope.spawn(|| assert_eq!(user.call(IOCTL_ND_QP_FLUSH, &handle(ringed.qp)), STATUS_SUCCESS));
            scope.spawn(|| {
                let mut completions = ringed.completions();
                assert!(becomes(|| completions.poll(1, |_| {}) == 1), "seed {seed}: the receive does not end");
                told = Some(user.notify(ringed.cq, ND_CQ_NOTIFY_ANY));
            });
        });
        let told = told.unwrap();
        (0..1000).for_each(|_| pause());
        assert!(told.is_pending(), "seed {seed}: told of what was read");
        told.shared.cancel(&user.file);
        assert_eq!(told.wait(), STATUS_CANCELLED);
    }
}

/// A notification for which no request waited stays when a poll leaves completions in the CQ: a CQ_NOTIFY that is sent beside the poll
/// completes.
#[test]
fn a_poll_beside_it_takes_no_notification_along() {
    for seed in seeds(200) {
        let _session = boot_seeded(seed);
        let device = start();
        let user = User::new(&device);
        let world = World::new(&user);
        let kind = if seed % 2 == 0 { ND_CQ_NOTIFY_ANY } else { ND_CQ_NOTIFY_SOLICITED };
        let cancelled = user.notify(world.cq, kind);
        cancelled.shared.cancel(&user.file);
        assert_eq!(cancelled.wait(), STATUS_CANCELLED);
        for context in 0..2 {
            assert_eq!(user.post(&work(NdkOperationTypeReceive, world.qp, context), &[], &[]), STATUS_SUCCESS);
        }
        assert_eq!(user.call(IOCTL_ND_QP_FLUSH, &handle(world.qp)), STATUS_SUCCESS);
        // The completions are in the CQ, which has been notified.
        (0..1000).for_each(|_| pause());
        let mut told = None;
        scope(|scope| {
            scope.spawn(|| assert_eq!(user.poll(world.cq, 1).len(), 1));
            scope.spawn(|| told = Some(user.notify(world.cq, kind)));
        });
        let told = told.unwrap();
        assert!(ends(&told), "seed {seed}: one is left, and nobody is told");
        assert_eq!(told.wait(), STATUS_SUCCESS);
    }
}

/// A notification for which no request waited completes one CQ_NOTIFY; another notification completes all CQ_NOTIFYs that wait. No
/// notification is delivered twice, also if both happen at the same time.
// Shows S301.
#[test]
fn a_notification_is_told_once() {
    for seed in seeds(400) {
        let _session = boot_seeded(seed);
        let device = start();
        let user = User::new(&device);
        let world = World::new(&user);
        let completion = || {
            assert_eq!(user.post(&work(NdkOperationTypeReceive, world.qp, 1), &[], &[]), STATUS_SUCCESS);
            assert_eq!(user.call(IOCTL_ND_QP_FLUSH, &handle(world.qp)), STATUS_SUCCESS);
        };
        let cancelled = user.notify(world.cq, ND_CQ_NOTIFY_ANY);
        cancelled.shared.cancel(&user.file);
        assert_eq!(cancelled.wait(), STATUS_CANCELLED);
        completion();
        // The CQ has been notified, and no request has completed.
        (0..1000).for_each(|_| pause());
        let mut first = None;
        scope(|scope| {
            scope.spawn(|| first = Some(user.notify(world.cq, ND_CQ_NOTIFY_ANY)));
            scope.spawn(|| {
                let second = user.notify(world.cq, ND_CQ_NOTIFY_ANY);
                if second.is_pending() {
                    completion();
                }
                assert_eq!(second.wait(), STATUS_SUCCESS);
            });
        });
        let first = first.unwrap();
        (0..1000).for_each(|_| pause());
        if first.is_pending() {
            completion();
        }
        assert_eq!(first.wait(), STATUS_SUCCESS);
        // Each notification has completed a request.
        let third = user.notify(world.cq, ND_CQ_NOTIFY_ANY);
        (0..1000).for_each(|_| pause());
        assert!(third.is_pending(), "seed {seed}: told twice");
    }
}
