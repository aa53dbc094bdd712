//! NDK_CQ: its failure, which is an overrun, kills it and every queue pair on it at once (NDK_FN_CQ_NOTIFICATION_CALLBACK).

use std::thread;

use ndk_abi::{
    ndkpi::{NDK_CQ_NOTIFY_ANY, NDK_CQ_NOTIFY_ERRORS},
    status::{
        STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_INVALID,
        STATUS_CONNECTION_REFUSED, STATUS_INTERNAL_ERROR, STATUS_SUCCESS,
    },
};
use simkernel::{scope, seeds};

use crate::{
    cq::ARMS,
    kit::{Buffer, Cq, HeldProcessors, Options, Pair, Pd, Qp, QpSizes, Unconnected, Waiter, World, loopback},
};

/// Overruns a queue by what no connection has to do with: receives of a queue pair of its own that are flushed.
struct Killer {
    side: Unconnected,
    cq: Cq,
}

impl Killer {
    /// One more queue pair on `cq`, which holds `depth` entries.
    fn new(world: &World, cq: Cq) -> Self {
        let side = Unconnected::new(&world.adapter, 99, Options::default());
        let qp = side.pd.create_qp(&cq, &side.initiator_cq, 99, QpSizes::default()).expect("a QP");
        side.qp.close_now();
        Self { side: Unconnected { qp, ..side }, cq }
    }

    fn kill(&self, world: &World, depth: usize) {
        (0..=depth).for_each(|context| assert_eq!(self.side.qp.receive(context, &[]), STATUS_SUCCESS));
        self.side.qp.flush();
        world.flush_dpcs();
        self.cq.arm(NDK_CQ_NOTIFY_ERRORS);
        let calls = self.cq.notified.wait_for(1);
        assert_eq!(calls.last().map(|call| call.status), Some(STATUS_BUFFER_OVERFLOW));
    }

    fn close(self) {
        self.side.close();
    }
}

/// NDK_FN_CQ_NOTIFICATION_CALLBACK: an overrun is reported to any arm, kills the queue and the queue pairs on it.
// Shows S216.
#[test]
fn overrun_kills_the_queue_and_its_queue_pairs() {
    for arm in ARMS {
        let world = World::new();
        let pair = Pair::with(&world.adapter, Options { cq_depth: 2, ..Options::default() });
        let cq = &pair.passive.receive_cq;
        (0..2).for_each(|context| pair.message(context, false));
        world.flush_dpcs();
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
        // The entries from before the overrun can be polled; the queue takes no entry after it, not even cancelled receives.
        assert_eq!(cq.wait(2).len(), 2);
        pair.passive.qp.flush();
        world.assert_empty(cq);
        // The failure is told once.
        cq.arm(NDK_CQ_NOTIFY_ANY);
        world.flush_dpcs();
        assert_eq!(cq.notified.count(), before + 1);
        assert_eq!(world.provider.counters().CQError, 1);
        pair.close();
    }
}

/// A queue that was not armed when it died notifies at its next arm.
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

/// Nothing happens on the connection, and yet both of its ends are told: whichever of the two queues has failed.
// Shows S216.
#[test]
fn overrun_ends_idle_connections() {
    for initiator in [false, true] {
        let world = World::new();
        let pair = Pair::with(&world.adapter, Options { cq_depth: 2, ..Options::default() });
        let cq = if initiator { pair.passive.initiator_cq } else { pair.passive.receive_cq };
        let killer = Killer::new(&world, cq);
        killer.kill(&world, 2);
        pair.assert_aborted();
        let reported = if initiator { STATUS_SUCCESS } else { STATUS_CONNECTION_INVALID };
        assert_eq!(pair.passive.qp.receive(1, &[]), reported);
        world.flush_dpcs();
        for side in [&pair.active, &pair.passive] {
            let events = side.disconnected.calls();
            assert_eq!(events.iter().map(|event| event.value).collect::<Vec<_>>(), [1], "one event: aborted");
        }
        killer.close();
        pair.close();
    }
}

/// A request on a dead queue is dropped; a request on a live queue completes there, cancelled.
// Shows S216.
#[test]
fn overrun_flushes_to_the_queue_that_lives() {
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { cq_depth: 4, ..Options::default() });
    let killer = Killer::new(&world, pair.passive.initiator_cq);
    (0..3).for_each(|context| assert_eq!(pair.passive.qp.receive(context, &[]), STATUS_SUCCESS));
    // The peer has posted no receive, so these sends wait.
    (0..3).for_each(|context| assert_eq!(pair.passive.qp.send(context, &[], 0), STATUS_SUCCESS));
    killer.kill(&world, 4);
    pair.assert_aborted();
    (0..3).for_each(|context| {
        pair.passive.expect_receive(context, STATUS_CANCELLED);
    });
    assert_eq!(killer.cq.poll(16).len(), 4);
    world.assert_empty(&killer.cq);
    world.assert_empty(&pair.passive.receive_cq);
    killer.close();
    pair.close();
}

/// The requests that are dropped give up what they hold: the region's close is complete, although its request was never
/// reported.
#[test]
fn overrun_frees_what_is_not_reported() {
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { cq_depth: 1, ..Options::default() });
    let killer = Killer::new(&world, pair.passive.initiator_cq);
    let mr = pair.passive.pd.create_mr(true).expect("an MR");
    mr.initialize_fast(1, false).succeed();
    // The send waits for a receive, and what follows for the send.
    assert_eq!(pair.passive.qp.send(1, &[], 0), STATUS_SUCCESS);
    assert_eq!(pair.passive.qp.invalidate(2, &mr, 0), STATUS_SUCCESS);
    world.flush_dpcs();
    let close = mr.close();
    assert!(!close.is_done());
    killer.kill(&world, 1);
    close.succeed();
    killer.close();
    pair.close();
}

/// All queue pairs of a dead queue, however many, in runs that stay short: each ends one of them.
#[test]
fn overrun_ends_all_queue_pairs() {
    const PAIRS: usize = 150;
    let world = World::new();
    let options = Options { sizes: QpSizes { receives: 4, requests: 4, ..QpSizes::default() }, ..Options::default() };
    let shared = Unconnected::new(&world.adapter, 0, Options { cq_depth: 4, ..options });
    let active = Unconnected::new(&world.adapter, 0, options);
    let qp = |side: &Unconnected, tag| {
        side.pd.create_qp(&side.receive_cq, &side.initiator_cq, tag, options.sizes).expect("a QP")
    };
    let mut pairs: Vec<_> = (0..PAIRS)
        .map(|tag| {
            let passive = Unconnected { qp: qp(&shared, tag), ..shared };
            let active = Unconnected { qp: qp(&active, tag), ..active };
            Pair::of(&world.adapter, active, passive, options.limits)
        })
        .collect();
    // Holes among the members.
    for index in (0..PAIRS).rev().step_by(3) {
        close_half(&pairs.swap_remove(index));
    }
    let killer = Killer::new(&world, shared.receive_cq);
    let before = world.session.ledger().dpc_runs;
    killer.kill(&world, 4);
    pairs.iter().for_each(Pair::assert_aborted);
    let runs = world.session.ledger().dpc_runs - before;
    assert!(runs >= pairs.len() as u64, "{runs} runs");
    pairs.iter().for_each(close_half);
    killer.close();
    shared.close();
    active.close();
}

/// Closes what is not shared.
fn close_half(pair: &Pair) {
    for side in [&pair.active, &pair.passive] {
        side.connector.close_now();
        side.qp.close_now();
    }
    pair.listener.close_now();
}

/// A queue pair with a shared queue: the receives stay in the shared queue, for the other queue pairs.
// Shows S406.
#[test]
fn overrun_leaves_shared_receives() {
    let world = World::new();
    let base = Unconnected::new(&world.adapter, 0, Options { cq_depth: 2, ..Options::default() });
    base.qp.close_now();
    let other_cq = world.adapter.create_cq(16).expect("a CQ");
    let srq = base.pd.create_srq(8, 1, 0).expect("an SRQ");
    let pair = |receive_cq: Cq| {
        let qp = base.pd.create_qp_with_srq(&receive_cq, &base.initiator_cq, &srq, 7, QpSizes::default());
        let passive = Unconnected { qp: qp.expect("a QP"), receive_cq, ..base };
        Pair::of(&world.adapter, Unconnected::new(&world.adapter, 8, Options::default()), passive, (4, 4))
    };
    let (one, two) = (pair(base.receive_cq), pair(other_cq));
    (0..2).for_each(|context| assert_eq!(srq.receive(context, &[]), STATUS_SUCCESS));
    let killer = Killer::new(&world, base.receive_cq);
    killer.kill(&world, 2);
    one.assert_aborted();
    for context in 0..2 {
        assert_eq!(two.active.qp.send(context, &[], 0), STATUS_SUCCESS);
        two.passive.expect_receive(context, STATUS_SUCCESS);
    }
    for pair in [&one, &two] {
        close_half(pair);
        pair.active.receive_cq.close_now();
        pair.active.initiator_cq.close_now();
        pair.active.pd.close_now();
    }
    killer.close();
    srq.close_now();
    other_cq.close_now();
    base.receive_cq.close_now();
    base.initiator_cq.close_now();
    base.pd.close_now();
}

/// Neither a queue pair that was there nor a new one can be connected.
#[test]
fn queue_pairs_of_a_dead_queue_are_not_connected() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options { cq_depth: 1, ..Options::default() });
    assert_eq!(side.qp.receive(1, &[]), STATUS_SUCCESS);
    let killer = Killer::new(&world, side.initiator_cq);
    killer.kill(&world, 1);
    // It had no connection that could tell.
    assert_eq!(side.receive_cq.wait_one().Status, STATUS_CANCELLED);
    let new = side.pd.create_qp(&side.receive_cq, &side.initiator_cq, 2, QpSizes::default()).expect("a QP");
    let peer = Unconnected::new(&world.adapter, 3, Options::default());
    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
    let remote = listener.local_address().expect("an address");
    for qp in [side.qp, new] {
        let connector = world.adapter.create_connector().expect("a connector");
        assert_eq!(connector.connect(&qp, loopback(0), remote, (1, 1), &[]).wait(), STATUS_INTERNAL_ERROR);
        // An accept with this queue pair fails too.
        let connect = connector.connect(&peer.qp, loopback(0), remote, (1, 1), &[]);
        let incoming = listener.take();
        assert_eq!(incoming.accept(&qp, (1, 1), &[], None).wait(), STATUS_INTERNAL_ERROR);
        incoming.close_now();
        assert_ne!(connect.wait(), STATUS_SUCCESS);
        connector.close_now();
    }
    new.close_now();
    listener.close_now();
    peer.close();
    killer.close();
    side.close();
}

/// The queue fails between the accept and its completion: the connection ends as soon as it is there.
// Shows S216.
#[test]
fn overrun_while_connecting() {
    let world = World::new();
    for of_active in [false, true] {
        let options = Options::default();
        let small = Options { cq_depth: 1, ..options };
        let (ours, theirs) = if of_active { (small, options) } else { (options, small) };
        let (active, passive) =
            (Unconnected::new(&world.adapter, 1, ours), Unconnected::new(&world.adapter, 2, theirs));
        let listener = world.adapter.create_listener().expect("a listener");
        assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
        let connector = world.adapter.create_connector().expect("a connector");
        let remote = listener.local_address().expect("an address");
        let connect = connector.connect(&active.qp, loopback(0), remote, (1, 1), &[]);
        let incoming = listener.take();
        let events = [Waiter::new("disconnect event, active"), Waiter::new("disconnect event, passive")];
        let accept = incoming.accept_ex(&passive.qp, (1, 1), &[], Some(events[1]));
        connect.succeed();
        let killer = Killer::new(&world, if of_active { active.receive_cq } else { passive.receive_cq });
        killer.kill(&world, 1);
        let complete = connector.complete_ex(Some(events[0])).wait();
        accept.succeed();
        events[1].wait_for(1);
        if of_active {
            assert_eq!(complete, STATUS_SUCCESS);
            events[0].wait_for(1);
        } else {
            assert_eq!(complete, STATUS_CONNECTION_ABORTED);
        }
        let (failed, other) = if of_active { (&active, &passive) } else { (&passive, &active) };
        assert_eq!(failed.qp.send(1, &[], 0), STATUS_CONNECTION_INVALID);
        assert_eq!(other.qp.send(1, &[], 0), STATUS_SUCCESS);
        assert_eq!(other.initiator_cq.wait_one().Status, STATUS_CANCELLED);
        world.flush_dpcs();
        assert!(events.iter().all(|event| event.count() <= 1));
        connector.close_now();
        incoming.close_now();
        listener.close_now();
        killer.close();
        active.close();
        passive.close();
    }
}

/// The queue fails while an attempt is under way that the peer then rejects: nothing else ends the queue pair.
// Shows S216.
#[test]
fn overrun_before_a_reject() {
    let world = World::new();
    for of_active in [false, true] {
        let sides =
            [1, 2].map(|tag| Unconnected::new(&world.adapter, tag, Options { cq_depth: 1, ..Options::default() }));
        let [active, passive] = sides;
        let failing = if of_active { active } else { passive };
        assert_eq!(failing.qp.receive(1, &[]), STATUS_SUCCESS);
        let listener = world.adapter.create_listener().expect("a listener");
        assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
        let connector = world.adapter.create_connector().expect("a connector");
        let remote = listener.local_address().expect("an address");
        let connect = connector.connect(&active.qp, loopback(0), remote, (1, 1), &[]);
        let incoming = listener.take();
        let killer = if of_active {
            let killer = Killer::new(&world, active.initiator_cq);
            killer.kill(&world, 1);
            assert_eq!(incoming.reject(&[]), STATUS_SUCCESS);
            assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
            killer
        } else {
            let accept = incoming.accept(&passive.qp, (1, 1), &[], None);
            connect.succeed();
            let killer = Killer::new(&world, passive.initiator_cq);
            killer.kill(&world, 1);
            assert_eq!(connector.reject(&[]), STATUS_SUCCESS);
            assert_eq!(accept.wait(), STATUS_CONNECTION_ABORTED);
            killer
        };
        world.flush_dpcs();
        let cancelled = failing.receive_cq.poll(1);
        assert_eq!(cancelled.iter().map(|result| result.Status).collect::<Vec<_>>(), [STATUS_CANCELLED]);
        assert_eq!(failing.qp.receive(2, &[]), STATUS_SUCCESS);
        assert_eq!(failing.receive_cq.wait_one().Status, STATUS_CANCELLED);
        connector.close_now();
        incoming.close_now();
        listener.close_now();
        killer.close();
        active.close();
        passive.close();
    }
}

/// The peer disconnects while the failure is on its way to the queue pair: it ends by one of the two, and in any case gives up
/// what it holds, without a flush.
#[test]
fn a_disconnect_crosses_an_overrun() {
    for seed in seeds(60) {
        let world = World::seeded(seed);
        let pair = Pair::with(&world.adapter, Options { cq_depth: 1, ..Options::default() });
        let killer = Killer::new(&world, pair.passive.initiator_cq);
        let mr = pair.passive.pd.create_mr(true).expect("an MR");
        mr.initialize_fast(1, false).succeed();
        // The send waits for a receive, and what follows for the send.
        assert_eq!(pair.passive.qp.send(1, &[], 0), STATUS_SUCCESS);
        assert_eq!(pair.passive.qp.invalidate(2, &mr, 0), STATUS_SUCCESS);
        assert_eq!(pair.passive.qp.receive(3, &[]), STATUS_SUCCESS);
        world.flush_dpcs();
        let close = mr.close();
        scope(|scope| {
            scope.spawn(|| pair.active.connector.close_now());
            killer.kill(&world, 1);
        });
        world.flush_dpcs();
        assert!(close.is_done(), "seed {seed}");
        pair.passive.expect_receive(3, STATUS_CANCELLED);
        assert_eq!(pair.passive.qp.send(4, &[], 0), STATUS_CONNECTION_INVALID);
        killer.close();
        pair.active.without_connector().close();
        pair.passive.close();
        pair.listener.close_now();
    }
}

/// The consumer closes everything while the failure is on its way to the queue pairs.
#[test]
fn closes_cross_an_overrun() {
    let world = World::new();
    for round in 0..60 {
        let pair = Pair::with(&world.adapter, Options { cq_depth: 1, ..Options::default() });
        let killer = Killer::new(&world, pair.passive.receive_cq);
        (0..2).for_each(|context| assert_eq!(killer.side.qp.receive(context, &[]), STATUS_SUCCESS));
        let held = (round % 3 == 0).then(HeldProcessors::new);
        killer.side.qp.flush();
        let qps: Vec<Qp> = (0..round % 5)
            .map(|tag| {
                let side = &pair.passive;
                side.pd.create_qp(&side.receive_cq, &side.initiator_cq, tag, QpSizes::default()).expect("a QP")
            })
            .collect();
        let closer = thread::spawn(move || {
            pair.active.connector.close();
            pair.passive.connector.close();
            pair.passive.qp.close();
        });
        closer.join().expect("the closer");
        qps.into_iter().for_each(|qp| {
            qp.close();
        });
        killer.side.qp.close();
        drop(held);
        world.flush_dpcs();
        pair.active.qp.close_now();
        for cq in [pair.passive.receive_cq, pair.passive.initiator_cq, pair.active.receive_cq, pair.active.initiator_cq]
        {
            cq.close_now();
        }
        [killer.side.receive_cq, killer.side.initiator_cq].into_iter().for_each(Cq::close_now);
        [pair.active.pd, pair.passive.pd, killer.side.pd].into_iter().for_each(Pd::close_now);
        pair.listener.close_now();
    }
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

/// What is behind the request whose completion overran the queue is not carried out. Small sends may be carried out and reported together, but for a
/// few at a time.
// Shows S216.
#[test]
fn nothing_is_carried_out_behind_an_overrun() {
    const POSTS: usize = 60;
    for is_write in [true, false] {
        let world = World::new();
        let active = Unconnected::new(&world.adapter, Pair::ACTIVE, Options { cq_depth: 1, ..Options::default() });
        let passive = Unconnected::new(&world.adapter, Pair::PASSIVE, Options::default());
        let pair = Pair::of(&world.adapter, active, passive, (1, 1));
        let (source, target) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
        source.pages.write(0, &[1; POSTS]);
        let held = HeldProcessors::new();
        for place in 0..POSTS {
            assert_eq!(pair.passive.qp.receive(place, &[target.sge(place, 1)]), STATUS_SUCCESS);
            let (qp, from) = (&pair.active.qp, [source.sge(place, 1)]);
            let posted = match is_write {
                true => qp.write(place, &from, target.address(place), target.token, 0),
                false => qp.send(place, &from, 0),
            };
            assert_eq!(posted, STATUS_SUCCESS);
        }
        drop(held);
        pair.assert_aborted();
        world.flush_dpcs();
        pair.active.expect(0, STATUS_SUCCESS);
        let placed = target.pages.read(0, POSTS).iter().filter(|&&byte| byte == 1).count();
        assert!(if is_write { placed == 2 } else { placed < POSTS }, "{placed} are carried out, write: {is_write}");
        [source, target].into_iter().for_each(Buffer::close);
        pair.close();
    }
}
