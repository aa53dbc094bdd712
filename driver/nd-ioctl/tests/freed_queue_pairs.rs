//! Queue pairs that are freed while a connector connects them: the connection ends, and both programs learn of that.

use std::time::Duration;

use ndk_abi::{nd_ioctl::*, sockaddr::SOCKADDR_INET, status::*};
use simkernel::{boot, boot_seeded, scope, seeds, watchdog};
use users::{
    User, World, start,
    user::{Answer, handle},
};

const LIMIT: Duration = Duration::from_secs(60);

/// Connects both sides up to COMPLETE_CONNECT: the CONNECT has ended, the ACCEPT pends.
fn offered(user: &User<'_>, from: &World, peer: &User<'_>, at: &World) -> Answer {
    let to: SOCKADDR_INET = peer.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(at.listener)).unwrap();
    let requested = peer.get_request(at.listener, at.connector);
    let connected = user.connect(from.connector, from.qp, to, b"");
    assert_eq!(requested.wait(), STATUS_SUCCESS);
    let accepted = peer.accept(at.connector, at.qp, b"");
    assert_eq!(connected.wait(), STATUS_SUCCESS);
    accepted
}

fn free_qp(user: &User<'_>, qp: u64) {
    assert_eq!(user.call(IOCTL_ND_QP_FREE, &handle(qp)), STATUS_SUCCESS);
}

fn complete(user: &User<'_>, connector: u64) -> NTSTATUS {
    user.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(connector))
}

/// Checks that a program whose set-up request completed with `status` learns of the connection's end: by that status, or by
/// NOTIFY_DISCONNECT.
fn told_of_the_end(user: &User<'_>, connector: u64, status: NTSTATUS) {
    if status == STATUS_SUCCESS {
        let told = user.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(connector));
        assert_eq!(told.wait(), STATUS_SUCCESS);
    } else {
        assert!(matches!(status, STATUS_CONNECTION_ABORTED | STATUS_CONNECTION_REFUSED), "{status}");
    }
}

// Shows S911.
#[test]
fn freed_while_the_accept_pends() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let (user, peer) = (User::new(&device), User::new(&device));
        let (from, at) = (World::new(&user), World::listening(&peer));
        let accepted = offered(&user, &from, &peer, &at);
        assert!(accepted.is_pending());
        free_qp(&peer, at.qp);
        let completed = complete(&user, from.connector);
        assert_eq!(accepted.wait(), STATUS_CANCELLED);
        told_of_the_end(&user, from.connector, completed);
    });
}

// Shows S911.
#[test]
fn freed_before_the_connect_is_completed() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let (user, peer) = (User::new(&device), User::new(&device));
        let (from, at) = (World::new(&user), World::listening(&peer));
        let accepted = offered(&user, &from, &peer, &at);
        free_qp(&user, from.qp);
        assert_eq!(complete(&user, from.connector), STATUS_CANCELLED);
        told_of_the_end(&peer, at.connector, accepted.wait());
    });
}

/// The queue pair of either side is freed while the connection is made: in any order of the two, the other side learns of the end.
// Shows S911.
#[test]
fn freed_while_the_connection_is_made() {
    for seed in seeds(400) {
        let _session = boot_seeded(seed);
        let device = start();
        let (user, peer) = (User::new(&device), User::new(&device));
        let (from, at) = (World::new(&user), World::listening(&peer));
        let accepted = offered(&user, &from, &peer, &at);
        let frees_own = seed % 2 == 0;
        let mut completed = STATUS_PENDING;
        scope(|scope| {
            scope.spawn(|| completed = complete(&user, from.connector));
            scope.spawn(|| if frees_own { free_qp(&user, from.qp) } else { free_qp(&peer, at.qp) });
        });
        let accepted = accepted.wait();
        let own = if frees_own { completed } else { accepted };
        assert!(matches!(own, STATUS_SUCCESS | STATUS_CANCELLED), "seed {seed}: {own}");
        if frees_own {
            told_of_the_end(&peer, at.connector, accepted);
        } else {
            told_of_the_end(&user, from.connector, completed);
        }
    }
}
