//! Memory that can't be had, at each place in turn, and threads that get in each other's way.

mod common;

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use common::{
    User, World, start,
    user::{Answer, bind, handle, work},
};
use ndk_abi::{nd_ioctl::*, ndkpi::*, status::*};
use simkernel::{boot, watchdog};

const LIMIT: Duration = Duration::from_secs(120);

/// Everything once: a connection, then each code with a valid input. No status matters here.
fn everything(user: &User<'_>, world: &World, active: [u64; 2]) {
    let answers = connection(user, world, active);
    for case in world.cases(user) {
        user.send_bytes(case.code, &case.input, case.output);
    }
    drop(answers);
}

/// As much of a connection from `active`, a connector and a queue pair, to the world's as there is memory for.
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
            let fault = session.fail_allocation(nth);
            everything(&user, &world, active);
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

#[test]
fn each_mapping_may_fail() {
    for nth in 1.. {
        let session = boot();
        let device = start();
        let happened = watchdog(LIMIT, || {
            let user = User::new(&device);
            let world = World::new(&user);
            let active = active(&user, &world);
            let fault = session.fail_mapping(nth);
            everything(&user, &world, active);
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

#[test]
fn threads_that_share_a_file_race_with_its_cleanup() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        for round in 0..30 {
            let user = User::new(&device);
            let world = World::new(&user);
            let other = World::new(&user);
            let stop = AtomicBool::new(false);
            let answers = thread::scope(|scope| {
                let workers: Vec<_> = (0..4)
                    .map(|worker| {
                        let (user, worlds, stop) = (&user, [&world, &other], &stop);
                        scope.spawn(move || {
                            let mut answers = Vec::new();
                            let mut turn = worker * 7;
                            while !stop.load(Ordering::Relaxed) && answers.len() < 2000 {
                                let cases = worlds[turn % 2].cases(user);
                                let case = &cases[turn % cases.len()];
                                // Frees are rare, so that there is something to race for.
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
                user.file.cleanup(&simkernel::passive());
                stop.store(true, Ordering::Relaxed);
                workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect::<Vec<_>>()
            });
            for answer in answers {
                answer.wait();
            }
            assert_eq!(user.call(IOCTL_ND_QP_FREE, &handle(world.qp)), STATUS_DEVICE_REMOVED);
        }
    });
    assert_eq!(device.host().provider().object_counts(), ndk_provider::ObjectCounts::default());
}
