//! The size protocol of the address and connection-data queries.

use std::net::SocketAddr;

use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_TOO_SMALL, STATUS_CONNECTION_REFUSED, STATUS_INVALID_DEVICE_STATE, STATUS_SUCCESS,
};

use crate::{
    connector::Scene,
    kit::{Connector, World, addresses, loopback, pattern},
};

type Sized = (NTSTATUS, u32, Vec<u8>);

/// SOCKADDR_IN and SOCKADDR_IN6 of Windows.
fn layout(address: SocketAddr) -> Vec<u8> {
    let port = address.port().to_be_bytes();
    match address {
        SocketAddr::V4(v4) => [&[2, 0], &port[..], &v4.ip().octets(), &[0; 8]].concat(),
        SocketAddr::V6(v6) => [&[23, 0], &port[..], &[0; 4], &v6.ip().octets(), &[0; 4]].concat(),
    }
}

/// Checks a query for `address` with buffers of all sizes.
#[track_caller]
fn check(what: &str, address: SocketAddr, query: impl Fn(Option<usize>) -> Sized) {
    let bytes = layout(address);
    let needed = bytes.len();
    let (status, length, _) = query(None);
    assert_eq!((status, length), (STATUS_BUFFER_TOO_SMALL, needed as u32), "{what} without a buffer");
    for room in 0..needed + 16 {
        let (status, length, buffer) = query(Some(room));
        let fits = room >= needed;
        let expected = if fits { STATUS_SUCCESS } else { STATUS_BUFFER_TOO_SMALL };
        assert_eq!((status, length), (expected, needed as u32), "{what} with {room} bytes");
        let written = if fits { needed } else { 0 };
        assert_eq!(buffer[..written], bytes[..written], "{what} with {room} bytes");
        assert!(buffer[written..].iter().all(|&byte| byte == 0xEE), "{what} with {room} bytes: {buffer:?}");
    }
}

/// All of them, on both sides, for both families.
#[test]
fn addresses_of_all_objects() {
    let world = World::new();
    for ip in [addresses()[0], addresses()[2]] {
        let scene = Scene::new(&world);
        let (ours, theirs) = (SocketAddr::new(ip, 4711), SocketAddr::new(ip, 5445));
        let shared = world.adapter.create_shared_endpoint(ours).expect("a shared endpoint");
        let listener = world.adapter.create_listener().expect("a listener");
        for query in [
            listener.local_address_sized(Some(28)),
            scene.connector.local_address_sized(Some(28)),
            scene.connector.peer_address_sized(Some(28)),
        ] {
            assert_eq!(query, (STATUS_INVALID_DEVICE_STATE, 28, vec![0xEE; 28]), "there is none yet");
        }
        assert_eq!(listener.listen(theirs), STATUS_SUCCESS);
        let connect = scene.connector.connect_shared(&scene.active.qp, &shared, theirs, (1, 1), &[]);
        let passive = listener.take();
        let everything = || {
            check("shared endpoint", ours, |room| shared.local_address_sized(room));
            check("listener", theirs, |room| listener.local_address_sized(room));
            check("active, own", ours, |room| scene.connector.local_address_sized(room));
            check("active, peer", theirs, |room| scene.connector.peer_address_sized(room));
            check("passive, own", theirs, |room| passive.local_address_sized(room));
            check("passive, peer", ours, |room| passive.peer_address_sized(room));
        };
        // In every state from here on; at DISPATCH_LEVEL too.
        everything();
        let accept = passive.accept(&scene.passive.qp, (1, 1), &[], None);
        connect.succeed();
        simkernel::at_dispatch(|_| everything());
        scene.connector.complete(None).succeed();
        accept.succeed();
        everything();
        scene.connector.disconnect().succeed();
        everything();
        passive.close_now();
        listener.close_now();
        scene.close(true);
        shared.close_now();
    }
}

/// A listener on the unspecified address tells that, with the port that it got.
#[test]
fn the_unspecified_address() {
    let world = World::new();
    for any in ["0.0.0.0:0", "[::]:0"] {
        let any: SocketAddr = any.parse().expect("an address");
        let listener = world.adapter.create_listener().expect("a listener");
        assert_eq!(listener.listen(any), STATUS_SUCCESS);
        let local = listener.local_address().expect("it listens");
        assert!(local.ip() == any.ip() && local.port() >= 49_152, "{local}");
        check("listener", local, |room| listener.local_address_sized(room));
        listener.close_now();
    }
}

/// Checks a connection-data query with buffers of all sizes.
#[track_caller]
fn check_data(what: &str, connector: &Connector, data: &[u8], limits: (u32, u32)) {
    let (status, found, length, _) = connector.data_sized(None);
    assert_eq!((status, found, length as usize), (STATUS_SUCCESS, limits, data.len()), "{what} without a buffer");
    for room in [0, 1, data.len() / 2, data.len().saturating_sub(1), data.len(), data.len() + 1, data.len() + 200] {
        let (status, found, length, buffer) = connector.data_sized(Some(room));
        let expected = if room >= data.len() { STATUS_SUCCESS } else { STATUS_BUFFER_TOO_SMALL };
        assert_eq!((status, found, length as usize), (expected, limits, data.len()), "{what} with {room} bytes");
        let copied = room.min(data.len());
        assert_eq!(buffer[..copied], data[..copied], "{what} with {room} bytes");
        assert!(buffer[copied..].iter().all(|&byte| byte == 0xEE), "{what} with {room} bytes");
    }
}

/// NDK_FN_GET_CONNECTION_DATA on both sides, from nothing to all that may be sent, and after a reject.
#[test]
fn connection_data_of_both_sides() {
    let world = World::new();
    let most = world.adapter.info().MaxCalleeData as usize;
    for length in [0, 1, 100, most] {
        let scene = Scene::new(&world);
        let (ours, theirs) = (pattern(1, length), pattern(2, length));
        let attempt = || scene.connector.connect(&scene.active.qp, loopback(0), scene.remote(), (5, 6), &ours);
        let connect = attempt();
        let passive = scene.listener.take();
        check_data("passive", &passive, &ours, (6, 5));
        assert_eq!(passive.reject(&theirs), STATUS_SUCCESS);
        assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
        let (status, _, size, data) = scene.connector.data_sized(Some(length));
        assert_eq!((status, size as usize, data), (STATUS_SUCCESS, length, theirs.clone()), "of the reject");
        passive.close_now();

        let connect = attempt();
        let passive = scene.listener.take();
        let accept = passive.accept(&scene.passive.qp, (7, 3), &theirs, None);
        connect.succeed();
        check_data("active", &scene.connector, &theirs, (3, 6));
        check_data("passive", &passive, &ours, (6, 3));
        scene.connector.complete(None).succeed();
        accept.succeed();
        check_data("active, connected", &scene.connector, &theirs, (3, 6));
        check_data("passive, connected", &passive, &ours, (6, 3));
        passive.close_now();
        scene.close(true);
    }
}

/// Every out parameter is optional. A length without a buffer is the consumer's error: nothing is copied, and the status says
/// whether it would have been enough. Until the peer has answered there are the limits that were asked for, and no data.
#[test]
fn connection_data_in_part() {
    let world = World::new();
    let scene = Scene::new(&world);
    assert_eq!(scene.connector.data_in_part(true, true, Some(7)), (STATUS_SUCCESS, [Some(0); 3]));
    let connect = scene.connector.connect(&scene.active.qp, loopback(0), scene.remote(), (5, 6), b"hello");
    let passive = scene.listener.take();
    let asked = [Some(5), Some(6), Some(0)];
    assert_eq!(scene.connector.data_in_part(true, true, Some(7)), (STATUS_SUCCESS, asked), "not accepted yet");
    assert_eq!(passive.data_in_part(true, false, None), (STATUS_SUCCESS, [Some(6), None, None]));
    assert_eq!(passive.data_in_part(false, true, None), (STATUS_SUCCESS, [None, Some(5), None]));
    assert_eq!(passive.data_in_part(false, false, None), (STATUS_SUCCESS, [None; 3]));
    for (length, status) in
        [(0, STATUS_SUCCESS), (1, STATUS_BUFFER_TOO_SMALL), (4, STATUS_BUFFER_TOO_SMALL), (5, STATUS_SUCCESS)]
    {
        assert_eq!(passive.data_in_part(false, false, Some(length)), (status, [None, None, Some(5)]), "{length}");
    }
    passive.close_now();
    assert_eq!(connect.wait(), STATUS_CONNECTION_REFUSED);
    scene.close(true);
}
