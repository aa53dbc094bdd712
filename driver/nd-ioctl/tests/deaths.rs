//! A process that ends in mid traffic, with rings and second files, and handles of other contexts.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use nd_rings::user::CompletionRing;
use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, status::*};
use ndk_provider::ObjectCounts;
use simkernel::{boot, watchdog};
use users::{
    User, World,
    rings::{Ringed, connect, push},
    start,
    user::{Answer, Memory, handle, work},
};

const LIMIT: Duration = Duration::from_secs(60);

/// Polls the ring of completions.
fn poll(user: &User<'_>, ringed: &Ringed, completions: &mut CompletionRing) {
    if completions.poll(64, drop) > 0 && completions.needs_doorbell() {
        user.send(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.cq));
    }
}

/// Keeps the rings of a queue pair full, with doorbells, until `stop` is set. The process may have ended by then.
fn stream(user: &User<'_>, ringed: &Ringed, memory: &Memory, stop: &AtomicBool, started: &Barrier) {
    let [mut sends, mut receives] = ringed.writers();
    let mut completions = ringed.completions();
    let mut context = 0;
    while !stop.load(Ordering::Relaxed) {
        let send = SOFTNDK_POST { SgeCount: 1, ..work(NdkOperationTypeSend, 0, context) };
        push(&mut sends, &send, &[memory.sge(0, 4096)]);
        let receive = SOFTNDK_POST { SgeCount: 1, ..work(NdkOperationTypeReceive, 0, context) };
        push(&mut receives, &receive, &[memory.sge(4096, 4096)]);
        user.send(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp));
        if context == 4 {
            started.wait();
        }
        poll(user, ringed, &mut completions);
        context += 1;
    }
}

// Shows T23.
#[test]
fn a_process_with_rings_dies_in_mid_traffic() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        for round in 0..40 {
            let (peer, user) = (User::new(&device), User::new(&device));
            let (at, from) = (World::listening(&peer), World::new(&user));
            let rings = [Ringed::new(&peer, &at).unwrap(), Ringed::new(&user, &from).unwrap()];
            let memory = [peer.memory(at.pd, 2), user.memory(from.pd, 2)];
            connect(&user, [from.connector, rings[1].qp], &peer, [at.connector, rings[0].qp], at.listener);
            let second = user.attached();
            let told = peer.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(at.connector));
            let waiting: Vec<Answer> = [ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS, ND_CQ_NOTIFY_SOLICITED]
                .into_iter()
                .map(|kind| second.notify(rings[1].cq, kind))
                .collect();
            let (stop, started) = (AtomicBool::new(false), Barrier::new(3));
            thread::scope(|scope| {
                scope.spawn(|| stream(&peer, &rings[0], &memory[0], &stop, &started));
                scope.spawn(|| stream(&user, &rings[1], &memory[1], &stop, &started));
                started.wait();
                thread::sleep(Duration::from_micros(100 * (round % 8)));
                // The files of the process are closed in either order.
                let files = [&user.file, &second.file];
                files[round as usize % 2].cleanup(&simkernel::passive());
                files[(round as usize + 1) % 2].cleanup(&simkernel::passive());
                assert!(waiting.iter().all(|answer| !answer.is_pending()));
                stop.store(true, Ordering::Relaxed);
            });
            assert_eq!(told.wait(), STATUS_SUCCESS);
            // The peer is not harmed. The memory that is still locked is its own: five rings and a region.
            assert_eq!(device.host().pinned(), 6);
            assert_eq!(peer.call(IOCTL_ND_QP_FLUSH, &handle(rings[0].qp)), STATUS_SUCCESS);
            poll(&peer, &rings[0], &mut rings[0].completions());
            let notify = peer.notify(rings[0].cq, ND_CQ_NOTIFY_ANY);
            push(&mut rings[0].writers()[1], &work(NdkOperationTypeReceive, 0, 0), &[]);
            assert_eq!(peer.call(IOCTL_ND_QP_FLUSH, &handle(rings[0].qp)), STATUS_SUCCESS);
            // The CQ is overrun if the peer polled slowly.
            assert!(matches!(notify.wait(), STATUS_SUCCESS | STATUS_BUFFER_OVERFLOW));
            drop((peer, user));
            assert_eq!(device.host().pinned(), 0);
            assert_eq!(device.host().provider().object_counts(), ObjectCounts::default());
        }
    });
}

// Shows T22.
#[test]
fn a_doorbell_is_for_an_object_of_the_own_context_with_a_queue() {
    let session = boot();
    let device = start();
    let (user, other) = (User::new(&device), User::new(&device));
    let (world, others) = (World::new(&user), World::new(&other));
    let (own, foreign) = (Ringed::new(&user, &world).unwrap(), Ringed::new(&other, &others).unwrap());
    let second = user.attached();
    for sender in [&user, &second] {
        let ring = |object: u64| sender.call(IOCTL_SOFTNDK_DOORBELL, &handle(object));
        for object in [own.cq, own.srq, own.qp, own.srq_qp] {
            assert_eq!(ring(object), STATUS_SUCCESS);
        }
        let wrong = [
            world.adapter,
            world.pd,
            world.mr,
            world.mw,
            world.connector,
            world.listener,
            0,
            u64::MAX,
            own.qp ^ 1 << 40,
        ];
        for object in wrong.into_iter().chain([foreign.cq, foreign.srq, foreign.qp, foreign.srq_qp]) {
            assert_eq!(ring(object), STATUS_INVALID_HANDLE, "{object:#x}");
        }
    }
    // The rings of a freed object are not read, and their memory is unlocked.
    let before = device.host().pinned();
    for (code, object) in [(IOCTL_ND_QP_FREE, own.srq_qp), (IOCTL_ND_QP_FREE, own.qp), (IOCTL_ND_SRQ_FREE, own.srq)] {
        assert_eq!(second.call(code, &handle(object)), STATUS_SUCCESS);
        assert_eq!(user.call(IOCTL_SOFTNDK_DOORBELL, &handle(object)), STATUS_INVALID_HANDLE);
    }
    session.flush_dpcs();
    assert_eq!(device.host().pinned(), before - 4);
}

// Shows T22.
#[test]
fn queue_pairs_take_no_queues_of_others() {
    let _session = boot();
    let device = start();
    let (user, other) = (User::new(&device), User::new(&device));
    let (world, others) = (World::new(&user), World::new(&other));
    let foreign = Ringed::new(&other, &others).unwrap();
    let attached = other.attached();
    let before = device.host().provider().object_counts();
    for (pd, cq) in [(world.pd, foreign.cq), (others.pd, world.cq), (others.pd, foreign.cq)] {
        let create = ND_CREATE_QP { Header: user.qp_header(pd, cq), ReceiveQueueDepth: 1, MaxReceiveRequestSge: 1 };
        let made = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE, &create);
        assert_eq!(made.map(|_| ()), Err(STATUS_INVALID_HANDLE));
    }
    let header = user.qp_header(world.pd, world.cq);
    let create = ND_CREATE_QP_WITH_SRQ { Header: header, SrqHandle: foreign.srq };
    let made = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE_WITH_SRQ, &create);
    assert_eq!(made.map(|_| ()), Err(STATUS_INVALID_HANDLE));
    assert_eq!(device.host().provider().object_counts(), before);
    // A second file of the other context may use these queues.
    let header = attached.qp_header(others.pd, foreign.cq);
    let create = ND_CREATE_QP { Header: header, ReceiveQueueDepth: 1, MaxReceiveRequestSge: 1 };
    assert!(attached.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE, &create).is_ok());
}
