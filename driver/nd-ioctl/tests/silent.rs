//! Requests that have no slot in a ring when they complete: those with silent success that fail, and those by control code.

use std::{mem::offset_of, sync::atomic::Ordering};

use nd_rings::user::CompletionRing;
use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, softndk_ring::*, status::*};
use simkernel::{boot_seeded, pause, seeds};
use users::{
    User, World,
    rings::{DEPTH, Ring, Ringed, connect, create, create_cq, create_qp, push},
    start,
    user::{handle, work},
};

/// Longer than the driver needs for anything.
const PAUSES: u32 = 20_000;

fn wait(what: &str, is: impl Fn() -> bool) {
    let is_so = (0..PAUSES).any(|_| {
        pause();
        is()
    });
    assert!(is_so, "{what}");
}

fn index(ring: &Ring, offset: usize) -> u32 {
    ring.word(offset).load(Ordering::Acquire)
}

fn doorbell(user: &User<'_>, object: u64) {
    assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(object)), STATUS_SUCCESS);
}

/// Fills the ring with completions of flushed receives, which the program does not read.
fn fill_with_receives(user: &User<'_>, own: &Ringed, count: u32) {
    let mut receives = own.rings[3].writer();
    for context in 0..count {
        assert!(push(&mut receives, &work(NdkOperationTypeReceive, 0, context.into()), &[]));
    }
    doorbell(user, own.qp);
    assert_eq!(user.call(IOCTL_ND_QP_FLUSH, &handle(own.qp)), STATUS_SUCCESS);
    wait("the flushed receives", || index(&own.rings[0], offset_of!(SOFTNDK_RING, Tail)) == count);
    assert_eq!(index(&own.rings[2], offset_of!(SOFTNDK_RING, State)), SOFTNDK_RING_CONNECTED, "a flush ends nothing");
}

/// Polls completions until `count` sends are cancelled: the contexts of these sends.
fn cancelled_sends(user: &User<'_>, cq: u64, completions: &mut CompletionRing, count: usize) -> Vec<u64> {
    let mut contexts = Vec::new();
    for _ in 0..PAUSES {
        let taken = completions.poll(1, |completion| {
            if completion.Type == NdkOperationTypeSend.0.cast_unsigned() {
                assert_eq!(completion.Status, STATUS_CANCELLED);
                contexts.push(completion.RequestContext);
            }
        });
        if taken > 0 && completions.needs_doorbell() {
            doorbell(user, cq);
        }
        if contexts.len() == count {
            break;
        }
        pause();
    }
    contexts
}

/// A silent request fails beside a signaled one, with room for one completion only: the slot of the signaled request stays taken, and the
/// requests behind it in the ring are reported after it.
// Shows S210.
#[test]
fn a_silent_request_gives_no_slot_of_another_back() {
    for seed in seeds(20) {
        let _session = boot_seeded(seed);
        let device = start();
        let (peer, user) = (User::new(&device), User::new(&device));
        let (at, from) = (World::listening(&peer), World::new(&user));
        let own = Ringed::new(&user, &from).unwrap();
        connect(&user, [from.connector, own.qp], &peer, [at.connector, at.qp], at.listener);
        let [completed, sends] = [&own.rings[0], &own.rings[2]];
        let mut initiator = sends.writer();
        fill_with_receives(&user, &own, DEPTH - 1);
        // The peer has no receives.
        let silent = SOFTNDK_POST { Flags: NDK_OP_FLAG_SILENT_SUCCESS, ..work(NdkOperationTypeSend, 0, 101) };
        assert!(push(&mut initiator, &silent, &[]));
        assert!(push(&mut initiator, &work(NdkOperationTypeSend, 0, 102), &[]));
        doorbell(&user, own.qp);
        wait("the slot of the silent one", || index(sends, offset_of!(SOFTNDK_RING, Head)) == 1);
        (0..500).for_each(|_| pause());
        assert_eq!(peer.call(IOCTL_ND_QP_FREE, &handle(at.qp)), STATUS_SUCCESS);
        assert!(push(&mut initiator, &work(NdkOperationTypeSend, 0, 103), &[]));
        doorbell(&user, own.qp);
        wait("its completion", || index(completed, offset_of!(SOFTNDK_RING, Tail)) == DEPTH);
        (0..500).for_each(|_| pause());
        assert_eq!(index(sends, offset_of!(SOFTNDK_RING, Head)), 1, "seed {seed}: the other is not reported yet");
        assert_eq!(cancelled_sends(&user, own.cq, &mut own.completions(), 3), [101, 102, 103], "seed {seed}");
        wait("all slots to be free", || index(sends, offset_of!(SOFTNDK_RING, Head)) == 3);
    }
}

/// There is no room for the completion of a request by control code: the requests that follow in the ring are cancelled, and reported after
/// it. Until then another request by control code is refused, as those in the ring are older.
#[test]
fn what_is_given_up_follows_a_request_by_code() {
    for seed in seeds(20) {
        let _session = boot_seeded(seed);
        let device = start();
        let (peer, user) = (User::new(&device), User::new(&device));
        let (at, from) = (World::listening(&peer), World::new(&user));
        let own = Ringed::new(&user, &from).unwrap();
        connect(&user, [from.connector, own.qp], &peer, [at.connector, at.qp], at.listener);
        fill_with_receives(&user, &own, DEPTH);
        let by_code = |context| user.post(&work(NdkOperationTypeSend, own.qp, context), &[], &[]);
        // The peer has no receives.
        assert_eq!(by_code(101), STATUS_SUCCESS);
        assert_eq!(peer.call(IOCTL_ND_QP_FREE, &handle(at.qp)), STATUS_SUCCESS);
        let sends = &own.rings[2];
        wait("the end", || index(sends, offset_of!(SOFTNDK_RING, State)) == SOFTNDK_RING_ENDED);
        assert!(push(&mut sends.writer(), &work(NdkOperationTypeSend, 0, 102), &[]));
        doorbell(&user, own.qp);
        (0..500).for_each(|_| pause());
        assert_eq!(by_code(103), STATUS_NO_MORE_ENTRIES, "seed {seed}");
        // The program rings the queue pair's doorbell before the CQ's; the ring of completions has room for one.
        let mut completions = own.completions();
        assert_eq!(completions.poll(1, |_| {}), 1);
        doorbell(&user, own.qp);
        (0..500).for_each(|_| pause());
        assert_eq!(cancelled_sends(&user, own.cq, &mut completions, 2), [101, 102], "seed {seed}");
    }
}

/// A request by control code is posted after those in the ring, also if no doorbell has rung for these.
#[test]
fn a_request_by_code_follows_what_is_in_the_ring() {
    for seed in seeds(20) {
        let _session = boot_seeded(seed);
        let device = start();
        let (peer, user) = (User::new(&device), User::new(&device));
        let (at, from) = (World::listening(&peer), World::new(&user));
        let own = Ringed::new(&user, &from).unwrap();
        connect(&user, [from.connector, own.qp], &peer, [at.connector, at.qp], at.listener);
        let sends = &own.rings[2];
        wait("the ring to sleep", || index(sends, offset_of!(SOFTNDK_RING, Asleep)) != 0);
        assert!(push(&mut sends.writer(), &work(NdkOperationTypeSend, 0, 101), &[]));
        // The peer has no receives.
        assert_eq!(user.post(&work(NdkOperationTypeSend, own.qp, 102), &[], &[]), STATUS_SUCCESS, "seed {seed}");
        assert_eq!(peer.call(IOCTL_ND_QP_FREE, &handle(at.qp)), STATUS_SUCCESS);
        assert_eq!(cancelled_sends(&user, own.cq, &mut own.completions(), 2), [101, 102], "seed {seed}");
    }
}

/// More requests than one run takes.
const DEEP: u32 = 100;

#[test]
fn a_request_by_code_follows_all_that_is_in_a_deep_ring() {
    for seed in seeds(20) {
        let _session = boot_seeded(seed);
        let device = start();
        let (peer, user) = (User::new(&device), User::new(&device));
        let (at, from) = (World::listening(&peer), World::new(&user));
        let (completed, sends) = (Ring::completions_for(&user, DEEP), Ring::initiator_for(&user, DEEP));
        let cq = ND_CREATE_CQ { QueueDepth: DEEP, ..create_cq(&from) };
        let cq = create(&user, IOCTL_ND_CQ_CREATE, &cq, &[completed.mapping()]).unwrap();
        let mut qp = create_qp(&user, &from, cq);
        qp.Header.InitiatorQueueDepth = DEEP;
        let mappings = [sends.mapping(), Ring::receives(&user).mapping()];
        let qp = create(&user, IOCTL_ND_QP_CREATE, &qp, &mappings).unwrap();
        connect(&user, [from.connector, qp], &peer, [at.connector, at.qp], at.listener);
        wait("the ring to sleep", || index(&sends, offset_of!(SOFTNDK_RING, Asleep)) != 0);
        let mut writer = sends.writer();
        for context in 1..DEEP {
            assert!(push(&mut writer, &work(NdkOperationTypeSend, 0, context.into()), &[]));
        }
        // The peer has no receives.
        assert_eq!(user.post(&work(NdkOperationTypeSend, qp, DEEP.into()), &[], &[]), STATUS_SUCCESS, "seed {seed}");
        assert_eq!(peer.call(IOCTL_ND_QP_FREE, &handle(at.qp)), STATUS_SUCCESS);
        let cancelled = cancelled_sends(&user, cq, &mut CompletionRing::new(completed.start()), DEEP as usize);
        assert!(cancelled.iter().copied().eq(1..=u64::from(DEEP)), "seed {seed}: {cancelled:?}");
    }
}

#[test]
fn a_flush_cancels_all_that_is_in_a_deep_ring() {
    let _session = boot_seeded(1);
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let (completed, receives) = (Ring::completions_for(&user, DEEP), Ring::receives_for(&user, DEEP));
    let cq = ND_CREATE_CQ { QueueDepth: DEEP, ..create_cq(&world) };
    let cq = create(&user, IOCTL_ND_CQ_CREATE, &cq, &[completed.mapping()]).unwrap();
    let qp = ND_CREATE_QP { ReceiveQueueDepth: DEEP, ..create_qp(&user, &world, cq) };
    let mappings = [Ring::initiator(&user).mapping(), receives.mapping()];
    let qp = create(&user, IOCTL_ND_QP_CREATE, &qp, &mappings).unwrap();
    wait("the ring to sleep", || index(&receives, offset_of!(SOFTNDK_RING, Asleep)) != 0);
    let mut writer = receives.writer();
    for context in 1..=DEEP {
        assert!(push(&mut writer, &work(NdkOperationTypeReceive, 0, context.into()), &[]));
    }
    assert_eq!(user.call(IOCTL_ND_QP_FLUSH, &handle(qp)), STATUS_SUCCESS);
    wait("all completions", || index(&completed, offset_of!(SOFTNDK_RING, Tail)) == DEEP);
}
