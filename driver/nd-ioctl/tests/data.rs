//! Connections, data and notifications through the protocol.

use std::{thread, time::Duration};

use ndk_abi::{nd_ioctl::*, ndkpi::*, softndk_ioctl::*, status::*};
use simkernel::{boot, watchdog};
use users::{
    User, start,
    user::{handle, work},
};

const LIMIT: Duration = Duration::from_secs(30);

/// Both ends of a connection, in one file.
struct Pair {
    adapter: u64,
    pd: u64,
    cq: [u64; 2],
    qp: [u64; 2],
    connector: [u64; 2],
}

fn pair(user: &User<'_>) -> Pair {
    let adapter = user.adapter();
    let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
    let cq = [user.cq(adapter, 64), user.cq(adapter, 64)];
    let qp = [user.qp(pd, cq[0]), user.qp(pd, cq[1])];
    let connector = connect(user, adapter, qp);
    Pair { adapter, pd, cq, qp, connector }
}

fn connect(user: &User<'_>, adapter: u64, qp: [u64; 2]) -> [u64; 2] {
    let (listener, address) = user.listener(adapter, "10.1.2.3:0", 0);
    let connector = [0; 2].map(|_| user.create(IOCTL_ND_CONNECTOR_CREATE, adapter));
    let requested = user.get_request(listener, connector[1]);
    assert!(requested.is_pending());
    let connected = user.connect(connector[0], qp[0], address, b"hello");
    assert_eq!(requested.wait(), STATUS_SUCCESS);
    let data =
        user.send_bytes(IOCTL_ND_CONNECTOR_GET_PRIVATE_DATA, zerocopy::IntoBytes::as_bytes(&handle(connector[1])), 508);
    assert!(data.output().starts_with(b"hello"));
    let accepted = user.accept(connector[1], qp[1], b"welcome");
    assert_eq!(connected.wait(), STATUS_SUCCESS);
    assert!(accepted.is_pending());
    let limits: ND_READ_LIMITS = user.ask(IOCTL_ND_CONNECTOR_GET_READ_LIMITS, &handle(connector[0])).unwrap();
    assert_eq!((limits.Inbound, limits.Outbound), (2, 2));
    assert_eq!(user.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(connector[0])), STATUS_SUCCESS);
    assert_eq!(accepted.wait(), STATUS_SUCCESS);
    assert_eq!(user.call(IOCTL_ND_LISTENER_FREE, &handle(listener)), STATUS_SUCCESS);
    connector
}

#[test]
fn sends_and_inline_sends_arrive() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let pair = pair(&user);
        let memory = user.memory(pair.pd, 4);
        memory.pages.write(0, b"from registered memory");
        let receive = work(NdkOperationTypeReceive, pair.qp[1], 10);
        let one = [memory.sge(4096, 100)];
        assert_eq!(user.post(&SOFTNDK_POST { SgeCount: 1, ..receive }, &one, b""), STATUS_SUCCESS);
        assert_eq!(user.post(&SOFTNDK_POST { SgeCount: 1, RequestContext: 11, ..receive }, &one, b""), STATUS_SUCCESS);

        let send = work(NdkOperationTypeSend, pair.qp[0], 1);
        let from = [memory.sge(0, 4), memory.sge(4, 18)];
        assert_eq!(user.post(&SOFTNDK_POST { SgeCount: 2, ..send }, &from, b""), STATUS_SUCCESS);
        let got = user.completions(pair.cq[1], 1);
        assert_eq!((got[0].Status, got[0].BytesTransferred, got[0].RequestContext), (STATUS_SUCCESS, 22, 10));
        assert_eq!(got[0].QpHandle, pair.qp[1]);
        assert_eq!(memory.pages.read(4096, 22), b"from registered memory");

        let inline = SOFTNDK_POST { Flags: NDK_OP_FLAG_INLINE, InlineLength: 11, RequestContext: 2, ..send };
        assert_eq!(user.post(&inline, &[], b"from inside"), STATUS_SUCCESS);
        let got = user.completions(pair.cq[1], 1);
        assert_eq!((got[0].BytesTransferred, got[0].RequestContext), (11, 11));
        assert_eq!(memory.pages.read(4096, 11), b"from inside");
        let sent = user.completions(pair.cq[0], 2);
        assert_eq!(
            sent.iter().map(|one| (one.Status, one.RequestContext)).collect::<Vec<_>>(),
            [(STATUS_SUCCESS, 1), (STATUS_SUCCESS, 2)]
        );
    });
}

#[test]
fn reads_and_writes_move_data() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let pair = pair(&user);
        let memory = user.memory(pair.pd, 4);
        memory.pages.write(0, b"written");
        let remote = SOFTNDK_POST {
            SgeCount: 1,
            RemoteAddress: memory.address() + 8192,
            RemoteToken: memory.tokens.RemoteToken,
            ..work(NdkOperationTypeWrite, pair.qp[0], 1)
        };
        assert_eq!(user.post(&remote, &[memory.sge(0, 7)], b""), STATUS_SUCCESS);
        assert_eq!(user.completions(pair.cq[0], 1)[0].Status, STATUS_SUCCESS);
        assert_eq!(memory.pages.read(8192, 7), b"written");
        let read = SOFTNDK_POST { Operation: NdkOperationTypeRead.0 as u32, ..remote };
        assert_eq!(user.post(&read, &[memory.sge(100, 7)], b""), STATUS_SUCCESS);
        let result = user.completions(pair.cq[0], 1);
        assert_eq!((result[0].Status, result[0].Type), (STATUS_SUCCESS, NdkOperationTypeRead.0 as u32));
        assert_eq!(memory.pages.read(100, 7), b"written");
    });
}

// Shows T15.
#[test]
fn regions_are_unlocked_by_who_frees_them_also_in_mid_traffic() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        for round in 0..40 {
            let user = User::new(&device);
            let world = pair(&user);
            let [from, to] = [0; 2].map(|_| user.memory(world.pd, 256));
            let write = SOFTNDK_POST {
                SgeCount: 1,
                RemoteAddress: to.address(),
                RemoteToken: to.tokens.RemoteToken,
                ..work(NdkOperationTypeWrite, world.qp[0], 1)
            };
            for _ in 0..8 {
                assert_eq!(user.post(&write, &[from.sge(0, 256 * 4096)], b""), STATUS_SUCCESS);
            }
            thread::sleep(Duration::from_micros(50 * (round % 10)));
            // The host ends the test if the memory is unlocked at DISPATCH_LEVEL, by an access under way.
            for memory in [to, from] {
                assert_eq!(user.call(IOCTL_ND_MR_FREE, &handle(memory.mr)), STATUS_SUCCESS);
            }
            assert_eq!(device.host().pinned(), 0);
        }
    });
}

#[test]
fn a_fast_registered_region_is_invalidated_by_the_peer() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let pair = pair(&user);
        let memory = user.memory(pair.pd, 1);
        let pages = device.host().map(3);
        let base = pages.address(100).addr().get() as u64;
        let create =
            SOFTNDK_FAST_MR_CREATE { Version: 1, RemoteAccess: 1, PdHandle: pair.pd, Address: base, Length: 8000 };
        let fast: SOFTNDK_FAST_MR = user.ask(IOCTL_SOFTNDK_FAST_MR_CREATE, &create).unwrap();
        let register = SOFTNDK_POST {
            Flags: NDK_OP_FLAG_ALLOW_REMOTE_WRITE,
            ObjectHandle: fast.MrHandle,
            BaseVirtualAddress: base,
            Length: 8000,
            ..work(NdkOperationTypeFastRegister, pair.qp[0], 1)
        };
        let longer = SOFTNDK_POST { Length: 8001, ..register };
        assert_eq!(user.post(&longer, &[], b""), STATUS_INVALID_PARAMETER);
        assert_eq!(user.post(&register, &[], b""), STATUS_SUCCESS);
        assert_eq!(user.completions(pair.cq[0], 1)[0].Status, STATUS_SUCCESS);

        memory.pages.write(0, b"to the fast region");
        let write = SOFTNDK_POST {
            SgeCount: 1,
            RemoteAddress: base + 5000,
            RemoteToken: fast.RemoteToken,
            ..work(NdkOperationTypeWrite, pair.qp[1], 2)
        };
        assert_eq!(user.post(&write, &[memory.sge(0, 18)], b""), STATUS_SUCCESS);
        assert_eq!(user.completions(pair.cq[1], 1)[0].Status, STATUS_SUCCESS);
        assert_eq!(pages.read(5100, 18), b"to the fast region");

        let receive = work(NdkOperationTypeReceive, pair.qp[0], 3);
        assert_eq!(user.post(&receive, &[], b""), STATUS_SUCCESS);
        let invalidate = SOFTNDK_POST {
            Operation: SOFTNDK_POST_SEND_AND_INVALIDATE,
            RemoteToken: fast.RemoteToken,
            ..work(NdkOperationTypeSend, pair.qp[1], 4)
        };
        assert_eq!(user.post(&invalidate, &[], b""), STATUS_SUCCESS);
        let got = user.completions(pair.cq[0], 1);
        assert_eq!(got[0].Type, NdkOperationTypeReceiveAndInvalidate.0 as u32);
        assert_eq!(got[0].Output, u64::from(fast.RemoteToken));
        assert_eq!(user.completions(pair.cq[1], 1)[0].Status, STATUS_SUCCESS);

        // The region can be registered again, and invalidated by its owner.
        assert_eq!(user.post(&register, &[], b""), STATUS_SUCCESS);
        let local = SOFTNDK_POST { ObjectHandle: fast.MrHandle, ..work(NdkOperationTypeInvalidate, pair.qp[0], 5) };
        assert_eq!(user.post(&local, &[], b""), STATUS_SUCCESS);
        assert!(user.completions(pair.cq[0], 2).iter().all(|one| one.Status == STATUS_SUCCESS));
        assert_eq!(user.call(IOCTL_ND_MR_FREE, &handle(fast.MrHandle)), STATUS_SUCCESS);
    });
    assert_eq!(device.host().pinned(), 0);
}

#[test]
fn several_notifies_complete_together_and_errors_wait_on() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let pair = pair(&user);
        let cq = pair.cq[1];
        let errors = user.notify(cq, ND_CQ_NOTIFY_ERRORS);
        let any = [0; 3].map(|_| user.notify(cq, ND_CQ_NOTIFY_ANY));
        let solicited = user.notify(cq, ND_CQ_NOTIFY_SOLICITED);
        assert!(any.iter().all(|one| one.is_pending()) && errors.is_pending() && solicited.is_pending());
        let receive = work(NdkOperationTypeReceive, pair.qp[1], 1);
        assert_eq!(user.post(&receive, &[], b""), STATUS_SUCCESS);
        assert_eq!(user.post(&work(NdkOperationTypeSend, pair.qp[0], 2), &[], b""), STATUS_SUCCESS);
        assert!(any.iter().all(|one| one.wait() == STATUS_SUCCESS));
        assert_eq!(solicited.wait(), STATUS_SUCCESS);
        let order: Vec<_> = any.iter().map(|one| one.shared.order()).collect();
        assert!(order.is_sorted() && order[2] < solicited.shared.order());
        assert_eq!(user.completions(cq, 1).len(), 1);

        // A request for errors completes neither for that completion nor for the next one.
        assert_eq!(user.post(&receive, &[], b""), STATUS_SUCCESS);
        assert_eq!(user.post(&work(NdkOperationTypeSend, pair.qp[0], 3), &[], b""), STATUS_SUCCESS);
        user.completions(cq, 1);
        thread::sleep(Duration::from_millis(20));
        assert!(errors.is_pending());
        assert_eq!(user.call(IOCTL_ND_CQ_CANCEL_IO, &handle(cq)), STATUS_SUCCESS);
        assert_eq!(errors.wait(), STATUS_CANCELLED);
    });
}

#[test]
fn what_came_between_the_last_poll_and_the_arm_notifies() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let pair = pair(&user);
        let cq = pair.cq[1];
        // The request is cancelled, and the arm stays.
        let cancelled = user.notify(cq, ND_CQ_NOTIFY_ANY);
        cancelled.shared.cancel(&user.file);
        assert_eq!(cancelled.wait(), STATUS_CANCELLED);
        for context in 0..20 {
            assert_eq!(user.post(&work(NdkOperationTypeReceive, pair.qp[1], context), &[], b""), STATUS_SUCCESS);
            assert_eq!(user.post(&work(NdkOperationTypeSend, pair.qp[0], context), &[], b""), STATUS_SUCCESS);
            user.completions(pair.cq[0], 1);
            // The completion of the receive is in the CQ, or about to be, and may have used the old arm up already.
            let notified = user.notify(cq, ND_CQ_NOTIFY_ANY);
            assert_eq!(notified.wait(), STATUS_SUCCESS);
            assert_eq!(user.completions(cq, 1)[0].RequestContext, context);
            let next = user.notify(cq, ND_CQ_NOTIFY_ANY);
            assert_eq!(user.call(IOCTL_ND_CQ_CANCEL_IO, &handle(cq)), STATUS_SUCCESS);
            assert!(matches!(next.wait(), STATUS_CANCELLED | STATUS_SUCCESS));
        }
    });
}

#[test]
fn an_overrun_is_an_error_for_everybody_who_waits() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let adapter = user.adapter();
        let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
        let small = user.cq(adapter, 1);
        let other = user.cq(adapter, 64);
        let qp = [user.qp(pd, other), user.qp(pd, small)];
        connect(&user, adapter, qp);
        let errors = user.notify(small, ND_CQ_NOTIFY_ERRORS);
        // A completion uses the arm up; the request for errors still waits.
        let any = user.notify(small, ND_CQ_NOTIFY_ANY);
        assert_eq!(user.post(&work(NdkOperationTypeReceive, qp[1], 0), &[], b""), STATUS_SUCCESS);
        assert_eq!(user.post(&work(NdkOperationTypeSend, qp[0], 0), &[], b""), STATUS_SUCCESS);
        assert_eq!(any.wait(), STATUS_SUCCESS);
        user.completions(small, 1);
        for context in 0..3 {
            assert_eq!(user.post(&work(NdkOperationTypeReceive, qp[1], context), &[], b""), STATUS_SUCCESS);
        }
        assert_eq!(user.post(&work(NdkOperationTypeSend, qp[0], 1), &[], b""), STATUS_SUCCESS);
        assert_eq!(user.post(&work(NdkOperationTypeSend, qp[0], 2), &[], b""), STATUS_SUCCESS);
        assert_eq!(errors.wait(), STATUS_BUFFER_OVERFLOW);
        assert_eq!(user.notify(small, ND_CQ_NOTIFY_ANY).wait(), STATUS_BUFFER_OVERFLOW);
    });
}

// Shows P18.
#[test]
fn an_srq_notifies_below_its_threshold() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let adapter = user.adapter();
        let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
        let cq = user.cq(adapter, 64);
        let srq = user.srq(pd, 16, 2);
        let qp = [user.qp(pd, cq), user.qp_with_srq(pd, cq, srq)];
        connect(&user, adapter, qp);
        for context in 0..3 {
            let post = SOFTNDK_SRQ_POST { Version: 1, SgeCount: 0, SrqHandle: srq, RequestContext: context };
            assert_eq!(user.call(IOCTL_SOFTNDK_SRQ_POST, &post), STATUS_SUCCESS);
        }
        let low = user.send(IOCTL_ND_SRQ_NOTIFY, &handle(srq));
        assert_eq!(user.post(&work(NdkOperationTypeSend, qp[0], 1), &[], b""), STATUS_SUCCESS);
        user.completions(cq, 2);
        thread::sleep(Duration::from_millis(20));
        assert!(low.is_pending(), "2 receives are left, the threshold is 2");
        assert_eq!(user.post(&work(NdkOperationTypeSend, qp[0], 2), &[], b""), STATUS_SUCCESS);
        assert_eq!(low.wait(), STATUS_SUCCESS);
        user.completions(cq, 2);
        // The SRQ is below the threshold already.
        assert_eq!(user.call(IOCTL_ND_SRQ_NOTIFY, &handle(srq)), STATUS_SUCCESS);
        let modify =
            ND_SRQ_MODIFY { Version: 1, NotifyThreshold: 1, SrqHandle: srq, ..ndk_abi::describe::ZeroInit::ZERO };
        assert!(user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_SRQ_MODIFY, &modify).is_ok());
        let low = user.send(IOCTL_ND_SRQ_NOTIFY, &handle(srq));
        assert!(low.is_pending());
        assert_eq!(user.call(IOCTL_ND_SRQ_FREE, &handle(srq)), STATUS_SUCCESS);
        assert_eq!(low.wait(), STATUS_CANCELLED);
    });
}

#[test]
fn a_disconnect_is_told_and_ends_the_connection() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let pair = pair(&user);
        let told = user.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(pair.connector[1]));
        assert!(told.is_pending());
        assert_eq!(user.post(&work(NdkOperationTypeReceive, pair.qp[0], 7), &[], b""), STATUS_SUCCESS);
        assert_eq!(user.call(IOCTL_ND_CONNECTOR_DISCONNECT, &handle(pair.connector[0])), STATUS_SUCCESS);
        assert_eq!(user.completions(pair.cq[0], 1)[0].Status, STATUS_CANCELLED);
        assert_eq!(told.wait(), STATUS_SUCCESS);
        // Requests that are posted from now on are cancelled too.
        assert_eq!(user.post(&work(NdkOperationTypeReceive, pair.qp[1], 9), &[], b""), STATUS_SUCCESS);
        assert_eq!(user.completions(pair.cq[1], 1)[0].Status, STATUS_CANCELLED);
        assert_eq!(user.call(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(pair.connector[1])), STATUS_SUCCESS);
        assert_eq!(user.call(IOCTL_ND_CONNECTOR_DISCONNECT, &handle(pair.connector[1])), STATUS_SUCCESS);
        assert_eq!(user.call(IOCTL_ND_CONNECTOR_DISCONNECT, &handle(pair.connector[1])), STATUS_CONNECTION_INVALID);
        assert_eq!(user.post(&work(NdkOperationTypeSend, pair.qp[0], 8), &[], b""), STATUS_SUCCESS);
        assert_eq!(user.completions(pair.cq[0], 1)[0].Status, STATUS_CANCELLED);
    });
}

// Shows T15.
#[test]
fn a_freed_queue_pair_touches_no_memory_any_more() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let pair = pair(&user);
        let memory = user.memory(pair.pd, 1);
        let receive = SOFTNDK_POST { SgeCount: 1, ..work(NdkOperationTypeReceive, pair.qp[1], 9) };
        assert_eq!(user.post(&receive, &[memory.sge(0, 100)], b""), STATUS_SUCCESS);
        // The queue pair's connector is not freed.
        assert_eq!(user.call(IOCTL_ND_QP_FREE, &handle(pair.qp[1])), STATUS_SUCCESS);
        let got = user.completions(pair.cq[1], 1);
        assert_eq!((got[0].Status, got[0].RequestContext), (STATUS_CANCELLED, 9));
        let send =
            SOFTNDK_POST { Flags: NDK_OP_FLAG_INLINE, InlineLength: 4, ..work(NdkOperationTypeSend, pair.qp[0], 1) };
        user.post(&send, &[], b"late");
        thread::sleep(Duration::from_millis(20));
        assert_eq!(memory.pages.read(0, 4), [0; 4]);
    });
}

// Shows S1202.
#[test]
fn objects_may_be_freed_in_any_order() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let pair = pair(&user);
        let memory = user.memory(pair.pd, 1);
        // Antecedents are freed before their successors.
        assert_eq!(user.call(IOCTL_ND_ADAPTER_CLOSE, &handle(pair.adapter)), STATUS_SUCCESS);
        assert_eq!(user.call(IOCTL_ND_PD_FREE, &handle(pair.pd)), STATUS_SUCCESS);
        for cq in pair.cq {
            assert_eq!(user.call(IOCTL_ND_CQ_FREE, &handle(cq)), STATUS_SUCCESS);
        }
        assert_eq!(user.call(IOCTL_ND_MR_FREE, &handle(memory.mr)), STATUS_SUCCESS);
        for qp in pair.qp {
            assert_eq!(user.call(IOCTL_ND_QP_FREE, &handle(qp)), STATUS_SUCCESS);
        }
        for connector in pair.connector {
            assert_eq!(user.call(IOCTL_ND_CONNECTOR_FREE, &handle(connector)), STATUS_SUCCESS);
        }
        assert_eq!(device.host().pinned(), 0);
        // Each ADAPTER_CLOSE also closes the adapters that are not used, once their connectors are closed.
        while device.host().provider().object_counts().adapters != 0 {
            assert_eq!(user.call(IOCTL_ND_ADAPTER_CLOSE, &handle(user.adapter())), STATUS_SUCCESS);
        }
    });
}
