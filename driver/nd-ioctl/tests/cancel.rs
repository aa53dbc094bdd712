//! A pended request is completed once: by its event, `*_CANCEL_IO`, the free of the object, a cleanup, or the cancel routine.

use std::{
    sync::{Arc, Barrier},
    thread,
    time::Duration,
};

use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, status::*};
use simkernel::{boot, watchdog};
use users::{
    User, World,
    request::Shared,
    start,
    user::{Answer, handle, work},
};
use zerocopy::IntoBytes;

const LIMIT: Duration = Duration::from_secs(60);

/// One pended request of each kind that needs no connection, with the code that cancels it, the code that frees its object, and the object.
fn pend_each(user: &User<'_>, world: &World) -> Vec<(Answer, u32, u32, u64)> {
    let srq = user.send(IOCTL_ND_SRQ_NOTIFY, &handle(world.srq));
    vec![
        (user.notify(world.cq, ND_CQ_NOTIFY_ANY), IOCTL_ND_CQ_CANCEL_IO, IOCTL_ND_CQ_FREE, world.cq),
        (user.notify(world.cq, ND_CQ_NOTIFY_ERRORS), IOCTL_ND_CQ_CANCEL_IO, IOCTL_ND_CQ_FREE, world.cq),
        (srq, IOCTL_ND_SRQ_CANCEL_IO, IOCTL_ND_SRQ_FREE, world.srq),
        (
            user.get_request(world.listener, world.connector),
            IOCTL_ND_LISTENER_CANCEL_IO,
            IOCTL_ND_LISTENER_FREE,
            world.listener,
        ),
    ]
}

#[test]
fn the_cancel_routine_completes_any_pended_request() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::listening(&user);
    for (answer, ..) in pend_each(&user, &world) {
        assert!(answer.is_pending());
        answer.shared.cancel(&user.file);
        assert_eq!(answer.wait(), STATUS_CANCELLED);
        // A late cancel, and one with a made-up identifier, find nothing.
        answer.shared.cancel(&user.file);
        user.file.cancel(0x1234_0000_0000);
    }
    // The connector does not wait, so it can wait again.
    assert!(user.get_request(world.listener, world.connector).is_pending());
}

/// The request was sent to the listener, not to the connector.
#[test]
fn cancel_io_of_a_connector_leaves_what_a_listener_was_asked_for_it() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::listening(&user);
    let asked = user.get_request(world.listener, world.connector);
    assert_eq!(user.call(IOCTL_ND_CONNECTOR_CANCEL_IO, &handle(world.connector)), STATUS_SUCCESS);
    assert!(asked.is_pending());
    assert_eq!(user.call(IOCTL_ND_CONNECTOR_FREE, &handle(world.connector)), STATUS_SUCCESS);
    assert_eq!(asked.wait(), STATUS_CANCELLED);
}

#[test]
fn a_request_cancelled_before_it_is_sent_does_not_pend() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::listening(&user);
    let shared = Arc::new(Shared::default());
    shared.cancel_before_it_is_sent();
    let notify = ND_CQ_NOTIFY { Version: 1, Type: ND_CQ_NOTIFY_ANY, CqHandle: world.cq };
    let answer = user.send_shared(IOCTL_ND_CQ_NOTIFY, notify.as_bytes(), 0, shared);
    assert_eq!((answer.returned, answer.wait()), (STATUS_CANCELLED, STATUS_CANCELLED));
    let shared = Arc::new(Shared::default());
    shared.cancel_before_it_is_sent();
    let get = ND_GET_CONNECTION_REQUEST {
        Version: 1,
        Reserved: 0,
        ListenerHandle: world.listener,
        ConnectorHandle: world.connector,
    };
    let answer = user.send_shared(IOCTL_ND_LISTENER_GET_CONNECTION_REQUEST, get.as_bytes(), 0, shared);
    assert_eq!(answer.wait(), STATUS_CANCELLED);
    assert!(user.get_request(world.listener, world.connector).is_pending(), "the connector is free again");
}

#[test]
fn cancel_io_and_free_complete_in_order_of_issue() {
    let _session = boot();
    let device = start();
    for free in [false, true] {
        let user = User::new(&device);
        let world = World::listening(&user);
        let more = pend_each(&user, &world);
        let notifies: Vec<_> = (0..50).map(|kind| user.notify(world.cq, kind % 3)).collect();
        for (_, cancel, close, object) in &more {
            // The second call for one object finds its requests cancelled, or the object freed.
            user.call(if free { *close } else { *cancel }, &handle(*object));
        }
        assert!(more.iter().all(|(answer, ..)| answer.wait() == STATUS_CANCELLED));
        assert!(notifies.iter().all(|answer| answer.wait() == STATUS_CANCELLED));
        assert!(notifies.iter().map(|answer| answer.shared.order()).is_sorted());
    }
}

#[test]
fn cleanup_leaves_to_the_cancel_routine_what_it_has_begun() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::listening(&user);
    let pended = pend_each(&user, &world);
    let begun: Vec<_> = pended.iter().map(|(answer, ..)| answer.shared.begin_cancel()).collect();
    // All calls but those of the cancel routines pass these requests over.
    assert_eq!(user.call(IOCTL_ND_CQ_CANCEL_IO, &handle(world.cq)), STATUS_SUCCESS);
    assert_eq!(user.call(IOCTL_ND_SRQ_FREE, &handle(world.srq)), STATUS_SUCCESS);
    thread::scope(|scope| {
        // The cleanup may wait for the cancel routines, but completes none of their requests.
        let cleanup = scope.spawn(|| user.file.cleanup(&simkernel::passive()));
        thread::sleep(Duration::from_millis(20));
        for ((answer, ..), id) in pended.iter().zip(begun) {
            assert!(answer.is_pending());
            user.file.cancel(id.expect("it was pended"));
            assert_eq!(answer.wait(), STATUS_CANCELLED);
        }
        cleanup.join().unwrap();
    });
    // After the cleanup there are no handles.
    assert_eq!(user.notify(world.cq, ND_CQ_NOTIFY_ANY).wait(), STATUS_DEVICE_REMOVED);
    let open = ND_OPEN_ADAPTER { Version: 1, AdapterId: users::host::ADAPTER_ID, ..ndk_abi::describe::ZeroInit::ZERO };
    let open = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_ADAPTER_OPEN, &open);
    assert_eq!(open.map(|_| ()), Err(STATUS_DEVICE_REMOVED));
}

#[test]
fn a_second_cleanup_waits_for_the_first() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::listening(&user);
    user.memory(world.pd, 1);
    // The first cleanup waits for a cancel routine that has begun.
    let request = user.get_request(world.listener, world.connector);
    let id = request.shared.begin_cancel().expect("it was pended");
    thread::scope(|scope| {
        let cleanup = || {
            user.file.cleanup(&simkernel::passive());
            device.host().pinned()
        };
        let cleanups = [scope.spawn(cleanup), scope.spawn(cleanup)];
        thread::sleep(Duration::from_millis(50));
        let finished = cleanups.iter().any(|cleanup| cleanup.is_finished());
        user.file.cancel(id);
        assert!(!finished, "a cleanup returned before the file was clean");
        assert_eq!(cleanups.map(|cleanup| cleanup.join().unwrap()), [0, 0]);
    });
    assert_eq!(request.wait(), STATUS_CANCELLED);
}

// Shows P12.
#[test]
fn an_event_and_a_cancel_race_for_each_request() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let adapter = user.adapter();
        let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
        let cq = user.cq(adapter, 256);
        let qp = user.qp(pd, cq);
        let mut ends = [0, 0];
        for context in 0..200 {
            assert_eq!(user.post(&work(NdkOperationTypeReceive, qp, context), &[], b""), STATUS_SUCCESS);
            let answers = [0; 4].map(|_| user.notify(cq, ND_CQ_NOTIFY_ANY));
            thread::scope(|scope| {
                for answer in &answers[1..3] {
                    scope.spawn(|| answer.shared.cancel(&user.file));
                }
                scope.spawn(|| user.call(IOCTL_ND_QP_FLUSH, &handle(qp)));
                scope.spawn(|| user.call(IOCTL_ND_CQ_CANCEL_IO, &handle(cq)));
            });
            for answer in answers {
                match answer.wait() {
                    STATUS_SUCCESS => ends[0] += 1,
                    STATUS_CANCELLED => ends[1] += 1,
                    status => panic!("{status}"),
                }
            }
            assert_eq!(user.completions(cq, 1)[0].Status, STATUS_CANCELLED);
        }
        assert!(ends[1] > 0, "{ends:?}");
    });
}

// Shows T14.
#[test]
fn a_request_that_races_with_the_free_of_its_object_ends() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let adapter = user.adapter();
        let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
        for round in 0..300 {
            let cq = user.cq(adapter, 1);
            let srq = user.srq(pd, 1, 1);
            // As many receives as the threshold, so that an SRQ_NOTIFY waits.
            let receive = SOFTNDK_SRQ_POST { Version: 1, SgeCount: 0, SrqHandle: srq, RequestContext: 1 };
            assert_eq!(user.call(IOCTL_SOFTNDK_SRQ_POST, &receive), STATUS_SUCCESS);
            let (listener, _) = user.listener(adapter, "10.1.2.3:0", 1);
            let connector = user.create(IOCTL_ND_CONNECTOR_CREATE, adapter);
            let barrier = Barrier::new(4);
            let (barrier, user) = (&barrier, &user);
            let together = move |begin: Box<dyn FnOnce() -> Answer + Send>| {
                barrier.wait();
                begin()
            };
            let answers = thread::scope(|scope| {
                let requests: [Box<dyn FnOnce() -> Answer + Send>; 3] = [
                    Box::new(move || user.notify(cq, ND_CQ_NOTIFY_ANY)),
                    Box::new(move || user.send(IOCTL_ND_SRQ_NOTIFY, &handle(srq))),
                    Box::new(move || user.get_request(listener, connector)),
                ];
                let requests = requests.map(|request| scope.spawn(move || together(request)));
                barrier.wait();
                let mut frees = [(IOCTL_ND_CQ_FREE, cq), (IOCTL_ND_SRQ_FREE, srq), (IOCTL_ND_LISTENER_FREE, listener)];
                frees.rotate_left(round % 3);
                for (free, object) in frees {
                    user.call(free, &handle(object));
                }
                requests.map(|request| request.join().unwrap())
            });
            for answer in answers {
                assert!(matches!(
                    answer.wait(),
                    STATUS_CANCELLED | STATUS_INVALID_HANDLE | STATUS_INVALID_DEVICE_STATE
                ));
            }
            assert_eq!(user.call(IOCTL_ND_CONNECTOR_FREE, &handle(connector)), STATUS_SUCCESS);
        }
    });
}
