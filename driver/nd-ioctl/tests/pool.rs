//! The non-paged pool that one process can take: each object is charged at least what it takes, and all of them have a limit.

use std::time::Duration;

use iwarp::mpa::{FrameKind, RtrKinds};
use nd_ioctl::Host;
use ndk_abi::{describe::ZeroInit, nd_ioctl::*, ndkpi::*, softndk_ioctl::*, status::*};
use peer::{
    device::PORT,
    establish::at,
    frames,
    raw::{Door, Raw},
};
use simkernel::{Purpose, Session, boot, boot_seeded, watchdog};
use users::{
    User, World,
    host::TestHost,
    start, start_beside,
    user::{handle, inet, registration, work},
};

const LIMIT: Duration = Duration::from_secs(60);
/// The bytes that a quota itself takes.
const NOTHING: u64 = 48;

fn deepest(user: &User<'_>, pd: u64, cq: u64) -> ND_CREATE_QP {
    let header = ND_CREATE_QP_HDR {
        InitiatorQueueDepth: 4096,
        MaxInitiatorRequestSge: 16,
        CbMaxInlineData: 1024,
        ..user.qp_header(pd, cq)
    };
    ND_CREATE_QP { Header: header, ReceiveQueueDepth: 4096, MaxReceiveRequestSge: 16 }
}

/// Makes objects until one is refused: the number of objects, and the status of the refusal.
fn until_refused(mut make: impl FnMut() -> NTSTATUS) -> (usize, NTSTATUS) {
    let mut count = 0;
    loop {
        match make() {
            STATUS_SUCCESS => count += 1,
            status => return (count, status),
        }
        assert!(count < 200, "nothing bounds them");
    }
}

// Shows T12.
#[test]
fn one_process_can_not_take_the_pool() {
    let session = boot();
    let device = start();
    let beside = start_beside(&device);
    // The table of contexts, and what each device makes once, stays allocated.
    drop([&device, &beside].map(User::new));
    let before = taken(&session);
    let taken = || taken(&session) - before;
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let adapter = user.adapter();
        let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
        let small = user.cq(adapter, 1);
        let create = deepest(&user, pd, small);
        let queue_pair = || user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE, &create);
        let (count, status) = until_refused(|| queue_pair().map_or_else(|status| status, |_| STATUS_SUCCESS));
        assert_eq!((count, status), (19, STATUS_INSUFFICIENT_RESOURCES));
        // Another file of the process shares the limit, and a resize counts too.
        let (other, beside_user) = (User::new(&device), User::new(&beside));
        let input = ND_CREATE_CQ { Version: 1, AdapterHandle: other.adapter(), QueueDepth: 65_536, ..ZeroInit::ZERO };
        let deep = || other.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_CQ_CREATE, &input);
        let (count, status) = until_refused(|| deep().map_or_else(|status| status, |_| STATUS_SUCCESS));
        assert!(count < 7, "{count} more");
        assert_eq!(status, STATUS_INSUFFICIENT_RESOURCES);
        let larger = ND_CQ_MODIFY { Version: 1, CqHandle: small, QueueDepth: 65_536, ..ZeroInit::ZERO };
        let resized = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_CQ_MODIFY, &larger).map(|_| ());
        assert_eq!(resized, Err(STATUS_INSUFFICIENT_RESOURCES));
        assert!(taken() <= TestHost::MAX_POOL_BYTES, "{} bytes", taken());
        // So does a file of another adapter's device.
        let input = ND_CREATE_CQ { AdapterHandle: beside_user.adapter(), ..input };
        let deep = beside_user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_CQ_CREATE, &input).map(|_| ());
        assert_eq!(deep, Err(STATUS_INSUFFICIENT_RESOURCES));
        // Another process has a limit of its own.
        let stranger = User::new_of_process(&device, 2);
        let adapter = stranger.adapter();
        let pd = stranger.create(IOCTL_ND_PD_CREATE, adapter);
        let create = deepest(&stranger, pd, stranger.cq(adapter, 1));
        stranger.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE, &create).unwrap();
        drop([&device, &beside].map(|device| device.host().take_quota()));
    });
    assert_eq!(taken(), 0);
}

// Shows T12.
#[test]
fn one_process_can_not_take_the_table_of_contexts() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let mut users = (0..1024).map(|_| User::new(&device)).collect::<Vec<_>>();
        let one_more = User::stranger(&device);
        assert_eq!(one_more.call(IOCTL_ND_PROVIDER_INIT, &handle(0)), STATUS_INSUFFICIENT_RESOURCES);
        drop(User::new_of_process(&device, 2));
        // The quota of a process goes with its last file.
        users.truncate(1);
        assert_eq!(one_more.call(IOCTL_ND_PROVIDER_INIT, &handle(0)), STATUS_SUCCESS);
    });
}

/// The bytes that the driver's allocations take of Windows' pool, which keeps 16 bytes before each and rounds up to 16. Without the table
/// of tokens: it belongs to the device, grows at any time, and is bounded by the regions and windows of the device.
fn taken(session: &Session) -> u64 {
    let live = session.ledger().live;
    let live = live.iter().filter(|live| live.purpose == Purpose::Pool && !live.place.file().ends_with("token.rs"));
    live.map(|live| live.layout.size().next_multiple_of(16) as u64 + 16).sum()
}

/// Checks that a new file is charged what `take` allocates and little more, and nothing when the file is closed. Only the second file is
/// compared, as the tables of the device grow with the first.
#[track_caller]
fn charged(take: impl Fn(&User<'_>, u64)) {
    let session = boot();
    let device = start();
    for first in [true, false] {
        let before = taken(&session);
        let user = User::new(&device);
        take(&user, user.adapter());
        // A callback that has woken this thread may still hold its arguments.
        session.flush_dpcs();
        let quota = device.host().take_quota();
        let (takes, charged) = (taken(&session) - before, quota.taken());
        if !first {
            assert!(charged >= takes, "{takes} bytes, charged {charged} only");
            // `charged` includes MDLs, which the ledger counts elsewhere.
            assert!(charged <= takes + takes / 3 + 4096, "{takes} bytes, charged {charged}");
        }
        drop(user);
        session.flush_dpcs();
        assert_eq!(quota.taken(), NOTHING);
    }
}

/// More than one chunk of handles.
const MANY: u32 = 300;

// Shows T12.
#[test]
fn small_objects_are_charged() {
    charged(|_, _| {});
    charged(|user, _| (1..8).for_each(|_| _ = user.adapter()));
    charged(|user, adapter| (0..MANY).for_each(|_| _ = user.create(IOCTL_ND_PD_CREATE, adapter)));
    charged(|user, adapter| (0..MANY).for_each(|_| _ = user.create(IOCTL_ND_CONNECTOR_CREATE, adapter)));
    charged(|user, adapter| (0..MANY).for_each(|_| _ = user.create(IOCTL_ND_LISTENER_CREATE, adapter)));
    for kind in [IOCTL_ND_MR_CREATE, IOCTL_ND_MW_CREATE] {
        charged(|user, adapter| {
            let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
            (0..MANY).for_each(|_| _ = user.create(kind, pd));
        });
    }
    charged(|user, adapter| {
        let cq = user.cq(adapter, 1);
        (0..MANY).for_each(|_| assert!(user.notify(cq, ND_CQ_NOTIFY_ANY).is_pending()));
    });
    charged(|user, adapter| (0..10).for_each(|_| _ = user.listener(adapter, "10.1.2.3:0", 0)));
}

// Shows T12.
#[test]
fn regions_are_charged() {
    charged(|user, adapter| {
        let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
        let pages = user.device.host().map(1);
        for _ in 0..MANY {
            let mr = user.create(IOCTL_ND_MR_CREATE, pd);
            let flags = ND_MR_FLAG_ALLOW_LOCAL_WRITE;
            assert!(user.send(IOCTL_ND_MR_REGISTER, &registration(mr, &pages, flags)).wait().is_success());
        }
    });
    for pages in [1, 2048] {
        charged(|user, adapter| {
            let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
            let memory = user.device.host().map(pages);
            let create = SOFTNDK_FAST_MR_CREATE {
                Version: 1,
                RemoteAccess: 0,
                PdHandle: pd,
                Address: memory.address(0).addr().get() as u64,
                Length: memory.size() as u64,
            };
            for _ in 0..3 {
                user.ask::<_, SOFTNDK_FAST_MR>(IOCTL_SOFTNDK_FAST_MR_CREATE, &create).unwrap();
            }
        });
    }
}

// Shows T12.
#[test]
fn queues_are_charged_by_their_depths() {
    for depth in [1, 65_536] {
        charged(|user, adapter| (0..3).for_each(|_| _ = user.cq(adapter, depth)));
    }
    for (depth, sges) in [(1, 0), (1, 16), (16_384, 16)] {
        charged(|user, adapter| {
            let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
            let create =
                ND_CREATE_SRQ { Version: 1, PdHandle: pd, QueueDepth: depth, MaxRequestSge: sges, ..ZeroInit::ZERO };
            (0..3).for_each(|_| _ = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_SRQ_CREATE, &create).unwrap());
        });
    }
    charged(|user, adapter| {
        let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
        let create = deepest(user, pd, user.cq(adapter, 1));
        (0..3).for_each(|_| _ = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_QP_CREATE, &create).unwrap());
    });
    charged(|user, adapter| {
        let pd = user.create(IOCTL_ND_PD_CREATE, adapter);
        let (cq, srq) = (user.cq(adapter, 1), user.srq(pd, 1, 0));
        (0..MANY).for_each(|_| _ = user.qp(pd, cq));
        (0..MANY).for_each(|_| _ = user.qp_with_srq(pd, cq, srq));
    });
}

/// The charge for the old depth is given back.
// Shows T12.
#[test]
fn resized_queues_are_charged_by_their_new_depths() {
    charged(|user, adapter| {
        let (cq, srq) = (user.cq(adapter, 1), user.srq(user.create(IOCTL_ND_PD_CREATE, adapter), 1, 0));
        for depth in [5000, 4000] {
            let modify = ND_CQ_MODIFY { Version: 1, CqHandle: cq, QueueDepth: depth, ..ZeroInit::ZERO };
            user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_CQ_MODIFY, &modify).unwrap();
            let modify = ND_SRQ_MODIFY { Version: 1, SrqHandle: srq, QueueDepth: depth, ..ZeroInit::ZERO };
            user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_SRQ_MODIFY, &modify).unwrap();
        }
    });
}

/// A connection's memory is charged when it begins, as it grows, and until it is over: also while it lingers and nothing else is left of
/// the process.
// Shows T12.
#[test]
fn connections_with_other_machines_are_charged() {
    const FIRST: u64 = 2 * (4 << 10);
    let kernel: Session = boot_seeded(1);
    kernel.hold_clock();
    let device = start();
    let door = Door::listen(at(PORT));
    let user = User::new(&device);
    let world = World::new(&user);
    let memory = user.memory(world.pd, 64);
    let quota = device.host().take_quota();
    let charged = || quota.taken();
    let before = charged();
    let connect = user.connect(world.connector, world.qp, inet(&at(PORT).to_string()), b"");
    let raw: Raw = door.accept();
    assert!(raw.mpa_frame(FrameKind::Request).is_some());
    raw.send(&frames::mpa_frame(&frames::plain(FrameKind::Reply, frames::enhanced(RtrKinds::WRITE))));
    assert_eq!(connect.wait(), STATUS_SUCCESS);
    assert_eq!(user.call(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(world.connector)), STATUS_SUCCESS);
    assert_eq!(raw.ulpdu(), Some(frames::write(1, 0, &[])));
    raw.send_frames([&frames::write(1, 0, &[])]);
    kernel.flush_dpcs();
    let connected = charged();
    assert!(connected >= before + FIRST);
    // Nothing reaches the peer, so that only this side's memory grows.
    kernel.hold_network();
    let grows_from = taken(&kernel);
    let post = SOFTNDK_POST { SgeCount: 1, ..work(NdkOperationTypeSend, world.qp, 7) };
    for _ in 0..4 {
        assert_eq!(user.post(&post, &[memory.sge(0, 64 << 12)], b""), STATUS_SUCCESS);
    }
    kernel.flush_dpcs();
    let (takes, is_charged) = (taken(&kernel) - grows_from, charged() - connected);
    assert!(takes > FIRST && is_charged >= takes, "{takes} bytes, charged {is_charged}");
    kernel.release_network();
    drop(user);
    kernel.flush_dpcs();
    assert!(charged() > FIRST, "it lingers");
    kernel.advance(Duration::from_secs(5));
    kernel.flush_dpcs();
    device.host().provider().drain(&simkernel::passive());
    assert_eq!(charged(), NOTHING);
}
