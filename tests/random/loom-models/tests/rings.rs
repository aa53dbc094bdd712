//! A ring between two sides: no entry is seen before it is written or after its slot is filled again, and whoever sleeps is woken.

use std::sync::Arc as StdArc;

use loom::thread;
use loom_models::{Cell, Wakeup, explore, faults};
use nd_rings::{Memory, Reader, Writer};
use planted_atomics::{Defect, sync::atomic::AtomicU32};

/// The memory of a ring: entries of one word. loom finds every use of a slot by both sides at once.
struct Shared {
    tail: AtomicU32,
    head: AtomicU32,
    asleep: AtomicU32,
    slots: Vec<Cell>,
}

impl Shared {
    fn new(slots: usize) -> StdArc<Self> {
        let (tail, head, asleep) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        StdArc::new(Self { tail, head, asleep, slots: (0..slots).map(|_| Cell::default()).collect() })
    }
}

struct End(StdArc<Shared>);

impl Memory for End {
    fn tail(&self) -> &AtomicU32 {
        &self.0.tail
    }

    fn head(&self) -> &AtomicU32 {
        &self.0.head
    }

    fn asleep(&self) -> &AtomicU32 {
        &self.0.asleep
    }

    fn capacity(&self) -> u32 {
        self.0.slots.len() as u32
    }

    fn read(&self, slot: u32, _first: usize, words: &mut [u64]) {
        words.fill(self.0.slots[slot as usize].read() as u64);
    }

    fn write(&self, slot: u32, _first: usize, words: &[u64]) {
        words.iter().for_each(|_| self.0.slots[slot as usize].add_one());
    }

    fn set_state(&self, _state: u32) {}
}

/// A user posts two requests; the driver, which sleeps when there are none, takes both.
fn requests_are_taken() {
    explore(Some(3), |_| {
        let shared = Shared::new(2);
        let doorbell = StdArc::new(Wakeup::default());
        let (end, bell) = (End(shared.clone()), doorbell.clone());
        let user = thread::spawn(move || {
            let mut writer = Writer::new(end);
            for _ in 0..2 {
                assert_eq!(writer.push(&[0], &[]), Ok(()));
                if writer.needs_doorbell() {
                    bell.wake();
                }
            }
        });
        let mut reader = Reader::new(End(shared.clone()));
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
        let shared = Shared::new(1);
        let doorbell = StdArc::new(Wakeup::default());
        let (end, bell) = (End(shared.clone()), doorbell.clone());
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
        let mut writer = Writer::new(End(shared.clone()));
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
