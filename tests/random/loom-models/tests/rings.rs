//! A ring between two sides: no entry is seen before it is written or after its slot is filled again, and whoever sleeps is woken.

use std::sync::Arc as StdArc;

use loom::thread;
use loom_models::{RingMemory, Wakeup, explore, faults};
use nd_rings::{Reader, Writer};
use planted_atomics::Defect;

/// A user posts two requests; the driver, which sleeps when there are none, takes both.
fn requests_are_taken() {
    explore(Some(3), |_| {
        let ring = RingMemory::new(2);
        let doorbell = StdArc::new(Wakeup::default());
        let (end, bell) = (ring.clone(), doorbell.clone());
        let user = thread::spawn(move || {
            let mut writer = Writer::new(end);
            for _ in 0..2 {
                assert_eq!(writer.push(&[0], &[]), Ok(()));
                if writer.needs_doorbell() {
                    bell.wake();
                }
            }
        });
        let mut reader = Reader::new(ring);
        let mut rung = 0;
        for _ in 0..2 {
            while reader.waiting() == Ok(0) {
                if reader.sleep() == Ok(true) {
                    // The doorbell comes once at least for each sleep, and may come late for one before.
                    doorbell.wait_for(rung + 1);
                    rung = doorbell.count();
                    reader.wake();
                }
            }
            let mut entry = [0];
            reader.copy(0, 0, &mut entry);
            assert_eq!(entry, [1], "each slot was filled once");
            reader.advance(1);
        }
        assert!(user.join().is_ok());
    });
}

/// The driver reports two completions by a ring of one; it sleeps while that is full. The user takes both.
fn a_full_ring_goes_on() {
    explore(Some(3), |_| {
        let ring = RingMemory::new(1);
        let doorbell = StdArc::new(Wakeup::default());
        let (end, bell) = (ring.clone(), doorbell.clone());
        let user = thread::spawn(move || {
            let mut reader = Reader::new(end);
            for round in 1..=2 {
                while reader.waiting() == Ok(0) {
                    thread::yield_now();
                }
                let mut entry = [0];
                reader.copy(0, 0, &mut entry);
                assert_eq!(entry, [round], "the slot was filled once for each");
                reader.advance(1);
                if reader.needs_doorbell() {
                    bell.wake();
                }
            }
        });
        let mut writer = Writer::new(ring);
        assert_eq!(writer.push(&[0], &[]), Ok(()));
        let mut rung = 0;
        while writer.room() == Ok(0) {
            if writer.sleep() == Ok(true) {
                doorbell.wait_for(rung + 1);
                rung = doorbell.count();
                writer.wake();
            }
        }
        assert_eq!(writer.push(&[0], &[]), Ok(()));
        assert!(user.join().is_ok());
    });
}

// Shows S905.
#[test]
fn requests() {
    requests_are_taken();
}

// Shows S905.
#[test]
fn completions() {
    a_full_ring_goes_on();
}

faults! {
    a_missing_fence_is_found: requests_are_taken with Atomics(Defect::NoFence) says "deadlock",
    relaxed_orderings_are_found: requests_are_taken with Atomics(Defect::Relaxed) says "Causality violation",
    // The user looks for ever for what the driver, which sleeps, does not put in.
    a_missing_fence_of_a_full_ring_is_found: a_full_ring_goes_on with Atomics(Defect::NoFence) says "maximum number of branches",
}
