//! NDK_CONNECTOR: establishing a connection, with every way that it can fail.

use std::net::{IpAddr, SocketAddr};

use ndk_abi::{
    sockaddr::{AF_UNSPEC, SOCKADDR_IN, SOCKADDR_IN6, SOCKADDR_INET},
    status::{
        STATUS_BUFFER_TOO_SMALL, STATUS_CONNECTION_ACTIVE, STATUS_CONNECTION_INVALID, STATUS_CONNECTION_REFUSED,
        STATUS_INVALID_ADDRESS, STATUS_INVALID_BUFFER_SIZE, STATUS_INVALID_DEVICE_STATE, STATUS_NETWORK_UNREACHABLE,
        STATUS_SHARING_VIOLATION, STATUS_SUCCESS,
    },
};

use crate::kit::{Connector, Listener, Options, Pair, Request, Unconnected, World, addresses, loopback, pattern};

/// A listener and two sides that are not connected.
pub(crate) struct Scene {
    pub(crate) active: Unconnected,
    pub(crate) passive: Unconnected,
    pub(crate) listener: Listener,
    pub(crate) connector: Connector,
}

impl Scene {
    pub(crate) fn new(world: &World) -> Self {
        let listener = world.adapter.create_listener().expect("a listener");
        assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
        Self {
            active: Unconnected::new(&world.adapter, 1, Options::default()),
            passive: Unconnected::new(&world.adapter, 2, Options::default()),
            listener,
            connector: world.adapter.create_connector().expect("a connector"),
        }
    }

    pub(crate) fn remote(&self) -> SocketAddr {
        self.listener.local_address().expect("it listens")
    }

    pub(crate) fn connect(&self) -> Request {
        self.connector.connect(&self.active.qp, loopback(0), self.remote(), (1, 1), &[])
    }

    /// Connects as far as the accept.
    #[track_caller]
    pub(crate) fn accepted(&self) -> (Connector, Request) {
        let connect = self.connect();
        let theirs = self.listener.take();
        let accept = theirs.accept(&self.passive.qp, (1, 1), &[], None);
        connect.succeed();
        (theirs, accept)
    }

    /// Closes what is left; the active connector is if `connector` says so.
    pub(crate) fn close(self, connector: bool) {
        if connector {
            self.connector.close_now();
        }
        self.active.close();
        self.passive.close();
        self.listener.close_now();
    }
}

// Shows S701.
#[test]
fn private_data_goes_both_ways() {
    let world = World::new();
    let most = world.adapter.info().MaxCallerData as usize;
    for (ours, theirs) in [(0, 0), (1, 0), (0, 1), (most, most)] {
        let scene = Scene::new(&world);
        let (ours, theirs) = (pattern(1, ours), pattern(2, theirs));
        let connect = scene.connector.connect(&scene.active.qp, loopback(0), scene.remote(), (1, 1), &ours);
        let passive = scene.listener.take();
        assert_eq!(passive.data().1, ours);
        let accept = passive.accept(&scene.passive.qp, (1, 1), &theirs, None);
        connect.succeed();
        assert_eq!(scene.connector.data().1, theirs);
        scene.connector.complete(None).succeed();
        accept.succeed();
        // Consumers ask again later.
        assert_eq!((scene.connector.data().1, passive.data().1), (theirs, ours));
        passive.close_now();
        scene.close(true);
    }
}

/// NDK_FN_GET_CONNECTION_DATA: the size needed, what fits, and the status of each kind of call.
#[test]
fn connection_data_in_buffers_of_any_size() {
    let world = World::new();
    let scene = Scene::new(&world);
    let data = pattern(3, 100);
    let connect = scene.connector.connect(&scene.active.qp, loopback(0), scene.remote(), (5, 6), &data);
    let passive = scene.listener.take();
    let (status, limits, length, _) = passive.data_sized(None);
    assert_eq!((status, limits, length), (STATUS_SUCCESS, (6, 5), 100));
    for (room, expected) in [(1, STATUS_BUFFER_TOO_SMALL), (99, STATUS_BUFFER_TOO_SMALL), (100, STATUS_SUCCESS)] {
        let (status, _, length, buffer) = passive.data_sized(Some(room));
        assert_eq!((status, length), (expected, 100));
        assert_eq!(buffer, data[..room]);
    }
    let (status, _, length, buffer) = passive.data_sized(Some(110));
    assert_eq!((status, length, &buffer[..100]), (STATUS_SUCCESS, 100, &data[..]));
    assert_eq!(buffer[100..], [0xEE; 10], "nothing is written behind it");
    passive.close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    scene.close(true);
}

// Shows S702.
#[test]
fn too_much_private_data_is_refused() {
    let world = World::new();
    let scene = Scene::new(&world);
    let data = pattern(0, world.adapter.info().MaxCallerData as usize + 1);
    let connect = scene.connector.connect(&scene.active.qp, loopback(0), scene.remote(), (1, 1), &data);
    assert_eq!(connect.wait(), STATUS_INVALID_BUFFER_SIZE);
    let connect = scene.connect();
    let passive = scene.listener.take();
    assert_eq!(passive.accept(&scene.passive.qp, (1, 1), &data, None).wait(), STATUS_INVALID_BUFFER_SIZE);
    assert_eq!(passive.reject(&data), STATUS_INVALID_BUFFER_SIZE);
    // None of that changed anything.
    let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
    connect.succeed();
    scene.connector.complete(None).succeed();
    accept.succeed();
    passive.close_now();
    scene.close(true);
}

/// NDK_FN_CONNECT, NDK_FN_ACCEPT: the effective limits are the smallest of what both sides and the adapter allow.
// Shows S701.
#[test]
fn read_limits_are_agreed() {
    let world = World::new();
    let most = world.adapter.info().MaxInboundReadLimit;
    for (ours, theirs, expected) in [
        ((0, 0), (5, 5), (0, 0)),
        ((3, 7), (9, 9), (3, 7)),
        ((3, 7), (2, 1), (1, 2)),
        ((32, 0), (0, 8), (8, 0)),
        ((u32::MAX, u32::MAX), (u32::MAX, u32::MAX), (most, most)),
        ((u32::MAX, 1), (u32::MAX, u32::MAX), (most, 1)),
    ] {
        let scene = Scene::new(&world);
        let connect = scene.connector.connect(&scene.active.qp, loopback(0), scene.remote(), ours, &[]);
        let passive = scene.listener.take();
        assert_eq!(passive.data().0, (ours.1.min(most), ours.0.min(most)), "the offer, from the passive side");
        let accept = passive.accept(&scene.passive.qp, theirs, &[], None);
        connect.succeed();
        assert_eq!(scene.connector.data().0, expected);
        scene.connector.complete(None).succeed();
        accept.succeed();
        assert_eq!(scene.connector.data().0, expected);
        assert_eq!(passive.data().0, (expected.1, expected.0));
        passive.close_now();
        scene.close(true);
    }
}

// Shows S701.
#[test]
fn both_sides_know_the_addresses() {
    let world = World::new();
    let scene = Scene::new(&world);
    assert_eq!(scene.connector.local_address(), Err(STATUS_INVALID_DEVICE_STATE));
    assert_eq!(scene.connector.peer_address(), Err(STATUS_INVALID_DEVICE_STATE));
    let ours = SocketAddr::new(addresses()[1], 4711);
    let connect = scene.connector.connect(&scene.active.qp, ours, scene.remote(), (1, 1), &[]);
    let passive = scene.listener.take();
    assert_eq!((passive.peer_address(), passive.local_address()), (Ok(ours), Ok(scene.remote())));
    assert_eq!((scene.connector.local_address(), scene.connector.peer_address()), (Ok(ours), Ok(scene.remote())));
    passive.close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    // Port 0 picks one.
    let connect = scene.connect();
    let passive = scene.listener.take();
    let picked = scene.connector.local_address().expect("an address");
    assert!(picked.port() >= 49_152 && picked.ip() == loopback(0).ip());
    assert_eq!(passive.peer_address(), Ok(picked));
    passive.close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    scene.close(true);
}

#[test]
fn ipv6() {
    let world = World::new();
    let listener = world.adapter.create_listener().expect("a listener");
    let local = SocketAddr::new(addresses()[2], 5445);
    assert_eq!(listener.listen(local), STATUS_SUCCESS);
    assert_eq!(listener.local_address(), Ok(local));
    let scene = Scene::new(&world);
    let ours = SocketAddr::new(addresses()[2], 0);
    let connect = scene.connector.connect(&scene.active.qp, ours, local, (1, 1), &[]);
    let passive = listener.take();
    assert_eq!(passive.peer_address(), scene.connector.local_address());
    let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
    connect.succeed();
    scene.connector.complete(None).succeed();
    accept.succeed();
    passive.close_now();
    listener.close_now();
    scene.close(true);
}

/// NDK_FN_CONNECT's statuses for addresses; after each the connector and the queue pair are as they were.
// Shows S703.
#[test]
fn connects_that_fail_change_nothing() {
    let world = World::new();
    let scene = Scene::new(&world);
    let remote = scene.remote();
    let v6 = SocketAddr::new(addresses()[2], 0);
    let elsewhere = |ip: [u8; 4], port| SocketAddr::new(IpAddr::from(ip), port);
    for (ours, theirs, expected) in [
        (loopback(0), loopback(1), STATUS_CONNECTION_REFUSED),
        (loopback(0), SocketAddr::new(addresses()[1], remote.port()), STATUS_CONNECTION_REFUSED),
        (loopback(0), elsewhere([224, 0, 0, 1], remote.port()), STATUS_NETWORK_UNREACHABLE),
        (elsewhere([10, 0, 0, 99], 0), remote, STATUS_INVALID_ADDRESS),
        (elsewhere([0, 0, 0, 0], 0), remote, STATUS_INVALID_ADDRESS),
        (v6, remote, STATUS_INVALID_ADDRESS),
        (loopback(remote.port()), remote, STATUS_SHARING_VIOLATION),
    ] {
        let connect = scene.connector.connect(&scene.active.qp, ours, theirs, (1, 1), &[]);
        assert_eq!(connect.wait(), expected, "{ours} to {theirs}");
    }
    let mut odd = SOCKADDR_INET::new(loopback(0));
    let whole = size_of::<SOCKADDR_IN>() as u32;
    let good = SOCKADDR_INET::new(remote);
    let at = |address: &SOCKADDR_INET| std::ptr::from_ref(address).cast();
    let refused = |ours, theirs| {
        let connect = scene.connector.connect_to(&scene.active.qp, ours, theirs, (1, 1), &[]);
        assert_eq!(connect.wait(), STATUS_INVALID_ADDRESS);
    };
    refused((at(&odd), whole - 1), (at(&good), whole));
    refused((at(&odd), 0), (at(&good), whole));
    refused((at(&odd), whole), (at(&good), whole - 1));
    refused((std::ptr::null(), whole), (at(&good), whole));
    odd.Ipv6.sin6_family = AF_UNSPEC;
    refused((at(&odd), size_of::<SOCKADDR_IN6>() as u32), (at(&good), whole));

    let (passive, accept) = scene.accepted();
    scene.connector.complete(None).succeed();
    accept.succeed();
    passive.close_now();
    scene.close(true);
}

/// The address of a connector is in use as long as the connector has it.
#[test]
fn a_source_address_is_used_once() {
    let world = World::new();
    let (one, two) = (Scene::new(&world), Scene::new(&world));
    let ours = loopback(1234);
    let connect = one.connector.connect(&one.active.qp, ours, one.remote(), (1, 1), &[]);
    let refused = two.connector.connect(&two.active.qp, ours, two.remote(), (1, 1), &[]);
    assert_eq!(refused.wait(), STATUS_SHARING_VIOLATION);
    let passive = one.listener.take();
    assert_eq!(passive.reject(&[]), STATUS_SUCCESS);
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    // The failed attempt gave it back.
    let connect = two.connector.connect(&two.active.qp, ours, two.remote(), (1, 1), &[]);
    let second = two.listener.take();
    second.close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    passive.close_now();
    one.close(true);
    two.close(true);
}

#[test]
fn a_queue_pair_has_one_connection() {
    let world = World::new();
    let scene = Scene::new(&world);
    let connect = scene.connect();
    let passive = scene.listener.take();
    let again = world.adapter.create_connector().expect("a connector");
    let attempt = || again.connect(&scene.active.qp, loopback(0), scene.remote(), (1, 1), &[]).wait();
    assert_eq!(attempt(), STATUS_CONNECTION_ACTIVE);
    // Nor the queue pair of the other side of an accept.
    assert_eq!(passive.accept(&scene.active.qp, (1, 1), &[], None).wait(), STATUS_CONNECTION_ACTIVE);
    // Nor a second attempt of the connector.
    let second = scene.connector.connect(&scene.passive.qp, loopback(0), scene.remote(), (1, 1), &[]);
    assert_eq!(second.wait(), STATUS_CONNECTION_ACTIVE);
    let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
    connect.succeed();
    assert_eq!(attempt(), STATUS_CONNECTION_ACTIVE);
    scene.connector.complete(None).succeed();
    accept.succeed();
    assert_eq!(attempt(), STATUS_CONNECTION_ACTIVE);
    // Not even when it is over: queue pairs and connectors serve one connection.
    scene.connector.disconnect().succeed();
    assert_eq!(attempt(), STATUS_CONNECTION_ACTIVE);
    let reused = scene.connector.connect(&scene.active.qp, loopback(0), scene.remote(), (1, 1), &[]);
    assert_eq!(reused.wait(), STATUS_CONNECTION_ACTIVE);
    // The refused attempts led to no connect event.
    world.flush_dpcs();
    assert_eq!(scene.listener.events.count(), 1);
    again.close_now();
    passive.close_now();
    scene.close(true);
}

/// NDK_FN_ACCEPT is pending until the peer has completed; connect until the peer has accepted.
#[test]
fn each_step_waits_for_the_other_side() {
    let world = World::new();
    let scene = Scene::new(&world);
    let connect = scene.connect();
    let passive = scene.listener.take();
    world.flush_dpcs();
    assert!(!connect.is_done());
    assert_eq!(scene.connector.complete(None).wait(), STATUS_CONNECTION_INVALID);
    let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
    connect.succeed();
    world.flush_dpcs();
    assert!(accept.pended() && !accept.is_done());
    // Neither side can send yet, either may receive.
    for side in [&scene.active, &scene.passive] {
        assert_eq!(side.qp.send(1, &[], 0), STATUS_CONNECTION_INVALID);
        assert_eq!(side.qp.receive(1, &[]), STATUS_SUCCESS);
    }
    scene.connector.complete(None).succeed();
    accept.succeed();
    for side in [&scene.active, &scene.passive] {
        assert_eq!(side.qp.send(2, &[], 0), STATUS_SUCCESS);
    }
    for side in [&scene.active, &scene.passive] {
        assert_eq!(side.initiator_cq.wait_one().Status, STATUS_SUCCESS);
        assert_eq!(side.receive_cq.wait_one().Status, STATUS_SUCCESS);
    }
    passive.close_now();
    scene.close(true);
}

/// What does not belong to the state of the connector is refused, and changes nothing.
// Shows S705.
#[test]
fn calls_in_the_wrong_state() {
    let world = World::new();
    let scene = Scene::new(&world);
    let ours = &scene.connector;
    let accept = |connector: &Connector| connector.accept(&scene.passive.qp, (1, 1), &[], None);
    let idle = |connector: &Connector| {
        assert_eq!(connector.complete(None).wait(), STATUS_CONNECTION_INVALID);
        assert_eq!(accept(connector).wait(), STATUS_CONNECTION_INVALID);
        assert_eq!(connector.reject(&[]), STATUS_CONNECTION_INVALID);
        assert_eq!(connector.disconnect().wait(), STATUS_CONNECTION_INVALID);
    };
    idle(ours);
    let connect = scene.connect();
    let passive = scene.listener.take();
    idle(ours);
    assert_eq!(passive.complete(None).wait(), STATUS_CONNECTION_INVALID);
    assert_eq!(passive.disconnect().wait(), STATUS_CONNECTION_INVALID);
    let accepted = accept(&passive);
    connect.succeed();
    idle(&passive);
    assert_eq!(accept(ours).wait(), STATUS_CONNECTION_INVALID);
    assert_eq!(ours.disconnect().wait(), STATUS_CONNECTION_INVALID);
    ours.complete_ex(None).succeed();
    accepted.succeed();
    for connector in [ours, &passive] {
        assert_eq!(connector.complete(None).wait(), STATUS_CONNECTION_INVALID);
        assert_eq!(accept(connector).wait(), STATUS_CONNECTION_INVALID);
        assert_eq!(connector.reject(&[]), STATUS_CONNECTION_INVALID);
    }
    ours.disconnect().succeed();
    assert_eq!(ours.disconnect().wait(), STATUS_CONNECTION_INVALID);
    passive.close_now();
    scene.close(true);
}

#[test]
fn connections_are_counted() {
    let world = World::new();
    let pairs: Vec<_> = (0..3).map(|_| Pair::new(&world.adapter)).collect();
    let counters = world.provider.counters();
    assert_eq!((counters.Connect, counters.Accept, counters.ActiveConnection), (3, 3, 6));
    for (round, pair) in pairs.into_iter().enumerate() {
        match round {
            0 => pair.active.disconnect(),
            1 => pair.passive.disconnect(),
            _ => {}
        }
        pair.close();
    }
    world.flush_dpcs();
    let counters = world.provider.counters();
    assert_eq!((counters.ActiveConnection, counters.ConnectionError, counters.ConnectFailure), (0, 0, 0));
}
