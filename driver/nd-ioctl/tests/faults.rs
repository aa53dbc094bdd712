//! Allocations and mappings that fail, each in turn, and threads that race.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, status::*};
use simkernel::{boot, boot_seeded, scope, seeds, watchdog};
use users::{
    User, World,
    rings::{Ringed, push},
    start,
    user::{Answer, bind, handle, work},
};

const LIMIT: Duration = Duration::from_secs(120);

/// Sends everything once: a second file, objects with rings, a connection, then each code with a valid input. The statuses do not matter
/// here.
fn everything(user: &User<'_>, [second, third]: &[User<'_>; 2], world: &World, active: [u64; 2]) {
    if let Ok(SOFTNDK_FILE_ID { Id }) = user.ask(IOCTL_SOFTNDK_FILE_ID, &handle(0)) {
        second.send(IOCTL_SOFTNDK_ATTACH, &handle(Id));
    }
    let notify = second.notify(world.cq, ND_CQ_NOTIFY_ERRORS);
    third.send(IOCTL_ND_PROVIDER_INIT, &handle(0));
    if let Ok(ringed) = Ringed::new(user, world) {
        let [mut sends, mut receives] = ringed.writers();
        for context in 0..4 {
            push(&mut receives, &work(NdkOperationTypeReceive, 0, context), &[]);
            push(&mut sends, &work(NdkOperationTypeSend, 0, context), &[]);
        }
        for object in [ringed.cq, ringed.srq, ringed.qp, ringed.srq_qp] {
            user.send(IOCTL_SOFTNDK_DOORBELL, &handle(object));
        }
        second.notify(ringed.cq, ND_CQ_NOTIFY_ANY);
    }
    let answers = connection(user, world, active);
    drop(notify);
    for case in world.cases(user) {
        user.send_bytes(case.code, &case.input, case.output);
    }
    drop(answers);
}

/// Connects `connector` and `qp` to the world's listener and connector, as far as there is memory.
fn connection(user: &User<'_>, world: &World, [connector, qp]: [u64; 2]) -> Option<Vec<Answer>> {
    user.send(IOCTL_ND_LISTENER_BIND, &bind(world.listener, "10.1.2.3:0"));
    let listen = ND_LISTEN { Version: 1, Backlog: 2, ListenerHandle: world.listener };
    user.send(IOCTL_ND_LISTENER_LISTEN, &listen);
    let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).ok()?;
    let requested = user.get_request(world.listener, world.connector);
    let connect = user.connect(connector, qp, address, b"data");
    while requested.is_pending() && connect.is_pending() {
        thread::yield_now();
    }
    if requested.is_pending() || requested.wait() != STATUS_SUCCESS {
        return Some(vec![requested, connect]);
    }
    let accept = user.accept(world.connector, world.qp, b"more data");
    while connect.is_pending() && accept.is_pending() {
        thread::yield_now();
    }
    let complete = user.send(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(connector));
    let told = user.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(connector));
    user.post(&work(NdkOperationTypeReceive, world.qp, 1), &[], b"");
    user.post(&work(NdkOperationTypeSend, qp, 1), &[], b"");
    let disconnect = user.send(IOCTL_ND_CONNECTOR_DISCONNECT, &handle(connector));
    Some(vec![accept, complete, told, disconnect])
}

/// A connector and a queue pair for the active side.
fn active(user: &User<'_>, world: &World) -> [u64; 2] {
    [user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter), user.qp(world.pd, world.cq)]
}

// Shows N50, T16.
#[test]
fn each_allocation_may_fail() {
    let mut failed = 0;
    for nth in 1.. {
        let session = boot();
        let device = start();
        let happened = watchdog(LIMIT, || {
            let user = User::new(&device);
            let world = World::new(&user);
            let active = active(&user, &world);
            let others = [0; 2].map(|_| User::stranger(&device));
            let fault = session.fail_allocation(nth);
            everything(&user, &others, &world, active);
            drop(user);
            fault.happened()
        });
        assert_eq!(device.host().pinned(), 0, "allocation {nth} failed");
        if !happened {
            break;
        }
        failed += 1;
    }
    assert!(failed > 60, "only {failed} allocations");
}

// Shows T16.
#[test]
fn each_mapping_may_fail() {
    for nth in 1.. {
        let session = boot();
        let device = start();
        let happened = watchdog(LIMIT, || {
            let user = User::new(&device);
            let world = World::new(&user);
            let active = active(&user, &world);
            let others = [0; 2].map(|_| User::stranger(&device));
            let fault = session.fail_mapping(nth);
            everything(&user, &others, &world, active);
            drop(user);
            fault.happened()
        });
        assert_eq!(device.host().pinned(), 0, "mapping {nth} failed");
        if !happened {
            assert!(nth > 1, "nothing was mapped");
            break;
        }
    }
}

/// The process is killed before each request in turn; the requests after that find nothing.
// Shows S907.
#[test]
fn a_process_may_die_before_any_request() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let mut deaths = 0;
        loop {
            let user = User::new(&device);
            let world = World::new(&user);
            let active = active(&user, &world);
            let others = [0; 2].map(|_| User::stranger(&device));
            user.dies_after(deaths);
            everything(&user, &others, &world, active);
            if user.lives() {
                break;
            }
            let left = device.host().provider().object_counts();
            assert_eq!(left, ndk_provider::ObjectCounts::default(), "killed before request {deaths}");
            assert_eq!(device.host().pinned(), 0, "killed before request {deaths}");
            deaths += 1;
        }
        assert!(deaths > 60, "only {deaths} requests");
    });
}

/// The cleanup of the file begins while a request uses its object: if the request fails, its status is STATUS_DEVICE_REMOVED.
#[test]
fn what_fails_beside_the_cleanup_is_removed() {
    for seed in seeds(2000) {
        let _session = boot_seeded(seed);
        let device = start();
        let user = User::new(&device);
        let memory = user.memory(user.create(IOCTL_ND_PD_CREATE, user.adapter()), 1);
        scope(|scope| {
            scope.spawn(|| user.file.cleanup(&simkernel::passive()));
            scope.spawn(|| {
                let status = user.call(IOCTL_ND_MR_DEREGISTER, &handle(memory.mr));
                assert!(matches!(status, STATUS_SUCCESS | STATUS_DEVICE_REMOVED), "seed {seed}: {status}");
            });
        });
    }
}

// Shows T14.
#[test]
fn threads_that_share_a_file_race_with_its_cleanup() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        for round in 0..30 {
            let user = User::new(&device);
            let world = World::new(&user);
            let other = World::new(&user);
            let second = user.attached();
            let users = [user, second];
            let stop = AtomicBool::new(false);
            let answers = thread::scope(|scope| {
                let workers: Vec<_> = (0..4)
                    .map(|worker| {
                        // Half of the threads use a second file.
                        let (user, worlds, stop) = (&users[worker % 2], [&world, &other], &stop);
                        scope.spawn(move || {
                            let mut answers = Vec::new();
                            let mut turn = worker * 7;
                            while !stop.load(Ordering::Relaxed) && answers.len() < 2000 {
                                let cases = worlds[turn % 2].cases(user);
                                let case = &cases[turn % cases.len()];
                                // Frees are rare, so that there are objects to race for.
                                if turn % cases.len() < cases.len() - 9 || turn % 5 == 0 {
                                    answers.push(user.send_bytes(case.code, &case.input, case.output));
                                }
                                turn += 3;
                            }
                            answers
                        })
                    })
                    .collect();
                thread::sleep(Duration::from_millis(round));
                // Cleans up the second file before the first, or not at all.
                for user in users.iter().rev().skip(usize::from(round % 2 == 0)) {
                    user.file.cleanup(&simkernel::passive());
                }
                stop.store(true, Ordering::Relaxed);
                workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
            });
            for answer in answers {
                answer.wait();
            }
            for user in &users {
                assert_eq!(user.call(IOCTL_ND_QP_FREE, &handle(world.qp)), STATUS_DEVICE_REMOVED);
            }
        }
    });
    assert_eq!(device.host().provider().object_counts(), ndk_provider::ObjectCounts::default());
}
