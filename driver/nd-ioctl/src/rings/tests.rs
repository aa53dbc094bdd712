//! Tests of rings of requests and of rings of completions. Not in `work_ring` and `cq_ring`, which tests/random/loom-models compiles too.
#![allow(clippy::indexing_slicing, reason = "a test may panic")]

extern crate std;

use core::sync::atomic::{AtomicU32, Ordering};
use std::{sync::Arc, vec, vec::Vec};

use nd_rings::Memory;
use ndk_abi::describe::ZeroInit as _;
use ndk_abi::nd_ioctl::ND_CQ_NOTIFY_ANY;
use ndk_abi::ndkpi::{NDK_OP_FLAG_DEFER, NdkOperationTypeSend};
use ndk_abi::softndk_ioctl::SOFTNDK_POST;
use ndk_abi::softndk_ring::SOFTNDK_COMPLETION;
use ndk_abi::status::STATUS_BUFFER_OVERFLOW;
use simkernel::{SimKernel, boot};

use super::cq_ring::{CqRing, Room};
use super::ring_poll::Next;
use super::work_ring::{Posted, ServeMode, Served, Step, WorkRing};

/// The memory of a ring; each entry that the driver reads is a send.
#[derive(Clone, Default)]
struct Sends(Arc<[AtomicU32; 3]>);

impl Memory for Sends {
    fn tail(&self) -> &AtomicU32 {
        &self.0[0]
    }

    fn head(&self) -> &AtomicU32 {
        &self.0[1]
    }

    fn asleep(&self) -> &AtomicU32 {
        &self.0[2]
    }

    fn capacity(&self) -> u32 {
        128
    }

    fn read(&self, _slot: u32, first: usize, words: &mut [u64]) {
        let send = SOFTNDK_POST { Operation: NdkOperationTypeSend.0.cast_unsigned(), ..SOFTNDK_POST::ZERO };
        let send: [u64; size_of::<SOFTNDK_POST>() / size_of::<u64>()] = zerocopy::transmute!(send);
        words.copy_from_slice(&send[first..][..words.len()]);
    }

    fn write(&self, _slot: u32, _first: usize, _words: &[u64]) {}

    fn set_state(&self, _state: u32) {}
}

type Ring = WorkRing<Sends, (), SimKernel>;

fn new() -> (Sends, Ring) {
    let sends = Sends::default();
    (sends.clone(), Ring::new(sends, 0, ()))
}

/// Serves the ring once: whether each posted request has NDK_OP_FLAG_DEFER, and the ring's next step.
fn run(ring: &Ring, mode: ServeMode) -> (Vec<bool>, Next) {
    let mut serving = ring.serve(mode);
    let mut deferred = Vec::new();
    loop {
        match serving.next() {
            Step::Post(head, _) => {
                deferred.push(head.Flags & NDK_OP_FLAG_DEFER != 0);
                serving.posted(Posted::Taken);
            }
            Step::Complete(..) => serving.completed_unposted(true),
            Step::End(served) => return (deferred, served.next),
        }
    }
}

const AWAITS: ServeMode = ServeMode { awaits: true, polls_on: true };

#[test]
fn all_but_the_last_of_a_run_are_deferred() {
    let _session = boot();
    let (sends, ring) = new();
    sends.tail().store(3, Ordering::Release);
    assert_eq!(run(&ring, AWAITS), (vec![true, true, false], Next::Sleep));
    sends.tail().store(68, Ordering::Release);
    let (deferred, next) = run(&ring, AWAITS);
    assert_eq!((deferred, next), ([vec![true; 63], vec![false]].concat(), Next::Run));
    assert_eq!(run(&ring, AWAITS), (vec![false], Next::Sleep));
}

#[test]
fn an_empty_ring_is_polled_for_some_runs_unless_a_completion_is_to_come() {
    /// The number of runs in a row that find the ring empty and want another run.
    fn runs(ring: &Ring, mode: ServeMode) -> usize {
        (0..).take_while(|_| run(ring, mode) == (vec![], Next::Run)).count()
    }
    let _session = boot();
    let counts = ServeMode { awaits: false, ..AWAITS };
    for (mode, next, more) in [(AWAITS, Next::Sleep, 0), (counts, Next::Run, 15)] {
        let (sends, ring) = new();
        assert_eq!([runs(&ring, mode), runs(&ring, mode)], [15, 0]);
        sends.tail().store(1, Ordering::Release);
        assert_eq!(run(&ring, mode), (vec![false], next));
        assert_eq!(runs(&ring, mode), more);
    }
    let (_, ring) = new();
    assert_eq!(runs(&ring, ServeMode { polls_on: false, ..AWAITS }), 0);
    assert_eq!(runs(&ring, AWAITS), 15);
}

/// A ring whose index turns out bad at the last check does not sleep: the next run reports it as broken, once, and then it sleeps.
#[test]
fn a_bad_index_found_before_the_sleep_is_reported_once() {
    let _session = boot();
    let (sends, ring) = new();
    assert_eq!(run(&ring, ServeMode { polls_on: false, ..AWAITS }), (vec![], Next::Sleep));
    sends.tail().store(u32::MAX / 2, Ordering::Release);
    assert!(!ring.sleep(true), "it has just ended");
    assert!(matches!(ring.serve(AWAITS).next(), Step::End(Served { next: Next::Sleep, broken: true })));
    assert!(ring.sleep(true), "it has ended before");
}

/// A CQ_NOTIFY after the end of its CQ completes with the status of the end, not with success for a completion before the end.
#[test]
fn a_ring_of_completions_tells_nobody_when_it_has_ended() {
    let _session = boot();
    let ring = CqRing::<_, _, SimKernel>::new(Sends::default(), ());
    assert!(ring.push(SOFTNDK_COMPLETION::ZERO, false));
    ring.end(STATUS_BUFFER_OVERFLOW);
    assert_eq!(ring.notify(Some), None);
}

/// A completion has room beside the reserved slots, or once they are released.
#[test]
fn reserved_slots_are_room_again_when_they_are_released() {
    let _session = boot();
    let sends = Sends::default();
    let ring = CqRing::<_, _, SimKernel>::new(sends.clone(), ());
    let push = || ring.push(SOFTNDK_COMPLETION::ZERO, false);
    assert_eq!(ring.reserve(sends.capacity()), Room::For(sends.capacity()));
    assert!(!push());
    ring.push_reserved(SOFTNDK_COMPLETION::ZERO, false);
    assert!(!push(), "the others are reserved still");
    ring.release();
    assert!(push());
    assert_eq!(ring.reserve(1), Room::For(1));
    assert!(push());
}

/// A completion notifies until the program has read it, also in the ring that another one has replaced.
#[test]
fn a_completion_that_was_read_notifies_no_more() {
    let _session = boot();
    let old = Sends::default();
    let ring = CqRing::<_, _, SimKernel>::new(old.clone(), ());
    assert!(ring.push(SOFTNDK_COMPLETION::ZERO, false));
    old.head().store(1, Ordering::Release);
    assert_eq!(ring.notify(Some), None);
    assert!(ring.push(SOFTNDK_COMPLETION::ZERO, false));
    let _old = ring.replace(CqRing::new(Sends::default(), ()));
    assert_eq!(ring.notify(Some), Some(ND_CQ_NOTIFY_ANY));
}
