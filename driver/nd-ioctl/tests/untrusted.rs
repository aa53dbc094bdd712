//! Wrong inputs of a program: each gets the documented status, and changes nothing. The simulated kernel's ledger, checked at the end of
//! each session, says whether anything leaked.

use ndk_abi::{describe::ZeroInit, nd_ioctl::*, ndkpi::*, softndk_ioctl::*, status::*};
use ndk_provider::ObjectCounts;
use simkernel::boot;
use users::{
    User, World,
    rings::{Ring, Ringed, create, create_cq, create_qp},
    start,
    user::{bind, handle, inet, registration, work},
};
use zerocopy::IntoBytes;

fn counts(user: &User<'_>) -> (ObjectCounts, usize) {
    (user.device.host().provider().object_counts(), user.device.host().pinned())
}

#[test]
fn nothing_works_before_provider_init() {
    let _session = boot();
    let device = start();
    let owner = User::new(&device);
    let world = World::new(&owner);
    let stranger = User::stranger(&device);
    for case in world.cases(&owner).iter().chain(&World::provider_cases()) {
        let answer = stranger.send_bytes(case.code, &case.input, case.output);
        assert_eq!(answer.wait(), STATUS_INVALID_DEVICE_STATE, "{:#x}", case.code);
    }
    assert_eq!(owner.call(IOCTL_ND_PROVIDER_INIT, &handle(0)), STATUS_INVALID_DEVICE_STATE);
}

// Shows T7.
#[test]
fn short_inputs_and_wrong_versions_are_refused() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let before = counts(&user);
    let mut tried = 0;
    for mut case in world.cases(&user).into_iter().chain(World::provider_cases()) {
        for length in 0..case.input.len() {
            let answer = user.send_bytes(case.code, &case.input[..length], case.output);
            assert_eq!(answer.wait(), STATUS_BUFFER_TOO_SMALL, "{:#x}, {length} bytes", case.code);
            tried += 1;
        }
        for version in [0, 2, u32::MAX] {
            case.input[..4].copy_from_slice(&version.to_le_bytes());
            let answer = user.send_bytes(case.code, &case.input, case.output);
            assert_eq!(answer.wait(), STATUS_INVALID_DEVICE_REQUEST, "{:#x}, version {version}", case.code);
        }
    }
    assert!(tried > 1000);
    assert_eq!(counts(&user), before);
}

#[test]
fn short_outputs_are_refused_before_anything_is_made() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let before = counts(&user);
    // These codes return a part if the output is short, not an error.
    let partial = [IOCTL_SOFTNDK_POLL, IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA];
    for case in world.cases(&user).into_iter().chain(World::provider_cases()) {
        // MR_REGISTER needs no output: the tokens can be queried later.
        let first = usize::from(case.code == IOCTL_ND_MR_REGISTER);
        for length in (first..case.output).filter(|_| !partial.contains(&case.code)) {
            let answer = user.send_bytes(case.code, &case.input, length);
            let status = answer.wait();
            let (_, information, _) = answer.shared.result().unwrap();
            match status {
                STATUS_BUFFER_OVERFLOW => assert_eq!(information, case.output),
                status => assert_eq!((status, information), (STATUS_BUFFER_TOO_SMALL, 0), "{:#x}", case.code),
            }
        }
    }
    assert_eq!(counts(&user), before);
}

// Shows T8.
#[test]
fn handles_that_are_not_of_this_file_type_and_time_are_refused() {
    let session = boot();
    let device = start();
    let user = User::new(&device);
    let other = User::new(&device);
    let world = World::new(&user);
    let foreign = World::new(&other);
    let stale = World::new(&user);
    for case in stale.cases(&user).iter().rev().take(9).rev() {
        assert_eq!(user.send_bytes(case.code, &case.input, 0).wait(), STATUS_SUCCESS);
        assert_eq!(user.send_bytes(case.code, &case.input, 0).wait(), STATUS_INVALID_HANDLE, "freed twice");
    }
    // A listener ends when TCP has closed it.
    session.flush_dpcs();
    let before = counts(&user);
    let second = user.attached();
    let mut tried = 0;
    for (case, sender) in world.cases(&user).into_iter().flat_map(|case| [(case.clone(), &user), (case, &second)]) {
        for place in case.handles {
            let right = u64::from_le_bytes(case.input[*place..place + 8].try_into().unwrap());
            let mut wrong = vec![0, 1, u64::MAX, right ^ 1 << 63, right ^ 1 << 32, right + 1, right | 1 << 31];
            wrong.extend(foreign.handles());
            wrong.extend(stale.handles());
            wrong.extend(world.handles().into_iter().filter(|other| *other != right));
            // A changed handle may be a valid one of the same type.
            let is_valid = |handle: &u64| world.handles().contains(handle) && same_kind(&world, *handle, right);
            for wrong in wrong.into_iter().filter(|wrong| !is_valid(wrong)) {
                let mut input = case.input.clone();
                input[*place..place + 8].copy_from_slice(&wrong.to_le_bytes());
                let answer = sender.send_bytes(case.code, &input, case.output);
                assert_eq!(answer.wait(), STATUS_INVALID_HANDLE, "{:#x} with {wrong:#x} at {place}", case.code);
                tried += 1;
            }
        }
    }
    assert!(tried > 2000);
    assert_eq!(counts(&user), before);
}

fn same_kind(world: &World, one: u64, other: u64) -> bool {
    let position = |handle| world.handles().iter().position(|known| *known == handle);
    position(one) == position(other)
}

/// Another process has a handle of the file, by inheritance or as a duplicate.
// Shows T4.
#[test]
fn a_file_serves_only_its_process() {
    const STRANGER: u64 = 0x666;
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::listening(&user);
    // Its own context does not help the stranger either.
    let other = User::new_of_process(&device, STRANGER);
    let waiting = user.notify(world.cq, ND_CQ_NOTIFY_ANY);
    let before = counts(&user);
    let cases = world.cases(&user).into_iter().chain(World::provider_cases()).chain(world.other_cases(&user));
    for case in cases {
        let answer = user.send_from(STRANGER, case.code, &case.input, case.output);
        assert_eq!(answer.wait(), STATUS_INVALID_DEVICE_REQUEST, "{:#x}", case.code);
        assert!(answer.output().is_empty());
    }
    assert!(waiting.is_pending());
    assert_eq!(counts(&user), before);
    // The process that opened the file can send these requests.
    for case in world.cases(&user).iter().rev().take(9).rev() {
        assert_eq!(user.send_bytes(case.code, &case.input, 0).wait(), STATUS_SUCCESS, "{:#x}", case.code);
    }
    // A file that the stranger opened cannot join by the identifier of the context.
    let fresh = User::of_process(&device, STRANGER);
    assert_eq!(fresh.call(IOCTL_SOFTNDK_ATTACH, &handle(user.id())), STATUS_INVALID_HANDLE);
    drop(other);
}

// Shows T9.
#[test]
fn codes_for_others_are_refused() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let zeros = [0; 256];
    let refused = [
        IOCTL_NDK_MR_REGISTER,
        IOCTL_NDV_PARTITION_RESOLVE_ADAPTER_ID,
        IOCTL_NDV_PARTITION_CREATE,
        IOCTL_NDV_PARTITION_FREE,
        IOCTL_NDV_PARTITION_BIND,
        IOCTL_NDV_PARTITION_UNBIND,
        IOCTL_NDV_PARTITION_BIND_LUID,
        IOCTL_ND_PROVIDER_RESOLVE_ADDRESS + 4,
        IOCTL_ND_QP_FLUSH + 4,
        IOCTL_ND_QP_FLUSH | 3,
        0,
        u32::MAX,
    ];
    for code in refused {
        assert_eq!(user.send_bytes(code, &zeros, 256).wait(), STATUS_INVALID_DEVICE_REQUEST, "{code:#x}");
    }
    let plant = SOFTNDK_TEST_PLANT { Version: 1, Kind: SOFTNDK_TEST_PLANT_LEAK_POOL };
    assert_eq!(user.call(IOCTL_SOFTNDK_TEST_PLANT, &plant), STATUS_NOT_SUPPORTED);
}

// Shows T7.
#[test]
fn offsets_and_counts_are_checked() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let cq = ND_CREATE_CQ { Version: 1, QueueDepth: 4, AdapterHandle: world.adapter, ..ZeroInit::ZERO };
    let mappings = |count, offset| {
        let cq = ND_CREATE_CQ { CeMappingCount: count, CbMappingsOffset: offset, ..cq };
        user.send_bytes(IOCTL_ND_CQ_CREATE, &[cq.as_bytes(), &[0; 32]].concat(), 16).wait()
    };
    assert_eq!(mappings(1, 40), STATUS_NOT_SUPPORTED);
    for (count, offset) in [(1, 41), (2, 40), (u32::MAX, 40), (0x0800_0000, 40), (1, u32::MAX), (1, u32::MAX - 31)] {
        assert_eq!(mappings(count, offset), STATUS_INVALID_PARAMETER, "{count} at {offset}");
    }
    assert_eq!(mappings(0, u32::MAX), STATUS_SUCCESS);

    let connect = |length, offset, bytes: usize| {
        let connect = ND_CONNECT {
            Version: 1,
            CbPrivateDataLength: length,
            CbPrivateDataOffset: offset,
            ConnectorHandle: world.connector,
            QpHandle: world.qp,
            DestinationAddress: inet("10.1.2.3:9"),
            ..ZeroInit::ZERO
        };
        user.send_bytes(IOCTL_ND_CONNECTOR_CONNECT, &[connect.as_bytes(), &vec![0; bytes]].concat(), 0).wait()
    };
    for (length, offset) in [(1, 112), (9, 104), (u32::MAX, 104), (1, u32::MAX), (u32::MAX, u32::MAX)] {
        assert_eq!(connect(length, offset, 8), STATUS_INVALID_PARAMETER, "{length} at {offset}");
    }
    assert_eq!(connect(509, 104, 509), STATUS_INVALID_BUFFER_SIZE);
    assert_eq!(connect(5000, 104, 5000), STATUS_INVALID_BUFFER_SIZE);
    assert_eq!(connect(8, 104, 8), STATUS_CONNECTION_REFUSED);
    assert_eq!(connect(0, u32::MAX, 0), STATUS_CONNECTION_REFUSED);

    let send = work(NdkOperationTypeSend, world.qp, 1);
    for count in [1, 64] {
        assert_eq!(user.post(&SOFTNDK_POST { SgeCount: count, ..send }, &[], b""), STATUS_INVALID_PARAMETER);
    }
    for count in [65, 0x1000_0000, u32::MAX] {
        assert_eq!(user.post(&SOFTNDK_POST { SgeCount: count, ..send }, &[], b""), STATUS_DATA_OVERRUN);
    }
    let inline = SOFTNDK_POST { Flags: NDK_OP_FLAG_INLINE, ..send };
    for length in [1, u32::MAX, u32::MAX - 79] {
        assert_eq!(user.post(&SOFTNDK_POST { InlineLength: length, ..inline }, &[], b""), STATUS_INVALID_PARAMETER);
    }
    let receive = |count| {
        let post = SOFTNDK_SRQ_POST { Version: 1, SgeCount: count, SrqHandle: world.srq, RequestContext: 0 };
        user.call(IOCTL_SOFTNDK_SRQ_POST, &post)
    };
    for count in [1, 64] {
        assert_eq!(receive(count), STATUS_INVALID_PARAMETER);
    }
    for count in [65, 0x1000_0000, u32::MAX] {
        assert_eq!(receive(count), STATUS_DATA_OVERRUN);
    }
}

/// With NDK_OP_FLAG_INLINE a provider reads at the addresses in the SGEs, which must never be the program's.
// Shows T10.
#[test]
fn inline_never_follows_an_address_of_the_user() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let secret = Box::new(*b"of the kernel");
    let sge = SOFTNDK_SGE { Address: secret.as_ptr().addr() as u64, Length: 13, Token: 0 };
    let operations = [
        NdkOperationTypeSend,
        NdkOperationTypeWrite,
        NdkOperationTypeRead,
        NdkOperationTypeReceive,
        NDK_OPERATION_TYPE(SOFTNDK_POST_SEND_AND_INVALIDATE as i32),
    ];
    for operation in operations {
        let post = SOFTNDK_POST { Flags: NDK_OP_FLAG_INLINE, SgeCount: 1, ..work(operation, world.qp, 1) };
        assert_eq!(user.post(&post, &[sge], b""), STATUS_INVALID_PARAMETER, "{operation:?}");
    }
    let others = [
        NdkOperationTypeRead,
        NdkOperationTypeReceive,
        NdkOperationTypeFastRegister,
        NdkOperationTypeInvalidate,
        NdkOperationTypeBind,
        NDK_OPERATION_TYPE(0),
        NDK_OPERATION_TYPE(-1),
    ];
    for operation in others {
        let post = SOFTNDK_POST { Flags: NDK_OP_FLAG_INLINE, ..work(operation, world.qp, 1) };
        assert_eq!(user.post(&post, &[], b""), STATUS_INVALID_PARAMETER_4, "{operation:?}");
    }
    assert_eq!(user.post(&work(NdkOperationTypeBind, world.qp, 1), &[], b""), STATUS_BUFFER_TOO_SMALL);
    assert_eq!(user.post(&work(NDK_OPERATION_TYPE(3), world.qp, 1), &[], b""), STATUS_INVALID_PARAMETER);
}

// Shows P16, T10.
#[test]
fn memory_that_is_not_the_users_is_refused() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let good = registration(world.mr, &world.pages, ND_MR_FLAG_ALLOW_LOCAL_WRITE);
    let register = |address, length, target| {
        let header = ND_MR_REGISTER_HDR { CbLength: length, TargetAddress: target, ..good.Header };
        user.ask::<_, SOFTNDK_MR_TOKENS>(IOCTL_ND_MR_REGISTER, &ND_MR_REGISTER { Header: header, Address: address })
    };
    let at = good.Address;
    assert_eq!(register(0, 0, 0), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(register(at, 0, at), Err(STATUS_INVALID_BUFFER_SIZE));
    assert_eq!(register(at, u64::MAX, at), Err(STATUS_ACCESS_VIOLATION));
    assert_eq!(register(u64::MAX, 1, u64::MAX), Err(STATUS_ACCESS_VIOLATION));
    assert_eq!(register(at, 8193, at), Err(STATUS_ACCESS_VIOLATION));
    // More than a region can have is refused before the lock, which would fail with STATUS_ACCESS_VIOLATION.
    assert_eq!(register(at, (1 << 32) + 1, at), Err(STATUS_INVALID_PARAMETER));
    // The largest region: a process may not lock as much.
    assert_eq!(register(at, 1 << 32, at), Err(STATUS_INSUFFICIENT_RESOURCES));
    let fast = |address, length| {
        let create = SOFTNDK_FAST_MR_CREATE {
            Version: 1,
            RemoteAccess: 0,
            PdHandle: world.pd,
            Address: address,
            Length: length,
        };
        user.ask::<_, SOFTNDK_FAST_MR>(IOCTL_SOFTNDK_FAST_MR_CREATE, &create).map(|_| ())
    };
    assert_eq!(fast(at, 2048 * 4096), Err(STATUS_ACCESS_VIOLATION));
    assert_eq!(fast(at + 1, 2048 * 4096), Err(STATUS_IMPLEMENTATION_LIMIT));
    assert_eq!(fast(at, 2048 * 4096 + 1), Err(STATUS_IMPLEMENTATION_LIMIT));
    assert_eq!(register(at, 8192, at + 1), Err(STATUS_NOT_SUPPORTED));
    let flags = ND_MR_REGISTER { Header: ND_MR_REGISTER_HDR { Flags: 0x10, ..good.Header }, ..good };
    assert_eq!(user.ask::<_, SOFTNDK_MR_TOKENS>(IOCTL_ND_MR_REGISTER, &flags), Err(STATUS_INVALID_PARAMETER));
    assert_eq!(user.call(IOCTL_ND_MR_DEREGISTER, &handle(world.mr)), STATUS_INVALID_DEVICE_STATE);
    assert_eq!(device.host().pinned(), 0);
    assert!(register(at, 8192, at).is_ok());
    assert_eq!(register(at, 8192, at), Err(STATUS_INVALID_DEVICE_STATE));
    assert_eq!(device.host().pinned(), 1);
    assert_eq!(user.call(IOCTL_ND_MR_DEREGISTER, &handle(world.mr)), STATUS_SUCCESS);
    assert_eq!(device.host().pinned(), 0);
    assert!(register(at, 100, at).is_ok());
    assert_eq!(user.call(IOCTL_ND_MR_FREE, &handle(world.mr)), STATUS_SUCCESS);
    assert_eq!(device.host().pinned(), 0);
}

/// No ring is larger than 256 MiB, which is more than a process may lock here.
#[test]
fn rings_have_a_largest_size() {
    const LARGEST: u32 = 1 << 28;
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let ring = Ring::completions(&user);
    let invalid = STATUS_INVALID_PARAMETER;
    for (length, status) in [(0, invalid), (LARGEST, STATUS_INSUFFICIENT_RESOURCES), (LARGEST + 1, invalid)] {
        let mut mapping = ring.mapping();
        mapping.MapPages.Header.CbLength = length;
        assert_eq!(create(&user, IOCTL_ND_CQ_CREATE, &create_cq(&world), &[mapping]), Err(status), "{length} bytes");
    }
}

/// Memory that the program may only read is locked for reading only: no region over it has a right to write.
#[test]
fn memory_that_the_user_only_reads_is_registered_without_rights_to_write() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    device.host().protect(&world.pages);
    for flags in [0, ND_MR_FLAG_ALLOW_REMOTE_READ] {
        assert_eq!(user.call(IOCTL_ND_MR_REGISTER, &registration(world.mr, &world.pages, flags)), STATUS_SUCCESS);
        assert_eq!(user.call(IOCTL_ND_MR_DEREGISTER, &handle(world.mr)), STATUS_SUCCESS);
    }
    for flags in [ND_MR_FLAG_ALLOW_LOCAL_WRITE, ND_MR_FLAG_ALLOW_REMOTE_WRITE, ND_MR_FLAG_RDMA_READ_SINK] {
        let register = registration(world.mr, &world.pages, flags);
        assert_eq!(user.call(IOCTL_ND_MR_REGISTER, &register), STATUS_ACCESS_VIOLATION);
    }
}

#[test]
fn objects_of_two_adapters_do_not_mix() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let one = World::new(&user);
    let two = World::new(&user);
    let qp = ND_CREATE_QP { Header: user.qp_header(one.pd, two.cq), ReceiveQueueDepth: 1, MaxReceiveRequestSge: 1 };
    let create = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE, &qp);
    assert_eq!(create.map(|_| ()), Err(STATUS_INVALID_PARAMETER_MIX));
    assert_eq!(user.connect(one.connector, two.qp, inet("10.1.2.3:9"), b"").wait(), STATUS_INVALID_PARAMETER_MIX);
    assert_eq!(user.call(IOCTL_ND_LISTENER_BIND, &bind(one.listener, "10.1.2.3:0")), STATUS_SUCCESS);
    assert_eq!(user.get_request(one.listener, two.connector).wait(), STATUS_INVALID_PARAMETER_MIX);
}

/// Only a ring takes the completion of a request that was never posted.
#[test]
fn a_queue_pair_with_rings_needs_completions_with_rings() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let ringed = Ringed::new(&user, &world).unwrap();
    let with = |receive_cq, initiator_cq| {
        let mut qp = create_qp(&user, &world, receive_cq);
        qp.Header.InitiatorCqHandle = initiator_cq;
        let mappings = [Ring::initiator(&user).mapping(), Ring::receives(&user).mapping()];
        create(&user, IOCTL_ND_QP_CREATE, &qp, &mappings).map(|_| ())
    };
    for (receive_cq, initiator_cq) in [(world.cq, world.cq), (ringed.cq, world.cq), (world.cq, ringed.cq)] {
        assert_eq!(with(receive_cq, initiator_cq), Err(STATUS_INVALID_PARAMETER_MIX));
    }
    assert_eq!(with(ringed.cq, ringed.cq), Ok(()));
}

#[test]
fn a_region_of_another_domain_can_not_be_registered_or_invalidated() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let create = SOFTNDK_FAST_MR_CREATE {
        Version: 1,
        RemoteAccess: 1,
        PdHandle: user.create(IOCTL_ND_PD_CREATE, world.adapter),
        Address: world.pages.address(0).addr().get() as u64,
        Length: 4096,
    };
    let foreign: SOFTNDK_FAST_MR = user.ask(IOCTL_SOFTNDK_FAST_MR_CREATE, &create).unwrap();
    let own = SOFTNDK_FAST_MR_CREATE { PdHandle: world.pd, ..create };
    let own: SOFTNDK_FAST_MR = user.ask(IOCTL_SOFTNDK_FAST_MR_CREATE, &own).unwrap();
    for operation in [NdkOperationTypeFastRegister, NdkOperationTypeInvalidate] {
        let work = work(operation, world.qp, 1);
        let base = create.Address;
        let post = SOFTNDK_POST { ObjectHandle: foreign.MrHandle, BaseVirtualAddress: base, Length: 4096, ..work };
        assert_eq!(user.post(&post, &[], b""), STATUS_INVALID_HANDLE, "{operation:?}");
        let post = SOFTNDK_POST { ObjectHandle: own.MrHandle, ..post };
        assert_eq!(user.post(&post, &[], b""), STATUS_CONNECTION_INVALID, "{operation:?}");
    }
}
