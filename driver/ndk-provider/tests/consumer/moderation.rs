//! NDK_CQ: interrupt moderation (NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION; ndkpi.md, section 4.2). The clock is held, and moves
//! when the test says.

use std::time::Duration;

use ndk_abi::{
    ndkpi::{NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_ERRORS, NDK_CQ_NOTIFY_SOLICITED},
    status::{STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_INVALID_PARAMETER_MIX, STATUS_SUCCESS},
};

use crate::kit::{Cq, Options, Pair, Unconnected, World};

pub(crate) const UNLIMITED: u32 = u32::MAX;
/// What `Scene` makes.
pub(crate) const DEPTH: u32 = 8;

/// A connection whose passive side's receive queue is moderated.
pub(crate) struct Scene {
    pub(crate) world: World,
    pub(crate) pair: Pair,
    pub(crate) cq: Cq,
}

impl Scene {
    pub(crate) fn new(interval: u32, count: u32) -> Self {
        let world = World::new();
        world.session.hold_clock();
        let pair = Pair::with(&world.adapter, Options { cq_depth: DEPTH, ..Options::default() });
        let cq = pair.passive.receive_cq;
        assert_eq!(cq.moderate(interval, count), STATUS_SUCCESS);
        Self { world, pair, cq }
    }

    pub(crate) fn armed(interval: u32, count: u32) -> Self {
        let scene = Self::new(interval, count);
        scene.cq.arm(NDK_CQ_NOTIFY_ANY);
        scene
    }

    /// One completion.
    pub(crate) fn message(&self) {
        self.pair.message(1, false);
        self.world.flush_dpcs();
    }

    pub(crate) fn pass(&self, microseconds: u64) {
        self.world.session.advance(Duration::from_micros(microseconds));
        self.world.flush_dpcs();
    }

    /// Checks how often the consumer has been notified so far.
    #[track_caller]
    pub(crate) fn expect(&self, notifications: usize) {
        self.world.flush_dpcs();
        assert_eq!(self.cq.notified.count(), notifications);
    }

    pub(crate) fn timers(&self) -> usize {
        self.world.session.ledger().set_timers
    }

    #[track_caller]
    pub(crate) fn close(self) {
        self.pair.close();
        // The listener's wire may set its timer while it closes, and cancels it.
        self.world.flush_dpcs();
        assert_eq!(self.timers(), 0);
    }
}

#[test]
fn both_limits_may_not_be_missing() {
    let scene = Scene::new(0, 0);
    for (interval, count, status) in [
        (UNLIMITED, UNLIMITED, STATUS_INVALID_PARAMETER_MIX),
        // A count above the depth is none.
        (UNLIMITED, DEPTH + 1, STATUS_INVALID_PARAMETER_MIX),
        (UNLIMITED, DEPTH, STATUS_SUCCESS),
        (UNLIMITED, 1, STATUS_SUCCESS),
        (UNLIMITED, 0, STATUS_SUCCESS),
        (0, UNLIMITED, STATUS_SUCCESS),
        (1, UNLIMITED, STATUS_SUCCESS),
        (1, DEPTH + 1, STATUS_SUCCESS),
    ] {
        assert_eq!(scene.cq.moderate(interval, count), status, "{interval}, {count}");
    }
    scene.close();
}

/// What is refused changes nothing.
#[test]
fn a_refused_change_leaves_the_settings() {
    let scene = Scene::armed(UNLIMITED, 2);
    assert_eq!(scene.cq.moderate(UNLIMITED, UNLIMITED), STATUS_INVALID_PARAMETER_MIX);
    scene.message();
    scene.expect(0);
    scene.message();
    scene.expect(1);
    scene.close();
}

#[test]
fn an_interval_of_0_and_counts_of_0_and_1_hold_nothing_back() {
    for (interval, count) in [(0, 0), (0, 5), (0, UNLIMITED), (1000, 0), (1000, 1), (UNLIMITED, 0), (UNLIMITED, 1)] {
        let scene = Scene::armed(interval, count);
        scene.message();
        scene.expect(1);
        scene.close();
    }
}

/// The default is no moderation.
#[test]
fn a_new_queue_is_not_moderated() {
    let world = World::new();
    world.session.hold_clock();
    let pair = Pair::new(&world.adapter);
    pair.passive.receive_cq.arm(NDK_CQ_NOTIFY_ANY);
    pair.message(1, false);
    pair.passive.receive_cq.notified.wait_for(1);
    pair.close();
}

#[test]
fn without_an_interval_the_count_decides() {
    let scene = Scene::armed(UNLIMITED, 3);
    (0..2).for_each(|_| scene.message());
    scene.pass(u64::from(u32::MAX));
    scene.expect(0);
    assert_eq!(scene.timers(), 0);
    scene.message();
    scene.expect(1);
    scene.close();
}

#[test]
fn without_a_count_the_interval_decides() {
    for count in [UNLIMITED, DEPTH + 1] {
        let scene = Scene::armed(100, count);
        (0..4).for_each(|_| scene.message());
        scene.pass(99);
        scene.expect(0);
        scene.pass(1);
        scene.expect(1);
        assert_eq!(scene.timers(), 0);
        scene.close();
    }
}

// Shows S308.
#[test]
fn the_limit_reached_first_decides() {
    let scene = Scene::armed(100, 3);
    (0..2).for_each(|_| scene.message());
    scene.pass(100);
    scene.expect(1);
    assert_eq!(scene.cq.poll(8).len(), 2);
    scene.cq.arm(NDK_CQ_NOTIFY_ANY);
    (0..3).for_each(|_| scene.message());
    scene.expect(2);
    // Its time is over: it must not end the next wait early.
    assert_eq!(scene.timers(), 0);
    scene.close();
}

/// The interval runs from the first completion on.
// Shows S308.
#[test]
fn later_completions_do_not_postpone_the_notification() {
    let scene = Scene::armed(100, UNLIMITED);
    for _ in 0..4 {
        scene.message();
        scene.pass(24);
    }
    scene.expect(0);
    scene.pass(4);
    scene.expect(1);
    scene.close();
}

/// The consumer polls the queue empty while the notification is held back: the next completion takes the notification.
#[test]
fn nothing_is_notified_that_was_polled_meanwhile() {
    let scene = Scene::armed(100, 3);
    scene.message();
    scene.pass(50);
    assert_eq!(scene.cq.poll(8).len(), 1);
    scene.pass(1000);
    scene.expect(0);
    // Still armed, and what was polled does not count.
    (0..2).for_each(|_| scene.message());
    scene.pass(99);
    scene.expect(0);
    scene.pass(1);
    scene.expect(1);
    scene.close();
}

/// Completions that were there before the arm (rule 3 of the arm) are held back as well, from the arm on.
#[test]
fn an_arm_that_finds_completions_is_moderated_too() {
    let scene = Scene::new(100, 3);
    scene.message();
    scene.pass(500);
    scene.cq.arm(NDK_CQ_NOTIFY_ANY);
    scene.pass(99);
    scene.expect(0);
    scene.pass(1);
    scene.expect(1);
    // As many as the count: at once.
    (0..3).for_each(|_| scene.message());
    scene.cq.arm(NDK_CQ_NOTIFY_ANY);
    scene.expect(2);
    scene.close();
}

/// A failed completion is not held back: it may be the last, so that the count is never reached.
// Shows S309.
#[test]
fn failed_completions_are_not_held_back() {
    for arm in [NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_SOLICITED] {
        let world = World::new();
        let side = Unconnected::new(&world.adapter, 1, Options::default());
        assert_eq!(side.receive_cq.moderate(UNLIMITED, 100), STATUS_SUCCESS);
        side.receive_cq.arm(arm);
        assert_eq!(side.qp.receive(7, &[]), STATUS_SUCCESS);
        side.qp.flush();
        side.receive_cq.notified.wait_for(1);
        assert_eq!(side.receive_cq.wait_one().Status, STATUS_CANCELLED);
        side.close();
    }
}

/// A queue armed SOLICITED waits for a solicited completion first; then all completions count.
#[test]
fn solicited_completions_are_held_back() {
    let scene = Scene::new(100, 4);
    scene.cq.arm(NDK_CQ_NOTIFY_SOLICITED);
    (0..2).for_each(|_| scene.message());
    assert_eq!(scene.timers(), 0);
    scene.pair.message(2, true);
    scene.expect(0);
    scene.message();
    scene.expect(1);
    scene.cq.arm(NDK_CQ_NOTIFY_SOLICITED);
    scene.pair.message(2, true);
    scene.expect(1);
    scene.pass(100);
    scene.expect(2);
    scene.close();
}

/// Rule 8 of the arm: the queue is dead, there is nothing to wait for.
// Shows S309.
#[test]
fn an_overrun_is_not_held_back() {
    let scene = Scene::new(100, UNLIMITED);
    (0..DEPTH).for_each(|_| scene.message());
    scene.cq.arm(NDK_CQ_NOTIFY_ERRORS);
    scene.expect(0);
    scene.message();
    assert_eq!(scene.cq.notified.wait_for(1)[0].status, STATUS_BUFFER_OVERFLOW);
    scene.close();
}

/// The consumer learns of the overrun when it arms the queue, after the completions are polled.
// Shows S309.
#[test]
fn an_overrun_before_the_arm_is_not_held_back() {
    let scene = Scene::new(100, UNLIMITED);
    (0..=DEPTH).for_each(|_| scene.message());
    assert_eq!(scene.cq.poll(2 * DEPTH as usize).len(), DEPTH as usize);
    scene.cq.arm(NDK_CQ_NOTIFY_ERRORS);
    scene.expect(1);
    assert_eq!(scene.cq.notified.wait_for(1)[0].status, STATUS_BUFFER_OVERFLOW);
    scene.close();
}

/// The next completion would be an overrun.
// Shows S309.
#[test]
fn a_full_queue_is_not_held_back() {
    let scene = Scene::armed(100, UNLIMITED);
    (1..DEPTH).for_each(|_| scene.message());
    scene.expect(0);
    scene.message();
    scene.expect(1);
    scene.close();
}
