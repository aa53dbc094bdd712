//! Requests in a ring that were to succeed silently, and fail: their completions are beside those of the others, not in their place.

use std::{mem::offset_of, sync::atomic::Ordering};

use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, softndk_ring::*, status::*};
use simkernel::{boot_seeded, pause, seeds};
use users::{
    User, World,
    rings::{DEPTH, Ring, Ringed, connect, push},
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

/// A silent request fails beside one that reports, and there is room for one completion only: the other's slot stays taken, and what
/// follows it in the ring is reported after it.
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
        let [mut initiator, mut receives] = own.writers();
        // Completions that nobody takes.
        for context in 1..DEPTH {
            assert!(push(&mut receives, &work(NdkOperationTypeReceive, 0, context.into()), &[]));
        }
        doorbell(&user, own.qp);
        assert_eq!(user.call(IOCTL_ND_QP_FLUSH, &handle(own.qp)), STATUS_SUCCESS);
        wait("the flushed receives", || index(completed, offset_of!(SOFTNDK_RING, Tail)) == DEPTH - 1);
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
        let mut completions = own.completions();
        let mut contexts = Vec::new();
        for _ in 0..PAUSES {
            let taken = completions.poll(1, |completion| {
                if completion.Type == NdkOperationTypeSend.0.cast_unsigned() {
                    assert_eq!(completion.Status, STATUS_CANCELLED);
                    contexts.push(completion.RequestContext);
                }
            });
            if taken > 0 && index(completed, offset_of!(SOFTNDK_RING, Asleep)) != 0 {
                doorbell(&user, own.cq);
            }
            if contexts.len() == 3 {
                break;
            }
            pause();
        }
        assert_eq!(contexts, [101, 102, 103], "seed {seed}");
        wait("all slots to be free", || index(sends, offset_of!(SOFTNDK_RING, Head)) == 3);
    }
}
