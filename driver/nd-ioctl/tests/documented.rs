//! Documented behaviour of single control codes that no case of the protocol shows.

use std::time::Duration;

use ndk_abi::{nd_ioctl::*, sockaddr::SOCKADDR_INET, status::*};
use simkernel::{boot, watchdog};
use users::{
    User, World,
    host::ADDRESSES,
    rings::{Ring, create_cq, with_mappings},
    start,
    user::handle,
};
use zerocopy::{FromBytes, IntoBytes};

const LIMIT: Duration = Duration::from_secs(30);

// Shows P8.
#[test]
fn adapters_are_queried_for_one_version() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let query = |version| {
        let input = ND_ADAPTER_QUERY { Version: 1, InfoVersion: version, AdapterHandle: user.adapter() };
        user.ask::<_, ND2_ADAPTER_INFO>(IOCTL_ND_ADAPTER_QUERY, &input)
            .map(|info| (info.InfoVersion, info.AdapterFlags))
    };
    // The flags that user mode has, and no other one of NDKPI.
    let flags = ND_ADAPTER_FLAG_IN_ORDER_DMA_SUPPORTED
        | ND_ADAPTER_FLAG_CQ_INTERRUPT_MODERATION_SUPPORTED
        | ND_ADAPTER_FLAG_MULTI_ENGINE_SUPPORTED
        | ND_ADAPTER_FLAG_CQ_RESIZE_SUPPORTED
        | ND_ADAPTER_FLAG_LOOPBACK_CONNECTIONS_SUPPORTED;
    assert_eq!(query(ND_VERSION_2), Ok((ND_VERSION_2, flags)));
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
        let all = user.send_bytes(IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, handle(world.connector).as_bytes(), 12);
        assert_eq!((all.wait(), all.output()), (STATUS_SUCCESS, b"twelve bytes".to_vec()));
    });
}

#[test]
fn addresses_are_listed_if_all_of_them_fit() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let length = ADDRESSES.len() * size_of::<SOCKADDR_INET>();
    for (room, status) in [(length - 1, STATUS_BUFFER_OVERFLOW), (length, STATUS_SUCCESS)] {
        let code = IOCTL_ND_ADAPTER_QUERY_ADDRESS_LIST;
        let answer = user.send_bytes(code, handle(user.adapter()).as_bytes(), room);
        assert_eq!(answer.wait(), status);
        assert_eq!(answer.shared.result().map(|(_, information, _)| information), Some(length));
    }
}

/// The results of mappings follow the descriptor; without mappings there is no offset.
#[test]
fn a_descriptor_says_where_results_of_mappings_are() {
    const DESCRIPTOR: u32 = size_of::<ND_RESOURCE_DESCRIPTOR>() as u32;
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let ring = Ring::completions(&user);
    for (count, offset) in [(0, 0), (1, DESCRIPTOR)] {
        let input = ND_CREATE_CQ { CeMappingCount: count, ..create_cq(&world) };
        let room = size_of::<ND_RESOURCE_DESCRIPTOR>() + size_of::<ND_MAPPING_RESULT>();
        let answer = user.send_bytes(IOCTL_ND_CQ_CREATE, &with_mappings(&input, &[ring.mapping()]), room);
        assert_eq!(answer.wait(), STATUS_SUCCESS);
        let output = answer.output();
        let (descriptor, _) = ND_RESOURCE_DESCRIPTOR::read_from_prefix(&output).unwrap();
        assert_eq!((descriptor.CeMappingResults, descriptor.CbMappingResultsOffset), (count, offset));
    }
}
