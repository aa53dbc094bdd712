//! NDK_CQ: arming and notification, results, resizing, overrun (ndkpi-completion-handling-requirements).

use std::{sync::mpsc, thread};

use ndk_abi::{
    ndkpi::{
        NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_ERRORS, NDK_CQ_NOTIFY_SOLICITED, NDK_OP_FLAG_SILENT_SUCCESS,
        NdkOperationTypeReceive, NdkOperationTypeSend,
    },
    status::{
        STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_INSUFFICIENT_RESOURCES,
        STATUS_INVALID_PARAMETER, STATUS_SUCCESS,
    },
};

use crate::kit::{HeldProcessors, Options, Pair, QpSizes, Unconnected, World, complain};

const ARMS: [u32; 3] = [NDK_CQ_NOTIFY_ERRORS, NDK_CQ_NOTIFY_SOLICITED, NDK_CQ_NOTIFY_ANY];

#[test]
fn depth_is_limited() {
    let world = World::new();
    let most = world.adapter.info().MaxCqDepth;
    world.adapter.create_cq(most).expect("a CQ").close_now();
    assert_eq!(world.adapter.create_cq(most + 1).err(), Some(STATUS_INVALID_PARAMETER));
    assert_eq!(world.adapter.create_cq(u32::MAX).err(), Some(STATUS_INVALID_PARAMETER));
}

/// Section 4.1, merge table: the second arm before the first is satisfied keeps the wider of the two.
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
            world.settle();
            assert_eq!(cq.notified.count() - before, usize::from(any), "{first} then {second}, plain");
            pair.message(2, true);
            world.settle();
            assert_eq!(cq.notified.count() - before, usize::from(solicited), "{first} then {second}, solicited");
            assert_eq!(cq.poll(4).len(), 2);
        }
    }
    pair.close();
}

#[test]
fn no_callback_without_an_arm() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    (0..5).for_each(|context| pair.message(context, true));
    world.settle();
    assert_eq!(pair.passive.receive_cq.notified.count(), 0);
    pair.close();
}

#[test]
fn one_callback_for_each_arm() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = &pair.passive.receive_cq;
    cq.arm(NDK_CQ_NOTIFY_ANY);
    (0..5).for_each(|context| {
        pair.message(context, true);
        world.settle();
    });
    assert_eq!(cq.notified.count(), 1);
    // Four were queued after that callback: the arm is satisfied at once (rule 3).
    cq.arm(NDK_CQ_NOTIFY_ANY);
    world.settle();
    assert_eq!(cq.notified.count(), 2);
    // All were there at the last callback: no callback that finds nothing new.
    cq.arm(NDK_CQ_NOTIFY_ANY);
    world.settle();
    assert_eq!(cq.notified.count(), 2);
    pair.message(5, false);
    world.settle();
    assert_eq!(cq.notified.count(), 3);
    assert!(cq.notified.calls().iter().all(|call| call.status == STATUS_SUCCESS));
    assert_eq!(cq.poll(16).len(), 6);
    pair.close();
}

#[test]
fn entries_that_were_polled_satisfy_nothing() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = &pair.passive.receive_cq;
    pair.message(1, true);
    cq.wait_one();
    for arm in ARMS {
        cq.arm(arm);
        world.settle();
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
    world.settle();
    assert_eq!(cq.notified.count(), 0);
    pair.message(2, true);
    world.settle();
    assert_eq!(cq.notified.count(), 1);
    // Between the two messages of this kind there is no arm.
    pair.message(3, true);
    pair.message(4, false);
    cq.arm(NDK_CQ_NOTIFY_SOLICITED);
    world.settle();
    assert_eq!(cq.notified.count(), 2);
    pair.close();
}

/// NDK_FN_SEND: requests that complete with an error always match NDK_CQ_NOTIFY_SOLICITED.
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
#[test]
fn errors_of_requests_do_not_satisfy_an_errors_arm() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options::default());
    side.receive_cq.arm(NDK_CQ_NOTIFY_ERRORS);
    assert_eq!(side.qp.receive(7, &[]), STATUS_SUCCESS);
    side.qp.flush();
    world.settle();
    assert_eq!(side.receive_cq.notified.count(), 0);
    side.close();
}

/// A callback that arms and causes a completion is called again only after it has returned; the waiter sees to that.
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
    world.settle();
    assert_eq!(cq.notified.count(), 51);
    assert_eq!(cq.poll(64).len(), 51);
    pair.close();
}

/// Rule 3 and its purpose (7b): an entry between the last poll and the arm still gives a callback. A consumer that only
/// ever polls in the callback gets everything.
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
    world.settle();
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
    world.settle();
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

#[test]
fn resize_keeps_what_is_queued() {
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { cq_depth: 8, ..Options::default() });
    let cq = &pair.passive.receive_cq;
    (0..8).for_each(|context| pair.message(context, false));
    world.settle();
    assert_eq!(cq.resize(7).wait(), STATUS_BUFFER_OVERFLOW);
    assert_eq!(cq.resize(0).wait(), STATUS_INVALID_PARAMETER);
    assert_eq!(cq.resize(world.adapter.info().MaxCqDepth + 1).wait(), STATUS_INVALID_PARAMETER);
    let fault = world.session.fail_allocation(1);
    assert_eq!(cq.resize(64).wait(), STATUS_INSUFFICIENT_RESOURCES);
    drop(fault);
    cq.resize(10).succeed();
    (8..10).for_each(|context| pair.message(context, false));
    assert_eq!(cq.wait(3).len(), 3);
    cq.resize(7).succeed();
    let contexts: Vec<_> = cq.wait(7).iter().map(|result| result.RequestContext.addr()).collect();
    assert_eq!(contexts, (3..10).collect::<Vec<_>>());
    pair.close();
}

/// The size is what resize says, not more: the entry beyond it overruns.
#[test]
fn resize_sets_the_size_that_overruns() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = &pair.passive.receive_cq;
    cq.resize(2).succeed();
    cq.arm(NDK_CQ_NOTIFY_ERRORS);
    (0..3).for_each(|context| pair.message(context, false));
    assert_eq!(cq.notified.wait_for(1)[0].status, STATUS_BUFFER_OVERFLOW);
    pair.close();
}

#[test]
fn resize_while_traffic_goes_on() {
    const MESSAGES: usize = 1500;
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let cq = pair.passive.receive_cq;
    let resizer = thread::spawn(move || {
        (0..300).for_each(|round| {
            // Never below what may be queued: the receive queue's depth.
            assert_eq!(cq.resize(64 + round % 200).wait(), STATUS_SUCCESS);
            thread::yield_now();
        });
    });
    for context in 0..MESSAGES {
        pair.message(context, false);
        assert_eq!(cq.wait_one().RequestContext.addr(), context);
    }
    resizer.join().expect("the resizer");
    pair.close();
}

/// NDK_FN_CQ_NOTIFICATION_CALLBACK: an overrun is reported to any arm, kills the queue and the queue pairs on it.
#[test]
fn overrun_kills_the_queue_and_its_queue_pairs() {
    for arm in ARMS {
        let world = World::new();
        let pair = Pair::with(&world.adapter, Options { cq_depth: 2, ..Options::default() });
        let cq = &pair.passive.receive_cq;
        (0..2).for_each(|context| pair.message(context, false));
        world.settle();
        if arm != NDK_CQ_NOTIFY_ERRORS {
            // What is there already has been notified of.
            cq.arm(NDK_CQ_NOTIFY_ANY);
            cq.notified.wait_for(1);
        }
        let before = cq.notified.count();
        cq.arm(arm);
        pair.message(2, false);
        let calls = cq.notified.wait_for(before + 1);
        assert_eq!(calls[before].status, STATUS_BUFFER_OVERFLOW);
        pair.assert_aborted();
        // What was there before can be polled; nothing comes after it, not even what is flushed.
        assert_eq!(cq.wait(2).len(), 2);
        pair.passive.qp.flush();
        world.assert_empty(cq);
        // The failure is told once.
        cq.arm(NDK_CQ_NOTIFY_ANY);
        world.settle();
        assert_eq!(cq.notified.count(), before + 1);
        assert_eq!(world.provider.counters().CQError, 1);
        pair.close();
    }
}

/// A queue that nobody armed tells of its death when it is armed.
#[test]
fn overrun_is_told_to_a_later_arm() {
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { cq_depth: 1, ..Options::default() });
    (0..2).for_each(|context| pair.message(context, false));
    pair.assert_aborted();
    assert_eq!(pair.passive.receive_cq.notified.count(), 0);
    pair.passive.receive_cq.arm(NDK_CQ_NOTIFY_ERRORS);
    assert_eq!(pair.passive.receive_cq.notified.wait_for(1)[0].status, STATUS_BUFFER_OVERFLOW);
    pair.close();
}

/// All queue pairs of a dead queue are dead: they take no requests, and end with the first thing that would complete.
#[test]
fn overrun_ends_the_other_queue_pairs_too() {
    let world = World::new();
    let options = Options::default();
    let small = Options { cq_depth: 1, ..options };
    let passive = Unconnected::new(&world.adapter, 2, small);
    let other = Unconnected {
        qp: passive.pd.create_qp(&passive.receive_cq, &passive.initiator_cq, 3, options.sizes).expect("a QP"),
        ..passive
    };
    let one = Pair::of(&world.adapter, Unconnected::new(&world.adapter, 1, options), passive, options.limits);
    let two = Pair::of(&world.adapter, Unconnected::new(&world.adapter, 4, options), other, options.limits);
    assert_eq!(two.passive.qp.receive(0, &[]), STATUS_SUCCESS);
    (0..2).for_each(|context| one.message(context, false));
    one.assert_aborted();
    assert_eq!(two.passive.qp.receive(1, &[]), STATUS_CONNECTION_INVALID);
    assert_eq!(two.passive.qp.send(2, &[], 0), STATUS_CONNECTION_INVALID);
    assert_eq!(two.active.qp.send(3, &[], 0), STATUS_SUCCESS);
    two.assert_aborted();
    two.passive.connector.close_now();
    two.passive.qp.close_now();
    two.active.close();
    two.listener.close_now();
    one.close();
}

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
    world.settle();
    assert_eq!(cq.notified.count(), 0);
    side.initiator_cq.close_now();
    side.pd.close_now();
}

/// Rule 10: a close stays pending until a running callback has returned.
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
#[test]
fn hot_paths_allocate_nothing() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    pair.message(0, false);
    pair.passive.receive_cq.wait_one();
    world.settle();
    let before = world.session.ledger().allocation_count;
    for context in 0..100 {
        pair.passive.receive_cq.arm(NDK_CQ_NOTIFY_ANY);
        pair.message(context, context % 2 == 0);
        pair.passive.receive_cq.wait_one();
    }
    world.settle();
    assert_eq!(world.session.ledger().allocation_count, before);
    pair.close();
}

/// The queue pairs of a dead queue do not take new requests.
#[test]
fn posts_are_refused_after_an_overrun() {
    let world = World::new();
    let sizes = QpSizes { requests: 4, ..QpSizes::default() };
    let pair = Pair::with(&world.adapter, Options { cq_depth: 1, sizes, ..Options::default() });
    assert_eq!(pair.active.qp.write(1, &[], 0, 0, 0), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.write(2, &[], 0, 0, 0), STATUS_SUCCESS);
    pair.assert_aborted();
    assert_eq!(pair.active.qp.write(3, &[], 0, 0, 0), STATUS_CONNECTION_INVALID);
    assert_eq!(pair.active.expect(1, STATUS_SUCCESS).RequestContext.addr(), 1);
    pair.close();
}
