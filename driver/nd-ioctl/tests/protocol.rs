//! Rules of the protocol for all control codes, or for many.

use ndk_abi::{
    describe::ZeroInit, index::NUMBERS, nd_ioctl::*, ndkpi::*, softndk_ioctl::*, status::*, wdm::GROUP_AFFINITY,
};
use simkernel::boot;
use users::{
    User, World,
    host::{ADAPTER_ID, PROCESSORS},
    start,
    user::{Answer, bind, handle, inet, registration, work},
};
use zerocopy::IntoBytes;

/// All control codes, with their names.
fn codes() -> impl Iterator<Item = (&'static str, u32)> {
    let numbers = NUMBERS.iter().flat_map(|numbers| numbers.iter());
    numbers.filter(|number| number.name.starts_with("IOCTL_")).map(|number| (number.name, number.value as u32))
}

// Shows P2.
#[test]
fn each_code_is_served_or_has_its_documented_refusal() {
    let _session = boot();
    let device = start();
    let mut served = 0;
    for (name, code) in codes() {
        let kernel_only = name.starts_with("IOCTL_NDK_") || name.starts_with("IOCTL_NDV_");
        let user = User::new(&device);
        let world = World::listening(&user);
        let cases = world.cases(&user).into_iter().chain(World::provider_cases()).chain(World::diagnostic_cases());
        let cases = cases.chain(world.other_cases(&user));
        let matching: Vec<_> = cases.filter(|case| case.code == code).collect();
        if kernel_only {
            assert!(matching.is_empty(), "{name}");
            let answer = user.send_bytes(code, &[1, 0, 0, 0].repeat(64), 256);
            assert_eq!(
                (answer.returned, answer.wait()),
                (STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_DEVICE_REQUEST)
            );
            continue;
        }
        assert!(!matching.is_empty(), "{name} has no test");
        let mut refusals = 0;
        for case in &matching {
            let answer = user.send_bytes(code, &case.input, case.output);
            refusals += usize::from(answer.returned == STATUS_INVALID_DEVICE_REQUEST);
            // The test host has no test consumer, no planted faults, no fault injection, and no captures.
            let is_absent = matches!(
                code,
                IOCTL_SOFTNDK_TEST_LINK
                    | IOCTL_SOFTNDK_TEST_PERF
                    | IOCTL_SOFTNDK_TEST_PLANT
                    | IOCTL_SOFTNDK_TEST_SMB_DIRECT
                    | IOCTL_SOFTNDK_SET_FAULT_RULES
                    | IOCTL_SOFTNDK_START_CAPTURE
            );
            assert_eq!(answer.returned == STATUS_NOT_SUPPORTED, is_absent, "{name}");
        }
        // A bind may be refused with this status, because of its region.
        assert!(refusals < matching.len(), "{name}");
        served += 1;
    }
    assert!(served > 60, "only {served} codes");
}

/// Checks that a request pended, so that its event or completion port reports its end, and ended with `status`.
fn pended(answer: &Answer, status: NTSTATUS) {
    assert_eq!((answer.returned, answer.wait()), (STATUS_PENDING, status));
}

fn refused(answer: &Answer, status: NTSTATUS) {
    assert_eq!((answer.returned, answer.wait()), (status, status));
}

#[test]
fn a_region_has_tokens_while_it_is_registered() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let tokens = || user.ask::<_, SOFTNDK_MR_TOKENS>(IOCTL_SOFTNDK_MR_QUERY, &handle(world.mr)).map(|_| ());
    assert_eq!(tokens(), Err(STATUS_INVALID_DEVICE_STATE));
    let register = registration(world.mr, &world.pages, ND_MR_FLAG_ALLOW_LOCAL_WRITE);
    assert_eq!(user.call(IOCTL_ND_MR_REGISTER, &register), STATUS_SUCCESS);
    assert_eq!(tokens(), Ok(()));
    assert_eq!(user.call(IOCTL_ND_MR_DEREGISTER, &handle(world.mr)), STATUS_SUCCESS);
    assert_eq!(tokens(), Err(STATUS_INVALID_DEVICE_STATE));
}

/// A fast-register region is registered by work requests; it has its tokens from its creation on.
#[test]
fn a_fast_region_has_tokens_always() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let input = SOFTNDK_FAST_MR_CREATE {
        Version: 1,
        RemoteAccess: 0,
        PdHandle: world.pd,
        Address: world.pages.address(0).addr().get() as u64,
        Length: 4096,
    };
    let region: SOFTNDK_FAST_MR = user.ask(IOCTL_SOFTNDK_FAST_MR_CREATE, &input).unwrap();
    let tokens: SOFTNDK_MR_TOKENS = user.ask(IOCTL_SOFTNDK_MR_QUERY, &handle(region.MrHandle)).unwrap();
    assert_eq!((tokens.LocalToken, tokens.RemoteToken), (region.LocalToken, region.RemoteToken));
}

#[test]
fn what_may_pend_always_does_once_it_is_accepted() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let rights = ND_MR_FLAG_ALLOW_LOCAL_WRITE;
    let register = registration(world.mr, &world.pages, rights);
    let with_tokens = user.send_bytes(IOCTL_ND_MR_REGISTER, register.as_bytes(), size_of::<SOFTNDK_MR_TOKENS>());
    pended(&with_tokens, STATUS_SUCCESS);
    assert_eq!(with_tokens.output().len(), size_of::<SOFTNDK_MR_TOKENS>());
    refused(&user.send(IOCTL_ND_MR_REGISTER, &register), STATUS_INVALID_DEVICE_STATE);
    pended(&user.send(IOCTL_ND_MR_DEREGISTER, &handle(world.mr)), STATUS_SUCCESS);
    refused(&user.send(IOCTL_ND_MR_DEREGISTER, &handle(world.mr)), STATUS_INVALID_DEVICE_STATE);
    pended(&user.send(IOCTL_ND_MR_REGISTER, &register), STATUS_SUCCESS);

    // There is a completion already.
    assert_eq!(user.post(&work(NdkOperationTypeReceive, world.qp, 1), &[], b""), STATUS_SUCCESS);
    assert_eq!(user.call(IOCTL_ND_QP_FLUSH, &handle(world.qp)), STATUS_SUCCESS);
    pended(&user.notify(world.cq, ND_CQ_NOTIFY_ANY), STATUS_SUCCESS);
    refused(&user.notify(world.cq, 3), STATUS_INVALID_PARAMETER);
    // The SRQ is below its threshold already.
    let srq = user.srq(world.pd, 4, 2);
    pended(&user.send(IOCTL_ND_SRQ_NOTIFY, &handle(srq)), STATUS_SUCCESS);
    refused(&user.send(IOCTL_ND_SRQ_NOTIFY, &handle(world.cq)), STATUS_INVALID_HANDLE);

    // First no listener exists. Then the connection request is there before GET_CONNECTION_REQUEST.
    pended(&user.connect(world.connector, world.qp, inet("10.1.2.3:9"), b""), STATUS_CONNECTION_REFUSED);
    refused(&user.connect(world.connector, world.qp, inet("10.1.2.3:9"), &[0; 2000]), STATUS_INVALID_BUFFER_SIZE);
    let (listener, address) = user.listener(world.adapter, "10.1.2.3:0", 1);
    let connect = user.connect(world.connector, world.qp, address, b"");
    let passive = user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter);
    refused(&user.get_request(world.listener, passive), STATUS_INVALID_DEVICE_STATE);
    pended(&user.get_request(listener, passive), STATUS_SUCCESS);
    let other = user.qp(world.pd, world.cq);
    refused(&user.accept(world.connector, other, b""), STATUS_CONNECTION_INVALID);
    let accept = user.accept(passive, other, b"");
    pended(&connect, STATUS_SUCCESS);
    pended(&user.send(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(world.connector)), STATUS_SUCCESS);
    refused(&user.send(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(world.connector)), STATUS_CONNECTION_INVALID);
    pended(&accept, STATUS_SUCCESS);
    let told = user.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(passive));
    pended(&user.send(IOCTL_ND_CONNECTOR_DISCONNECT, &handle(world.connector)), STATUS_SUCCESS);
    pended(&told, STATUS_SUCCESS);
    // The connection has ended already.
    pended(&user.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(passive)), STATUS_SUCCESS);
    refused(&user.send(IOCTL_ND_CONNECTOR_DISCONNECT, &handle(world.connector)), STATUS_CONNECTION_INVALID);
}

/// `*_CANCEL_IO`: all requests of the object are complete when it returns, in order of issue; requests of other objects still pend.
// Shows P12.
#[test]
fn cancel_io_completes_in_order_before_it_returns() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::listening(&user);
    let address = user.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(world.listener)).unwrap();
    let connectors: Vec<_> = (0..20).map(|_| user.create(IOCTL_ND_CONNECTOR_CREATE, world.adapter)).collect();
    let other_cq = user.cq(world.adapter, 4);
    let bystander = user.notify(other_cq, ND_CQ_NOTIFY_ANY);
    // The requests come by two files, which makes no difference to the order.
    let second = user.attached();
    let by = |index: usize| if index.is_multiple_of(2) { &user } else { &second };
    let cancel = |code, object, answers: Vec<Answer>| {
        assert!(answers.iter().all(Answer::is_pending), "{code:#x}");
        assert_eq!(second.call(code, &handle(object)), STATUS_SUCCESS);
        assert!(!answers.iter().any(Answer::is_pending), "{code:#x}");
        assert!(answers.iter().all(|answer| answer.wait() == STATUS_CANCELLED), "{code:#x}");
        assert!(answers.iter().map(|answer| answer.shared.order()).is_sorted(), "{code:#x}");
    };
    let notifies = (0..60).map(|index| by(index).notify(world.cq, index as u32 % 3)).collect();
    cancel(IOCTL_ND_CQ_CANCEL_IO, world.cq, notifies);
    let notifies = (0..20).map(|index| by(index).send(IOCTL_ND_SRQ_NOTIFY, &handle(world.srq))).collect();
    cancel(IOCTL_ND_SRQ_CANCEL_IO, world.srq, notifies);
    let requests = (0..20).map(|index| by(index).get_request(world.listener, connectors[index])).collect();
    cancel(IOCTL_ND_LISTENER_CANCEL_IO, world.listener, requests);
    // No program answers the connect, so it pends.
    let connect = user.connect(connectors[0], world.qp, address, b"");
    cancel(IOCTL_ND_CONNECTOR_CANCEL_IO, connectors[0], vec![connect]);
    // Requests of a region never pend, so there is nothing to cancel.
    cancel(IOCTL_ND_MR_CANCEL_IO, world.mr, Vec::new());
    assert!(bystander.is_pending());
}

#[test]
fn the_affinity_that_was_asked_for_is_given_back() {
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let all = GROUP_AFFINITY { Mask: PROCESSORS, Group: 0, Reserved: [0; 3] };
    let some = GROUP_AFFINITY { Mask: 0x12, Group: 1, Reserved: [0; 3] };
    assert_eq!(user.ask(IOCTL_ND_CQ_GET_AFFINITY, &handle(world.cq)), Ok(all));
    assert_eq!(user.ask(IOCTL_ND_SRQ_GET_AFFINITY, &handle(world.srq)), Ok(all));
    let cq =
        ND_CREATE_CQ { Version: 1, QueueDepth: 1, AdapterHandle: world.adapter, Affinity: some, ..ND_CREATE_CQ::ZERO };
    let cq = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_CQ_CREATE, &cq).unwrap().Handle;
    assert_eq!(user.ask(IOCTL_ND_CQ_GET_AFFINITY, &handle(cq)), Ok(some));
    let srq = ND_CREATE_SRQ {
        Version: 1,
        QueueDepth: 1,
        MaxRequestSge: 1,
        PdHandle: world.pd,
        Affinity: some,
        ..ND_CREATE_SRQ::ZERO
    };
    let srq = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_SRQ_CREATE, &srq).unwrap().Handle;
    assert_eq!(user.ask(IOCTL_ND_SRQ_GET_AFFINITY, &handle(srq)), Ok(some));
}

/// The test host locks 64 MiB at most, so one process locks 32 MiB at most.
// Shows N58, P28, T11.
#[test]
fn one_process_locks_half_of_what_the_driver_may() {
    const MIB: u64 = 1 << 20;
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let pages = device.host().map(6144);
    let rights = ND_MR_FLAG_ALLOW_LOCAL_WRITE;
    let register = |user: &User<'_>, mr, length| {
        let all = registration(mr, &pages, rights);
        let input = ND_MR_REGISTER { Header: ND_MR_REGISTER_HDR { CbLength: length, ..all.Header }, ..all };
        user.call(IOCTL_ND_MR_REGISTER, &input)
    };
    // Refused before the lock, which would fail with STATUS_ACCESS_VIOLATION: there is less memory.
    assert_eq!(register(&user, world.mr, 32 * MIB + 1), STATUS_INSUFFICIENT_RESOURCES);
    assert_eq!(register(&user, world.mr, 32 * MIB), STATUS_ACCESS_VIOLATION);
    assert_eq!(register(&user, world.mr, 24 * MIB), STATUS_SUCCESS);
    // The limit is for all files of the process together, whatever the memory is for.
    let same = User::new(&device);
    let more = World::new(&same);
    assert_eq!(register(&same, more.mr, 8 * MIB + 1), STATUS_INSUFFICIENT_RESOURCES);
    let fast = SOFTNDK_FAST_MR_CREATE {
        Version: 1,
        RemoteAccess: 0,
        PdHandle: more.pd,
        Address: pages.address(0).addr().get() as u64,
        Length: 8 * MIB,
    };
    let fast = same.ask::<_, SOFTNDK_FAST_MR>(IOCTL_SOFTNDK_FAST_MR_CREATE, &fast).unwrap().MrHandle;
    assert_eq!(register(&same, more.mr, 1), STATUS_INSUFFICIENT_RESOURCES);
    let ring = ND_MAPPING::memory(pages.address(0).addr().get() as u64, 4096);
    let cq = ND_CREATE_CQ {
        Version: 1,
        QueueDepth: 1,
        CeMappingCount: 1,
        CbMappingsOffset: 40,
        AdapterHandle: more.adapter,
        ..ND_CREATE_CQ::ZERO
    };
    let input = [cq.as_bytes(), ring.as_bytes()].concat();
    assert_eq!(same.send_bytes(IOCTL_ND_CQ_CREATE, &input, 32).wait(), STATUS_INSUFFICIENT_RESOURCES);
    // Another process has a limit of its own.
    let other = User::of_process(&device, 0x666);
    assert_eq!(other.call(IOCTL_ND_PROVIDER_INIT, &handle(0)), STATUS_SUCCESS);
    let others = World::new(&other);
    assert_eq!(register(&other, others.mr, 24 * MIB), STATUS_SUCCESS);
    // Unlocked memory no longer counts, nor does the memory of a closed file.
    assert_eq!(same.call(IOCTL_ND_MR_FREE, &handle(fast)), STATUS_SUCCESS);
    assert_eq!(register(&same, more.mr, 8 * MIB), STATUS_SUCCESS);
    assert_eq!(user.call(IOCTL_ND_MR_DEREGISTER, &handle(world.mr)), STATUS_SUCCESS);
    assert_eq!(register(&user, world.mr, 24 * MIB), STATUS_SUCCESS);
    drop(user);
    let last = User::new(&device);
    let world = World::new(&last);
    assert_eq!(register(&last, world.mr, 24 * MIB + 1), STATUS_INSUFFICIENT_RESOURCES);
    assert_eq!(register(&last, world.mr, 24 * MIB), STATUS_SUCCESS);
}

/// A region locks, and counts as, all pages of which it has a byte.
// Shows T11.
#[test]
fn a_region_costs_the_pages_that_it_locks() {
    const PAGE: u64 = 4096;
    let _session = boot();
    let device = start();
    let user = User::new(&device);
    let world = World::new(&user);
    let pages = device.host().map(6144);
    let register = |offset, length| {
        let all = registration(user.create(IOCTL_ND_MR_CREATE, world.pd), &pages, ND_MR_FLAG_ALLOW_LOCAL_WRITE);
        let address = all.Address + offset;
        let header = ND_MR_REGISTER_HDR { CbLength: length, TargetAddress: address, ..all.Header };
        user.call(IOCTL_ND_MR_REGISTER, &ND_MR_REGISTER { Header: header, Address: address })
    };
    assert_eq!(register(0, 6144 * PAGE), STATUS_SUCCESS);
    // All but four pages of what a process may have.
    assert_eq!(register(0, (2048 - 4) * PAGE), STATUS_SUCCESS);
    assert_eq!(register(PAGE - 1, 2), STATUS_SUCCESS);
    assert_eq!(register(1, PAGE * 2), STATUS_INSUFFICIENT_RESOURCES);
    assert_eq!(register(1, 1), STATUS_SUCCESS);
    assert_eq!(register(PAGE - 1, 2), STATUS_INSUFFICIENT_RESOURCES);
    assert_eq!(register(PAGE - 1, 1), STATUS_SUCCESS);
    assert_eq!(register(0, 1), STATUS_INSUFFICIENT_RESOURCES);
}

/// Codes that need PROVIDER_INIT, and PROVIDER_INIT itself, which succeeds once.
// Shows P3.
#[test]
fn a_file_joins_the_protocol_once() {
    let _session = boot();
    let device = start();
    let user = User::stranger(&device);
    let open = ND_OPEN_ADAPTER { Version: 1, AdapterId: ADAPTER_ID, ..ND_OPEN_ADAPTER::ZERO };
    refused(&user.send_bytes(IOCTL_ND_ADAPTER_OPEN, open.as_bytes(), 16), STATUS_INVALID_DEVICE_STATE);
    assert_eq!(user.call(IOCTL_ND_PROVIDER_INIT, &handle(0)), STATUS_SUCCESS);
    refused(&user.send(IOCTL_ND_PROVIDER_INIT, &handle(0)), STATUS_INVALID_DEVICE_STATE);
    assert_eq!(user.send_bytes(IOCTL_ND_ADAPTER_OPEN, open.as_bytes(), 16).wait(), STATUS_SUCCESS);
    let listener = user.listener(user.adapter(), "10.1.2.3:0", 1).0;
    refused(&user.send(IOCTL_ND_LISTENER_BIND, &bind(listener, "10.1.2.3:0")), STATUS_ADDRESS_ALREADY_ASSOCIATED);
}
