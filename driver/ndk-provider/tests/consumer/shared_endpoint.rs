//! NDK_SHARED_ENDPOINT: one local address for several connections.

use std::{
    net::{IpAddr, SocketAddr},
    thread,
};

use ndk_abi::{
    sockaddr::{AF_UNSPEC, SOCKADDR_IN, SOCKADDR_IN6, SOCKADDR_INET},
    status::{
        STATUS_CONNECTION_ACTIVE, STATUS_CONNECTION_REFUSED, STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_ADDRESS,
        STATUS_INVALID_BUFFER_SIZE, STATUS_NETWORK_UNREACHABLE, STATUS_SHARING_VIOLATION, STATUS_SUCCESS,
    },
};

use crate::{
    connector::Scene,
    kit::{Connector, Pair, Request, SharedEndpoint, Waiter, World, addresses, loopback, pattern},
};

pub(crate) fn endpoint(world: &World, address: SocketAddr) -> SharedEndpoint {
    world.adapter.create_shared_endpoint(address).expect("a shared endpoint")
}

pub(crate) fn connect(scene: &Scene, endpoint: &SharedEndpoint) -> Request {
    scene.connector.connect_shared(&scene.active.qp, endpoint, scene.remote(), (1, 1), &[])
}

/// Connects the scene through `endpoint`; its passive connector.
#[track_caller]
pub(crate) fn establish(scene: &Scene, endpoint: &SharedEndpoint) -> Connector {
    let connect = connect(scene, endpoint);
    let passive = scene.listener.take();
    let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
    connect.succeed();
    scene.connector.complete(None).succeed();
    accept.succeed();
    passive
}

/// Several connections, to other ports and to another address, have one local address, and carry data.
// Shows S711.
#[test]
fn several_connections_from_one_address() {
    let world = World::new();
    let shared = endpoint(&world, loopback(5000));
    let scenes: Vec<_> = (0..5).map(|_| Scene::new(&world)).collect();
    let passives: Vec<_> = scenes.iter().map(|scene| establish(scene, &shared)).collect();
    for (scene, passive) in scenes.iter().zip(&passives) {
        assert_eq!(scene.connector.local_address(), Ok(loopback(5000)));
        assert_eq!(scene.connector.peer_address(), Ok(scene.remote()));
        assert_eq!(passive.peer_address(), Ok(loopback(5000)));
        assert_eq!(passive.local_address(), Ok(scene.remote()));
    }
    // All of them at work at once.
    for (scene, passive) in scenes.iter().zip(&passives) {
        let waiter = Waiter::deferred("disconnect event");
        let (active, passive) = (scene.active.with(scene.connector, waiter), scene.passive.with(*passive, waiter));
        let pair = Pair { active, passive, listener: scene.listener };
        (0..20).for_each(|context| pair.message(context, false));
    }
    for scene in &scenes {
        for context in 0..20 {
            let result = scene.passive.receive_cq.wait_one();
            assert_eq!((result.Status, result.RequestContext.addr()), (STATUS_SUCCESS, context));
        }
    }
    assert_eq!(world.provider.counters().ActiveConnection, 10);
    passives.into_iter().for_each(Connector::close_now);
    scenes.into_iter().for_each(|scene| scene.close(true));
    shared.close_now();
}

/// Peers at other addresses, too; and another family has its own.
#[test]
fn peers_of_any_address_and_family() {
    let world = World::new();
    let [one, two, six] = addresses();
    for (ours, theirs) in [(one, two), (six, six)] {
        let scene = Scene::new(&world);
        let shared = endpoint(&world, SocketAddr::new(ours, 0));
        let local = shared.local_address().expect("an address");
        assert!(local.ip() == ours && local.port() >= 49_152);
        let listener = world.adapter.create_listener().expect("a listener");
        let remote = SocketAddr::new(theirs, 6000);
        assert_eq!(listener.listen(remote), STATUS_SUCCESS);
        let connect = scene.connector.connect_shared(&scene.active.qp, &shared, remote, (3, 4), b"hello");
        let passive = listener.take();
        assert_eq!((passive.peer_address(), passive.data()), (Ok(local), ((4, 3), b"hello".to_vec())));
        passive.close_now();
        assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
        listener.close_now();
        shared.close_now();
        scene.close(true);
    }
}

/// NDK_FN_CREATE_SHARED_ENDPOINT's statuses; nothing is left of what failed.
#[test]
fn creates_that_fail() {
    let world = World::new();
    let create = |address| world.adapter.create_shared_endpoint(address).err();
    let invalid = ["10.0.0.99:1", "0.0.0.0:1", "[::]:1", "[::1]:0"];
    for address in invalid {
        let address = address.parse().expect("an address");
        assert_eq!(create(address), Some(STATUS_INVALID_ADDRESS), "{address}");
    }
    let mut odd = SOCKADDR_INET::new(loopback(1));
    let whole = size_of::<SOCKADDR_IN>() as u32;
    let raw = |address: &SOCKADDR_INET, length| {
        world.adapter.create_shared_endpoint_at((std::ptr::from_ref(address).cast(), length)).err()
    };
    assert_eq!(raw(&odd, whole - 1), Some(STATUS_INVALID_ADDRESS));
    assert_eq!(raw(&odd, 0), Some(STATUS_INVALID_ADDRESS));
    assert_eq!(world.adapter.create_shared_endpoint_at((std::ptr::null(), whole)).err(), Some(STATUS_INVALID_ADDRESS));
    odd.Ipv6.sin6_family = AF_UNSPEC;
    assert_eq!(raw(&odd, size_of::<SOCKADDR_IN6>() as u32), Some(STATUS_INVALID_ADDRESS));
    for nth in 1.. {
        let fault = world.session.fail_allocation(nth);
        let made = world.adapter.create_shared_endpoint(loopback(1));
        let happened = fault.happened();
        drop(fault);
        match made {
            Err(status) => assert_eq!(status, STATUS_INSUFFICIENT_RESOURCES),
            Ok(made) => {
                assert!(!happened && nth > 2, "at least the object and its head are allocated");
                made.close_now();
                break;
            }
        }
    }
    assert_eq!(world.provider.object_counts().shared_endpoints, 0);
}

/// The address is in use: a listener, a connector or another shared endpoint cannot take it; nor can a shared endpoint take theirs.
#[test]
fn the_address_is_in_use() {
    let world = World::new();
    let scene = Scene::new(&world);
    let (taken, any) = (loopback(7000), SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 7000));
    let shared = endpoint(&world, taken);
    let attempts = || {
        let listener = world.adapter.create_listener().expect("a listener");
        let listens = [listener.listen(taken), listener.listen(any)];
        listener.close_now();
        let connect = scene.connector.connect(&scene.active.qp, taken, scene.remote(), (1, 1), &[]);
        [
            listens[0],
            listens[1],
            connect.wait(),
            world.adapter.create_shared_endpoint(taken).err().unwrap_or(STATUS_SUCCESS),
        ]
    };
    assert_eq!(attempts(), [STATUS_SHARING_VIOLATION; 4]);
    // Another address or family has ports of its own.
    let others = [addresses()[1], addresses()[2]].map(|ip| endpoint(&world, SocketAddr::new(ip, 7000)));
    others.into_iter().for_each(SharedEndpoint::close_now);

    // In use by a connection too, after the shared endpoint has been closed.
    let passive = establish(&scene, &shared);
    let close = shared.close();
    assert!(close.pended());
    let other = Scene::new(&world);
    let late = other.connector.connect(&other.active.qp, taken, other.remote(), (1, 1), &[]);
    assert_eq!(late.wait(), STATUS_SHARING_VIOLATION);
    assert_eq!(world.adapter.create_shared_endpoint(taken).err(), Some(STATUS_SHARING_VIOLATION));
    passive.close_now();
    scene.close(true);
    close.succeed();

    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(any), STATUS_SUCCESS);
    assert_eq!(world.adapter.create_shared_endpoint(taken).err(), Some(STATUS_SHARING_VIOLATION));
    listener.close_now();
    let connect = other.connector.connect(&other.active.qp, taken, other.remote(), (1, 1), &[]);
    assert_eq!(world.adapter.create_shared_endpoint(taken).err(), Some(STATUS_SHARING_VIOLATION));
    other.listener.take().close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    endpoint(&world, taken).close_now();
    other.close(true);
}

/// NDK_FN_CONNECT_WITH_SHARED_ENDPOINT's statuses; connector, queue pair and endpoint are as they were.
#[test]
fn connects_that_fail() {
    let world = World::new();
    let scene = Scene::new(&world);
    let shared = endpoint(&world, loopback(0));
    let six = SocketAddr::new(addresses()[2], 1);
    let to = |remote| scene.connector.connect_shared(&scene.active.qp, &shared, remote, (1, 1), &[]).wait();
    assert_eq!(to(loopback(1)), STATUS_CONNECTION_REFUSED);
    assert_eq!(to(SocketAddr::new(IpAddr::from([224, 0, 0, 1]), 1)), STATUS_NETWORK_UNREACHABLE);
    assert_eq!(to(six), STATUS_NETWORK_UNREACHABLE, "not from an IPv4 address");
    let good = SOCKADDR_INET::new(scene.remote());
    let short = (std::ptr::from_ref(&good).cast(), size_of::<SOCKADDR_IN>() as u32 - 1);
    let connect = scene.connector.connect_shared_to(&scene.active.qp, &shared, short, (1, 1), &[]);
    assert_eq!(connect.wait(), STATUS_INVALID_ADDRESS);
    let data = pattern(0, world.adapter.info().MaxCallerData as usize + 1);
    let connect = scene.connector.connect_shared(&scene.active.qp, &shared, scene.remote(), (1, 1), &data);
    assert_eq!(connect.wait(), STATUS_INVALID_BUFFER_SIZE);
    scene.listener.pause(true);
    assert_eq!(self::connect(&scene, &shared).wait(), STATUS_CONNECTION_REFUSED);
    scene.listener.pause(false);
    // The queue pair is busy with another connector.
    let passive = establish(&scene, &shared);
    let other = Scene::new(&world);
    let busy = other.connector.connect_shared(&scene.active.qp, &shared, other.remote(), (1, 1), &[]);
    assert_eq!(busy.wait(), STATUS_CONNECTION_ACTIVE);
    let busy = scene.connector.connect_shared(&other.active.qp, &shared, other.remote(), (1, 1), &[]);
    assert_eq!(busy.wait(), STATUS_CONNECTION_ACTIVE);
    // None of them holds a pair of addresses.
    let second = establish(&other, &shared);
    second.close_now();
    other.close(true);
    passive.close_now();
    scene.close(true);
    shared.close_now();
}

#[test]
fn every_allocation_of_a_connect_fails_once() {
    let world = World::new();
    let scene = Scene::new(&world);
    let shared = endpoint(&world, loopback(0));
    for nth in 1.. {
        let fault = world.session.fail_allocation(nth);
        let connect = connect(&scene, &shared);
        if !connect.pended() {
            assert_eq!(connect.wait(), STATUS_INSUFFICIENT_RESOURCES);
            assert!(fault.happened());
            continue;
        }
        // The head of the passive connector is allocated last, after the answer.
        let event = || scene.listener.events.count() > 0;
        let deadline = std::time::Instant::now() + crate::kit::LIMIT;
        while !connect.is_done() && !event() {
            assert!(std::time::Instant::now() < deadline);
            thread::yield_now();
        }
        let happened = fault.happened();
        drop(fault);
        if happened {
            assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
            continue;
        }
        scene.listener.take().close_now();
        assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
        assert!(nth > 2);
        break;
    }
    // Nothing holds the address or the pair of addresses.
    let close = shared.close();
    close.succeed();
    endpoint(&world, loopback(0)).close_now();
    scene.close(true);
}
