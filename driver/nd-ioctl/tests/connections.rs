//! Connections that are cancelled, refused, or cut off by the end of a process.

use std::{net::SocketAddr, thread, time::Duration};

use ndk_abi::{nd_ioctl::*, ndkpi::*, sockaddr::SOCKADDR_INET, softndk_ioctl::*, status::*};
use simkernel::{boot, boot_seeded, pause, scope, seeds, watchdog};
use users::{
    User, World,
    host::ADDRESSES,
    rings::connect,
    start,
    user::{bind, handle, work},
};
use zerocopy::IntoBytes;

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_cancelled_connect_leaves_no_connection_behind() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let world = World::listening(&user);
        let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
        let active = user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter);
        let qp = user.qp(world.pd, world.cq);
        for by_routine in [true, false] {
            let connect = user.connect(active, qp, address, b"");
            assert!(connect.is_pending());
            assert_eq!(user.connect(active, qp, address, b"").wait(), STATUS_CONNECTION_ACTIVE);
            if by_routine {
                connect.shared.cancel(&user.file);
            } else {
                assert_eq!(user.call(IOCTL_ND_CONNECTOR_CANCEL_IO, &handle(active)), STATUS_SUCCESS);
            }
            assert_eq!(connect.wait(), STATUS_CANCELLED);
        }
        // The connection requests are still there, but the connects behind them are cancelled.
        for _ in 0..2 {
            let passive = user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter);
            assert_eq!(user.get_request(world.listener, passive).wait(), STATUS_SUCCESS);
            let accept = user.accept(passive, user.qp(world.pd, world.cq), b"");
            assert_eq!(accept.wait(), STATUS_CONNECTION_REFUSED);
        }
    });
}

/// A connector that is bound to no address connects from the destination, if that is an address of the adapter.
#[test]
fn an_unbound_connector_connects_from_a_local_destination() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    for address in ADDRESSES {
        let (listener, _) = user.listener(world.adapter, &SocketAddr::new(address, 0).to_string(), 1);
        let [active, passive] = [0; 2].map(|_| user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter));
        let [ours, theirs] = [0; 2].map(|_| user.qp(world.pd, world.cq));
        connect(&user, [active, ours], &user, [passive, theirs], listener);
        let from: SOCKADDR_INET = user.ask(IOCTL_ND_CONNECTOR_GET_ADDRESS, &handle(active)).unwrap();
        assert_eq!(from.socket_addr().map(|from| from.ip()), Some(address));
    }
}

/// If that names no address of the adapter, it connects as an unbound one.
#[test]
fn a_bound_connector_connects_from_its_address() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let (listener, _) = user.listener(world.adapter, "10.1.2.3:0", 2);
    for (bound, address) in [("10.1.2.4:0", ADDRESSES[2]), ("0.0.0.0:0", ADDRESSES[0])] {
        let [active, passive] = [0; 2].map(|_| user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter));
        let [ours, theirs] = [0; 2].map(|_| user.qp(world.pd, world.cq));
        assert_eq!(user.call(IOCTL_ND_CONNECTOR_BIND, &bind(active, bound)), STATUS_SUCCESS);
        connect(&user, [active, ours], &user, [passive, theirs], listener);
        let from: SOCKADDR_INET = user.ask(IOCTL_ND_CONNECTOR_GET_ADDRESS, &handle(active)).unwrap();
        assert_eq!(from.socket_addr().map(|from| from.ip()), Some(address));
    }
}

#[test]
fn a_connector_connects_right_after_a_cancelled_connect() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let world = World::listening(&user);
        let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
        for _ in 0..50 {
            let active = user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter);
            let passive = [0; 2].map(|_| user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter));
            let qp = [0; 3].map(|_| user.qp(world.pd, world.cq));
            let first = user.connect(active, qp[0], address, b"first");
            first.shared.cancel(&user.file);
            let second = user.connect(active, qp[1], address, b"second");
            assert_eq!(first.wait(), STATUS_CANCELLED);
            for passive in passive {
                assert_eq!(user.get_request(world.listener, passive).wait(), STATUS_SUCCESS);
            }
            // The two connection requests come in any order: each is an event of its own connector.
            let is_second = |passive: &u64| {
                let data = user.send_bytes(IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, handle(*passive).as_bytes(), 508);
                data.output().starts_with(b"second")
            };
            let passive = passive.into_iter().find(is_second).expect("a request with the data of the second");
            let accept = user.accept(passive, qp[2], b"");
            assert_eq!(second.wait(), STATUS_SUCCESS);
            assert_eq!(user.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(active)), STATUS_SUCCESS);
            assert_eq!(accept.wait(), STATUS_SUCCESS);
        }
    });
}

#[test]
fn a_cancelled_accept_ends_the_connection_for_all_who_wait() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let world = World::listening(&user);
        let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
        let active = user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter);
        let requested = user.get_request(world.listener, world.connector);
        let connect = user.connect(active, user.qp(world.pd, world.cq), address, b"");
        assert_eq!(requested.wait(), STATUS_SUCCESS);
        let accept = user.accept(world.connector, world.qp, b"");
        let told = user.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(world.connector));
        assert_eq!(connect.wait(), STATUS_SUCCESS);
        assert!(accept.is_pending() && told.is_pending());
        accept.shared.cancel(&user.file);
        assert_eq!((accept.wait(), told.wait()), (STATUS_CANCELLED, STATUS_SUCCESS));
        assert_eq!(user.accept(world.connector, world.qp, b"").wait(), STATUS_CONNECTION_INVALID);
        let complete = user.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(active));
        assert!(matches!(complete, STATUS_CONNECTION_ABORTED | STATUS_CONNECTION_INVALID), "{complete}");
    });
}

/// A program that disconnects as soon as possible may do so before its accept completes: each request completes with its own operation.
#[test]
fn a_disconnect_right_behind_an_accept_ends_with_it() {
    for seed in seeds(200) {
        let _session = boot_seeded(seed);
        let device = start();
        let (user, peer) = (User::new(&device), User::new(&device));
        let (world, from) = (World::listening(&user), World::new(&peer));
        let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
        let requested = user.get_request(world.listener, world.connector);
        let connect = peer.connect(from.connector, from.qp, address, b"");
        assert_eq!(requested.wait(), STATUS_SUCCESS);
        let accept = user.accept(world.connector, world.qp, b"");
        assert_eq!(connect.wait(), STATUS_SUCCESS);
        scope(|scope| {
            let complete = || peer.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(from.connector));
            // The peer may find that the connection has ended already.
            scope.spawn(move || {
                assert!(matches!(complete(), STATUS_SUCCESS | STATUS_CONNECTION_ABORTED), "seed {seed}")
            });
            scope.spawn(|| {
                let disconnect = || user.call(IOCTL_ND_CONNECTOR_DISCONNECT, &handle(world.connector));
                let ended = std::iter::repeat_with(disconnect).find(|status| {
                    pause();
                    *status != STATUS_CONNECTION_INVALID
                });
                assert_eq!(ended, Some(STATUS_SUCCESS), "seed {seed}");
            });
        });
        assert_eq!(accept.wait(), STATUS_SUCCESS, "seed {seed}");
    }
}

#[test]
fn above_the_backlog_requests_are_refused() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let world = World::listening(&user);
        let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
        let connects: Vec<_> = (0..5)
            .map(|_| {
                let connector = user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter);
                user.connect(connector, user.qp(world.pd, world.cq), address, b"")
            })
            .collect();
        // Which connects are refused is up to chance: each connection request is an event of its own connector.
        let pending = || connects.iter().filter(|connect| connect.is_pending()).count();
        while pending() > 2 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(20));
        assert_eq!(pending(), 2, "a backlog of 2");
        // The free of the listener refuses the connection requests that wait.
        assert_eq!(user.call(IOCTL_ND_LISTENER_FREE, &handle(world.listener)), STATUS_SUCCESS);
        assert!(connects.iter().all(|connect| connect.wait() == STATUS_CONNECTION_REFUSED));
    });
}

#[test]
fn a_listener_that_is_only_bound_refuses() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let world = World::new(&user);
        let bind = bind(world.listener, "10.1.2.3:0");
        assert_eq!(user.call(IOCTL_ND_LISTENER_BIND, &bind), STATUS_SUCCESS);
        assert_eq!(user.call(IOCTL_ND_LISTENER_BIND, &bind), STATUS_ADDRESS_ALREADY_ASSOCIATED);
        let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
        let refused = user.connect(world.connector, world.qp, address, b"");
        assert_eq!(refused.wait(), STATUS_CONNECTION_REFUSED);
        assert_eq!(user.get_request(world.listener, world.connector).wait(), STATUS_INVALID_DEVICE_STATE);
        // A bind that fails leaves its listener unbound.
        let other = user.create(IOCTL_ND_LISTENER_CREATE, world.adapter);
        let taken = ND_BIND { Address: address, Handle: other, ..bind };
        assert_eq!(user.call(IOCTL_ND_LISTENER_BIND, &taken), STATUS_SHARING_VIOLATION);
        assert_eq!(user.call(IOCTL_ND_LISTENER_BIND, &ND_BIND { Handle: other, ..bind }), STATUS_SUCCESS);
    });
}

/// A NOTIFY_DISCONNECT that is sent while the accept pends waits for the end of the connection, not of the accept.
#[test]
fn a_notify_disconnect_outlasts_the_set_up() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let (user, peer) = (User::new(&device), User::new(&device));
        let (from, at) = (World::new(&user), World::listening(&peer));
        let to = peer.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(at.listener)).unwrap();
        let requested = peer.get_request(at.listener, at.connector);
        let connected = user.connect(from.connector, from.qp, to, b"");
        assert_eq!(requested.wait(), STATUS_SUCCESS);
        let accepted = peer.accept(at.connector, at.qp, b"");
        let told = peer.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(at.connector));
        assert_eq!(connected.wait(), STATUS_SUCCESS);
        assert_eq!(user.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(from.connector)), STATUS_SUCCESS);
        assert_eq!(accepted.wait(), STATUS_SUCCESS);
        assert!(told.is_pending());
        assert_eq!(user.call(IOCTL_ND_CONNECTOR_FREE, &handle(from.connector)), STATUS_SUCCESS);
        assert_eq!(told.wait(), STATUS_SUCCESS);
    });
}

/// A connection request for a connector that is being freed returns to its listener, which may be freed at that time. If it stayed in the
/// freed listener, the cleanup would wait for ever for the adapter that it holds.
#[test]
fn a_request_does_not_go_back_to_a_freed_listener() {
    for seed in seeds(200) {
        let _session = boot_seeded(seed);
        let device = start();
        let (user, peer) = (User::new(&device), User::new(&device));
        let (world, from) = (World::listening(&user), World::new(&peer));
        let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
        let requested = user.get_request(world.listener, world.connector);
        let mut connect = None;
        scope(|scope| {
            scope.spawn(|| connect = Some(peer.connect(from.connector, from.qp, address, b"")));
            scope.spawn(|| {
                assert_eq!(user.call(IOCTL_ND_CONNECTOR_FREE, &handle(world.connector)), STATUS_SUCCESS);
                assert_eq!(user.call(IOCTL_ND_LISTENER_FREE, &handle(world.listener)), STATUS_SUCCESS);
            });
        });
        drop(user);
        assert!(matches!(requested.wait(), STATUS_SUCCESS | STATUS_CANCELLED), "seed {seed}");
        assert_eq!(connect.unwrap().wait(), STATUS_CONNECTION_REFUSED, "seed {seed}");
    }
}

// Shows S906.
#[test]
fn a_process_that_dies_in_mid_traffic_leaves_nothing() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        for round in 0..20 {
            let user = User::new(&device);
            let world = World::listening(&user);
            let memory = user.memory(world.pd, 4);
            let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
            let requested = user.get_request(world.listener, world.connector);
            let active = user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter);
            let cq = user.cq(world.adapter, 256);
            let qp = user.qp(world.pd, cq);
            let connect = user.connect(active, qp, address, b"");
            requested.wait();
            let accept = user.accept(world.connector, world.qp, b"");
            connect.wait();
            let complete = user.send(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(active));
            if round % 2 == 0 {
                complete.wait();
                for context in 0..16 {
                    let post = SOFTNDK_POST { SgeCount: 1, ..work(NdkOperationTypeSend, qp, context) };
                    user.post(&post, &[memory.sge(0, 4096)], b"");
                }
                for context in 0..8 {
                    let post = SOFTNDK_POST { SgeCount: 1, ..work(NdkOperationTypeReceive, world.qp, context) };
                    user.post(&post, &[memory.sge(8192, 4096)], b"");
                }
            }
            let pended = [
                user.notify(cq, ND_CQ_NOTIFY_ERRORS),
                user.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(active)),
                accept,
                complete,
            ];
            drop(user);
            for answer in pended {
                answer.wait();
            }
            assert_eq!(device.host().pinned(), 0);
            assert_eq!(device.host().provider().object_counts(), ndk_provider::ObjectCounts::default());
        }
    });
}
