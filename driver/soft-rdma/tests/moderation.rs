//! Notifications that are held back when the settings change.

mod common;

use std::{sync::atomic::Ordering, time::Duration};

use simkernel::{Pages, boot};
use soft_rdma::{Arm, CompletionQueue, Connector, Flags, Outcome, Post, QueuePair};

use common::{NOTIFIED, accepted};

const SECOND: u32 = 1_000_000;

#[test]
fn settings_that_change_do_not_delay_a_notification() {
    let kernel = boot();
    let pages = Pages::new(1);
    let (active, passive) = accepted(&kernel, &pages);
    assert_eq!(Connector::complete_connect(&active.connector, None), Ok(Outcome::Done));
    kernel.hold_clock();
    let before = NOTIFIED.load(Ordering::SeqCst);
    CompletionQueue::moderate(&passive.cq, 10 * SECOND, 8).unwrap();
    CompletionQueue::arm(&passive.cq, Arm::Any);
    passive.queue_pair.post_receive(1, &[]).unwrap();
    QueuePair::post(&active.queue_pair, 2, &[], Flags::empty(), Post::Send(None)).unwrap();
    kernel.flush_dpcs();
    assert_eq!(NOTIFIED.load(Ordering::SeqCst), before, "not held back");
    // Each of the new intervals would be over later than the first.
    for seconds in [9, 8, 7, 6, 5] {
        kernel.advance(Duration::from_secs(2));
        CompletionQueue::moderate(&passive.cq, seconds * SECOND, 8).unwrap();
        kernel.flush_dpcs();
    }
    assert_eq!(NOTIFIED.load(Ordering::SeqCst), before + 1, "10 seconds are over");
}
