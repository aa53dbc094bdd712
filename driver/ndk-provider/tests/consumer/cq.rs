//! NDK_CQ: arming and notification, results, resizing, overrun (ndkpi-completion-handling-requirements).

use std::{sync::mpsc, thread};

use ndk_abi::{
    ndkpi::{
        NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_ERRORS, NDK_CQ_NOTIFY_SOLICITED, NDK_OP_FLAG_SILENT_SUCCESS,
        NdkOperationTypeReceive, NdkOperationTypeSend,
    },
    status::{STATUS_CANCELLED, STATUS_SUCCESS},
};

use crate::kit::{HeldProcessors, Options, Pair, Unconnected, World, complain};

pub(crate) const ARMS: [u32; 3] = [NDK_CQ_NOTIFY_ERRORS, NDK_CQ_NOTIFY_SOLICITED, NDK_CQ_NOTIFY_ANY];

/// Section 4.1, merge table: the second arm before the first is satisfied keeps the wider of the two.
// Shows S305.
#[test]
fn arms_merge_by_the_table() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = &pair.passive.receive_cq;
    for first in ARMS {
        for second in ARMS {
            // ERRORS, left over from the round before, changes no merge.
            let before = cq.notified.count();
            let any = first == NDK_CQ_NOTIFY_ANY || second == NDK_CQ_NOTIFY_ANY;
            let solicited = any || first == NDK_CQ_NOTIFY_SOLICITED || second == NDK_CQ_NOTIFY_SOLICITED;
            cq.arm(first);
            cq.arm(second);
            pair.message(1, false);
            world.flush_dpcs();
            assert_eq!(cq.notified.count() - before, usize::from(any), "{first} then {second}, plain");
            pair.message(2, true);
            world.flush_dpcs();
            assert_eq!(cq.notified.count() - before, usize::from(solicited), "{first} then {second}, solicited");
            assert_eq!(cq.poll(4).len(), 2);
        }
    }
    pair.close();
}

// Shows S301.
#[test]
fn no_callback_without_an_arm() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    (0..5).for_each(|context| pair.message(context, true));
    world.flush_dpcs();
    assert_eq!(pair.passive.receive_cq.notified.count(), 0);
    pair.close();
}

// Shows S301.
#[test]
fn one_callback_for_each_arm() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = &pair.passive.receive_cq;
    cq.arm(NDK_CQ_NOTIFY_ANY);
    (0..5).for_each(|context| {
        pair.message(context, true);
        world.flush_dpcs();
    });
    assert_eq!(cq.notified.count(), 1);
    // Four were queued after that callback: the arm is satisfied at once (rule 3).
    cq.arm(NDK_CQ_NOTIFY_ANY);
    world.flush_dpcs();
    assert_eq!(cq.notified.count(), 2);
    // All were there at the last callback: no callback that finds nothing new.
    cq.arm(NDK_CQ_NOTIFY_ANY);
    world.flush_dpcs();
    assert_eq!(cq.notified.count(), 2);
    pair.message(5, false);
    world.flush_dpcs();
    assert_eq!(cq.notified.count(), 3);
    assert!(cq.notified.calls().iter().all(|call| call.status == STATUS_SUCCESS));
    assert_eq!(cq.poll(16).len(), 6);
    pair.close();
}

// Shows S303.
#[test]
fn entries_that_were_polled_satisfy_nothing() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = &pair.passive.receive_cq;
    pair.message(1, true);
    cq.wait_one();
    for arm in ARMS {
        cq.arm(arm);
        world.flush_dpcs();
        assert_eq!(cq.notified.count(), 0);
    }
    pair.close();
}

#[test]
fn a_solicited_arm_is_satisfied_at_once_only_by_a_solicited_entry() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = &pair.passive.receive_cq;
    pair.message(1, false);
    cq.arm(NDK_CQ_NOTIFY_SOLICITED);
    world.flush_dpcs();
    assert_eq!(cq.notified.count(), 0);
    pair.message(2, true);
    world.flush_dpcs();
    assert_eq!(cq.notified.count(), 1);
    // Between the two messages of this kind there is no arm.
    pair.message(3, true);
    pair.message(4, false);
    cq.arm(NDK_CQ_NOTIFY_SOLICITED);
    world.flush_dpcs();
    assert_eq!(cq.notified.count(), 2);
    pair.close();
}

/// NDK_FN_SEND: requests that complete with an error always match NDK_CQ_NOTIFY_SOLICITED.
// Shows S304.
#[test]
fn errors_satisfy_a_solicited_arm() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options::default());
    side.receive_cq.arm(NDK_CQ_NOTIFY_SOLICITED);
    assert_eq!(side.qp.receive(7, &[]), STATUS_SUCCESS);
    side.qp.flush();
    side.receive_cq.notified.wait_for(1);
    assert_eq!(side.receive_cq.wait_one().Status, STATUS_CANCELLED);
    side.close();
}

/// NDK_CQ_NOTIFY_ERRORS means errors of the queue, not of requests.
// Shows S304.
#[test]
fn errors_of_requests_do_not_satisfy_an_errors_arm() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options::default());
    side.receive_cq.arm(NDK_CQ_NOTIFY_ERRORS);
    assert_eq!(side.qp.receive(7, &[]), STATUS_SUCCESS);
    side.qp.flush();
    world.flush_dpcs();
    assert_eq!(side.receive_cq.notified.count(), 0);
    side.close();
}

/// A callback that arms and causes a completion is called again only after it has returned; the waiter sees to that.
// Shows S306.
#[test]
fn callbacks_are_serialised() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = pair.passive.receive_cq;
    let (told, tell) = mpsc::channel();
    cq.notified.on_call(move |_| {
        if cq.notified.count() <= 50 {
            cq.arm(NDK_CQ_NOTIFY_ANY);
            pair.message(1, false);
            // Time for another processor to make a mistake.
            thread::yield_now();
        } else {
            let _gone = told.send(());
        }
    });
    cq.arm(NDK_CQ_NOTIFY_ANY);
    pair.message(0, false);
    tell.recv_timeout(crate::kit::LIMIT).expect("51 callbacks");
    world.flush_dpcs();
    assert_eq!(cq.notified.count(), 51);
    assert_eq!(cq.poll(64).len(), 51);
    pair.close();
}

/// Rule 3 and its purpose (7b): an entry between the last poll and the arm still gives a callback. A consumer that only
/// ever polls in the callback gets everything.
// Shows S302.
#[test]
fn no_wakeup_is_lost_between_poll_and_arm() {
    const MESSAGES: usize = 3000;
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = pair.passive.receive_cq;
    let (told, tell) = mpsc::channel();
    cq.notified.on_call(move |_| {
        // Poll, then arm, and not poll again: the worst order.
        for result in cq.poll(1024) {
            if result.Status != STATUS_SUCCESS {
                complain(format!("{result:?}"));
            }
            let _gone = told.send(result.RequestContext.addr());
            // Keeps the receive queue filled.
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
    // The callback uses the queue, so it must not be under way when that is closed.
    cq.notified.on_call(|_| ());
    world.flush_dpcs();
    pair.close();
}

#[test]
fn both_ways_to_poll_take_from_one_queue() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    (10..14).for_each(|context| pair.message(context, false));
    assert_eq!(pair.active.qp.send(20, &[], 0), STATUS_SUCCESS);
    assert_eq!(pair.passive.qp.receive(14, &[]), STATUS_SUCCESS);
    let sent = pair.active.expect(20, STATUS_SUCCESS);
    assert_eq!((sent.Type, sent.QPContext.addr()), (NdkOperationTypeSend, Pair::ACTIVE));
    world.flush_dpcs();
    assert!(pair.passive.receive_cq.results(0).is_empty());
    let plain = pair.passive.receive_cq.results(2);
    let extended = pair.passive.receive_cq.poll(2);
    let rest = pair.passive.receive_cq.results(16);
    let contexts: Vec<_> = plain.iter().chain(&rest).map(|result| result.RequestContext.addr()).collect();
    assert_eq!(contexts, [10, 11, 14]);
    assert!(plain.iter().all(|result| result.QPContext.addr() == Pair::PASSIVE));
    for (result, context) in extended.iter().zip([12, 13]) {
        assert_eq!(result.Type, NdkOperationTypeReceive);
        assert_eq!((result.RequestContext.addr(), result.QPContext.addr()), (context, Pair::PASSIVE));
        assert_eq!((result.BytesTransferred, result.TypeSpecificCompletionOutput), (0, 0));
    }
    pair.close();
}

// Shows S307.
#[test]
fn close_drops_a_notification_that_is_due() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options::default());
    let cq = side.receive_cq;
    cq.arm(NDK_CQ_NOTIFY_ANY);
    assert_eq!(side.qp.receive(1, &[]), STATUS_SUCCESS);
    let held = HeldProcessors::new();
    side.qp.flush();
    side.qp.close_now();
    let close = cq.close();
    drop(held);
    close.succeed();
    world.flush_dpcs();
    assert_eq!(cq.notified.count(), 0);
    side.initiator_cq.close_now();
    side.pd.close_now();
}

/// Rule 10: a close stays pending until a running callback has returned.
// Shows S307.
#[test]
fn close_waits_for_the_running_callback() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options::default());
    let cq = side.receive_cq;
    let (entered, enter) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    cq.notified.on_call(move |_| {
        let _gone = entered.send(());
        let _gone = left.recv_timeout(crate::kit::LIMIT);
    });
    cq.arm(NDK_CQ_NOTIFY_ANY);
    assert_eq!(side.qp.receive(1, &[]), STATUS_SUCCESS);
    side.qp.flush();
    enter.recv_timeout(crate::kit::LIMIT).expect("the callback");
    side.qp.close_now();
    let close = cq.close();
    assert!(close.pended() && !close.is_done());
    leave.send(()).expect("the callback waits");
    close.succeed();
    let callback = cq.notified.wait_for(1)[0];
    assert!(callback.ended < Some(close.completion.calls()[0].begun));
    side.initiator_cq.close_now();
    side.pd.close_now();
}

/// Posting, polling and arming allocate nothing.
// Shows S108.
#[test]
fn hot_paths_allocate_nothing() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    pair.message(0, false);
    pair.passive.receive_cq.wait_one();
    world.flush_dpcs();
    let before = world.session.ledger().allocation_count;
    for context in 0..100 {
        pair.passive.receive_cq.arm(NDK_CQ_NOTIFY_ANY);
        pair.message(context, context % 2 == 0);
        pair.passive.receive_cq.wait_one();
    }
    world.flush_dpcs();
    assert_eq!(world.session.ledger().allocation_count, before);
    pair.close();
}
