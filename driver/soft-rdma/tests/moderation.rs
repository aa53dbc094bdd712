//! Notifications that are held back when the settings change.

mod common;

use std::{sync::atomic::Ordering, time::Duration};

use platform::Platform as _;
use simkernel::{Pages, Session, SimKernel, boot};
use soft_rdma::{Arm, CompletionQueue, Connector, Flags, Outcome, Post, QueuePair};

use common::{NOTIFIED, Side, accepted};

const SECOND: u32 = 1_000_000;

/// Sends from `active` to `passive`, whose notification the settings hold back. Returns the notifications until then.
fn held_back(kernel: &Session, active: &Side, passive: &Side, interval: u32) -> u64 {
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    kernel.hold_clock();
    let before = NOTIFIED.load(Ordering::SeqCst);
    CompletionQueue::moderate(&passive.cq, interval, 8).unwrap();
    CompletionQueue::arm(&passive.cq, Arm::Any);
    passive.queue_pair.post_receive(1, &[]).unwrap();
    QueuePair::post(&active.queue_pair, 2, &[], Flags::empty(), Post::Send(None)).unwrap();
    kernel.flush_dpcs();
    assert_eq!(NOTIFIED.load(Ordering::SeqCst), before, "not held back");
    before
}

#[test]
fn settings_that_change_do_not_delay_a_notification() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = accepted(&kernel, &pages);
    let before = held_back(&kernel, &active, &passive, 10 * SECOND);
    // Each of the new intervals would be over later than the first.
    for seconds in [9, 8, 7, 6, 5] {
        kernel.advance(Duration::from_secs(2));
        CompletionQueue::moderate(&passive.cq, seconds * SECOND, 8).unwrap();
        kernel.flush_dpcs();
    }
    assert_eq!(NOTIFIED.load(Ordering::SeqCst), before + 1, "10 seconds are over");
}

/// The timer expires early by what the kernel's timers may be late.
#[test]
fn a_late_timer_is_in_time() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = accepted(&kernel, &pages);
    let before = held_back(&kernel, &active, &passive, SECOND);
    kernel.advance(Duration::from_micros(u64::from(SECOND - SimKernel::timer_granularity())));
    kernel.flush_dpcs();
    assert_eq!(NOTIFIED.load(Ordering::SeqCst), before + 1);
}
