//! Object lifetime requirements: antecedents outlive their successors, callbacks and closes cross.

use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
};

use ndk_abi::{
    ndkpi::NDK_CQ_NOTIFY_ANY,
    status::{STATUS_CANCELLED, STATUS_CONNECTION_REFUSED, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};

use crate::{
    connector::Scene,
    kit::{
        Buffer, Connector, FastRegion, LIMIT, Options, Pair, QpSizes, Request, Unconnected, Waiter, World, loopback,
        now,
    },
};

/// Checks that each close was pending until `until`, and that they ended in this order.
#[track_caller]
fn assert_order(closes: &[Request]) {
    let times: Vec<_> = closes.iter().map(|close| close.completion.wait_for(1)[0]).collect();
    for (earlier, later) in times.iter().zip(&times[1..]) {
        assert!(earlier.ended < Some(later.begun), "{times:?}");
    }
}

#[test]
fn a_domain_outlives_what_was_made_in_it() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let cq = world.adapter.create_cq(4).expect("a CQ");
    let mr = pd.create_mr(false).expect("an MR");
    let fast = pd.create_mr(true).expect("an MR");
    let srq = pd.create_srq(4, 1, 0).expect("an SRQ");
    let qp = pd.create_qp(&cq, &cq, 0, QpSizes::default()).expect("a QP");
    let close = pd.close();
    assert!(close.pended());
    let successors: [&dyn Fn(); 4] =
        [&|| mr.close_now(), &|| fast.close_now(), &|| srq.close_now(), &|| qp.close_now()];
    for close_successor in successors {
        world.flush_dpcs();
        assert!(!close.is_done());
        close_successor();
    }
    close.succeed();
    cq.close_now();
}

// Shows S1201.
#[test]
fn queues_outlive_their_queue_pairs() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let cqs = [(); 2].map(|()| world.adapter.create_cq(4).expect("a CQ"));
    let srq = pd.create_srq(4, 1, 0).expect("an SRQ");
    assert_eq!(srq.receive(1, &[]), STATUS_SUCCESS);
    let qps = [(); 2].map(|()| pd.create_qp_with_srq(&cqs[0], &cqs[1], &srq, 0, QpSizes::default()).expect("a QP"));
    let closes = [cqs[0].close(), cqs[1].close(), srq.close(), pd.close()];
    for qp in qps {
        assert!(closes.iter().all(|close| close.pended() && !close.is_done()));
        qp.close_now();
    }
    closes.iter().for_each(|close| close.succeed());
    // The domain is an antecedent of the shared queue.
    assert_order(&[closes[2], closes[3]]);
}

/// A queue pair gives its slots in its queues back: the queues do not grow with each queue pair.
#[test]
fn queues_do_not_grow_as_queue_pairs_come_and_go() {
    let world = World::new();
    let pd = world.adapter.create_pd().expect("a PD");
    let cqs = [(); 2].map(|()| world.adapter.create_cq(4).expect("a CQ"));
    let srq = pd.create_srq(4, 1, 0).expect("an SRQ");
    let come_and_go =
        || pd.create_qp_with_srq(&cqs[0], &cqs[1], &srq, 0, QpSizes::default()).expect("a QP").close_now();
    // The first one allocates the slots.
    come_and_go();
    world.flush_dpcs();
    let before = world.session.ledger().pool_bytes();
    (0..100).for_each(|_| come_and_go());
    world.flush_dpcs();
    assert_eq!(world.session.ledger().pool_bytes(), before);
    cqs.iter().for_each(|cq| cq.close_now());
    srq.close_now();
    pd.close_now();
}

#[test]
fn a_queue_pair_outlives_its_connection() {
    let world = World::new();
    for by_active in [true, false] {
        let pair = Pair::new(&world.adapter);
        let view = if by_active { pair } else { pair.swapped() };
        let side = view.active;
        assert_eq!(side.qp.receive(1, &[]), STATUS_SUCCESS);
        let close = side.qp.close();
        assert!(close.pended());
        // A plain dereference: the connection lives, the receives stay.
        world.flush_dpcs();
        assert!(!close.is_done() && view.passive.disconnected.count() == 0);
        assert_eq!(view.passive.qp.send(2, &[], 0), STATUS_SUCCESS);
        view.passive.expect(2, STATUS_SUCCESS);
        side.expect_receive(1, STATUS_SUCCESS);
        let connector = side.connector.close();
        connector.succeed();
        close.succeed();
        side.receive_cq.close_now();
        side.initiator_cq.close_now();
        side.pd.close_now();
        view.passive.close();
        pair.listener.close_now();
    }
}

/// The consumer closes all objects in the wrong order, antecedents first. Each close ends after the closes of the object's successors.
// Shows S1202.
#[test]
fn everything_closed_from_the_root() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let side = pair.passive;
    let buffer = Buffer::full(&side.pd, 1);
    let listener = pair.listener.close();
    let pd = side.pd.close();
    let cqs = [side.receive_cq.close(), side.initiator_cq.close()];
    let qp = side.qp.close();
    let mr = buffer.mr.close();
    mr.succeed();
    for close in [listener, pd, cqs[0], cqs[1], qp] {
        assert!(close.pended() && !close.is_done());
    }
    side.connector.close_now();
    for close in [listener, qp, cqs[0], cqs[1], pd] {
        close.succeed();
    }
    for cq in cqs {
        assert_order(&[qp, cq]);
    }
    assert_order(&[qp, pd]);
    pair.active.close();
}

/// A posted request holds its region: the region's close ends after the flush has cancelled the request.
#[test]
fn a_region_in_a_waiting_request_lives_as_long_as_that() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let region = FastRegion::new(&world.adapter, &pair.active.pd, 1, true);
    assert_eq!(pair.active.qp.send(1, &[], 0), STATUS_SUCCESS);
    assert_eq!(region.post(&pair.active, 2, 0), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.invalidate(3, &region.mr, 0), STATUS_SUCCESS);
    let close = region.mr.close();
    world.flush_dpcs();
    assert!(close.pended() && !close.is_done());
    pair.active.qp.flush();
    (1..4).for_each(|context| {
        pair.active.expect(context, STATUS_CANCELLED);
    });
    close.succeed();
    pair.close();
}

/// Collects the closes that callbacks begin.
#[derive(Clone, Default)]
struct Closes(Arc<Mutex<Vec<Request>>>);

impl Closes {
    fn push(&self, close: Request) {
        self.0.lock().expect("no panic").push(close);
    }

    #[track_caller]
    fn succeed(&self, count: usize) {
        let closes = self.0.lock().expect("no panic").clone();
        assert_eq!(closes.len(), count);
        closes.iter().for_each(|close| close.succeed());
    }
}

/// A CQ notification closes the queue and the queue pair whose completions it is about.
// Shows S1203.
#[test]
fn close_in_a_cq_notification() {
    let world = World::new();
    let side = Unconnected::new(&world.adapter, 1, Options::default());
    let closes = Closes::default();
    let (cq, pushed) = (side.receive_cq, closes.clone());
    cq.notified.on_call(move |_| {
        pushed.push(cq.close());
        pushed.push(side.qp.close());
    });
    cq.arm(NDK_CQ_NOTIFY_ANY);
    assert_eq!(side.qp.receive(1, &[]), STATUS_SUCCESS);
    side.qp.flush();
    let callback = cq.notified.wait_for(1)[0];
    closes.succeed(2);
    let close = closes.0.lock().expect("no panic")[0];
    assert!(close.pended() && callback.ended < Some(close.completion.calls()[0].begun), "not inside of the callback");
    side.initiator_cq.close_now();
    side.pd.close_now();
}

// Shows S1203.
#[test]
fn close_in_a_connect_event() {
    let world = World::new();
    let scene = Scene::new(&world);
    let closes = Closes::default();
    let pushed = closes.clone();
    scene.listener.events.on_call(move |event| pushed.push(Connector::of_event(event.value).close()));
    for _ in 0..10 {
        assert_eq!(scene.connect().wait(), STATUS_CONNECTION_REFUSED);
    }
    world.flush_dpcs();
    closes.succeed(10);
    scene.close(true);
}

/// The whole passive side in callbacks, at DISPATCH_LEVEL: accept in the connect event, close in the disconnect event.
#[test]
fn a_passive_side_that_lives_in_callbacks() {
    let world = World::new();
    let scene = Scene::new(&world);
    let closes = Closes::default();
    let (pushed, qp) = (closes.clone(), scene.passive.qp);
    let event = Waiter::deferred("disconnect event, passive");
    let accept = Arc::new(Mutex::new(None));
    let accepted = accept.clone();
    scene.listener.events.on_call(move |call| {
        let connector = Connector::of_event(call.value);
        let pushed = pushed.clone();
        event.on_call(move |_| {
            pushed.push(qp.close());
            pushed.push(connector.close());
        });
        *accepted.lock().expect("no panic") = Some(connector.accept_ex(&qp, (1, 1), &[], Some(event)));
    });
    scene.connect().succeed();
    scene.connector.complete(None).succeed();
    scene.listener.events.wait_for(1);
    let accept = accept.lock().expect("no panic").expect("accepted");
    accept.succeed();
    scene.connector.disconnect().succeed();
    event.wait_for(1);
    closes.succeed(2);
    scene.connector.close_now();
    scene.active.close();
    scene.passive.receive_cq.close_now();
    scene.passive.initiator_cq.close_now();
    scene.passive.pd.close_now();
    scene.listener.close_now();
}

/// The active side completes, disconnects and closes from the completions of its requests.
#[test]
fn an_active_side_that_lives_in_callbacks() {
    let world = World::new();
    let scene = Scene::new(&world);
    let closes = Closes::default();
    let (told, tell) = mpsc::channel();
    let (connector, qp, pushed) = (scene.connector, scene.active.qp, closes.clone());
    let passive = scene.listener;
    let event = Waiter::deferred("disconnect event, active");
    let pushed_in_event = closes.clone();
    event.on_call(move |_| {
        pushed_in_event.push(qp.close());
        let close = connector.close();
        pushed_in_event.push(close);
        let _gone = told.send(());
    });
    // The completion of the connect is the place to complete it.
    let connect = scene.connect();
    let theirs = passive.take();
    connect.completion.on_call(move |_| {
        // Inline, as the provider does it.
        connector.complete_ex(Some(event)).succeed();
    });
    let accept = theirs.accept(&scene.passive.qp, (1, 1), &[], None);
    connect.succeed();
    accept.succeed();
    theirs.disconnect().succeed();
    tell.recv_timeout(LIMIT).expect("the event");
    closes.succeed(2);
    drop(pushed);
    theirs.close_now();
    scene.active.receive_cq.close_now();
    scene.active.initiator_cq.close_now();
    scene.active.pd.close_now();
    scene.passive.close();
    scene.listener.close_now();
}

/// A close completion closes the antecedent.
// Shows S1201.
#[test]
fn close_in_a_close_completion() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let side = pair.active;
    let closes = Closes::default();
    let pushed = closes.clone();
    let qp = side.qp.close();
    assert!(qp.pended());
    qp.completion.on_call(move |_| {
        pushed.push(side.receive_cq.close());
        pushed.push(side.initiator_cq.close());
        pushed.push(side.pd.close());
    });
    side.connector.close_now();
    qp.succeed();
    closes.succeed(3);
    pair.passive.close();
    pair.listener.close_now();
}

/// The completion of a deregistration closes the region.
// Shows S1203.
#[test]
fn close_in_a_deregistration() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let (local, remote) = (Buffer::full(&pair.active.pd, 1), Buffer::full(&pair.passive.pd, 1));
    let gate = crate::kit::Gate::shut(&remote.pages, 0);
    assert_eq!(pair.active.qp.write(1, &[local.sge(0, PAGE_SIZE)], remote.base, remote.token, 0), STATUS_SUCCESS);
    gate.reached();
    let closes = Closes::default();
    let (mr, pushed) = (remote.mr, closes.clone());
    let deregister = mr.deregister();
    assert!(deregister.pended());
    deregister.completion.on_call(move |_| pushed.push(mr.close()));
    gate.open();
    deregister.succeed();
    closes.succeed(1);
    pair.active.expect(1, STATUS_SUCCESS);
    local.close();
    pair.close();
}

/// CLOSE_NDK_ADAPTER_HANDLER blocks until the last object of the adapter is freed, and waits for no other adapter.
// Shows S1204.
#[test]
fn adapter_close_blocks_until_all_is_gone() {
    let world = World::new();
    let other = world.open(1, 2).expect("an adapter");
    // A connection between the two, whose objects belong to either.
    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
    let active = Unconnected::new(&other, 1, Options::default());
    let passive = Unconnected::new(&world.adapter, 2, Options::default());
    let (ours, theirs) = crate::kit::connect(&other, &listener, &active.qp, &passive.qp, (1, 1));
    let (ours, theirs) = (active.with(ours.0, ours.1), passive.with(theirs.0, theirs.1));
    let (told, tell) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            world.close_adapter(other);
            let _gone = told.send(now());
        });
        ours.connector.close_now();
        let unconnected = ours.without_connector();
        for object in 0..4 {
            // Time to do wrong.
            thread::sleep(std::time::Duration::from_millis(20));
            assert!(tell.try_recv().is_err(), "{object} of 4 closed");
            match object {
                0 => unconnected.qp.close_now(),
                1 => unconnected.receive_cq.close_now(),
                2 => unconnected.initiator_cq.close_now(),
                _ => unconnected.pd.close_now(),
            }
        }
        tell.recv_timeout(LIMIT).expect("the adapter is closed");
    });
    theirs.disconnected.wait_for(1);
    theirs.close();
    listener.close_now();
}

/// The close of the adapter returns after the last callback has: here the notification, and the close of the CQ, which the notification
/// delays.
// Shows S1204.
#[test]
fn adapter_close_waits_for_callbacks() {
    let world = World::new();
    let adapter = world.open(2, 1).expect("an adapter");
    let side = Unconnected::new(&adapter, 1, Options::default());
    let cq = side.receive_cq;
    let close = Arc::new(Mutex::new(None));
    let closing = close.clone();
    cq.notified.on_call(move |_| {
        *closing.lock().expect("no panic") = Some(cq.close());
        thread::sleep(std::time::Duration::from_millis(50));
    });
    cq.arm(NDK_CQ_NOTIFY_ANY);
    assert_eq!(side.qp.receive(1, &[]), STATUS_SUCCESS);
    side.qp.flush();
    side.qp.close_now();
    side.initiator_cq.close_now();
    side.pd.close_now();
    world.close_adapter(adapter);
    let after = now();
    assert!(cq.notified.calls()[0].ended < Some(after));
    let close = close.lock().expect("no panic").expect("closed");
    assert!(close.completion.calls()[0].ended < Some(after));
}
