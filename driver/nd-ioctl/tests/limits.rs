//! The limits of one file, and random damage to valid inputs.

use std::time::Duration;

use ndk_abi::{describe::ZeroInit, nd_ioctl::*, softndk_ioctl::*, status::*};
use ndk_provider::ObjectCounts;
use simkernel::{boot, watchdog};
use users::{User, World, start, user::handle};

const LIMIT: Duration = Duration::from_secs(60);

// Shows N50, T12.
#[test]
fn one_file_can_not_take_everything() {
    let session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let adapter = user.adapter();
        let before = session.ledger().pool_bytes();
        let mut connectors = 0;
        let refused = loop {
            match user.ask::<_, u64>(IOCTL_ND_CONNECTOR_CREATE, &handle(adapter)) {
                Ok(_) => connectors += 1,
                Err(status) => break status,
            }
            assert!(connectors < 100_000);
        };
        assert_eq!((connectors, refused), (65_536, STATUS_INSUFFICIENT_RESOURCES));
        assert!(session.ledger().pool_bytes() - before < 32 << 20, "the driver allows a process 32 times as much");
    });
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let adapter = user.adapter();
        let cq = user.cq(adapter, 1);
        let pended: Vec<_> = (0..1024).map(|_| user.notify(cq, ND_CQ_NOTIFY_ANY)).collect();
        assert!(pended.iter().all(|one| one.is_pending()));
        assert_eq!(user.notify(cq, ND_CQ_NOTIFY_ANY).wait(), STATUS_INSUFFICIENT_RESOURCES);
        for _ in 1..8 {
            user.adapter();
        }
        let open = ND_OPEN_ADAPTER { Version: 1, AdapterId: users::host::ADAPTER_ID, ..ZeroInit::ZERO };
        let one_more = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_ADAPTER_OPEN, &open);
        assert_eq!(one_more.map(|_| ()), Err(STATUS_INSUFFICIENT_RESOURCES));
    });
}

/// The handle that was reserved for an object whose creation fails is free again.
// Shows T12.
#[test]
fn refused_creations_take_no_handles() {
    /// More than one chunk of the handle table.
    const COUNT: usize = 1000;
    let session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let too_deep =
            ND_CREATE_CQ { Version: 1, QueueDepth: u32::MAX, AdapterHandle: user.adapter(), ..ND_CREATE_CQ::ZERO };
        let before = session.ledger().pool_bytes();
        for _ in 0..COUNT {
            let refused = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_CQ_CREATE, &too_deep).map(|_| ());
            assert_eq!(refused, Err(STATUS_INVALID_PARAMETER));
        }
        session.flush_dpcs();
        assert_eq!(session.ledger().pool_bytes(), before);
    });
}

/// Programs expect the creation of too many connectors to fail, not the requests of existing connectors.
// Shows T12.
#[test]
fn each_connector_has_room_for_its_requests() {
    const COUNT: usize = 2000;
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let adapter = user.adapter();
        let cq = user.cq(adapter, 1);
        let notifies: Vec<_> = (0..1024).map(|_| user.notify(cq, ND_CQ_NOTIFY_ANY)).collect();
        let (listener, _) = user.listener(adapter, "10.1.2.3:0", 0);
        let request = |connector| user.get_request(listener, connector);
        let connectors: Vec<u64> = (0..COUNT).map(|_| user.create(IOCTL_ND_CONNECTOR_CREATE, adapter)).collect();
        // One completion would complete all these requests at DISPATCH_LEVEL.
        assert_eq!(user.notify(cq, ND_CQ_NOTIFY_ANY).wait(), STATUS_INSUFFICIENT_RESOURCES);
        let requests: Vec<_> = connectors.iter().map(|&connector| request(connector)).collect();
        assert!(requests.iter().chain(&notifies).all(|one| one.is_pending()));
        // Freed connectors take their places with them, so there is none for a request of another object.
        connectors.iter().for_each(|connector| {
            assert_eq!(user.call(IOCTL_ND_CONNECTOR_FREE, &handle(*connector)), STATUS_SUCCESS);
        });
        let other = user.cq(adapter, 1);
        assert_eq!(user.notify(other, ND_CQ_NOTIFY_ANY).wait(), STATUS_INSUFFICIENT_RESOURCES);
    });
}

/// The adapter reports 2^20 regions and more than 2^17 objects of other kinds, and no smaller limit for a file.
// Shows S105.
#[test]
fn one_file_can_have_more_regions_than_programs_make() {
    const COUNT: usize = 20_000;
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let pd = user.create(IOCTL_ND_PD_CREATE, user.adapter());
        let regions: Vec<u64> = (0..COUNT).map(|_| user.create(IOCTL_ND_MR_CREATE, pd)).collect();
        assert_eq!(device.host().provider().object_counts().mrs as usize, COUNT);
        // Each handle names its own region.
        for region in [regions[0], regions[8191], regions[8192], regions[COUNT - 1]] {
            assert_eq!(user.call(IOCTL_ND_MR_FREE, &handle(region)), STATUS_SUCCESS);
            assert_eq!(user.call(IOCTL_ND_MR_FREE, &handle(region)), STATUS_INVALID_HANDLE);
        }
    });
    assert_eq!(device.host().provider().object_counts(), ObjectCounts::default());
}

/// Random damage to valid inputs.
// Shows T7.
#[test]
fn garbage_changes_nothing_that_cleanup_does_not_undo() {
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        for _ in 0..40 {
            let user = User::new(&device);
            let world = World::new(&user);
            let cases = world.cases(&user);
            let mut answers = Vec::new();
            for _ in 0..200 {
                let case = &cases[random.below(cases.len())];
                let mut input = case.input.clone();
                for _ in 0..random.below(4) {
                    let place = random.below(input.len());
                    input[place] = random.next() as u8;
                }
                let output = if random.below(4) == 0 { random.below(600) } else { case.output };
                input.truncate(if random.below(8) == 0 { random.below(input.len()) } else { input.len() });
                answers.push(user.send_bytes(case.code, &input, output));
            }
            drop(user);
            for answer in answers {
                answer.wait();
            }
        }
        let diagnostics = SOFTNDK_DIAGNOSTICS_QUERY { Version: 1, Reserved: 0 };
        let user = User::stranger(&device);
        let left: SOFTNDK_DIAGNOSTICS = user.ask(IOCTL_SOFTNDK_DIAGNOSTICS, &diagnostics).unwrap();
        assert_eq!((left.Files, left.PendedRequests, left.Qps, left.PinnedBytes), (1, 0, 0, 0));
    });
    assert_eq!(device.host().provider().object_counts(), ObjectCounts::default());
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end.max(1)
    }
}
