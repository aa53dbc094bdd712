//! The lists of OID_NDK_CONNECTIONS and OID_NDK_LOCAL_ENDPOINTS.

use std::net::SocketAddr;

use ndk_abi::status::STATUS_SUCCESS;

use crate::{
    connector::Scene,
    kit::{Options, Pair, Unconnected, World, addresses, connect, loopback},
};

fn connections(world: &World) -> Vec<(SocketAddr, SocketAddr)> {
    let list = world.provider.connections();
    let mut all: Vec<_> = list.map(|side| (side.local, side.remote)).collect();
    all.sort_unstable();
    all
}

fn endpoints(world: &World) -> Vec<(SocketAddr, bool)> {
    let list = world.provider.local_endpoints();
    let mut all: Vec<_> = list.map(|endpoint| (endpoint.local, endpoint.listener)).collect();
    all.sort_unstable();
    all
}

/// Each side of a connection is listed from when it is established until it ends.
// Shows S1304.
#[test]
fn connections_come_and_go() {
    let world = World::new();
    let scene = Scene::new(&world);
    let remote = scene.remote();
    let shared = world.adapter.create_shared_endpoint(loopback(1000)).expect("a shared endpoint");
    let connect = scene.connector.connect_shared(&scene.active.qp, &shared, remote, (1, 1), &[]);
    let passive = scene.listener.take();
    let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
    connect.succeed();
    assert!(connections(&world).is_empty(), "not established");
    scene.connector.complete(None).succeed();
    accept.succeed();
    let mut expected = vec![(loopback(1000), remote), (remote, loopback(1000))];
    assert_eq!(connections(&world), expected);
    assert!(world.provider.connections().all(|side| !side.over_tcp), "in memory");
    assert_eq!(world.provider.counters().ActiveConnection, 2);

    let pair = Pair::new(&world.adapter);
    let theirs = pair.active.connector.local_address().expect("an address");
    let listening = pair.listener.local_address().expect("it listens");
    expected.extend([(theirs, listening), (listening, theirs)]);
    expected.sort_unstable();
    assert_eq!(connections(&world), expected);
    pair.active.disconnect();
    expected.retain(|(local, remote)| *local != theirs && *remote != theirs);
    assert_eq!(connections(&world), expected, "ended on both sides");
    pair.close();
    passive.close_now();
    assert!(connections(&world).is_empty());
    scene.close(true);
    shared.close_now();
}

/// Listeners that listen and shared endpoints, each as what it is; the addresses of connectors are not listed.
// Shows S1304.
#[test]
fn endpoints_come_and_go() {
    let world = World::new();
    let idle = world.adapter.create_listener().expect("a listener");
    assert!(endpoints(&world).is_empty());
    let any: SocketAddr = "0.0.0.0:7".parse().expect("an address");
    let six = SocketAddr::new(addresses()[2], 8);
    let shared = world.adapter.create_shared_endpoint(six).expect("a shared endpoint");
    assert_eq!(idle.listen(any), STATUS_SUCCESS);
    let mut expected = vec![(any, true), (six, false)];
    expected.sort_unstable();
    assert_eq!(endpoints(&world), expected);
    let scene = Scene::new(&world);
    let connect = scene.connect();
    let passive = scene.listener.take();
    expected.push((scene.remote(), true));
    expected.sort_unstable();
    assert_eq!(endpoints(&world), expected);
    // A listener that is being closed listens no more, although its connector keeps the address.
    let remote = scene.remote();
    let close = scene.listener.close();
    assert!(close.pended());
    expected.retain(|(local, _)| *local != remote);
    assert_eq!(endpoints(&world), expected);
    passive.close_now();
    connect.wait();
    close.succeed();
    shared.close_now();
    idle.close_now();
    assert!(endpoints(&world).is_empty());
    scene.connector.close_now();
    scene.active.close();
    scene.passive.close();
}

/// The lists name the process that created each object; the two sides of a connection may belong to different ones.
// Shows S1304.
#[test]
fn owners() {
    let world = World::new();
    let process = world.open_for(2, 1, 4711).expect("an adapter");
    let shared = process.create_shared_endpoint(loopback(1)).expect("a shared endpoint");
    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(loopback(2)), STATUS_SUCCESS);
    let theirs = process.create_listener().expect("a listener");
    assert_eq!(theirs.listen(loopback(3)), STATUS_SUCCESS);
    let mut owners: Vec<_> = world.provider.local_endpoints().map(|one| (one.local.port(), one.process)).collect();
    owners.sort_unstable();
    assert_eq!(owners, [(1, Some(4711)), (2, None), (3, Some(4711))]);

    let active = Unconnected::new(&process, 1, Options::default());
    let passive = Unconnected::new(&world.adapter, 2, Options::default());
    let ends = connect(&process, &listener, &active.qp, &passive.qp, (1, 1));
    let pair = Pair { active: active.with(ends.0.0, ends.0.1), passive: passive.with(ends.1.0, ends.1.1), listener };
    let owner = |own: u16| {
        let mut sides = world.provider.connections();
        sides.find(|side| side.local.port() == own).expect("listed").process
    };
    let ephemeral = pair.active.connector.local_address().expect("an address").port();
    assert_eq!((owner(ephemeral), owner(2)), (Some(4711), None));
    pair.close();
    theirs.close_now();
    shared.close_now();
    world.close_adapter(process);
}
