//! NDK_CQ: what can happen while a notification is held back (NDK_FN_CONTROL_CQ_INTERRUPT_MODERATION). `moderation.rs` tests the holding
//! back itself.

use std::{sync::mpsc, thread, time::Duration};

use ndk_abi::{
    ndkpi::{NDK_CQ_NOTIFY_ANY, NDK_OP_FLAG_SILENT_SUCCESS},
    status::STATUS_SUCCESS,
};

use crate::kit::{HeldProcessors, Options, Pair, Unconnected, World};
use crate::moderation::{DEPTH, Scene, UNLIMITED};

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

/// The depth has sunk below the count: the full queue notifies.
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
    world.flush_dpcs();
    assert_eq!(world.session.ledger().set_timers, 1);
    pair.active.connector.close_now();
    pair.passive.connector.close_now();
    pair.passive.qp.close_now();
    world.flush_dpcs();
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
    world.flush_dpcs();
    pair.active.connector.close_now();
    pair.passive.connector.close_now();
    pair.passive.qp.close_now();
    world.flush_dpcs();
    let held = HeldProcessors::new();
    world.session.advance(Duration::from_micros(100));
    let close = cq.close();
    assert!(close.pended());
    drop(held);
    close.succeed();
    world.flush_dpcs();
    assert_eq!(cq.notified.count(), 0);
    pair.passive.initiator_cq.close_now();
    pair.passive.pd.close_now();
    pair.active.without_connector().close();
    pair.listener.close_now();
}

/// On the real clock: a consumer that polls only in the callback gets all messages, whether the interval or the count ends the wait.
// Shows S308.
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
        world.flush_dpcs();
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
    world.flush_dpcs();
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
