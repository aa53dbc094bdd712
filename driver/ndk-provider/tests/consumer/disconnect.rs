//! The end of a connection: networkdirect-disconnect-scheme.

use std::{sync::Barrier, thread};

use ndk_abi::{
    status::{STATUS_CANCELLED, STATUS_DATA_OVERRUN, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};

use crate::{
    connector::Scene,
    kit::{Buffer, Gate, HeldProcessors, Pair, Waiter, World, sge},
};

/// Posts two receives and two sends, which wait, on a side.
fn load(side: &crate::kit::Side) {
    (1..3).for_each(|context| assert_eq!(side.qp.receive(context, &[]), STATUS_SUCCESS));
}

/// The own side is flushed; the peer gets the event, once, and its requests stay until its consumer acts.
// Shows S709.
#[test]
fn a_disconnect_seen_from_both_sides() {
    let world = World::new();
    for by_active in [true, false] {
        let pair = Pair::new(&world.adapter);
        let view = if by_active { pair } else { pair.swapped() };
        let (ours, theirs) = (&view.active, &view.passive);
        load(theirs);
        // Sends to us that wait, as we have no receives.
        assert_eq!(theirs.qp.send(3, &[], 0), STATUS_SUCCESS);
        world.flush_dpcs();
        ours.disconnect();
        assert_eq!(theirs.disconnected.wait_for(1)[0].value, 0, "not aborted");
        world.assert_empty(&theirs.receive_cq);
        world.assert_empty(&theirs.initiator_cq);
        // More is taken: ours is cancelled at once, theirs waits too.
        assert_eq!(ours.qp.send(4, &[], 0), STATUS_SUCCESS);
        ours.expect(4, STATUS_CANCELLED);
        assert_eq!(theirs.qp.send(4, &[], 0), STATUS_SUCCESS);
        assert_eq!(theirs.qp.receive(3, &[]), STATUS_SUCCESS);
        world.flush_dpcs();
        world.assert_empty(&theirs.receive_cq);
        world.assert_empty(&theirs.initiator_cq);
        // Its consumer disconnects too, which flushes.
        theirs.disconnect();
        (1..4).for_each(|context| {
            theirs.expect_receive(context, STATUS_CANCELLED);
        });
        theirs.expect(3, STATUS_CANCELLED);
        theirs.expect(4, STATUS_CANCELLED);
        world.flush_dpcs();
        assert_eq!((ours.disconnected.count(), theirs.disconnected.count()), (0, 1));
        pair.close();
    }
}

/// A consumer that reposts a receive with each message cannot know yet that the peer has disconnected.
// Shows S921.
#[test]
fn receives_that_are_posted_after_the_end_are_cancelled() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    pair.active.disconnect();
    pair.passive.disconnect();
    for side in [&pair.active, &pair.passive] {
        // More than the queue holds, as each is over at once.
        for context in 0..100 {
            assert_eq!(side.qp.receive(context, &[]), STATUS_SUCCESS);
            side.expect_receive(context, STATUS_CANCELLED);
        }
        assert_eq!(side.qp.receive(1, &[sge(0, 1, 0); 20]), STATUS_DATA_OVERRUN, "its limits stay");
    }
    pair.close();
}

// Shows S709.
#[test]
fn the_own_requests_are_flushed() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    load(&pair.active);
    assert_eq!(pair.active.qp.send(3, &[], ndk_abi::ndkpi::NDK_OP_FLAG_SILENT_SUCCESS), STATUS_SUCCESS);
    world.flush_dpcs();
    pair.active.disconnect();
    (1..3).for_each(|context| {
        pair.active.expect_receive(context, STATUS_CANCELLED);
    });
    pair.active.expect(3, STATUS_CANCELLED);
    pair.close();
}

/// After the peer's disconnect the consumer may flush instead.
#[test]
fn flush_after_the_event() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    load(&pair.passive);
    pair.active.disconnect();
    pair.passive.disconnected.wait_for(1);
    pair.passive.qp.flush();
    (1..3).for_each(|context| {
        pair.passive.expect_receive(context, STATUS_CANCELLED);
    });
    pair.close();
}

/// What was received before is there after.
#[test]
fn completions_survive() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    (0..5).for_each(|context| pair.message(context, false));
    assert_eq!(pair.active.qp.write(9, &[], 0, 0, 0), STATUS_SUCCESS);
    pair.active.expect(9, STATUS_SUCCESS);
    pair.active.disconnect();
    (0..5).for_each(|context| {
        pair.passive.expect_receive(context, STATUS_SUCCESS);
    });
    pair.close();
}

/// The plain callback, of NdkAccept and NdkCompleteConnect, has no reason; none at all is allowed too.
#[test]
fn both_kinds_of_event_and_none() {
    let world = World::new();
    for active_ends in [true, false] {
        let scene = Scene::new(&world);
        let connect = scene.connect();
        let passive = scene.listener.take();
        let events = (Waiter::deferred("disconnect event, active"), Waiter::deferred("disconnect event, passive"));
        let accept = passive.accept(&scene.passive.qp, (1, 1), &[], Some(events.1));
        connect.succeed();
        scene.connector.complete(Some(events.0)).succeed();
        accept.succeed();
        let (ending, told) = if active_ends { (&scene.connector, events.1) } else { (&passive, events.0) };
        ending.disconnect().succeed();
        assert_eq!(told.wait_for(1)[0].value, usize::MAX, "the plain kind");
        passive.close_now();
        scene.close(true);

        let scene = Scene::new(&world);
        let (passive, accept) = scene.accepted();
        scene.connector.complete_ex(None).succeed();
        accept.succeed();
        let ending = if active_ends { &scene.connector } else { &passive };
        ending.disconnect().succeed();
        passive.close_now();
        scene.close(true);
    }
}

/// Close without NdkDisconnect is legal: the peer gets the event, the own side is flushed.
#[test]
fn close_of_a_connected_connector_disconnects() {
    let world = World::new();
    for by_active in [true, false] {
        let pair = Pair::new(&world.adapter);
        let view = if by_active { pair } else { pair.swapped() };
        load(&view.active);
        load(&view.passive);
        view.active.connector.close_now();
        (1..3).for_each(|context| {
            view.active.expect_receive(context, STATUS_CANCELLED);
        });
        view.passive.disconnected.wait_for(1);
        world.assert_empty(&view.passive.receive_cq);
        view.active.without_connector().close();
        view.passive.close();
        pair.listener.close_now();
        assert_eq!(view.active.disconnected.count(), 0);
    }
}

/// Both sides disconnect at once: both succeed, each side gets at most one event.
// Shows S710.
#[test]
fn simultaneous_disconnects() {
    let world = World::new();
    for _ in 0..200 {
        let pair = Pair::new(&world.adapter);
        load(&pair.active);
        load(&pair.passive);
        let start = Barrier::new(2);
        thread::scope(|scope| {
            for side in [pair.active, pair.passive] {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    side.disconnect();
                    (1..3).for_each(|context| {
                        side.expect_receive(context, STATUS_CANCELLED);
                    });
                });
            }
        });
        world.flush_dpcs();
        assert!(pair.active.disconnected.count() <= 1 && pair.passive.disconnected.count() <= 1);
        pair.close();
    }
    assert_eq!(world.provider.counters().ActiveConnection, 0);
}

/// NDK_FN_DISCONNECT completes when all of the queue pair's accesses to memory are over, of either direction.
// Shows S709, S921.
#[test]
fn disconnect_waits_for_accesses_under_way() {
    let world = World::new();
    for our_send in [true, false] {
        let pair = Pair::new(&world.adapter);
        let view = if our_send { pair } else { pair.swapped() };
        let (sender, receiver) = (&view.active, &view.passive);
        let (source, target) = (Buffer::full(&sender.pd, 2), Buffer::full(&receiver.pd, 2));
        assert_eq!(receiver.qp.receive(1, &[target.sge(0, 2 * PAGE_SIZE)]), STATUS_SUCCESS);
        let gate = Gate::shut(&target.pages, 1);
        assert_eq!(sender.qp.send(2, &[source.sge(0, 2 * PAGE_SIZE)], 0), STATUS_SUCCESS);
        gate.reached();
        let disconnect = pair.active.connector.disconnect();
        assert!(disconnect.pended() && !disconnect.is_done());
        assert_eq!(pair.active.qp.receive(3, &[]), STATUS_SUCCESS, "cancelled behind what is under way");
        let behind = if our_send { sender } else { receiver };
        assert_eq!(behind.qp.write(4, &[], 0, 0, 0), STATUS_SUCCESS);
        if !our_send {
            // Nothing is before it in its queue.
            behind.expect(4, STATUS_CANCELLED);
        }
        for _ in 0..1000 {
            assert!(!disconnect.is_done());
            assert!(pair.active.receive_cq.poll(1).is_empty() && pair.active.initiator_cq.poll(1).is_empty());
            thread::yield_now();
        }
        gate.open();
        disconnect.succeed();
        pair.passive.disconnect();
        sender.expect(2, STATUS_CANCELLED);
        if our_send {
            sender.expect(4, STATUS_CANCELLED);
        }
        receiver.expect_receive(1, STATUS_CANCELLED);
        pair.active.expect_receive(3, STATUS_CANCELLED);
        source.close();
        target.close();
        pair.close();
    }
}

/// The access is the peer's write, and this side has nothing posted.
#[test]
fn disconnect_waits_for_the_peers_access() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (source, target) = (Buffer::full(&pair.active.pd, 2), Buffer::full(&pair.passive.pd, 2));
    let gate = Gate::shut(&target.pages, 1);
    let sges = [source.sge(0, 2 * PAGE_SIZE)];
    assert_eq!(pair.active.qp.write(1, &sges, target.base, target.token, 0), STATUS_SUCCESS);
    gate.reached();
    let disconnect = pair.passive.connector.disconnect();
    for _ in 0..1000 {
        assert!(!disconnect.is_done());
        thread::yield_now();
    }
    gate.open();
    disconnect.succeed();
    pair.active.disconnect();
    pair.active.expect(1, STATUS_CANCELLED);
    source.close();
    target.close();
    pair.close();
}

/// A close in place of the disconnect: the queue pair's close waits for the access.
#[test]
fn close_of_the_queue_pair_waits_for_accesses_under_way() {
    let world = World::new();
    for our_write in [true, false] {
        let pair = Pair::new(&world.adapter);
        let view = if our_write { pair } else { pair.swapped() };
        let (source, target) = (Buffer::full(&view.active.pd, 2), Buffer::full(&view.passive.pd, 2));
        let gate = Gate::shut(&target.pages, 1);
        let sges = [source.sge(0, 2 * PAGE_SIZE)];
        assert_eq!(view.active.qp.write(2, &sges, target.base, target.token, 0), STATUS_SUCCESS);
        gate.reached();
        let connector = pair.active.connector.close();
        let queue_pair = pair.active.qp.close();
        assert!(queue_pair.pended());
        for _ in 0..1000 {
            assert!(!queue_pair.is_done());
            thread::yield_now();
        }
        gate.open();
        connector.succeed();
        queue_pair.succeed();
        pair.active.receive_cq.close_now();
        pair.active.initiator_cq.close_now();
        pair.passive.connector.close_now();
        pair.passive.qp.close_now();
        pair.passive.receive_cq.close_now();
        pair.passive.initiator_cq.close_now();
        pair.listener.close_now();
        source.close();
        target.close();
        pair.active.pd.close_now();
        pair.passive.pd.close_now();
    }
}

/// The event is due, but not delivered, when the consumer closes: the provider delivers it before the close ends, or not at all.
#[test]
fn no_event_after_close() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let held = HeldProcessors::new();
    let disconnect = pair.active.connector.disconnect();
    let close = pair.passive.connector.close();
    drop(held);
    disconnect.succeed();
    close.succeed();
    world.flush_dpcs();
    if let Some(event) = pair.passive.disconnected.calls().first() {
        assert!(event.ended < Some(close.completion.calls()[0].begun));
    }
    pair.active.close();
    pair.passive.without_connector().close();
    pair.listener.close_now();
}

/// A disconnect of one side and a close of the other cross.
#[test]
fn disconnect_and_close_cross() {
    let world = World::new();
    for _ in 0..200 {
        let pair = Pair::new(&world.adapter);
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                pair.active.disconnect();
            });
            scope.spawn(|| {
                start.wait();
                pair.passive.connector.close_now();
            });
        });
        pair.active.close();
        pair.passive.without_connector().close();
        pair.listener.close_now();
    }
    assert_eq!(world.provider.counters().ActiveConnection, 0);
}
