//! Asynchronous close of all nine kinds of object, in any order, with traffic under way.

use ndk_abi::{
    ndkpi::{NDK_CQ_NOTIFY_ANY, NDK_OP_FLAG_ALLOW_REMOTE_READ},
    status::STATUS_SUCCESS,
    wdm::PAGE_SIZE,
};
use simkernel::{scope, seeds};

use crate::kit::{Buffer, FastRegion, Options, QpSizes, Random, Request, Unconnected, Waiter, World, loopback, now};

/// What is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Object {
    Pd(usize),
    ReceiveCq(usize),
    InitiatorCq(usize),
    Qp(usize),
    Connector(usize),
    Srq,
    Target,
    Local,
    Fast,
    Mw,
    SharedEndpoint,
    Listener,
}
use Object::*;

/// Side 0 is the active one, side 1 the passive one, which has the shared queue, the target and the window.
const OBJECTS: [Object; 17] = [
    Pd(0),
    Pd(1),
    ReceiveCq(0),
    ReceiveCq(1),
    InitiatorCq(0),
    InitiatorCq(1),
    Qp(0),
    Qp(1),
    Connector(0),
    Connector(1),
    Srq,
    Target,
    Local,
    Fast,
    Mw,
    SharedEndpoint,
    Listener,
];

/// Successor and antecedent, as in ndkpi.md, section 4.7.
const RELATIONS: [(Object, Object); 20] = [
    (Qp(0), Pd(0)),
    (Qp(0), ReceiveCq(0)),
    (Qp(0), InitiatorCq(0)),
    (Qp(1), Pd(1)),
    (Qp(1), ReceiveCq(1)),
    (Qp(1), InitiatorCq(1)),
    (Qp(1), Srq),
    (Srq, Pd(1)),
    (Target, Pd(1)),
    (Fast, Pd(1)),
    (Mw, Pd(1)),
    (Local, Pd(0)),
    (Connector(0), Qp(0)),
    (Connector(1), Qp(1)),
    (Connector(0), SharedEndpoint),
    (Connector(1), Listener),
    (Connector(0), Pd(0)),
    (Connector(1), Pd(1)),
    (Connector(1), Srq),
    (Connector(0), ReceiveCq(0)),
];

/// One close: when the test called it, its request, and when the call returned.
struct Closed {
    object: Object,
    called: u64,
    request: Request,
    returned: u64,
}

impl Closed {
    /// When an antecedent's close may complete: when the completion callback has returned. If the close completed inline, that may be
    /// within the call.
    fn over(&self) -> u64 {
        if self.request.pended() { self.request.completion.calls()[0].ended.expect("waited for") } else { self.called }
    }

    /// When the consumer was told.
    fn told(&self) -> u64 {
        if self.request.pended() { self.request.completion.calls()[0].begun } else { self.returned }
    }
}

/// All objects of a connection whose sides send, write and read; closed by two threads in the order that `seed` says.
fn closed_in_any_order(world: &World, seed: u64) {
    let mut random = Random::new(seed);
    let adapter = &world.adapter;
    let options = Options { cq_depth: 256, ..Options::default() };
    let active = Unconnected::new(adapter, 1, options);
    let passive = {
        let side = Unconnected::new(adapter, 2, options);
        side.qp.close_now();
        side
    };
    let srq = passive.pd.create_srq(16, 1, 2).expect("an SRQ");
    let cqs = (passive.receive_cq, passive.initiator_cq);
    let qp = passive.pd.create_qp_with_srq(&cqs.0, &cqs.1, &srq, 2, QpSizes::default()).expect("a QP");
    let passive = Unconnected { qp, ..passive };
    let (local, target) = (Buffer::full(&active.pd, 8), Buffer::full(&passive.pd, 8));
    let fast = FastRegion::new(adapter, &passive.pd, 1, true);
    let mw = passive.pd.create_mw().expect("an MW");
    let shared = adapter.create_shared_endpoint(loopback(0)).expect("a shared endpoint");
    let listener = adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
    let remote = listener.local_address().expect("it listens");
    let events = ["disconnect event, active", "disconnect event, passive"].map(Waiter::deferred);
    let ours = adapter.create_connector().expect("a connector");
    let connect = ours.connect_shared(&active.qp, &shared, remote, (4, 4), &[]);
    let theirs = listener.take();
    let accept = theirs.accept_ex(&passive.qp, (4, 4), &[], Some(events[1]));
    connect.succeed();
    ours.complete_ex(Some(events[0])).succeed();
    accept.succeed();

    // Enough to be under way for a while. Whether a post is accepted depends on what has failed by then.
    active.receive_cq.arm(NDK_CQ_NOTIFY_ANY);
    passive.receive_cq.arm(NDK_CQ_NOTIFY_ANY);
    passive.qp.bind(1, &mw, &target.mr, (target.base, PAGE_SIZE), NDK_OP_FLAG_ALLOW_REMOTE_READ);
    for context in 0..8 {
        srq.receive(context, &[target.sge(0, 2 * PAGE_SIZE)]);
        active.qp.receive(context, &[local.sge(0, 2 * PAGE_SIZE)]);
    }
    for context in 0..12 {
        let sges = [local.sge(0, PAGE_SIZE + context)];
        let whole = [local.sge(0, local.pages.size())];
        match random.below(4) {
            0 => active.qp.send(context, &sges, 0),
            1 => active.qp.write(context, &whole, target.base, target.token, 0),
            2 => active.qp.read(context, &whole, target.base, target.token, 0),
            _ => passive.qp.send(context, &[target.sge(0, PAGE_SIZE)], 0),
        };
    }

    let mut order = OBJECTS;
    (1..order.len()).rev().for_each(|last| order.swap(last, random.below(last + 1)));
    let (sides, connectors) = ([active, passive], [ours, theirs]);
    let close = |object: Object| match object {
        Pd(side) => sides[side].pd.close(),
        ReceiveCq(side) => sides[side].receive_cq.close(),
        InitiatorCq(side) => sides[side].initiator_cq.close(),
        Qp(side) => sides[side].qp.close(),
        Connector(side) => connectors[side].close(),
        Srq => srq.close(),
        Target => target.mr.close(),
        Local => local.mr.close(),
        Fast => fast.mr.close(),
        Mw => mw.close(),
        SharedEndpoint => shared.close(),
        Listener => listener.close(),
    };
    let close_all = |objects: &[Object], seed: u64| -> Vec<Closed> {
        let mut random = Random::new(seed);
        let one = |&object: &Object| {
            random.delay(400);
            let called = now();
            let request = close(object);
            Closed { object, called, request, returned: now() }
        };
        objects.iter().map(one).collect()
    };
    let (one, other) = order.split_at(random.below(order.len() + 1));
    let closed: Vec<Closed> = scope(|scope| {
        let close_all = &close_all;
        let threads = [(one, seed * 2), (other, seed * 2 + 1)];
        let threads = threads.map(|(objects, seed)| scope.spawn(move || close_all(objects, seed)));
        threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
    });

    closed.iter().for_each(|closed| closed.request.succeed());
    world.flush_dpcs();
    for Closed { object, request, .. } in &closed {
        assert_eq!(request.completion.count(), usize::from(request.pended()), "{object:?}: {order:?}");
    }
    let of = |object| closed.iter().find(|closed| closed.object == object).expect("closed");
    for (successor, antecedent) in RELATIONS {
        let over = of(successor).over() < of(antecedent).told();
        assert!(over, "{antecedent:?} was over before {successor:?}: {order:?}");
    }
    for event in events {
        let calls = event.calls();
        assert!(calls.len() <= 1, "{calls:?}");
        let own = of(Connector(usize::from(std::ptr::eq(event, events[1]))));
        assert!(calls.iter().all(|call| call.ended < Some(own.told())), "an event after the close");
    }
}

/// Each close completes once, after the closes of the object's successors; no object is left.
// Shows S1202.
#[test]
fn every_order() {
    for seed in seeds(250) {
        let world = World::seeded(seed);
        closed_in_any_order(&world, seed);
        world.flush_dpcs();
        assert_eq!(world.provider.counters().ActiveConnection, 0);
    }
}

/// Like `every_order`, on real threads.
// Shows S1202.
#[test]
fn every_order_in_parallel() {
    let world = World::new();
    (0..150).for_each(|round| closed_in_any_order(&world, 1_000_000 + round));
    world.flush_dpcs();
    assert_eq!(world.provider.counters().ActiveConnection, 0);
}
