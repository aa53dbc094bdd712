//! NDK_CQ: arms and callbacks that meet (ndkpi.md, section 4.1, by the numbers of its rules).

use std::{sync::mpsc, thread};

use ndk_abi::{
    ndkpi::{
        NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_SOLICITED, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SILENT_SUCCESS,
    },
    status::{STATUS_BUFFER_OVERFLOW, STATUS_SUCCESS},
};

use crate::kit::{Cq, LIMIT, Pair, World};

/// A queue whose callback, once, stays where it is until it is let go.
struct Stopped {
    cq: Cq,
    leave: mpsc::Sender<()>,
}

impl Stopped {
    /// Arms, and has one message notified of.
    fn new(pair: &Pair) -> Self {
        let cq = pair.passive.receive_cq;
        let (entered, enter) = mpsc::channel();
        let (leave, left) = mpsc::channel();
        let mut stop = Some(left);
        cq.notified.on_call(move |_| {
            if let Some(left) = stop.take() {
                let _gone = entered.send(());
                let _gone = left.recv_timeout(LIMIT);
            }
        });
        cq.arm(NDK_CQ_NOTIFY_ANY);
        pair.message(0, true);
        enter.recv_timeout(LIMIT).expect("the callback");
        Self { cq, leave }
    }

    fn go(&self) {
        self.leave.send(()).expect("the callback waits");
    }
}

/// A message that has been received when this returns.
fn receive(pair: &Pair, context: usize) {
    assert_eq!(pair.passive.qp.receive(context, &[]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(context, &[], NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT), STATUS_SUCCESS);
    pair.active.expect(context, STATUS_SUCCESS);
}

/// Rules 4 and 12: what becomes due while a callback runs is delivered after it has returned; the waiter complains of two
/// at once.
#[test]
fn rule_4_a_notification_waits_for_the_running_callback() {
    for arm in [NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_SOLICITED] {
        let world = World::new();
        let pair = Pair::new(&world.adapter);
        let stopped = Stopped::new(&pair);
        stopped.cq.arm(arm);
        receive(&pair, 1);
        assert_eq!(stopped.cq.notified.count(), 1);
        stopped.go();
        let calls = stopped.cq.notified.wait_for(2);
        assert!(calls[0].ended < Some(calls[1].begun));
        pair.close();
    }
}

/// Rule 3: the entry arrived after the last callback was called, and before it returned.
#[test]
fn rule_3_an_entry_that_came_during_the_callback_satisfies_the_next_arm() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let stopped = Stopped::new(&pair);
    receive(&pair, 1);
    stopped.go();
    world.flush_dpcs();
    assert_eq!(stopped.cq.notified.count(), 1);
    stopped.cq.arm(NDK_CQ_NOTIFY_ANY);
    stopped.cq.notified.wait_for(2);
    pair.close();
}

/// Rule 3 leaves it open; a callback that finds nothing new would be useless.
#[test]
fn rule_3_entries_that_were_there_at_the_callback_satisfy_nothing() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let stopped = Stopped::new(&pair);
    stopped.cq.arm(NDK_CQ_NOTIFY_ANY);
    stopped.go();
    world.flush_dpcs();
    assert_eq!(stopped.cq.notified.count(), 1);
    receive(&pair, 1);
    stopped.cq.notified.wait_for(2);
    pair.close();
}

/// Rule 5, at its edge: the first arm is satisfied, its callback is not called yet. The second arm is for completions after that call.
#[test]
fn rule_5_a_second_arm_while_a_notification_is_due_is_kept() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let stopped = Stopped::new(&pair);
    stopped.cq.arm(NDK_CQ_NOTIFY_ANY);
    receive(&pair, 1);
    stopped.cq.arm(NDK_CQ_NOTIFY_ANY);
    receive(&pair, 2);
    stopped.go();
    world.flush_dpcs();
    // One callback, which both entries were there for.
    assert_eq!(stopped.cq.notified.count(), 2);
    receive(&pair, 3);
    stopped.cq.notified.wait_for(3);
    world.flush_dpcs();
    assert_eq!(stopped.cq.notified.count(), 3);
    pair.close();
}

/// An arm of no type that there is asks for no more than any arm does: for errors of the queue.
#[test]
fn an_unknown_arm_is_one_for_errors() {
    let world = World::new();
    for unknown in [3, 4, 7, u32::MAX] {
        let pair = Pair::new(&world.adapter);
        let cq = pair.passive.receive_cq;
        cq.arm(unknown);
        receive(&pair, 1);
        assert_eq!(cq.notified.count(), 0);
        cq.resize(1).succeed();
        pair.message(2, true);
        assert_eq!(cq.notified.wait_for(1)[0].status, STATUS_BUFFER_OVERFLOW, "{unknown:#x}");
        pair.close();
    }
}

/// Rule 7: older entries that do not match are no reason; one that matches among them is.
#[test]
fn rule_7_a_solicited_arm_looks_for_a_solicited_entry_among_the_older_ones() {
    for (older, satisfied) in [(&[false, false][..], false), (&[false, true, false], true), (&[true], true)] {
        let world = World::new();
        let pair = Pair::new(&world.adapter);
        let cq = &pair.passive.receive_cq;
        for &solicited in older {
            pair.message(1, solicited);
        }
        world.flush_dpcs();
        cq.arm(NDK_CQ_NOTIFY_SOLICITED);
        world.flush_dpcs();
        assert_eq!(cq.notified.count(), usize::from(satisfied), "{older:?}");
        // The solicited one is polled: nothing is left that matches.
        cq.poll(older.len());
        cq.arm(NDK_CQ_NOTIFY_SOLICITED);
        world.flush_dpcs();
        assert_eq!(cq.notified.count(), usize::from(satisfied), "{older:?}");
        pair.close();
    }
}

/// Rules 1 and 7b: a consumer that polls on its own thread (poll, arm, poll, wait) is notified of every completion, with either kind of
/// arm; callbacks run while it polls.
#[test]
fn rule_7b_a_polling_thread_is_woken_for_everything() {
    const MESSAGES: usize = 3000;
    for arm in [NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_SOLICITED] {
        let world = World::new();
        let pair = Pair::new(&world.adapter);
        let cq = pair.passive.receive_cq;
        (0..32).for_each(|context| assert_eq!(pair.passive.qp.receive(context, &[]), STATUS_SUCCESS));
        let sender = thread::spawn(move || {
            let flags = NDK_OP_FLAG_SILENT_SUCCESS | NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT;
            let mut sent = 0;
            while sent < MESSAGES {
                if pair.active.qp.send(sent, &[], flags) == STATUS_SUCCESS {
                    sent += 1;
                } else {
                    thread::yield_now();
                }
            }
        });
        let mut received = 0;
        let mut take = || {
            let results = cq.poll(7);
            for result in &results {
                assert_eq!((result.Status, result.RequestContext.addr()), (STATUS_SUCCESS, received));
                received += 1;
                assert_eq!(pair.passive.qp.receive(received + 31, &[]), STATUS_SUCCESS);
            }
            (results.is_empty(), received)
        };
        while take().1 < MESSAGES {
            let seen = cq.notified.count();
            cq.arm(arm);
            if take().0 {
                cq.notified.wait_for(seen + 1);
            }
        }
        sender.join().expect("the sender");
        world.flush_dpcs();
        pair.close();
    }
}

/// Rule 10: once the close is complete, the provider calls no callback, even if a notification was due.
// Shows S307.
#[test]
fn rule_10_no_callback_after_the_close() {
    let world = World::new();
    for round in 0..100 {
        let pair = Pair::new(&world.adapter);
        let cq = pair.passive.receive_cq;
        cq.notified.on_call(move |_| cq.arm(NDK_CQ_NOTIFY_ANY));
        cq.arm(NDK_CQ_NOTIFY_ANY);
        (0..16).for_each(|context| pair.message(context, false));
        (0..round % 10).for_each(|_| thread::yield_now());
        pair.active.connector.close_now();
        pair.passive.connector.close_now();
        // The consumer's duty: no call on the queue, from its callback neither, once it closes it.
        cq.notified.on_call(|_| ());
        pair.passive.qp.close();
        cq.close().succeed();
        let calls = cq.notified.calls();
        assert!(calls.iter().all(|call| call.ended.is_some()), "{calls:?}");
        pair.passive.initiator_cq.close_now();
        pair.passive.pd.close_now();
        pair.active.without_connector().close();
        pair.listener.close_now();
        assert_eq!(cq.notified.count(), calls.len());
    }
}
