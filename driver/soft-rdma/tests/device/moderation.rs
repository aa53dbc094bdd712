//! Notifications that are held back when the settings change.

use std::{sync::atomic::Ordering, time::Duration};

use simkernel::{Pages, Session, boot};
use soft_rdma::{Arm, CompletionQueue, Connector, Flags, Outcome, Post, QueuePair};

use crate::common::{NOTIFIED, Side, accepted};

const SECOND: u32 = 1_000_000;

/// Sends from `active` to `passive`, whose CQ delays the notification. Returns the notifications until then.
fn delayed(kernel: &Session, active: &Side, passive: &Side, interval: u32) -> u64 {
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    kernel.hold_clock();
    let before = NOTIFIED.load(Ordering::SeqCst);
    CompletionQueue::moderate(&passive.cq, interval, 8).unwrap();
    CompletionQueue::arm(&passive.cq, Arm::Any);
    passive.queue_pair.post_receive(1, &[]).unwrap();
    QueuePair::post(&active.queue_pair, 2, &[], Flags::empty(), Post::Send(None)).unwrap();
    kernel.flush_dpcs();
    assert_eq!(NOTIFIED.load(Ordering::SeqCst), before, "not delayed");
    before
}

#[test]
fn settings_that_change_do_not_delay_a_notification() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = accepted(&kernel, &pages);
    let before = delayed(&kernel, &active, &passive, 10 * SECOND);
    // Each of the new intervals would be over later than the first.
    for seconds in [9, 8, 7, 6, 5] {
        kernel.advance(Duration::from_secs(2));
        CompletionQueue::moderate(&passive.cq, seconds * SECOND, 8).unwrap();
        kernel.flush_dpcs();
    }
    assert_eq!(NOTIFIED.load(Ordering::SeqCst), before + 1, "10 seconds are over");
}

/// A kernel whose timers are up to a millisecond late: the timer is set a millisecond early, and none is set for an interval without limit.
#[test]
fn a_late_timer_is_in_time() {
    let kernel = boot();
    kernel.set_timer_granularity(1000);
    let pages = Pages::new(1);
    let (active, passive) = accepted(&kernel, &pages);
    let before = delayed(&kernel, &active, &passive, u32::MAX);
    assert_eq!(kernel.ledger().set_timers, 0);
    CompletionQueue::moderate(&passive.cq, SECOND, 8).unwrap();
    kernel.flush_dpcs();
    assert_eq!(NOTIFIED.load(Ordering::SeqCst), before, "not delayed");
    kernel.advance(Duration::from_micros(u64::from(SECOND) - 1000));
    kernel.flush_dpcs();
    assert_eq!(NOTIFIED.load(Ordering::SeqCst), before + 1);
}
