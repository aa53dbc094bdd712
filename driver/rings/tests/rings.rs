//! Rings against a queue of the standard library, and against indices that cannot be.
#![allow(clippy::expect_used, unsafe_code, reason = "a test may panic, and gives rings their memory")]

use std::{collections::VecDeque, mem::offset_of, ptr::NonNull, sync::atomic::Ordering};

use nd_rings::{Full, Geometry, Invalid, Mapped, Memory as _, Reader, Wild, Writer};
use ndk_abi::softndk_ring::{SOFTNDK_RING, SOFTNDK_RING_COMPLETIONS, SOFTNDK_RING_INITIATOR};
use proptest::prelude::*;

const ENTRY: u32 = 0x20;

/// Memory for a ring, zeroed.
#[repr(align(64))]
#[derive(Clone)]
struct Line([u8; 64]);

struct Arena(Vec<Line>);

impl Arena {
    fn new(geometry: Geometry) -> Self {
        Self(vec![Line([0; 64]); geometry.bytes().expect("a small ring").div_ceil(64)])
    }

    fn base(&mut self) -> NonNull<u8> {
        NonNull::from(self.0.as_mut_slice()).cast()
    }

    fn bytes(&self) -> usize {
        self.0.len() * 64
    }

    fn created(&mut self, geometry: Geometry) -> Mapped {
        // SAFETY: zeroed, large enough and aligned; the tests keep the arena for longer.
        unsafe { Mapped::create(self.base(), geometry, 7) }
    }

    fn opened(&mut self, kind: u32, entry_size: u32, depth: u32) -> Result<(Mapped, u64), Invalid> {
        let bytes = self.bytes();
        // SAFETY: as above.
        unsafe { Mapped::open(self.base(), bytes, kind, entry_size, depth) }
    }
}

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
        // Anywhere, so that indices wrap.
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
                        prop_assert_eq!(pushed, Err(Full::Full));
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

#[test]
fn an_index_that_cannot_be_is_wild() {
    let geometry = geometry(4);
    let mut arena = Arena::new(geometry);
    let mut writer = Writer::new(arena.created(geometry));
    let (mapped, _) = arena.opened(SOFTNDK_RING_COMPLETIONS, ENTRY, 4).expect("as it was made");
    let reader = Reader::new(mapped);
    for wrong in [5, 1 << 31, u32::MAX - 4] {
        reader.memory().tail().store(wrong, Ordering::Relaxed);
        assert_eq!(reader.waiting(), Err(Wild));
        assert_eq!(reader.sleep(), Err(Wild));
        reader.memory().head().store(wrong, Ordering::Relaxed);
        assert_eq!(writer.push(&[0], &[]), Err(Full::Wild));
        assert_eq!(writer.sleep(), Err(Wild));
    }
    reader.memory().tail().store(4, Ordering::Relaxed);
    assert_eq!(reader.waiting(), Ok(4));
}

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
    arena.0[0].0[offset_of!(SOFTNDK_RING, Version)] = 2;
    assert_eq!(arena.opened(SOFTNDK_RING_INITIATOR, ENTRY, 4).err(), Some(Invalid), "another version");
    arena.created(good);
    let base = arena.base();
    // SAFETY: inside of the arena.
    let shifted = unsafe { base.add(32) };
    // SAFETY: as above; it is looked at only if it is large enough.
    let opened = [unsafe { Mapped::open(shifted, 0x100, SOFTNDK_RING_INITIATOR, ENTRY, 1) }, unsafe {
        Mapped::open(base, 0xff, SOFTNDK_RING_INITIATOR, ENTRY, 1)
    }];
    assert!(opened.iter().all(Result::is_err), "not on a cache line, or without a head");
}

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
