//! Compares rings with a queue of the standard library, and tests impossible indices.
#![allow(clippy::expect_used, unsafe_code, reason = "a test may panic, and gives rings their memory")]

mod common;

use std::{collections::VecDeque, mem::offset_of, sync::atomic::Ordering};

use common::Arena;
use nd_rings::{BadIndex, Geometry, Invalid, Mapped, Memory as _, PushError, Reader, Writer};
use ndk_abi::softndk_ring::{SOFTNDK_RING, SOFTNDK_RING_COMPLETIONS, SOFTNDK_RING_INITIATOR};
use proptest::prelude::*;

const ENTRY: u32 = 0x20;

fn geometry(depth: u32) -> Geometry {
    Geometry::for_depth(SOFTNDK_RING_COMPLETIONS, ENTRY, depth).expect("a small ring")
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push(u64),
    Take(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![any::<u64>().prop_map(Step::Push), (0..4u32).prop_map(Step::Take)]
}

proptest! {
    #[test]
    fn a_ring_is_a_queue(depth in 1..9u32, start in any::<u32>(), steps in prop::collection::vec(step(), 1..200)) {
        let geometry = geometry(depth);
        let mut arena = Arena::new(geometry);
        let ring = arena.created(geometry);
        // The indices start anywhere, so that they wrap.
        ring.tail().store(start, Ordering::Relaxed);
        ring.head().store(start, Ordering::Relaxed);
        let mut writer = Writer::new(ring);
        let (mapped, context) = arena.opened(SOFTNDK_RING_COMPLETIONS, ENTRY, depth).expect("as it was made");
        prop_assert_eq!(context, 7);
        let mut reader = Reader::new(mapped);
        let mut queue = VecDeque::new();
        for step in steps {
            match step {
                Step::Push(value) => {
                    let pushed = writer.push(&[value], &[!value]);
                    if queue.len() < geometry.capacity as usize {
                        prop_assert_eq!(pushed, Ok(()));
                        queue.push_back(value);
                    } else {
                        prop_assert_eq!(pushed, Err(PushError::Full));
                    }
                }
                Step::Take(count) => {
                    prop_assert_eq!(reader.waiting(), Ok(queue.len() as u32));
                    let count = count.min(queue.len() as u32);
                    for index in 0..count {
                        let mut words = [0; 2];
                        reader.copy(index, 0, &mut words);
                        let value = queue.pop_front().expect("counted");
                        prop_assert_eq!(words, [value, !value]);
                        let mut second = [0];
                        reader.copy(index, 1, &mut second);
                        prop_assert_eq!(second, [!value]);
                    }
                    reader.advance(count);
                }
            }
            prop_assert_eq!(writer.used(), Ok(queue.len() as u32));
        }
    }
}

// Shows T19.
#[test]
fn an_index_that_cannot_be_is_wild() {
    let geometry = geometry(4);
    let mut arena = Arena::new(geometry);
    let mut writer = Writer::new(arena.created(geometry));
    let (mapped, _) = arena.opened(SOFTNDK_RING_COMPLETIONS, ENTRY, 4).expect("as it was made");
    let reader = Reader::new(mapped);
    for wrong in [5, 1 << 31, u32::MAX - 4] {
        reader.memory().tail().store(wrong, Ordering::Relaxed);
        assert_eq!(reader.waiting(), Err(BadIndex));
        assert_eq!(reader.sleep(), Err(BadIndex));
        reader.memory().head().store(wrong, Ordering::Relaxed);
        assert_eq!(writer.push(&[0], &[]), Err(PushError::BadIndex));
        assert_eq!(writer.sleep(), Err(BadIndex));
    }
    reader.memory().tail().store(4, Ordering::Relaxed);
    assert_eq!(reader.waiting(), Ok(4));
}

// Shows T22.
#[test]
fn only_a_ring_as_asked_for_is_opened() {
    let good = Geometry { kind: SOFTNDK_RING_INITIATOR, entry_size: ENTRY, capacity: 4 };
    let mut arena = Arena::new(good);
    arena.created(good);
    assert!(arena.opened(SOFTNDK_RING_INITIATOR, ENTRY, 4).is_ok());
    assert_eq!(arena.opened(SOFTNDK_RING_INITIATOR, ENTRY, 5).err(), Some(Invalid), "too few slots");
    assert_eq!(arena.opened(SOFTNDK_RING_COMPLETIONS, ENTRY, 4).err(), Some(Invalid), "another kind");
    assert_eq!(arena.opened(SOFTNDK_RING_INITIATOR, 2 * ENTRY, 4).err(), Some(Invalid), "other entries");
    for capacity in [0, 3, 8, 1 << 31, u32::MAX] {
        arena.created(Geometry { capacity, ..good });
        assert_eq!(arena.opened(SOFTNDK_RING_INITIATOR, ENTRY, 0).err(), Some(Invalid), "{capacity} slots");
    }
    arena.created(Geometry { entry_size: ENTRY + 8, ..good });
    assert_eq!(arena.opened(SOFTNDK_RING_INITIATOR, ENTRY + 8, 4).err(), Some(Invalid), "unaligned entries");
    arena.created(good);
    *arena.byte(offset_of!(SOFTNDK_RING, Version)) = 2;
    assert_eq!(arena.opened(SOFTNDK_RING_INITIATOR, ENTRY, 4).err(), Some(Invalid), "another version");
    arena.created(good);
    let base = arena.base();
    // SAFETY: inside of the arena.
    let shifted = unsafe { base.add(32) };
    // SAFETY: as above; `open` reads the head only after it has checked size and alignment.
    let opened = [unsafe { Mapped::open(shifted, 0x100, SOFTNDK_RING_INITIATOR, ENTRY, 1) }, unsafe {
        Mapped::open(base, 0xff, SOFTNDK_RING_INITIATOR, ENTRY, 1)
    }];
    assert!(opened.iter().all(Result::is_err), "not on a cache line, or without a head");
}

// Shows S905.
#[test]
fn who_sleeps_is_woken() {
    let geometry = geometry(1);
    let mut arena = Arena::new(geometry);
    let mut writer = Writer::new(arena.created(geometry));
    let (mapped, _) = arena.opened(SOFTNDK_RING_COMPLETIONS, ENTRY, 1).expect("as it was made");
    let mut reader = Reader::new(mapped);
    assert!(!writer.needs_doorbell());
    assert_eq!(reader.sleep(), Ok(true));
    assert!(writer.needs_doorbell());
    assert_eq!(writer.push(&[1], &[]), Ok(()));
    assert_eq!(reader.sleep(), Ok(false), "something waits");
    assert!(!writer.needs_doorbell());
    assert_eq!(writer.sleep(), Ok(true), "full");
    assert!(reader.needs_doorbell());
    reader.advance(1);
    assert_eq!(writer.sleep(), Ok(false));
    assert!(!reader.needs_doorbell());
}

/// An end that continues its work clears `Asleep`.
#[test]
fn who_is_awake_needs_no_doorbell() {
    let geometry = geometry(1);
    let mut arena = Arena::new(geometry);
    let mut writer = Writer::new(arena.created(geometry));
    let (mapped, _) = arena.opened(SOFTNDK_RING_COMPLETIONS, ENTRY, 1).expect("as it was made");
    let reader = Reader::new(mapped);
    assert_eq!(reader.sleep(), Ok(true));
    reader.wake();
    assert!(!writer.needs_doorbell());
    assert_eq!(writer.push(&[1], &[]), Ok(()));
    assert_eq!(writer.sleep(), Ok(true));
    writer.wake();
    assert!(!reader.needs_doorbell());
}

/// Entries that were taken out of the replaced ring keep as many slots of this ring, until the slots are given back.
#[test]
fn slots_that_are_owed_are_not_free() {
    let geometry = geometry(4);
    let mut arena = Arena::new(geometry);
    let mut writer = Writer::new(arena.created(geometry));
    let mut before_arena = Arena::new(geometry);
    let mut before = Writer::new(before_arena.created(geometry));
    (0..5).for_each(|_| {
        before.memory().head().store(before.memory().tail().load(Ordering::Relaxed), Ordering::Relaxed);
        assert_eq!(before.push(&[1], &[]), Ok(()));
    });
    writer.continue_from(&before);
    assert_eq!((writer.used(), writer.memory().tail().load(Ordering::Relaxed)), (Ok(0), 5));
    let mut reader = Reader::new(arena.opened(SOFTNDK_RING_COMPLETIONS, ENTRY, 4).expect("as it was made").0);
    reader.keep(3);
    assert_eq!((reader.kept(), reader.waiting(), writer.room()), (3, Ok(0), Ok(1)));
    assert_eq!(writer.push(&[1], &[]), Ok(()));
    assert_eq!((writer.push(&[2], &[]), reader.waiting()), (Err(PushError::Full), Ok(1)));
    reader.give_back(3);
    assert_eq!((reader.kept(), reader.waiting(), writer.room()), (0, Ok(1), Ok(3)));
}

/// No word is read or written beyond an entry, or in a slot that does not exist.
#[test]
fn entries_have_ends() {
    let geometry = geometry(2);
    let mut arena = Arena::new(geometry);
    let ring = arena.created(geometry);
    ring.write(0, 0, &[1; ENTRY as usize / 8 + 1]);
    ring.write(2, 0, &[2; 1]);
    let mut words = [9; ENTRY as usize / 8 + 1];
    ring.read(1, 0, &mut words);
    assert_eq!(words, [0, 0, 0, 0, 9], "the entry behind the one that was written");
    ring.read(0, 3, &mut words);
    assert_eq!(words, [1, 0, 0, 0, 9]);
    ring.read(2, 0, &mut words);
    assert_eq!(words, [1, 0, 0, 0, 9]);
}
