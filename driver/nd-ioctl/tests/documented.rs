//! Documented behaviour of single control codes that no case of the protocol shows.

use std::time::Duration;

use ndk_abi::{nd_ioctl::*, status::*};
use simkernel::{boot, watchdog};
use users::{User, World, start, user::handle};
use zerocopy::IntoBytes;

const LIMIT: Duration = Duration::from_secs(30);

// Shows P8.
#[test]
fn adapters_are_queried_for_one_version() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let query = |version| {
        let input = ND_ADAPTER_QUERY { Version: 1, InfoVersion: version, AdapterHandle: user.adapter() };
        user.ask::<_, ND2_ADAPTER_INFO>(IOCTL_ND_ADAPTER_QUERY, &input).map(|info| info.InfoVersion)
    };
    assert_eq!(query(ND_VERSION_2), Ok(ND_VERSION_2));
    for other in [0, 1, 2, ND_VERSION_2 + 1, u32::MAX] {
        assert_eq!(query(other), Err(STATUS_INVALID_PARAMETER), "version {other:#x}");
    }
}

/// The initiator's process ends between Connect and CompleteConnect: the peer's Accept ends with STATUS_CONNECTION_REFUSED.
// Shows N99.
#[test]
fn an_accept_whose_initiator_exits_is_refused() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        for by_exit in [true, false] {
            let passive = User::new(&device);
            let world = World::listening(&passive);
            let address = passive.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
            let requested = passive.get_request(world.listener, world.connector);
            let active = User::new(&device);
            let its = World::new(&active);
            let connect = active.connect(its.connector, its.qp, address, b"");
            assert_eq!(requested.wait(), STATUS_SUCCESS);
            let accept = passive.accept(world.connector, world.qp, b"");
            assert_eq!(connect.wait(), STATUS_SUCCESS);
            assert!(accept.is_pending());
            if by_exit {
                drop(active);
            } else {
                assert_eq!(active.call(IOCTL_ND_CONNECTOR_FREE, &handle(its.connector)), STATUS_SUCCESS);
            }
            assert_eq!(accept.wait(), STATUS_CONNECTION_REFUSED);
        }
    });
}

/// A short buffer gets the first bytes, and the request returns the length of all.
// Shows P22.
#[test]
fn private_data_is_given_in_part() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let world = World::listening(&user);
        let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
        let active = user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter);
        let requested = user.get_request(world.listener, world.connector);
        let _connect = user.connect(active, user.qp(world.pd, world.cq), address, b"twelve bytes");
        assert_eq!(requested.wait(), STATUS_SUCCESS);
        for room in [0, 1, 11] {
            let code = IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA;
            let answer = user.send_bytes(code, handle(world.connector).as_bytes(), room);
            assert_eq!(answer.wait(), STATUS_BUFFER_OVERFLOW);
            let (_, information, output) = answer.shared.result().unwrap();
            assert_eq!((information, &output[..room]), (12, &b"twelve bytes"[..room]));
        }
    });
}
