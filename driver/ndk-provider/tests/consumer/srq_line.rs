//! NDK_SRQ: which sender gets a receive when several wait. The senders wait in line; a post of a receive wakes the first.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use ndk_abi::status::{STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_SUCCESS};
use simkernel::{scope, seeds};

use crate::kit::{Cq, HeldProcessors, Options, Pair, QpSizes, Srq, Unconnected, World};

/// Connections: the passive sides share a queue, a domain and completion queues; the active sides share a domain and completion queues.
struct Scene {
    srq: Srq,
    pairs: Vec<Pair>,
    passive: Unconnected,
    active: Unconnected,
}

impl Scene {
    fn new(world: &World, pairs: usize) -> Self {
        // Nothing here polls all the time.
        let options = Options { cq_depth: world.adapter.info().MaxCqDepth, ..Options::default() };
        let (passive, active) =
            (Unconnected::new(&world.adapter, 0, options), Unconnected::new(&world.adapter, 0, options));
        [passive.qp, active.qp].into_iter().for_each(crate::kit::Qp::close_now);
        let srq = passive.pd.create_srq(1024, 1, 0).expect("an SRQ");
        let sizes = QpSizes { requests: 16, receives: 1, ..QpSizes::default() };
        let pair = |tag| {
            let cqs = (&passive.receive_cq, &passive.initiator_cq);
            let theirs = passive.pd.create_qp_with_srq(cqs.0, cqs.1, &srq, tag, sizes).expect("a QP");
            let cqs = (&active.receive_cq, &active.initiator_cq);
            let ours = active.pd.create_qp(cqs.0, cqs.1, tag, sizes).expect("a QP");
            let (active, passive) = (Unconnected { qp: ours, ..active }, Unconnected { qp: theirs, ..passive });
            Pair::of(&world.adapter, active, passive, (4, 4))
        };
        Self { pairs: (0..pairs).map(pair).collect(), srq, passive, active }
    }

    /// A send of one of the connections, which stands in line when this returns.
    fn send(&self, world: &World, pair: usize) {
        assert_eq!(self.pairs[pair].active.qp.send(pair, &[], 0), STATUS_SUCCESS);
        world.flush_dpcs();
    }

    fn post(&self, context: usize) {
        assert_eq!(self.srq.receive(context, &[]), STATUS_SUCCESS);
    }

    /// Checks which queue pairs have received, in this order.
    #[track_caller]
    fn expect(&self, world: &World, pairs: &[usize]) {
        world.flush_dpcs();
        let results = self.passive.receive_cq.poll(64);
        assert!(results.iter().all(|result| result.Status == STATUS_SUCCESS), "{results:?}");
        assert_eq!(results.iter().map(|result| result.QPContext.addr()).collect::<Vec<_>>(), pairs);
    }

    fn close(self) {
        for pair in &self.pairs {
            for side in [&pair.active, &pair.passive] {
                side.connector.close_now();
                side.qp.close_now();
            }
            pair.listener.close_now();
        }
        self.srq.close_now();
        for side in [self.passive, self.active] {
            [side.receive_cq, side.initiator_cq].into_iter().for_each(Cq::close_now);
            side.pd.close_now();
        }
    }
}

// Shows S402.
#[test]
fn waiting_senders_are_served_in_order() {
    let world = World::new();
    let scene = Scene::new(&world, 6);
    let order = [3, 1, 5, 0, 2, 4];
    order.iter().for_each(|&pair| scene.send(&world, pair));
    for (context, pair) in order.into_iter().enumerate() {
        scene.post(context);
        scene.expect(&world, &[pair]);
    }
    scene.close();
}

/// No sender gets a second receive before each waiting sender has got its first.
#[test]
fn a_sender_that_was_served_stands_at_the_end() {
    let world = World::new();
    let scene = Scene::new(&world, 3);
    for _ in 0..3 {
        (0..3).for_each(|pair| scene.send(&world, pair));
    }
    for context in 0..3 {
        scene.post(context);
        scene.post(context);
        scene.post(context);
        world.flush_dpcs();
        let mut served: Vec<_> =
            scene.passive.receive_cq.poll(64).iter().map(|result| result.QPContext.addr()).collect();
        served.sort_unstable();
        assert_eq!(served, [0, 1, 2]);
    }
    scene.close();
}

/// Senders that begin while a receive is posted do not get it before the one that waits, on whatever processors their engines run.
// Shows S402.
#[test]
fn a_new_sender_does_not_overtake() {
    for seed in seeds(20) {
        let world = World::seeded(seed);
        let scene = Scene::new(&world, 3);
        scene.send(&world, 0);
        scope(|scope| {
            for pair in 1..3 {
                let sender = &scene.pairs[pair].active.qp;
                scope.spawn(move || assert_eq!(sender.send(pair, &[], 0), STATUS_SUCCESS));
            }
            scene.post(1);
        });
        scene.expect(&world, &[0]);
        scene.post(2);
        scene.post(3);
        world.flush_dpcs();
        assert_eq!(scene.passive.receive_cq.poll(64).len(), 2, "seed {seed}");
        scene.close();
    }
}

/// A post has one queue pair run, however many wait.
#[test]
fn a_post_wakes_one() {
    const PAIRS: usize = 60;
    let world = World::new();
    let scene = Scene::new(&world, PAIRS);
    (0..PAIRS).for_each(|pair| scene.send(&world, pair));
    let before = world.session.ledger().dpc_runs;
    for pair in 0..10 {
        scene.post(pair);
        scene.expect(&world, &[pair]);
    }
    let runs = world.session.ledger().dpc_runs - before;
    assert!(runs <= 10 * 4, "{runs} DPCs for 10 posts");
    scene.close();
}

/// A receive that is kept for a woken sender passes to the next sender when the woken one is flushed, disconnected or closed.
#[test]
fn the_turn_of_one_that_goes_away_is_passed_on() {
    type End = fn(&Pair);
    let ends: [(&str, End); 6] = [
        ("flush of the sender", |pair| pair.active.qp.flush()),
        ("disconnect of the sender", |pair| {
            pair.active.connector.disconnect();
        }),
        ("disconnect of the receiver", |pair| {
            pair.passive.connector.disconnect();
        }),
        ("close of the sender's connector", |pair| {
            pair.active.connector.close();
        }),
        ("close of the receiver's connector", |pair| {
            pair.passive.connector.close();
        }),
        ("flush and close of both queue pairs", |pair| {
            pair.active.qp.flush();
            pair.passive.connector.close();
            pair.passive.qp.close();
        }),
    ];
    for (name, end) in ends {
        let world = World::new();
        let mut scene = Scene::new(&world, 3);
        (0..3).for_each(|pair| scene.send(&world, pair));
        let held = HeldProcessors::new();
        scene.post(1);
        end(&scene.pairs[0]);
        drop(held);
        scene.expect(&world, &[1]);
        // No receive is kept for the sender that has left.
        scene.post(2);
        scene.expect(&world, &[2]);
        println!("{name}: passed on");
        let gone = scene.pairs.remove(0);
        if !name.contains("close of the sender") {
            gone.active.connector.close_now();
        }
        if !name.contains("receiver's connector") && !name.contains("both") {
            gone.passive.connector.close_now();
        }
        if !name.contains("both") {
            gone.passive.qp.close_now();
        }
        gone.active.qp.close_now();
        gone.listener.close_now();
        scene.close();
    }
}

/// A sender that leaves the line gives its place to the next.
#[test]
fn one_that_goes_away_leaves_the_line() {
    for gone in 0..3 {
        let world = World::new();
        let scene = Scene::new(&world, 3);
        (0..3).for_each(|pair| scene.send(&world, pair));
        scene.pairs[gone].active.qp.flush();
        assert_eq!(scene.active.initiator_cq.wait_one().Status, STATUS_CANCELLED);
        for pair in (0..3).filter(|&pair| pair != gone) {
            scene.post(pair);
            scene.expect(&world, &[pair]);
        }
        scene.post(9);
        scene.expect(&world, &[]);
        // What it sends after the flush is served.
        scene.send(&world, gone);
        scene.expect(&world, &[gone]);
        scene.close();
    }
}

/// A sender flushes and sends again, over and over, while other senders wait and receives are posted.
#[test]
fn flushes_cross_posts() {
    let world = World::new();
    let scene = Scene::new(&world, 4);
    let stop = AtomicBool::new(false);
    let (mut posted, mut received, mut sent) = (0_usize, [0_usize; 4], [0_usize; 4]);
    thread::scope(|scope| {
        let (stop, pairs) = (&stop, &scene.pairs);
        let flusher = scope.spawn(move || {
            let mut sent = 0;
            while !stop.load(Ordering::Relaxed) && sent < 20_000 {
                sent += usize::from(pairs[0].active.qp.send(0, &[], 0) == STATUS_SUCCESS);
                if sent % 2 == 0 {
                    pairs[0].active.qp.flush();
                }
                thread::yield_now();
            }
            sent
        });
        for round in 0..3000_usize {
            for (pair, sent) in sent.iter_mut().enumerate().skip(1) {
                if round % pair == 0 {
                    *sent += usize::from(scene.pairs[pair].active.qp.send(pair, &[], 0) == STATUS_SUCCESS);
                }
            }
            posted += usize::from(scene.srq.receive(round, &[]) == STATUS_SUCCESS);
            for result in scene.passive.receive_cq.poll(64) {
                received[result.QPContext.addr()] += 1;
            }
            scene.active.initiator_cq.poll(4096);
        }
        stop.store(true, Ordering::Relaxed);
        sent[0] = flusher.join().expect("the flusher");
    });
    scene.pairs[0].active.qp.flush();
    world.flush_dpcs();
    // One more receive than there were sends: each of the other senders must be served.
    for _ in 0..=sent.iter().sum::<usize>() {
        for result in scene.passive.receive_cq.poll(4096) {
            received[result.QPContext.addr()] += 1;
        }
        posted += usize::from(scene.srq.receive(posted, &[]) == STATUS_SUCCESS);
        world.flush_dpcs();
    }
    assert_eq!(world.provider.counters().CQError, 0, "an overrun would end all connections");
    assert_eq!(received[1..], sent[1..], "{posted} receives, {} sends and flushes", sent[0]);
    scene.close();
}

/// Connections end and are replaced while all take their receives from one queue: the remaining ones are served.
#[test]
fn connections_come_and_go() {
    const ROUNDS: usize = 60;
    let world = World::new();
    let mut scene = Scene::new(&world, 8);
    let mut served = BTreeMap::<usize, usize>::new();
    for round in 0..ROUNDS {
        let gone = round % scene.pairs.len();
        (0..scene.pairs.len()).for_each(|pair| {
            let sent = scene.pairs[pair].active.qp.send(pair, &[], 0);
            assert!(sent == STATUS_SUCCESS || sent == STATUS_CONNECTION_INVALID);
        });
        let pair = scene.pairs[gone];
        let closer = thread::spawn(move || {
            if round % 2 == 0 {
                pair.passive.connector.disconnect().wait();
            } else {
                pair.active.connector.disconnect().wait();
            }
        });
        (0..scene.pairs.len()).for_each(|context| scene.post(context));
        closer.join().expect("the closer");
        world.flush_dpcs();
        let results = scene.passive.receive_cq.poll(64);
        let of_others = results.iter().filter(|result| result.QPContext.addr() != gone);
        assert_eq!(of_others.count(), scene.pairs.len() - 1, "round {round}: {results:?}");
        results.iter().for_each(|result| *served.entry(result.QPContext.addr()).or_default() += 1);
        // A receive that the ended connection did not take is left for this round's sends.
        scene.active.initiator_cq.poll(4096);
        let leftover = scene.pairs.len() - results.len();
        for _ in 0..leftover {
            let other = (gone + 1) % scene.pairs.len();
            assert_eq!(scene.pairs[other].active.qp.send(other, &[], 0), STATUS_SUCCESS);
        }
        world.flush_dpcs();
        assert_eq!(scene.passive.receive_cq.poll(64).len(), leftover, "round {round}");
        for side in [&pair.active, &pair.passive] {
            side.connector.close_now();
            side.qp.close_now();
        }
        pair.listener.close_now();
        let fresh = scene.reconnect(&world, gone);
        scene.pairs[gone] = fresh;
    }
    assert_eq!(served.len(), scene.pairs.len());
    scene.close();
}

impl Scene {
    /// A new connection in the place of an ended one.
    fn reconnect(&self, world: &World, tag: usize) -> Pair {
        let sizes = QpSizes { requests: 16, receives: 1, ..QpSizes::default() };
        let (passive, active) = (&self.passive, &self.active);
        let theirs = passive.pd.create_qp_with_srq(&passive.receive_cq, &passive.initiator_cq, &self.srq, tag, sizes);
        let ours = active.pd.create_qp(&active.receive_cq, &active.initiator_cq, tag, sizes);
        let (ours, theirs) = (ours.expect("a QP"), theirs.expect("a QP"));
        Pair::of(&world.adapter, Unconnected { qp: ours, ..*active }, Unconnected { qp: theirs, ..*passive }, (4, 4))
    }
}
