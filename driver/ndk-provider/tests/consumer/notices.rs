//! The notices that the provider gives to the kernel for tracing ([`Notice`]).

use std::net::SocketAddr;

use ndk_abi::{
    ndkpi::{NDK_OPERATION_TYPE, NdkOperationTypeReceive, NdkOperationTypeSend, NdkOperationTypeWrite},
    status::{
        NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_ABORTED,
        STATUS_CONNECTION_INVALID, STATUS_CONNECTION_REFUSED, STATUS_NO_MORE_ENTRIES, STATUS_SHARING_VIOLATION,
        STATUS_SUCCESS,
    },
};
use platform::{Addresses, Ending, Notice};

use crate::{
    connector::Scene,
    kit::{Buffer, Connector, Options, Pair, Unconnected, World, loopback},
};

fn number(status: NTSTATUS) -> u32 {
    status.to_u32()
}

/// What was noticed since this was asked last.
fn noticed(world: &World) -> Vec<Notice> {
    world.flush_dpcs();
    world.session.take_notices()
}

fn world() -> World {
    let world = World::new();
    world.session.keep_notices();
    world
}

/// From one end to the other.
fn from(local: SocketAddr, remote: SocketAddr) -> Addresses {
    Addresses { local: Some(local), remote: Some(remote) }
}

fn addresses(connector: &Connector) -> Addresses {
    Addresses { local: connector.local_address().ok(), remote: connector.peer_address().ok() }
}

// Shows S1505.
#[test]
fn a_listener() {
    let world = world();
    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
    let local = listener.local_address().expect("it listens");
    assert_eq!(noticed(&world), [Notice::Listening { local }]);
    let other = world.adapter.create_listener().expect("a listener");
    assert_eq!(other.listen(local), STATUS_SHARING_VIOLATION);
    let status = number(STATUS_SHARING_VIOLATION);
    assert_eq!(noticed(&world), [Notice::ListenFailed { local, status }]);
    other.close_now();
    assert_eq!(noticed(&world), [], "it did not listen");
    listener.close_now();
    assert_eq!(noticed(&world), [Notice::ListenEnded { local }]);
}

/// The notices of both sides, in the order of the events.
// Shows S1505.
#[test]
fn a_connection() {
    let world = world();
    let pair = Pair::new(&world.adapter);
    let [active, passive] = [&pair.active, &pair.passive].map(|side| addresses(&side.connector));
    let listening = Notice::Listening { local: pair.listener.local_address().expect("it listens") };
    let connected = noticed(&world);
    let [first, request, theirs, ours] = connected[..] else { panic!("{connected:?}") };
    assert_eq!((first, request), (listening, Notice::Requested { addresses: passive }));
    let Notice::Connected { queue_pair: one, .. } = ours else { panic!("{ours:?}") };
    let Notice::Connected { queue_pair: other, .. } = theirs else { panic!("{theirs:?}") };
    assert_ne!(one, other);
    assert_eq!(ours, Notice::Connected { addresses: active, queue_pair: one, active: true });
    assert_eq!(theirs, Notice::Connected { addresses: passive, queue_pair: other, active: false });

    pair.active.disconnect();
    let mut ended = noticed(&world);
    ended.sort_by_key(|notice| matches!(notice, Notice::Disconnected { reason: Ending::Peer, .. }));
    let ours = Notice::Disconnected { addresses: active, queue_pair: one, reason: Ending::Local };
    let theirs = Notice::Disconnected { addresses: passive, queue_pair: other, reason: Ending::Peer };
    assert_eq!(ended, [ours, theirs]);
    // What its consumer does now is no news.
    pair.passive.disconnect();
    assert_eq!(noticed(&world), []);
    pair.close();
}

/// The passive side rejects a request, and closes the connector of another; the active side closes while an accept is pending.
// Shows S1505.
#[test]
fn attempts_that_end() {
    let world = world();
    let scene = Scene::new(&world);
    let refused =
        |addresses| Notice::ConnectFailed { addresses, active: true, status: number(STATUS_CONNECTION_REFUSED) };

    let connect = scene.connect();
    let theirs = scene.listener.take();
    let _asked = noticed(&world);
    let (ours, passive) = (addresses(&scene.connector), addresses(&theirs));
    assert_eq!(theirs.reject(&[]), STATUS_SUCCESS);
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    assert_eq!(noticed(&world), [Notice::Rejected { addresses: passive }, refused(ours)]);
    theirs.close_now();

    let connect = scene.connect();
    let theirs = scene.listener.take();
    let _asked = noticed(&world);
    let (ours, passive) = (addresses(&scene.connector), addresses(&theirs));
    theirs.close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    assert_eq!(noticed(&world), [Notice::Rejected { addresses: passive }, refused(ours)]);

    let (theirs, accept) = scene.accepted();
    let _asked = noticed(&world);
    let (ours, passive) = (addresses(&scene.connector), addresses(&theirs));
    scene.connector.close_now();
    assert_eq!(accept.wait(), STATUS_CONNECTION_ABORTED);
    let failed = [(ours, true, STATUS_CANCELLED), (passive, false, STATUS_CONNECTION_ABORTED)];
    let failed =
        failed.map(|(addresses, active, status)| Notice::ConnectFailed { addresses, active, status: number(status) });
    assert_eq!(noticed(&world), failed);
    theirs.close_now();
    scene.close(false);
}

/// No listener has the port.
// Shows S1505.
#[test]
fn a_connect_to_nobody() {
    let world = world();
    let scene = Scene::new(&world);
    let nobody = loopback(9);
    let connect = scene.connector.connect(&scene.active.qp, loopback(4000), nobody, (1, 1), &[]);
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    let notices = noticed(&world);
    let addresses = from(loopback(4000), nobody);
    let failed = Notice::ConnectFailed { addresses, active: true, status: number(STATUS_CONNECTION_REFUSED) };
    assert_eq!(notices.last(), Some(&failed), "{notices:?}");
    scene.close(true);
}

/// The request that fails, and the connection that ends with it, on both sides.
// Shows S1505.
#[test]
fn a_request_that_fails() {
    let world = world();
    let pair = Pair::new(&world.adapter);
    let _connected = noticed(&world);
    let local = Buffer::full(&pair.active.pd, 1);
    let no_token = 0;
    assert_eq!(pair.active.qp.write(1, &[local.sge(0, 8)], 0, no_token, 0), STATUS_SUCCESS);
    pair.active.expect(1, STATUS_ACCESS_VIOLATION);
    let notices = noticed(&world);
    let Notice::RequestFailed { queue_pair, operation, status } = notices[0] else { panic!("{notices:?}") };
    assert_eq!((u32::from(operation), status), (NdkOperationTypeWrite.0 as u32, number(STATUS_ACCESS_VIOLATION)));
    assert_eq!(broken(&notices[1..]), both_ends(&pair));
    let ours = Some(addresses(&pair.active.connector));
    let of_ours = notices[1..].iter().find_map(|notice| match notice {
        Notice::Disconnected { addresses, queue_pair, .. } if Some(*addresses) == ours => Some(*queue_pair),
        _ => None,
    });
    assert_eq!(of_ours, Some(queue_pair), "it is the one that fails");
    local.close();
    pair.close();
}

/// The queue, and the connections on it.
// Shows S1505.
#[test]
fn a_completion_queue_that_overruns() {
    let world = world();
    let pair = Pair::with(&world.adapter, Options { cq_depth: 1, ..Options::default() });
    let _connected = noticed(&world);
    (0..2).for_each(|context| pair.message(context, false));
    pair.assert_aborted();
    let notices = noticed(&world);
    let failed = Notice::CompletionQueueFailed { depth: 1, status: number(STATUS_BUFFER_OVERFLOW) };
    assert_eq!(notices.first(), Some(&failed), "{notices:?}");
    assert_eq!(broken(&notices[1..]), both_ends(&pair));
    pair.close();
}

/// Each post and each row of completions, once that is asked for.
// Shows S1505.
#[test]
fn requests_and_completions() {
    let world = world();
    let pair = Pair::new(&world.adapter);
    let _connected = noticed(&world);
    pair.message(0, false);
    assert_eq!(noticed(&world), [], "nobody has asked for those of data");
    assert_eq!(pair.passive.receive_cq.wait(1).len(), 1);

    world.session.keep_notices_of_data();
    let local = Buffer::full(&pair.active.pd, 1);
    let target = Buffer::full(&pair.passive.pd, 1);
    assert_eq!(pair.passive.qp.receive(1, &[target.sge(0, 64)]), STATUS_SUCCESS);
    assert_eq!(pair.active.qp.send(2, &[local.sge(0, 48)], 0), STATUS_SUCCESS);
    pair.active.expect(2, STATUS_SUCCESS);
    assert_eq!(pair.active.qp.write(3, &[local.sge(0, 8)], target.base, target.token, 0), STATUS_SUCCESS);
    pair.active.expect(3, STATUS_SUCCESS);
    pair.active.disconnect();
    assert_eq!(pair.active.qp.send(4, &[], 0), STATUS_SUCCESS);
    pair.active.expect(4, STATUS_CANCELLED);
    let stranger = Unconnected::new(&world.adapter, 1, Options::default());
    assert_eq!(stranger.qp.send(5, &[], 0), STATUS_CONNECTION_INVALID);
    stranger.close();
    let notices = noticed(&world);
    let of = |kind: NDK_OPERATION_TYPE| {
        let of_kind = |notice: &Notice| match *notice {
            Notice::Posted { operation, status, .. } if operation == kind.0 as u16 => Some((false, 1, 0, status)),
            Notice::Completed { operation, count, bytes, status, .. } if operation == kind.0 as u16 => {
                Some((true, count, bytes, status))
            }
            _ => None,
        };
        notices.iter().filter_map(of_kind).collect::<Vec<_>>()
    };
    assert_eq!(of(NdkOperationTypeReceive), [(false, 1, 0, 0), (true, 1, 48, 0)]);
    let refused = (false, 1, 0, number(STATUS_CONNECTION_INVALID));
    let cancelled = [(false, 1, 0, 0), (true, 1, 0, number(STATUS_CANCELLED))];
    let mut sends = of(NdkOperationTypeSend);
    // The post is noticed when it is over, by when the queue pair has cancelled it.
    sends[2..4].sort_unstable();
    assert_eq!(sends, [&[(false, 1, 0, 0), (true, 1, 0, 0)][..], &cancelled, &[refused]].concat());
    assert_eq!(of(NdkOperationTypeWrite), [(false, 1, 0, 0), (true, 1, 0, 0)]);
    local.close();
    target.close();
    pair.close();
}

/// Each receive that is posted to a shared queue, once that is asked for.
// Shows S1505.
#[test]
fn receives_of_shared_queues() {
    let world = world();
    let pair = Pair::new(&world.adapter);
    let [first, second] = [1, 1].map(|depth| pair.active.pd.create_srq(depth, 1, 0).expect("an SRQ"));
    let _connected = noticed(&world);
    assert_eq!(first.receive(1, &[]), STATUS_SUCCESS);
    assert_eq!(noticed(&world), [], "nobody has asked for those of data");

    world.session.keep_notices_of_data();
    assert_eq!(second.receive(2, &[]), STATUS_SUCCESS);
    assert_eq!([&first, &second].map(|srq| srq.receive(3, &[])), [STATUS_NO_MORE_ENTRIES; 2]);
    let posted = |shared_queue, status| Notice::PostedShared { shared_queue, status: number(status) };
    let refused = [0, 1].map(|shared_queue| posted(shared_queue, STATUS_NO_MORE_ENTRIES));
    assert_eq!(noticed(&world), [posted(1, STATUS_SUCCESS), refused[0], refused[1]]);
    first.close_now();
    second.close_now();
    pair.close();
}

/// Where connections have ended by an error; there is nothing else.
fn broken(notices: &[Notice]) -> Vec<SocketAddr> {
    let local = |notice: &Notice| match notice {
        Notice::Disconnected { addresses, reason: Ending::Error, .. } => addresses.local.expect("its address"),
        other => panic!("{other:?}"),
    };
    let mut ends: Vec<_> = notices.iter().map(local).collect();
    ends.sort();
    ends
}

fn both_ends(pair: &Pair) -> Vec<SocketAddr> {
    let mut ends = [&pair.active, &pair.passive].map(|side| side.connector.local_address().expect("its address"));
    ends.sort();
    ends.to_vec()
}
