//! Second files of a provider context: which files may join, the requests that come by them, and what the close of each file ends.

use std::{sync::Barrier, thread, time::Duration};

use ndk_abi::{nd_ioctl::*, softndk_ioctl::*, status::*};
use ndk_provider::ObjectCounts;
use simkernel::{boot, watchdog};
use users::{
    User, World, start, start_beside,
    user::{bind, handle},
};

const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn an_attached_file_has_the_handles_and_events_of_the_first() {
    let _session = boot();
    let device = start();
    let first = User::new(&device);
    let world = World::new(&first);
    let second = first.attached();
    assert_eq!(second.id(), first.id());
    // An object made by one file is used and freed by the other.
    let pd = second.create(IOCTL_ND_PD_CREATE, world.adapter);
    let cq = first.cq(world.adapter, 4);
    let qp = first.qp(pd, cq);
    let notify = second.notify(cq, ND_CQ_NOTIFY_ANY);
    assert!(notify.is_pending());
    assert_eq!(first.call(IOCTL_ND_QP_FLUSH, &handle(qp)), STATUS_SUCCESS);
    assert_eq!(first.call(IOCTL_ND_CQ_CANCEL_IO, &handle(cq)), STATUS_SUCCESS);
    assert_eq!(notify.wait(), STATUS_CANCELLED);
    // The cancel routine of a request calls the file that the request came by.
    let notify = second.notify(cq, ND_CQ_NOTIFY_ANY);
    notify.shared.cancel(&second.file);
    assert_eq!(notify.wait(), STATUS_CANCELLED);
    for (code, object) in [(IOCTL_ND_QP_FREE, qp), (IOCTL_ND_CQ_FREE, cq)] {
        assert_eq!(second.call(code, &handle(object)), STATUS_SUCCESS);
    }
    assert_eq!(first.call(IOCTL_ND_PD_FREE, &handle(pd)), STATUS_SUCCESS);
    // A third file joins by the identifier that the second returns.
    let third = second.attached();
    assert_eq!(third.call(IOCTL_ND_CQ_CANCEL_IO, &handle(world.cq)), STATUS_SUCCESS);
}

// Shows T4.
#[test]
fn only_fresh_files_of_the_same_process_attach() {
    let _session = boot();
    let device = start();
    let first = User::new(&device);
    let id = first.id();
    let other = User::of_process(&device, 0x666);
    assert_eq!(other.call(IOCTL_SOFTNDK_ATTACH, &handle(id)), STATUS_INVALID_HANDLE);
    let beside = start_beside(&device);
    let of_another_adapter = User::stranger(&beside);
    assert_eq!(of_another_adapter.call(IOCTL_SOFTNDK_ATTACH, &handle(id)), STATUS_INVALID_HANDLE);
    for wrong in [0, 1, id + 1, id ^ 1 << 32, u64::MAX] {
        let fresh = User::stranger(&device);
        assert_eq!(fresh.call(IOCTL_SOFTNDK_ATTACH, &handle(wrong)), STATUS_INVALID_HANDLE, "{wrong:#x}");
        // The file is still fresh.
        assert_eq!(fresh.call(IOCTL_SOFTNDK_ATTACH, &handle(id)), STATUS_SUCCESS);
        assert_eq!(fresh.call(IOCTL_SOFTNDK_ATTACH, &handle(id)), STATUS_INVALID_DEVICE_STATE);
        assert_eq!(fresh.call(IOCTL_ND_PROVIDER_INIT, &handle(0)), STATUS_INVALID_DEVICE_STATE);
    }
    let in_use = User::new(&device);
    assert_eq!(in_use.call(IOCTL_SOFTNDK_ATTACH, &handle(id)), STATUS_INVALID_DEVICE_STATE);
    assert_eq!(first.call(IOCTL_SOFTNDK_ATTACH, &handle(id)), STATUS_INVALID_DEVICE_STATE);
    // A file has no identifier before it has a context; the identifier of an ended context names nothing.
    let fresh = User::stranger(&device);
    assert_eq!(fresh.ask::<_, u64>(IOCTL_SOFTNDK_FILE_ID, &handle(0)), Err(STATUS_INVALID_DEVICE_STATE));
    drop(first);
    assert_eq!(fresh.call(IOCTL_SOFTNDK_ATTACH, &handle(id)), STATUS_INVALID_HANDLE);
    let wrong_version = ND_HANDLE { Version: 2, ..handle(in_use.id()) };
    assert_eq!(fresh.call(IOCTL_SOFTNDK_ATTACH, &wrong_version), STATUS_INVALID_DEVICE_REQUEST);
    assert_eq!(fresh.send_bytes(IOCTL_SOFTNDK_ATTACH, &[1, 0, 0, 0], 0).wait(), STATUS_BUFFER_TOO_SMALL);
}

// Shows P5.
#[test]
fn a_file_is_bound_by_its_handle() {
    let _session = boot();
    let device = start();
    let first = User::new(&device);
    let world = World::new(&first);
    let second = User::stranger(&device);
    let host = device.host();
    let bind = |user: &User<'_>| first.call(IOCTL_ND_PROVIDER_BIND_FILE, &handle(host.handle(&user.file)));
    for wrong in [0, 3, u64::MAX] {
        assert_eq!(first.call(IOCTL_ND_PROVIDER_BIND_FILE, &handle(wrong)), STATUS_INVALID_HANDLE);
    }
    assert_eq!(bind(&second), STATUS_SUCCESS);
    assert_eq!(second.call(IOCTL_ND_CQ_CANCEL_IO, &handle(world.cq)), STATUS_SUCCESS);
    assert_eq!(bind(&second), STATUS_INVALID_DEVICE_STATE);
    assert_eq!(bind(&first), STATUS_INVALID_DEVICE_STATE);
    assert_eq!(bind(&User::new(&device)), STATUS_INVALID_DEVICE_STATE);
    assert_eq!(bind(&User::of_process(&device, 0x666)), STATUS_INVALID_HANDLE);
    // A file of another device of the driver.
    let other_device = start();
    let other = User::stranger(&other_device);
    assert_eq!(bind(&other), STATUS_INVALID_HANDLE);
    // A file whose cleanup has begun.
    let closed = User::stranger(&device);
    closed.file.cleanup(&simkernel::passive());
    assert_eq!(bind(&closed), STATUS_DEVICE_REMOVED);
    assert_eq!(closed.call(IOCTL_ND_PROVIDER_INIT, &handle(0)), STATUS_DEVICE_REMOVED);
    assert_eq!(closed.call(IOCTL_SOFTNDK_ATTACH, &handle(first.id())), STATUS_DEVICE_REMOVED);
}

#[test]
fn closing_the_second_file_cancels_what_came_by_it_and_nothing_else() {
    let _session = boot();
    let device = start();
    let first = User::new(&device);
    let world = World::listening(&first);
    let memory = first.memory(world.pd, 1);
    let objects = device.host().provider().object_counts();
    let (second, third) = (first.attached(), first.attached());
    let mut others = vec![first.notify(world.cq, ND_CQ_NOTIFY_ANY)];
    let mut came_by_it = Vec::new();
    for kind in [ND_CQ_NOTIFY_ANY, ND_CQ_NOTIFY_ERRORS, ND_CQ_NOTIFY_SOLICITED] {
        came_by_it.push(second.notify(world.cq, kind));
        others.push(third.notify(world.cq, kind));
    }
    came_by_it.push(second.send(IOCTL_ND_SRQ_NOTIFY, &handle(world.srq)));
    came_by_it.push(second.get_request(world.listener, world.connector));
    second.file.cleanup(&simkernel::passive());
    assert!(came_by_it.iter().all(|answer| answer.wait() == STATUS_CANCELLED));
    assert!(came_by_it.iter().map(|answer| answer.shared.order()).is_sorted());
    assert!(others.iter().all(|answer| answer.is_pending()));
    assert_eq!(device.host().provider().object_counts(), objects);
    assert_eq!(first.call(IOCTL_SOFTNDK_MR_QUERY, &handle(memory.mr)), STATUS_BUFFER_TOO_SMALL);
    // A request by the closed file does not pend, as no cleanup would cancel it.
    let late = second.notify(world.cq, ND_CQ_NOTIFY_ANY);
    assert_eq!((late.returned, late.wait()), (STATUS_CANCELLED, STATUS_CANCELLED));
    // The connector does not wait, so it can wait again.
    assert!(first.get_request(world.listener, world.connector).is_pending());
}

#[test]
fn closing_the_first_file_ends_the_objects_for_all() {
    let _session = boot();
    let device = start();
    let first = User::new(&device);
    let world = World::listening(&first);
    first.memory(world.pd, 1);
    let second = first.attached();
    let pended = [second.notify(world.cq, ND_CQ_NOTIFY_ANY), second.get_request(world.listener, world.connector)];
    drop(first);
    assert!(pended.iter().all(|answer| answer.wait() == STATUS_CANCELLED));
    assert!(pended.iter().map(|answer| answer.shared.order()).is_sorted());
    assert_eq!(device.host().provider().object_counts(), ObjectCounts::default());
    assert_eq!(device.host().pinned(), 0);
    for case in world.cases(&second) {
        assert_eq!(
            second.send_bytes(case.code, &case.input, case.output).wait(),
            STATUS_DEVICE_REMOVED,
            "{:#x}",
            case.code
        );
    }
    let open = ND_OPEN_ADAPTER { Version: 1, AdapterId: users::host::ADAPTER_ID, ..ndk_abi::describe::ZeroInit::ZERO };
    let opened = second.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_ADAPTER_OPEN, &open);
    assert_eq!(opened.map(|_| ()), Err(STATUS_DEVICE_REMOVED));
    // The second file gets no context of its own either.
    assert_eq!(second.call(IOCTL_ND_PROVIDER_INIT, &handle(0)), STATUS_INVALID_DEVICE_STATE);
}

/// A process ends while its files attach, are used and closed: all requests end, and no object is left.
#[test]
fn files_close_while_others_attach_and_wait() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        for round in 0..200 {
            let first = User::new(&device);
            let adapter = first.adapter();
            let cq = first.cq(adapter, 4);
            let (id, seconds) = (first.id(), [0; 3].map(|_| User::stranger(&device)));
            let barrier = Barrier::new(5);
            thread::scope(|scope| {
                for second in &seconds {
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        let attached = second.call(IOCTL_SOFTNDK_ATTACH, &handle(id));
                        let notify = second.notify(cq, ND_CQ_NOTIFY_ANY);
                        match attached {
                            STATUS_SUCCESS => {
                                assert!(matches!(notify.wait(), STATUS_CANCELLED | STATUS_DEVICE_REMOVED))
                            }
                            STATUS_INVALID_HANDLE => assert_eq!(notify.wait(), STATUS_INVALID_DEVICE_STATE),
                            STATUS_DEVICE_REMOVED => assert_eq!(notify.wait(), STATUS_INVALID_DEVICE_STATE),
                            status => panic!("{status}"),
                        }
                    });
                }
                let (barrier, seconds, first) = (&barrier, &seconds, &first);
                scope.spawn(move || {
                    barrier.wait();
                    seconds[round % 3].file.cleanup(&simkernel::passive());
                });
                barrier.wait();
                first.file.cleanup(&simkernel::passive());
            });
        }
    });
    assert_eq!(device.host().provider().object_counts(), ObjectCounts::default());
}

#[test]
fn a_connection_is_made_by_requests_of_second_files() {
    let _session = boot();
    let device = start();
    let (server, client) = (User::new(&device), User::new(&device));
    let (at, from) = (World::new(&server), World::new(&client));
    assert_eq!(server.call(IOCTL_ND_LISTENER_BIND, &bind(at.listener, "10.1.2.3:0")), STATUS_SUCCESS);
    let listen = ND_LISTEN { Version: 1, Backlog: 0, ListenerHandle: at.listener };
    assert_eq!(server.call(IOCTL_ND_LISTENER_LISTEN, &listen), STATUS_SUCCESS);
    let address = server.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(at.listener)).unwrap();
    let (server_events, client_events) = (server.attached(), client.attached());
    let request = server_events.get_request(at.listener, at.connector);
    let connect = client_events.connect(from.connector, from.qp, address, b"hello");
    assert_eq!(request.wait(), STATUS_SUCCESS);
    let accept = server_events.accept(at.connector, at.qp, b"");
    assert_eq!(connect.wait(), STATUS_SUCCESS);
    assert_eq!(client.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(from.connector)), STATUS_SUCCESS);
    assert_eq!(accept.wait(), STATUS_SUCCESS);
    let gone = server_events.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(at.connector));
    // The client's first file is closed; its second file does not keep the connection.
    drop(client);
    assert_eq!(gone.wait(), STATUS_SUCCESS);
    drop(client_events);
}
