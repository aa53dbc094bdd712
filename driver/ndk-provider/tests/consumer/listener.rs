//! NDK_LISTENER.

use std::net::{IpAddr, SocketAddr};

use ndk_abi::status::{
    STATUS_CONNECTION_REFUSED, STATUS_INVALID_ADDRESS, STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_DEVICE_STATE,
    STATUS_SHARING_VIOLATION, STATUS_SUCCESS,
};

use crate::{
    connector::Scene,
    kit::{HeldProcessors, Listener, World, addresses, loopback},
};

fn listener(world: &World, address: SocketAddr) -> Listener {
    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(address), STATUS_SUCCESS);
    listener
}

/// NDK_FN_LISTEN: port 0 picks one of 49152-65535, which NdkGetLocalAddress tells.
// Shows S706.
#[test]
fn port_0_picks_one() {
    let world = World::new();
    let listeners: Vec<_> = (0..20).map(|_| listener(&world, loopback(0))).collect();
    let mut ports: Vec<_> =
        listeners.iter().map(|listener| listener.local_address().expect("it listens").port()).collect();
    assert!(ports.iter().all(|&port| port >= 49_152));
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 20);
    listeners.into_iter().for_each(|listener| listener.close_now());
}

// Shows S706.
#[test]
fn addresses_in_use() {
    let world = World::new();
    let [one, two, six] = addresses().map(|ip| SocketAddr::new(ip, 5445));
    let any = SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 5445);
    let first = listener(&world, one);
    let fresh = world.adapter.create_listener().expect("a listener");
    assert_eq!(fresh.listen(one), STATUS_SHARING_VIOLATION);
    assert_eq!(fresh.listen(any), STATUS_SHARING_VIOLATION, "it stands for all");
    // Another address, another family: another endpoint.
    let (second, third) = (listener(&world, two), listener(&world, six));
    second.close_now();
    third.close_now();
    first.close_now();
    // Free again; the refused attempts left nothing.
    assert_eq!(fresh.listen(any), STATUS_SUCCESS);
    let late = world.adapter.create_listener().expect("a listener");
    assert_eq!(late.listen(two), STATUS_SHARING_VIOLATION);
    assert_eq!(late.listen(six), STATUS_SUCCESS);
    late.close_now();
    fresh.close_now();
}

#[test]
fn addresses_of_others_are_invalid() {
    let world = World::new();
    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(SocketAddr::new(IpAddr::from([10, 0, 0, 99]), 1)), STATUS_INVALID_ADDRESS);
    assert_eq!(listener.listen("[::1]:1".parse().expect("an address")), STATUS_INVALID_ADDRESS);
    listener.close_now();
}

#[test]
fn a_listener_listens_once() {
    let world = World::new();
    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.local_address(), Err(STATUS_INVALID_DEVICE_STATE));
    assert_eq!(listener.listen(loopback(1000)), STATUS_SUCCESS);
    assert_eq!(listener.listen(loopback(1001)), STATUS_INVALID_DEVICE_REQUEST);
    assert_eq!(listener.local_address(), Ok(loopback(1000)));
    // The refused port is free.
    let other = self::listener(&world, loopback(1001));
    other.close_now();
    listener.close_now();
}

/// The unspecified address stands for all of the adapter's, and the connector knows which one was used.
// Shows S706.
#[test]
fn the_unspecified_address() {
    let world = World::new();
    let scene = Scene::new(&world);
    let any = listener(&world, SocketAddr::new(IpAddr::from([0, 0, 0, 0]), 700));
    for ip in &addresses()[..2] {
        let remote = SocketAddr::new(*ip, 700);
        let connect = scene.connector.connect(&scene.active.qp, loopback(0), remote, (1, 1), &[]);
        let passive = any.take();
        assert_eq!(passive.local_address(), Ok(remote));
        passive.close_now();
        assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    }
    any.close_now();
    scene.close(true);
}

/// NDK_FN_CONTROL_CONNECT_EVENTS: a paused listener's port refuses connects, like a port without a listener.
// Shows S707.
#[test]
fn pause_refuses() {
    let world = World::new();
    let scene = Scene::new(&world);
    for _ in 0..2 {
        scene.listener.pause(true);
        assert_eq!(scene.connect().wait(), STATUS_CONNECTION_REFUSED);
        world.flush_dpcs();
        let before = scene.listener.events.count();
        scene.listener.pause(false);
        let connect = scene.connect();
        assert_eq!(scene.listener.take().reject(&[]), STATUS_SUCCESS);
        assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
        assert_eq!(scene.listener.events.count(), before + 1);
    }
    scene.listener.events.calls().iter().for_each(|event| crate::kit::Connector::of_event(event.value).close_now());
    scene.close(true);
}

/// Pausing does not touch what was handed over.
// Shows S707.
#[test]
fn pause_keeps_connections() {
    let world = World::new();
    let scene = Scene::new(&world);
    let (passive, accept) = scene.accepted();
    scene.listener.pause(true);
    scene.connector.complete(None).succeed();
    accept.succeed();
    passive.close_now();
    scene.close(true);
}

#[test]
fn one_event_for_each_request() {
    let world = World::new();
    let scenes: Vec<_> = (0..5).map(|_| Scene::new(&world)).collect();
    let listener = scenes[0].listener;
    let remote = scenes[0].remote();
    let connects: Vec<_> = scenes
        .iter()
        .map(|scene| scene.connector.connect(&scene.active.qp, loopback(0), remote, (1, 1), &[]))
        .collect();
    let passives: Vec<_> = scenes.iter().map(|_| listener.take()).collect();
    world.flush_dpcs();
    assert_eq!(listener.events.count(), 5);
    let mut peers: Vec<_> = passives.iter().map(|passive| passive.peer_address().expect("a peer")).collect();
    peers.sort_unstable();
    peers.dedup();
    assert_eq!(peers.len(), 5);
    passives.into_iter().for_each(|passive| passive.close_now());
    connects.into_iter().for_each(|connect| assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED));
    scenes.into_iter().for_each(|scene| scene.close(true));
}

/// Close stops accepting at once, stays pending until the listener's connectors are closed, and keeps its address as long.
#[test]
fn close_waits_for_the_connectors() {
    let world = World::new();
    let scene = Scene::new(&world);
    let remote = scene.remote();
    let (passive, accept) = scene.accepted();
    scene.connector.complete(None).succeed();
    accept.succeed();
    let close = scene.listener.close();
    assert!(close.pended());
    let another = world.adapter.create_connector().expect("a connector");
    let extra = Scene::new(&world);
    let refused = another.connect(&extra.active.qp, loopback(0), remote, (1, 1), &[]);
    assert_eq!(refused.wait(), STATUS_CONNECTION_REFUSED);
    assert_eq!(extra.listener.listen(remote), STATUS_SHARING_VIOLATION);
    world.flush_dpcs();
    assert!(!close.is_done());
    // The connection lives on.
    assert_eq!(scene.passive.qp.receive(1, &[]), STATUS_SUCCESS);
    assert_eq!(scene.active.qp.send(2, &[], 0), STATUS_SUCCESS);
    assert_eq!(scene.passive.receive_cq.wait_one().Status, STATUS_SUCCESS);
    passive.close_now();
    close.succeed();
    let again = listener(&world, remote);
    again.close_now();
    another.close_now();
    extra.close(true);
    scene.connector.close_now();
    scene.active.close();
    scene.passive.close();
}

/// Requests that were not handed over yet are refused, and no event is called after the close.
#[test]
fn close_before_the_event() {
    let world = World::new();
    let scene = Scene::new(&world);
    let held = HeldProcessors::new();
    let connect = scene.connect();
    let close = scene.listener.close();
    assert!(close.pended());
    drop(held);
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    close.succeed();
    world.flush_dpcs();
    assert_eq!(scene.listener.events.count(), 0);
    scene.connector.close_now();
    scene.active.close();
    scene.passive.close();
}

/// Without memory to hand the connector over, the peer is refused.
#[test]
fn no_memory_for_the_event() {
    let world = World::new();
    let scene = Scene::new(&world);
    let held = HeldProcessors::new();
    let connect = scene.connect();
    let fault = world.session.fail_allocation(1);
    drop(held);
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    assert!(fault.happened());
    drop(fault);
    world.flush_dpcs();
    assert_eq!(scene.listener.events.count(), 0);
    scene.close(true);
}
