//! NDK_CQ: interrupt moderation (NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION; ndkpi.md, section 4.2). The clock is held, and moves
//! when the test says.

use std::{sync::mpsc, thread, time::Duration};

use ndk_abi::{
    ndkpi::{NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_ERRORS, NDK_CQ_NOTIFY_SOLICITED, NDK_OP_FLAG_SILENT_SUCCESS},
    status::{STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_INVALID_PARAMETER_MIX, STATUS_SUCCESS},
};

use crate::kit::{Cq, HeldProcessors, Options, Pair, Unconnected, World};

const UNLIMITED: u32 = u32::MAX;
/// What `Scene` makes.
const DEPTH: u32 = 8;

/// A connection whose passive side's receive queue is moderated.
struct Scene {
    world: World,
    pair: Pair,
    cq: Cq,
}

impl Scene {
    fn new(interval: u32, count: u32) -> Self {
        let world = World::new();
        world.session.hold_clock();
        let pair = Pair::with(&world.adapter, Options { cq_depth: DEPTH, ..Options::default() });
        let cq = pair.passive.receive_cq;
        assert_eq!(cq.moderate(interval, count), STATUS_SUCCESS);
        Self { world, pair, cq }
    }

    fn armed(interval: u32, count: u32) -> Self {
        let scene = Self::new(interval, count);
        scene.cq.arm(NDK_CQ_NOTIFY_ANY);
        scene
    }

    /// One completion.
    fn message(&self) {
        self.pair.message(1, false);
        self.world.settle();
    }

    fn pass(&self, microseconds: u64) {
        self.world.session.advance(Duration::from_micros(microseconds));
        self.world.settle();
    }

    /// Checks how often the consumer has been notified so far.
    #[track_caller]
    fn expect(&self, notifications: usize) {
        self.world.settle();
        assert_eq!(self.cq.notified.count(), notifications);
    }

    fn timers(&self) -> usize {
        self.world.session.ledger().set_timers
    }

    #[track_caller]
    fn close(self) {
        self.pair.close();
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

/// The notification of a queue that has been polled empty meanwhile would find nothing: it is kept for the next completion.
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

/// A failed completion may be the last one for long: nobody may come to make up the number.
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
        // Nor is what comes after one that has not been polled.
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

/// The next completion would be an overrun.
#[test]
fn a_full_queue_is_not_held_back() {
    let scene = Scene::armed(100, UNLIMITED);
    (1..DEPTH).for_each(|_| scene.message());
    scene.expect(0);
    scene.message();
    scene.expect(1);
    scene.close();
}

/// The second arm, while the first is satisfied but held back, is merged with it: one notification.
#[test]
fn an_arm_while_one_is_held_back_is_merged() {
    let scene = Scene::armed(100, UNLIMITED);
    scene.message();
    scene.pass(50);
    for arm in crate::cq::ARMS {
        scene.cq.arm(arm);
    }
    scene.pass(49);
    scene.expect(0);
    scene.pass(1);
    scene.expect(1);
    scene.message();
    scene.pass(1000);
    scene.expect(1);
    scene.close();
}

#[test]
fn new_settings_let_go_what_is_held_back() {
    // No moderation, a count that is reached, an interval that is shorter: part of it may be over.
    for (interval, count) in [(0, 0), (100, 1), (UNLIMITED, 2), (10, UNLIMITED)] {
        let scene = Scene::armed(100, UNLIMITED);
        (0..2).for_each(|_| scene.message());
        scene.pass(50);
        assert_eq!(scene.cq.moderate(interval, count), STATUS_SUCCESS);
        scene.expect(1);
        scene.close();
    }
}

/// The latest settings win, but must not delay a notification for ever.
#[test]
fn new_settings_do_not_postpone_what_is_held_back() {
    let scene = Scene::armed(100, UNLIMITED);
    scene.message();
    for _ in 0..9 {
        scene.pass(10);
        assert_eq!(scene.cq.moderate(1000, UNLIMITED), STATUS_SUCCESS);
        assert_eq!(scene.cq.moderate(100, UNLIMITED), STATUS_SUCCESS);
        assert_eq!(scene.cq.moderate(UNLIMITED, 8), STATUS_SUCCESS);
    }
    scene.expect(0);
    scene.pass(10);
    scene.expect(1);
    scene.close();
}

/// Without an interval there is no timer: the new settings have to start one.
#[test]
fn an_interval_set_later_is_kept() {
    let scene = Scene::armed(UNLIMITED, 4);
    scene.message();
    scene.pass(1000);
    assert_eq!(scene.cq.moderate(100, 4), STATUS_SUCCESS);
    scene.pass(99);
    scene.expect(0);
    scene.pass(1);
    scene.expect(1);
    scene.close();
}

/// The count cannot be reached any more: the full queue notifies.
#[test]
fn a_queue_made_smaller_than_the_count_notifies() {
    let scene = Scene::armed(UNLIMITED, DEPTH);
    (0..4).for_each(|_| scene.message());
    scene.cq.resize(5).succeed();
    scene.expect(0);
    scene.cq.resize(4).succeed();
    scene.expect(1);
    scene.close();
}

/// A pending timer neither delays a close nor is left over.
#[test]
fn close_does_not_wait_for_the_interval() {
    let world = World::new();
    world.session.hold_clock();
    let pair = Pair::new(&world.adapter);
    let cq = pair.passive.receive_cq;
    assert_eq!(cq.moderate(u32::MAX - 1, UNLIMITED), STATUS_SUCCESS);
    cq.arm(NDK_CQ_NOTIFY_ANY);
    pair.message(1, false);
    world.settle();
    assert_eq!(world.session.ledger().set_timers, 1);
    pair.active.connector.close_now();
    pair.passive.connector.close_now();
    pair.passive.qp.close_now();
    world.settle();
    let close = cq.close();
    assert!(!close.pended(), "nothing holds it");
    assert_eq!((cq.notified.count(), world.session.ledger().set_timers), (0, 0));
    pair.passive.initiator_cq.close_now();
    pair.passive.pd.close_now();
    pair.active.without_connector().close();
    pair.listener.close_now();
}

/// The timer has expired, its DPC waits for a processor: the close ends with it, without a notification.
#[test]
fn close_drops_a_notification_whose_time_has_come() {
    let world = World::new();
    world.session.hold_clock();
    let pair = Pair::new(&world.adapter);
    let cq = pair.passive.receive_cq;
    assert_eq!(cq.moderate(100, UNLIMITED), STATUS_SUCCESS);
    cq.arm(NDK_CQ_NOTIFY_ANY);
    pair.message(1, false);
    world.settle();
    pair.active.connector.close_now();
    pair.passive.connector.close_now();
    pair.passive.qp.close_now();
    world.settle();
    let held = HeldProcessors::new();
    world.session.advance(Duration::from_micros(100));
    let close = cq.close();
    assert!(close.pended());
    drop(held);
    close.succeed();
    world.settle();
    assert_eq!(cq.notified.count(), 0);
    pair.passive.initiator_cq.close_now();
    pair.passive.pd.close_now();
    pair.active.without_connector().close();
    pair.listener.close_now();
}

/// On the real clock: a consumer that polls in the callback only gets everything, whatever ends the waits.
#[test]
fn no_wakeup_is_lost_under_moderation() {
    const MESSAGES: usize = 2000;
    for (interval, count) in [(30, 4), (200, UNLIMITED), (2, 64)] {
        let world = World::new();
        let pair = Pair::new(&world.adapter);
        let cq = pair.passive.receive_cq;
        assert_eq!(cq.moderate(interval, count), STATUS_SUCCESS);
        let (told, tell) = mpsc::channel();
        cq.notified.on_call(move |_| {
            for result in cq.poll(1024) {
                let _gone = told.send(result.RequestContext.addr());
                pair.passive.qp.receive(result.RequestContext.addr() + 32, &[]);
            }
            cq.arm(NDK_CQ_NOTIFY_ANY);
        });
        cq.arm(NDK_CQ_NOTIFY_ANY);
        (0..32).for_each(|context| assert_eq!(pair.passive.qp.receive(context, &[]), STATUS_SUCCESS));
        let sender = thread::spawn(move || {
            let mut sent = 0;
            while sent < MESSAGES {
                if pair.active.qp.send(sent, &[], NDK_OP_FLAG_SILENT_SUCCESS) == STATUS_SUCCESS {
                    sent += 1;
                } else {
                    thread::yield_now();
                }
            }
        });
        for expected in 0..MESSAGES {
            assert_eq!(tell.recv_timeout(crate::kit::LIMIT).expect("a message"), expected);
        }
        sender.join().expect("the sender");
        println!("{interval} us, {count}: {} notifications", cq.notified.count());
        // The callback uses the queue, so it must not be under way when that is closed.
        cq.notified.on_call(|_| ());
        world.settle();
        pair.close();
    }
}

/// On the real clock: closes that cross expiring timers. The ledger sees what is left over.
#[test]
fn closes_cross_expiring_timers() {
    let world = World::new();
    for round in 0..300 {
        let side = Unconnected::new(&world.adapter, 1, Options::default());
        assert_eq!(side.receive_cq.moderate(1 + round % 60, UNLIMITED), STATUS_SUCCESS);
        let peer = Unconnected::new(&world.adapter, 2, Options::default());
        let pair = Pair::of(&world.adapter, peer, side, (4, 4));
        pair.passive.receive_cq.arm(NDK_CQ_NOTIFY_ANY);
        pair.message(1, false);
        for _ in 0..round % 7 {
            thread::yield_now();
        }
        pair.close();
    }
    world.settle();
    assert_eq!(world.session.ledger().set_timers, 0);
}

/// Holding back allocates nothing.
#[test]
fn moderation_allocates_nothing() {
    let scene = Scene::armed(100, 4);
    scene.message();
    scene.pass(100);
    let before = scene.world.session.ledger().allocation_count;
    for _ in 0..20 {
        scene.cq.poll(8);
        scene.cq.arm(NDK_CQ_NOTIFY_ANY);
        scene.message();
        assert_eq!(scene.cq.moderate(100, 4), STATUS_SUCCESS);
        scene.pass(100);
    }
    assert_eq!(scene.world.session.ledger().allocation_count, before);
    assert_eq!(scene.cq.notified.count(), 21);
    scene.close();
}
