//! The limits of the objects that connections are made of: each is reached, and one more is refused.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use ndk_abi::status::{
    NTSTATUS, STATUS_CONNECTION_ABORTED, STATUS_CONNECTION_REFUSED, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS,
    STATUS_TOO_MANY_ADDRESSES,
};
use soft_rdma::limits;

use crate::{
    connector::Scene,
    kit::{Connector, HeldProcessors, Qp, QpSizes, Request, World, addresses, loopback},
};

/// Creates `limit` objects; the device makes another only after one has been closed. The objects of another consumer count too.
fn reach<T: Copy>(
    world: &World,
    limit: u32,
    create: impl Fn(&crate::kit::Adapter, u32) -> Result<T, NTSTATUS>,
    close: impl Fn(T) -> Request,
) {
    let other = world.open(2, 1).expect("an adapter");
    let mut made: Vec<T> = (0..limit).map(|index| create(&world.adapter, index).expect("below the limit")).collect();
    for adapter in [&world.adapter, &other] {
        assert_eq!(create(adapter, limit).err(), Some(STATUS_INSUFFICIENT_RESOURCES), "{limit} exist");
    }
    close(made.pop().expect("some")).succeed();
    made.push(create(&other, limit).expect("room for one"));
    assert_eq!(create(&world.adapter, limit).err(), Some(STATUS_INSUFFICIENT_RESOURCES));
    made.into_iter().for_each(|object| close(object).succeed());
    world.close_adapter(other);
}

// Shows S105.
#[test]
fn connectors() {
    let world = World::new();
    reach(&world, limits::CONNECTORS, |adapter, _| adapter.create_connector(), |connector| connector.close());
}

// Shows S105.
#[test]
fn listeners() {
    let world = World::new();
    reach(&world, limits::LISTENERS, |adapter, _| adapter.create_listener(), |listener| listener.close());
}

// Shows S105.
#[test]
fn shared_endpoints() {
    let world = World::new();
    let nth = |index: u32| {
        let ports = u32::from(u16::MAX);
        SocketAddr::new(addresses()[(index / ports) as usize], (index % ports) as u16 + 1)
    };
    reach(
        &world,
        limits::SHARED_ENDPOINTS,
        |adapter, index| adapter.create_shared_endpoint(nth(index)),
        |endpoint| endpoint.close(),
    );
}

/// A consumer that is told of a close has room for another object already.
#[test]
fn room_is_there_when_the_close_is_reported() {
    let world = World::new();
    let adapter = world.adapter;
    let connectors: Vec<_> =
        (0..limits::CONNECTORS).map(|_| adapter.create_connector().expect("below the limit")).collect();
    let (last, others) = connectors.split_last().expect("some");
    let held = HeldProcessors::new();
    let close = last.close();
    assert!(close.pended());
    let next = Arc::new(Mutex::new(None));
    let made = next.clone();
    close.completion.on_call(move |_| *made.lock().expect("no panic") = Some(adapter.create_connector()));
    drop(held);
    close.succeed();
    next.lock().expect("no panic").take().expect("called").expect("room for one").close_now();
    others.iter().for_each(|connector| connector.close_now());
}

/// The passive connector counts too: without one the request fails where it is made.
#[test]
fn a_connect_needs_two_connectors() {
    let world = World::new();
    let scene = Scene::new(&world);
    let others: Vec<_> =
        (1..limits::CONNECTORS).map(|_| world.adapter.create_connector().expect("below the limit")).collect();
    assert_eq!(scene.connect().wait(), STATUS_INSUFFICIENT_RESOURCES);
    others[0].close_now();
    let connect = scene.connect();
    scene.listener.take().close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    others[1..].iter().for_each(|connector| connector.close_now());
    scene.close(true);
}

/// NDK_FN_LISTEN, NDK_FN_CONNECT and NDK_FN_CREATE_SHARED_ENDPOINT: all of 49152-65535 are in use.
#[test]
fn ephemeral_ports() {
    let world = World::new();
    let scene = Scene::new(&world);
    let mut ports: Vec<u16> = vec![scene.remote().port()];
    let endpoints: Vec<_> = (49_152..u16::MAX)
        .map(|_| {
            let endpoint = world.adapter.create_shared_endpoint(loopback(0)).expect("a port is free");
            ports.push(endpoint.local_address().expect("an address").port());
            endpoint
        })
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, (49_152..=u16::MAX).collect::<Vec<_>>(), "each once");

    let all_fail = || {
        assert_eq!(scene.connect().wait(), STATUS_TOO_MANY_ADDRESSES);
        assert_eq!(world.adapter.create_shared_endpoint(loopback(0)).err(), Some(STATUS_TOO_MANY_ADDRESSES));
    };
    all_fail();
    // Three calls still find a port: on another address, below 49152, and a connect from the port of a shared endpoint.
    let two = world.adapter.create_shared_endpoint(SocketAddr::new(addresses()[1], 0)).expect("a port is free");
    let low = world.adapter.create_shared_endpoint(loopback(1)).expect("a port is free");
    let connect = scene.connector.connect_shared(&scene.active.qp, &low, scene.remote(), (1, 1), &[]);
    scene.listener.take().close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    [two, low].into_iter().for_each(|endpoint| endpoint.close_now());

    // The one that becomes free is found.
    let free = endpoints[4711].local_address();
    endpoints[4711].close_now();
    let connect = scene.connect();
    assert_eq!(scene.connector.local_address(), free);
    all_fail();
    scene.listener.take().close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    // A listener's port is one of TCP's.
    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
    let picked = listener.local_address().expect("an address").port();
    assert_ne!(picked, 0);
    listener.close_now();
    endpoints.iter().enumerate().filter(|(index, _)| *index != 4711).for_each(|(_, endpoint)| endpoint.close_now());
    scene.close(true);
}

/// A listener keeps that many requests that its consumer has not answered. Accept, reject, close, and a peer that gives up
/// make room for one more.
// Shows S708.
#[test]
fn backlog() {
    let world = World::new();
    let scene = Scene::new(&world);
    let sizes = QpSizes { receives: 1, requests: 1, receive_sges: 1, request_sges: 1, inline: 0 };
    let cq = scene.active.receive_cq;
    let attempts: Vec<_> = (0..=limits::BACKLOG as usize)
        .map(|tag| {
            let qp = scene.active.pd.create_qp(&cq, &cq, tag, sizes).expect("a QP");
            (world.adapter.create_connector().expect("a connector"), qp)
        })
        .collect();
    let connect = |(connector, qp): &(Connector, Qp)| connector.connect(qp, loopback(0), scene.remote(), (0, 0), &[]);
    let (last, first) = attempts.split_last().expect("some");
    let mut requests: Vec<_> = first.iter().map(connect).collect();
    let mut incoming: Vec<_> = first.iter().map(|_| scene.listener.take()).collect();
    assert_eq!(connect(last).wait(), STATUS_CONNECTION_REFUSED, "none was answered");

    let one_more = |attempt: &(Connector, Qp)| {
        let request = connect(attempt);
        assert!(request.pended());
        assert_eq!(connect(last).wait(), STATUS_CONNECTION_REFUSED, "only one");
        (request, scene.listener.take())
    };
    let accepted = incoming.remove(0);
    let accept = accepted.accept(&scene.passive.qp, (0, 0), &[], None);
    // The connect events of a listener have no order: the test finds the request that this connector belongs to by its completion.
    let connected = loop {
        match requests.iter().position(Request::is_done) {
            Some(connected) => break connected,
            None => simkernel::pause(),
        }
    };
    requests.remove(connected).succeed();
    let (request, second) = one_more(&(scene.connector, scene.active.qp));
    assert_eq!(second.reject(&[]), STATUS_SUCCESS);
    assert_eq!(request.wait(), STATUS_CONNECTION_REFUSED);
    let (request, third) = one_more(&(scene.connector, scene.active.qp));
    third.close_now();
    assert_eq!(request.wait(), STATUS_CONNECTION_REFUSED);
    let (request, fourth) = one_more(&(scene.connector, scene.active.qp));
    scene.connector.close_now();
    assert!(request.is_done());
    let other = world.adapter.create_connector().expect("a connector");
    let (_, fifth) = one_more(&(other, scene.active.qp));
    for passive in incoming.into_iter().chain([second, fourth, fifth]) {
        passive.close_now();
    }
    requests.iter().for_each(|request| assert_eq!(request.wait(), STATUS_CONNECTION_REFUSED));
    other.close_now();
    for (connector, qp) in attempts {
        connector.close_now();
        qp.close_now();
    }
    assert_eq!(accept.wait(), STATUS_CONNECTION_ABORTED);
    accepted.close_now();
    scene.close(false);
}
