//! NDK_SHARED_ENDPOINT: pairs of addresses, and how connections and shared endpoints end.

use std::{sync::Barrier, thread};

use ndk_abi::status::{NTSTATUS, STATUS_ADDRESS_ALREADY_EXISTS, STATUS_CONNECTION_REFUSED, STATUS_SUCCESS};

use crate::{
    connector::Scene,
    kit::{Connector, Request, SharedEndpoint, Side, Waiter, World, loopback},
    shared_endpoint::{connect, endpoint, establish},
};

/// There is one connection between two addresses, from the attempt until either side ends it.
// Shows S711.
#[test]
fn one_connection_for_each_pair_of_addresses() {
    let world = World::new();
    let (scene, other) = (Scene::new(&world), Scene::new(&world));
    let shared = endpoint(&world, loopback(0));
    let again = || {
        let connect = other.connector.connect_shared(&other.active.qp, &shared, scene.remote(), (1, 1), &[]);
        connect.wait()
    };
    let first = connect(&scene, &shared);
    let passive = scene.listener.take();
    assert_eq!(again(), STATUS_ADDRESS_ALREADY_EXISTS, "connecting");
    let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
    first.succeed();
    assert_eq!(again(), STATUS_ADDRESS_ALREADY_EXISTS, "accepted");
    scene.connector.complete(None).succeed();
    accept.succeed();
    assert_eq!(again(), STATUS_ADDRESS_ALREADY_EXISTS, "connected");
    // To another port there is none yet.
    let second = establish(&other, &shared);
    second.close_now();
    // Ended by either side it is free again, although nothing has been closed.
    scene.connector.disconnect().succeed();
    let third = Scene::new(&world);
    let (remote, limits) = (scene.remote(), (1, 1));
    let third_connect = third.connector.connect_shared(&third.active.qp, &shared, remote, limits, &[]);
    let third_passive = scene.listener.take();
    let accept = third_passive.accept(&third.passive.qp, (1, 1), &[], None);
    third_connect.succeed();
    third.connector.complete(None).succeed();
    accept.succeed();
    let fourth = Scene::new(&world);
    let attempt = || fourth.connector.connect_shared(&fourth.active.qp, &shared, remote, limits, &[]);
    assert_eq!(attempt().wait(), STATUS_ADDRESS_ALREADY_EXISTS, "connected again");
    third_passive.disconnect().succeed();
    let last = attempt();
    assert!(last.pended(), "{:?}", last.returned);
    scene.listener.take().close_now();
    assert_eq!(last.wait(), STATUS_CONNECTION_REFUSED);
    [passive, third_passive].into_iter().for_each(Connector::close_now);
    for scene in [fourth, third, other, scene] {
        scene.close(true);
    }
    shared.close_now();
}

/// What is tried again after each way to fail: the pair of addresses is free again.
#[test]
fn attempts_that_fail_give_the_pair_back() {
    let world = World::new();
    let scene = Scene::new(&world);
    let shared = endpoint(&world, loopback(0));
    for way in 0..3 {
        let connect = connect(&scene, &shared);
        let passive = scene.listener.take();
        match way {
            0 => assert_eq!(passive.reject(b"no"), STATUS_SUCCESS),
            1 => {}
            _ => {
                // Given up by the active side, which needs a new connector then.
                scene.connector.close_now();
                assert!(connect.is_done());
            }
        }
        passive.close_now();
        connect.wait();
    }
    let scene = Scene { connector: world.adapter.create_connector().expect("a connector"), ..scene };
    // Accepted, and then rejected by the active side.
    let connect = connect(&scene, &shared);
    let passive = scene.listener.take();
    let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
    connect.succeed();
    assert_eq!(scene.connector.reject(&[]), STATUS_SUCCESS);
    accept.wait();
    passive.close_now();
    scene.connector.close_now();
    let scene = Scene { connector: world.adapter.create_connector().expect("a connector"), ..scene };
    establish(&scene, &shared).close_now();
    scene.close(true);
    shared.close_now();
}

/// NDK_FN_CLOSE_OBJECT on an antecedent: pending until the last connector's close callback has returned.
#[test]
fn close_while_connectors_use_it() {
    let world = World::new();
    let (one, two) = (Scene::new(&world), Scene::new(&world));
    let shared = endpoint(&world, loopback(5000));
    let passives = [establish(&one, &shared), establish(&two, &shared)];
    let close = shared.close();
    assert!(close.pended());
    // The address is free inside the callback.
    let adapter = world.adapter;
    let second: &'static std::sync::Mutex<Option<Request>> = Box::leak(Box::default());
    let result: &'static std::sync::Mutex<Option<NTSTATUS>> = Box::leak(Box::default());
    close.completion.on_call(move |_| {
        let made = adapter.create_shared_endpoint(loopback(5000));
        *result.lock().expect("no panic") = made.as_ref().err().copied();
        *second.lock().expect("no panic") = made.ok().map(SharedEndpoint::close);
    });
    one.connector.close_now();
    world.flush_dpcs();
    assert!(!close.is_done(), "the other one still uses it");
    two.connector.disconnect().succeed();
    world.flush_dpcs();
    assert!(!close.is_done(), "disconnected, but not closed");
    let last = two.connector.close();
    last.succeed();
    close.succeed();
    if last.pended() {
        assert!(
            last.completion.calls()[0].ended < Some(close.completion.calls()[0].begun),
            "the connector's close first"
        );
    }
    assert_eq!(*result.lock().expect("no panic"), None, "the address is free");
    second.lock().expect("no panic").take().expect("closed").succeed();
    passives.into_iter().for_each(Connector::close_now);
    one.close(false);
    two.close(false);
}

/// A failed attempt does not keep it.
#[test]
fn close_during_an_attempt() {
    let world = World::new();
    let scene = Scene::new(&world);
    let shared = endpoint(&world, loopback(5000));
    let connect = connect(&scene, &shared);
    let passive = scene.listener.take();
    let close = shared.close();
    assert!(close.pended());
    assert_eq!(passive.reject(&[]), STATUS_SUCCESS);
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    close.succeed();
    passive.close_now();
    // The connector works with another.
    let shared = endpoint(&world, loopback(5000));
    establish(&scene, &shared).close_now();
    scene.close(true);
    shared.close_now();
}

/// One attempt at a time has a pair of addresses, until the passive side refuses it; each of three threads gets the pair 100 times.
#[test]
fn threads_share_one_pair_of_addresses() {
    let world = World::new();
    let server = Scene::new(&world);
    let shared = endpoint(&world, loopback(0));
    server.listener.events.on_call(move |call| {
        Connector::of_event(call.value).close();
    });
    let start = Barrier::new(3);
    let (made, refused): (Vec<_>, Vec<_>) = thread::scope(|scope| {
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let scene = Scene::new(&world);
                let (start, shared, remote) = (&start, &shared, server.remote());
                scope.spawn(move || {
                    start.wait();
                    let (mut made, mut refused) = (0, 0);
                    while made < 100 {
                        let connect = scene.connector.connect_shared(&scene.active.qp, shared, remote, (1, 1), &[]);
                        match connect.wait() {
                            STATUS_CONNECTION_REFUSED => made += 1,
                            STATUS_ADDRESS_ALREADY_EXISTS => refused += 1,
                            other => panic!("{other:?}"),
                        }
                    }
                    scene.close(true);
                    (made, refused)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).unzip()
    });
    assert_eq!(made, [100; 3]);
    println!("{refused:?} attempts met another one");
    server.close(true);
    shared.close_now();
}

/// The connection through a shared endpoint ends as any other: event, flush, close.
#[test]
fn the_connection_ends_as_any_other() {
    let world = World::new();
    let shared = endpoint(&world, loopback(0));
    for active_ends in [true, false] {
        let scene = Scene::new(&world);
        let connect = connect(&scene, &shared);
        let passive = scene.listener.take();
        let events = (Waiter::deferred("disconnect event, active"), Waiter::deferred("disconnect event, passive"));
        let accept = passive.accept_ex(&scene.passive.qp, (1, 1), &[], Some(events.1));
        connect.succeed();
        scene.connector.complete_ex(Some(events.0)).succeed();
        accept.succeed();
        let active: Side = scene.active.with(scene.connector, events.0);
        let passive = scene.passive.with(passive, events.1);
        let (ending, told) = if active_ends { (active, passive) } else { (passive, active) };
        ending.disconnect();
        assert_eq!(told.disconnected.wait_for(1)[0].value, 0);
        assert_eq!(ending.disconnected.count(), 0);
        active.close();
        passive.close();
        scene.listener.close_now();
    }
    shared.close_now();
}
