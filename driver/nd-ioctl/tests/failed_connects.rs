//! A failed connect or accept leaves its queue pair as it was, also if its connector is freed, and does not disturb an existing connection.

use std::{mem::offset_of, sync::atomic::Ordering, time::Duration};

use ndk_abi::{
    describe::ZeroInit, nd_ioctl::*, ndkpi::*, sockaddr::SOCKADDR_INET, softndk_ioctl::*, softndk_ring::*, status::*,
};
use simkernel::{boot, boot_seeded, pause, scope, seeds, watchdog};
use users::{
    User, World,
    rings::{Ringed, connect, push},
    start,
    user::{Answer, handle, work},
};
use zerocopy::IntoBytes;

const LIMIT: Duration = Duration::from_secs(60);

fn connector(user: &User<'_>, world: &World) -> u64 {
    user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter)
}

fn free(user: &User<'_>, connector: u64) {
    assert_eq!(user.call(IOCTL_ND_CONNECTOR_FREE, &handle(connector)), STATUS_SUCCESS);
}

fn address(user: &User<'_>, listener: u64) -> SOCKADDR_INET {
    user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(listener)).unwrap()
}

/// `State` of the ring of initiator requests.
fn state(ringed: &Ringed) -> u32 {
    ringed.rings[2].word(offset_of!(SOFTNDK_RING, State)).load(Ordering::Acquire)
}

/// Each end sends the other a message by its rings.
fn exchange(ends: [(&User<'_>, &Ringed); 2]) {
    for [(from, source), (to, target)] in [ends, [ends[1], ends[0]]] {
        assert_eq!([source, target].map(state), [SOFTNDK_RING_CONNECTED; 2]);
        assert!(push(&mut target.writers()[1], &work(NdkOperationTypeReceive, 0, 1), &[]));
        assert_eq!(to.call(IOCTL_SOFTNDK_DOORBELL, &handle(target.qp)), STATUS_SUCCESS);
        assert!(push(&mut source.writers()[0], &work(NdkOperationTypeSend, 0, 2), &[]));
        assert_eq!(from.call(IOCTL_SOFTNDK_DOORBELL, &handle(source.qp)), STATUS_SUCCESS);
        for (ringed, kind) in [(source, NdkOperationTypeSend), (target, NdkOperationTypeReceive)] {
            let mut completions = ringed.completions();
            let one = |completion: SOFTNDK_COMPLETION| {
                assert_eq!((completion.Status, completion.Type), (STATUS_SUCCESS, kind.0.cast_unsigned()));
            };
            while completions.poll(1, one) == 0 {
                std::thread::yield_now();
            }
        }
    }
}

// Shows S703.
#[test]
fn queue_pairs_serve_after_attempts_that_failed() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let (user, peer) = (User::new(&device), User::new(&device));
        let (from, at) = (World::new(&user), World::listening(&peer));
        let [own, theirs] = [Ringed::new(&user, &from).unwrap(), Ringed::new(&peer, &at).unwrap()];
        let to = address(&peer, at.listener);
        // A connect is refused without a listener, then by the peer.
        let (gone, nowhere) = peer.listener(at.adapter, "10.1.2.3:0", 0);
        assert_eq!(peer.call(IOCTL_ND_LISTENER_FREE, &handle(gone)), STATUS_SUCCESS);
        let active = connector(&user, &from);
        assert_eq!(user.connect(active, own.qp, nowhere, b"").wait(), STATUS_CONNECTION_REFUSED);
        free(&user, active);
        let [active, passive] = [connector(&user, &from), connector(&peer, &at)];
        let requested = peer.get_request(at.listener, passive);
        let refused = user.connect(active, own.qp, to, b"");
        assert_eq!(requested.wait(), STATUS_SUCCESS);
        assert_eq!(peer.call(IOCTL_ND_CONNECTOR_REJECT, &reject(passive)), STATUS_SUCCESS);
        assert_eq!(refused.wait(), STATUS_CONNECTION_REFUSED);
        free(&user, active);
        free(&peer, passive);
        // The active side rejects after the peer has accepted, or frees its connector without a reject.
        for rejects in [true, false] {
            let [active, passive] = [connector(&user, &from), connector(&peer, &at)];
            let requested = peer.get_request(at.listener, passive);
            let connected = user.connect(active, own.qp, to, b"");
            assert_eq!(requested.wait(), STATUS_SUCCESS);
            let accepted = peer.accept(passive, theirs.qp, b"");
            assert_eq!(connected.wait(), STATUS_SUCCESS);
            if rejects {
                assert_eq!(user.call(IOCTL_ND_CONNECTOR_REJECT, &reject(active)), STATUS_SUCCESS);
            }
            free(&user, active);
            assert_eq!(accepted.wait(), STATUS_CONNECTION_REFUSED);
            free(&peer, passive);
        }
        connect(&user, [from.connector, own.qp], &peer, [at.connector, theirs.qp], at.listener);
        exchange([(&user, &own), (&peer, &theirs)]);
    });
}

fn reject(connector: u64) -> ND_REJECT {
    ND_REJECT { Version: 1, ConnectorHandle: connector, ..ND_REJECT::ZERO }
}

#[test]
fn a_connection_goes_on_beside_attempts_with_its_queue_pair() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let (user, peer) = (User::new(&device), User::new(&device));
        let (from, at) = (World::new(&user), World::listening(&peer));
        let [own, theirs] = [Ringed::new(&user, &from).unwrap(), Ringed::new(&peer, &at).unwrap()];
        let to = address(&peer, at.listener);
        connect(&user, [from.connector, own.qp], &peer, [at.connector, theirs.qp], at.listener);
        let active = connector(&user, &from);
        assert_eq!(user.connect(active, own.qp, to, b"").wait(), STATUS_CONNECTION_ACTIVE);
        let passive = connector(&peer, &at);
        let requested = peer.get_request(at.listener, passive);
        let third = user.connect(active, user.qp(from.pd, from.cq), to, b"");
        assert_eq!(requested.wait(), STATUS_SUCCESS);
        assert_eq!(peer.accept(passive, theirs.qp, b"").wait(), STATUS_CONNECTION_ACTIVE);
        exchange([(&user, &own), (&peer, &theirs)]);
        free(&peer, passive);
        assert_eq!(third.wait(), STATUS_CONNECTION_REFUSED);
        assert_eq!(user.connect(active, own.qp, to, b"").wait(), STATUS_CONNECTION_ACTIVE);
        free(&user, active);
        exchange([(&user, &own), (&peer, &theirs)]);
    });
}

// Shows S911.
#[test]
fn a_freed_queue_pair_ends_its_connection_after_another_attempt() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let (user, peer) = (User::new(&device), User::new(&device));
        let (from, at) = (World::new(&user), World::listening(&peer));
        connect(&user, [from.connector, from.qp], &peer, [at.connector, at.qp], at.listener);
        let to = address(&peer, at.listener);
        assert_eq!(user.connect(connector(&user, &from), from.qp, to, b"").wait(), STATUS_CONNECTION_ACTIVE);
        let told = peer.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(at.connector));
        assert!(told.is_pending());
        assert_eq!(user.call(IOCTL_ND_QP_FREE, &handle(from.qp)), STATUS_SUCCESS);
        assert_eq!(told.wait(), STATUS_SUCCESS);
    });
}

/// A connect may be cancelled before it has begun, and another connect, with another queue pair, may begin.
#[test]
fn a_connect_right_after_a_cancelled_one_is_that_of_its_queue_pair() {
    for seed in seeds(600) {
        let _session = boot_seeded(seed);
        let device = start();
        let (user, peer) = (User::new(&device), User::new(&device));
        let (from, at) = (World::new(&user), World::listening(&peer));
        let [other, own] = [0; 2].map(|_| Ringed::new(&user, &from).unwrap());
        let to = address(&peer, at.listener);
        let mut second = None;
        scope(|scope| {
            scope.spawn(|| {
                let status = user.connect(from.connector, other.qp, to, b"first").wait();
                assert!(matches!(status, STATUS_CANCELLED | STATUS_CONNECTION_ACTIVE), "seed {seed}: {status}");
            });
            scope.spawn(|| {
                while second.is_none() {
                    assert_eq!(user.call(IOCTL_ND_CONNECTOR_CANCEL_IO, &handle(from.connector)), STATUS_SUCCESS);
                    let connect = user.connect(from.connector, own.qp, to, b"second");
                    second = connect.is_pending().then_some(connect);
                    pause();
                }
            });
        });
        let passive = std::iter::repeat_with(|| {
            let passive = connector(&peer, &at);
            assert_eq!(peer.get_request(at.listener, passive).wait(), STATUS_SUCCESS);
            passive
        });
        let is_second = |passive: &u64| {
            let data = peer.send_bytes(IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, handle(*passive).as_bytes(), 508);
            data.output().starts_with(b"second")
        };
        let passive = passive.into_iter().find(is_second).unwrap();
        let accepted = peer.accept(passive, at.qp, b"");
        assert_eq!(second.unwrap().wait(), STATUS_SUCCESS);
        assert_eq!(user.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(from.connector)), STATUS_SUCCESS);
        assert_eq!(accepted.wait(), STATUS_SUCCESS);
        assert_eq!([&other, &own].map(state), [0, SOFTNDK_RING_CONNECTED], "seed {seed}");
    }
}

/// A connect may be cancelled before NdkConnect refuses it, and the next connect may begin in between. The connector stays in the next one.
#[test]
fn a_connect_goes_on_beside_a_cancelled_one_that_fails() {
    for seed in seeds(100) {
        let _session = boot_seeded(seed);
        let device = start();
        let (user, peer) = (User::new(&device), User::new(&device));
        let (from, at) = (World::new(&user), World::listening(&peer));
        let to = address(&peer, at.listener);
        let occupied = user.qp(from.pd, from.cq);
        assert!(user.connect(connector(&user, &from), occupied, to, b"").is_pending());
        let mut next = None;
        scope(|scope| {
            scope.spawn(|| {
                let status = user.connect(from.connector, occupied, to, b"").wait();
                assert!(matches!(status, STATUS_CANCELLED | STATUS_CONNECTION_ACTIVE), "seed {seed}: {status}");
            });
            scope.spawn(|| {
                while next.is_none() {
                    assert_eq!(user.call(IOCTL_ND_CONNECTOR_CANCEL_IO, &handle(from.connector)), STATUS_SUCCESS);
                    next = Some(user.connect(from.connector, from.qp, to, b"")).filter(Answer::is_pending);
                    pause();
                }
            });
        });
        let third = user.connect(from.connector, from.qp, to, b"");
        assert_eq!(third.returned, STATUS_CONNECTION_ACTIVE, "seed {seed}: the connector is idle");
    }
}
