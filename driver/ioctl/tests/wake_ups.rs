//! A ring of requests that nothing is to come for sleeps, so that its user's next request rings a doorbell.

use std::{mem::offset_of, sync::atomic::Ordering};

use ndk_abi::{ndkpi::*, softndk_ioctl::*, softndk_ring::*, status::*};
use simkernel::{boot_seeded, pause, seeds};
use users::{User, World, rings::Ringed, start, user::work};

/// More than a ring looks on for.
const PAUSES: u32 = 100_000;

/// A request by a control code counts as to be reported before it is posted. When it is refused, a run that waits for its report is
/// told that there is none: the run may have come at any moment.
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
        let sleeps = (0..PAUSES).any(|_| {
            pause();
            asleep.load(Ordering::Acquire) != 0
        });
        assert!(sleeps, "seed {seed}: it awaits a completion");
    }
}
