//! Rings of shared receive queues, whose receives several queue pairs take.

use std::{
    collections::HashSet,
    mem::offset_of,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use nd_rings::{Mapped, Writer};
use ndk_abi::{describe::ZeroInit, nd_ioctl::*, ndkpi::*, softndk_ioctl::*, softndk_ring::*, status::*};
use simkernel::{Session, boot, boot_seeded, pause, seeds, watchdog};
use users::{
    User, World,
    rings::{DEPTH, Ring, Ringed, connect, create, create_srq, create_srq_qp, push, with_mappings},
    start,
    user::{handle, work},
};
use zerocopy::IntoBytes;

const LIMIT: Duration = Duration::from_secs(60);
/// The context of all receives of the shared queue.
const SHARED: u64 = 0x5A5A;

/// Waits until `holds`, for work that the driver does by itself.
fn until(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        pause();
    }
}

/// A user with rings and a listener.
struct Server<'a> {
    user: User<'a>,
    world: World,
    ringed: Ringed,
    shared: Writer<Mapped>,
}

impl<'a> Server<'a> {
    fn new(user: User<'a>) -> Self {
        let world = World::listening(&user);
        let ringed = Ringed::new(&user, &world).unwrap();
        let shared = ringed.rings[1].writer();
        Self { user, world, ringed, shared }
    }

    fn ring_doorbell(&self, object: u64) {
        assert_eq!(self.user.call(IOCTL_SOFTNDK_DOORBELL, &handle(object)), STATUS_SUCCESS);
    }

    /// Puts a receive into the ring of the shared queue.
    fn receive(&mut self) {
        assert!(push(&mut self.shared, &work(NdkOperationTypeReceive, 0, SHARED), &[]), "the ring is full");
        self.ring_doorbell(self.ringed.srq);
    }

    /// Asks for another depth of the shared queue, with another ring.
    fn modify(&self, depth: u32, ring: &Ring) -> NTSTATUS {
        let input = ND_SRQ_MODIFY {
            Version: 1,
            QueueDepth: depth,
            CeMappingCount: 1,
            CbMappingsOffset: size_of::<ND_SRQ_MODIFY>() as u32,
            SrqHandle: self.ringed.srq,
            ..ND_SRQ_MODIFY::ZERO
        };
        let room = size_of::<ND_RESOURCE_DESCRIPTOR>() + size_of::<ND_MAPPING_RESULT>();
        let input = with_mappings(input.as_bytes(), &[ring.mapping()]);
        self.user.send_bytes(IOCTL_ND_SRQ_MODIFY, &input, room).wait()
    }

    /// Whether the shared queue has fewer receives than this.
    fn has_fewer_than(&self, receives: u32, session: &Session) -> bool {
        let threshold =
            ND_SRQ_MODIFY { Version: 1, NotifyThreshold: receives, SrqHandle: self.ringed.srq, ..ND_SRQ_MODIFY::ZERO };
        self.user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_SRQ_MODIFY, &threshold).unwrap();
        let notify = self.user.send(IOCTL_ND_SRQ_NOTIFY, &handle(self.ringed.srq));
        session.flush_dpcs();
        let fewer = !notify.is_pending();
        assert_eq!(self.user.call(IOCTL_ND_SRQ_CANCEL_IO, &handle(self.ringed.srq)), STATUS_SUCCESS);
        fewer
    }

    /// Makes `peer` send `messages` messages to a new queue pair of the shared queue. Returns the queue pair, its connector and its ring.
    fn hear(&self, peer: &User<'_>, from: &World, messages: usize) -> (u64, u64, Ring) {
        let ring = Ring::initiator(&self.user);
        let input = create_srq_qp(&self.user, &self.world, self.ringed.cq, self.ringed.srq);
        let qp = create(&self.user, IOCTL_ND_QP_CREATE_WITH_SRQ, &input, &[ring.mapping()]).unwrap();
        let active = peer.create(IOCTL_ND_CONNECTOR_CREATE, from.adapter);
        let passive = self.user.create(IOCTL_ND_CONNECTOR_CREATE, self.world.adapter);
        let sender = peer.qp(from.pd, from.cq);
        connect(peer, [active, sender], &self.user, [passive, qp], self.world.listener);
        for _ in 0..messages {
            assert_eq!(peer.post(&work(NdkOperationTypeSend, sender, 1), &[], b""), STATUS_SUCCESS);
            assert_eq!(peer.completions(from.cq, 1)[0].Status, STATUS_SUCCESS);
        }
        for (code, object) in [(IOCTL_ND_QP_FREE, sender), (IOCTL_ND_CONNECTOR_FREE, active)] {
            assert_eq!(peer.call(code, &handle(object)), STATUS_SUCCESS);
        }
        (qp, passive, ring)
    }

    /// Fills the ring of completions, with completions of the queue pair that has its own receives.
    fn fill_completions(&self) {
        let [_, mut receives] = self.ringed.writers();
        let ring = self.ringed.completions();
        // In two halves, so that the CQ has room for more.
        for half in 1..=2 {
            for context in 0..u64::from(DEPTH / 2) {
                assert!(push(&mut receives, &work(NdkOperationTypeReceive, 0, context), &[]));
            }
            assert_eq!(self.user.call(IOCTL_ND_QP_FLUSH, &handle(self.ringed.qp)), STATUS_SUCCESS);
            until("the receives are cancelled", || ring.waiting() == DEPTH / 2 * half);
        }
    }

    /// Reads the completions that are in the ring.
    fn read_completions(&self) -> Vec<u64> {
        let mut contexts = Vec::new();
        let mut ring = self.ringed.completions();
        if ring.poll(DEPTH as usize, |completion| contexts.push(completion.RequestContext)) > 0 && ring.needs_doorbell()
        {
            self.ring_doorbell(self.ringed.cq);
        }
        contexts
    }
}

/// No program gets the completions of a freed queue pair; the slots of its receives in the shared queue's ring are freed as well, and no
/// others.
#[test]
fn a_freed_queue_pair_gives_back_what_it_had_taken() {
    let session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let mut server = Server::new(User::new(&device));
        let peer = User::new(&device);
        let from = World::new(&peer);
        // One receive more than there are messages.
        server.receive();
        for _ in 1..DEPTH {
            server.fill_completions();
            server.receive();
            let (qp, passive, _ring) = server.hear(&peer, &from, 1);
            // The peer has disconnected, so the send is cancelled. Its completion frees no slot of a receive.
            assert_eq!(server.user.post(&work(NdkOperationTypeSend, qp, 1), &[], b""), STATUS_SUCCESS);
            // The completion is in the CQ, or will be, and the ring has no room for it.
            for (code, object) in [(IOCTL_ND_QP_FREE, qp), (IOCTL_ND_CONNECTOR_FREE, passive)] {
                assert_eq!(server.user.call(code, &handle(object)), STATUS_SUCCESS);
            }
            assert!(!server.read_completions().contains(&SHARED), "of a queue pair that is gone");
        }
        until("slots of the ring are given back", || matches!(server.shared.used(), Ok(0..=1)));
        session.flush_dpcs();
        assert_eq!(server.shared.used(), Ok(1), "no message has taken the last receive");
        (1..DEPTH).for_each(|_| server.receive());
    });
}

/// A receive waits in the ring for room in the queue: the completion of another one schedules a run, while the clock stands still.
#[test]
fn a_receive_is_posted_when_another_is_complete() {
    const POSTED: u32 = 3;
    let session = boot_seeded(1);
    session.hold_clock();
    let device = start();
    let mut server = Server::new(User::new(&device));
    let peer = User::new(&device);
    let from = World::new(&peer);
    let ring = Ring::receives(&server.user);
    assert_eq!(server.modify(POSTED, &ring), STATUS_SUCCESS);
    server.shared = ring.writer();
    (0..=POSTED).for_each(|_| server.receive());
    // The last receive has found no room.
    session.flush_dpcs();
    let _heard = server.hear(&peer, &from, POSTED as usize + 1);
}

/// The ring of completions is full, so no completion schedules a run of the shared queue when it has room again.
#[test]
fn a_receive_is_posted_while_completions_wait_for_room() {
    const POSTED: u32 = 3;
    let _session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let mut server = Server::new(User::new(&device));
        let peer = User::new(&device);
        let from = World::new(&peer);
        server.fill_completions();
        let ring = Ring::receives(&server.user);
        assert_eq!(server.modify(POSTED, &ring), STATUS_SUCCESS);
        server.shared = ring.writer();
        // One receive more than the queue takes.
        (0..=POSTED).for_each(|_| server.receive());
        let _heard = server.hear(&peer, &from, POSTED as usize + 1);
        assert_eq!(server.shared.used(), Ok(POSTED + 1), "no completion has been reported");
    });
}

/// The handles' slots of freed queue pairs are kept only while completions of these queue pairs may come: as many queue pairs again need
/// hardly more slots.
#[test]
fn handles_of_freed_queue_pairs_are_used_again() {
    let session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let mut server = Server::new(User::new(&device));
        let ring = Ring::initiator(&server.user);
        let free =
            |server: &Server<'_>, code, object| assert_eq!(server.user.call(code, &handle(object)), STATUS_SUCCESS);
        // The slots: the lower halves of handles.
        let mut slots = HashSet::new();
        let mut make_and_free = |server: &Server<'_>, count: u32| {
            let input = create_srq_qp(&server.user, &server.world, server.ringed.cq, server.ringed.srq);
            for _ in 0..count {
                let qp = create(&server.user, IOCTL_ND_QP_CREATE_WITH_SRQ, &input, &[ring.mapping()]).unwrap();
                free(server, IOCTL_ND_QP_FREE, qp);
                assert_eq!(server.user.call(IOCTL_ND_QP_FREE, &handle(qp)), STATUS_INVALID_HANDLE);
                slots.insert(qp as u32);
            }
            slots.len()
        };
        for _ in 0..9 {
            let slots = make_and_free(&server, 1000);
            assert!(slots < 1100, "{slots} slots");
            // A run finds the CQ empty.
            session.flush_dpcs();
        }
        for _ in 0..3 {
            server.fill_completions();
            let slots = make_and_free(&server, 3000);
            assert!(slots < 3100, "{slots} slots");
            // No run finds the CQ empty.
            let ringed = &server.ringed;
            for qp in [ringed.qp, ringed.srq_qp] {
                free(&server, IOCTL_ND_QP_FREE, qp);
            }
            free(&server, IOCTL_ND_SRQ_FREE, ringed.srq);
            free(&server, IOCTL_ND_CQ_FREE, ringed.cq);
            // A DPC may hold the last reference to the CQ.
            session.flush_dpcs();
            server.ringed = Ringed::new(&server.user, &server.world).unwrap();
        }
    });
}

/// Receives that messages have taken keep their slots until they are reported, also in a new ring, which needs room for them.
#[test]
fn a_ring_without_room_for_what_is_not_reported_is_refused() {
    let session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let quarter = DEPTH / 4;
        let mut server = Server::new(User::new(&device));
        let peer = User::new(&device);
        let from = World::new(&peer);
        server.fill_completions();
        (0..DEPTH).for_each(|_| server.receive());
        let _heard = server.hear(&peer, &from, quarter as usize);
        let ring = Ring::receives(&server.user);
        // The number of receives in the queue.
        let queued = 3 * quarter;
        assert!(!server.has_fewer_than(queued, &session) && server.has_fewer_than(queued + 1, &session));
        assert_eq!(server.modify(queued, &ring), STATUS_BUFFER_OVERFLOW);
        assert_eq!(server.modify(DEPTH, &ring), STATUS_SUCCESS);
    });
}

/// The queue is made smaller while receives come, some of which are taken and not reported: it becomes smaller, or stays as deep as before.
#[test]
fn a_refused_modify_changes_nothing() {
    let quarter = DEPTH / 4;
    let mut refused = 0;
    let seeds = seeds(100);
    for seed in seeds.clone() {
        let session = boot_seeded(seed);
        let device = start();
        let mut server = Server::new(User::new(&device));
        let peer = User::new(&device);
        let from = World::new(&peer);
        server.fill_completions();
        (0..quarter).for_each(|_| server.receive());
        let heard = server.hear(&peer, &from, quarter as usize);
        let ring = Ring::receives(&server.user);
        let modified = simkernel::scope(|scope| {
            let receives = scope.spawn(|| {
                let mut shared = server.ringed.rings[1].writer();
                for _ in quarter..DEPTH {
                    assert!(push(&mut shared, &work(NdkOperationTypeReceive, 0, SHARED), &[]));
                    server.ring_doorbell(server.ringed.srq);
                    pause();
                }
            });
            (0..seed % 8).for_each(|_| pause());
            let modified = server.modify(2 * quarter, &ring);
            receives.join().unwrap();
            modified
        });
        session.flush_dpcs();
        if modified != STATUS_SUCCESS {
            assert_eq!(modified, STATUS_BUFFER_OVERFLOW);
            assert!(!server.has_fewer_than(3 * quarter, &session), "seed {seed}");
            refused += 1;
        }
        drop(heard);
    }
    assert!(refused > 0 || seeds.end - seeds.start < 100, "all of the modifications came early");
}

/// SRQ_NOTIFY posts all receives of the ring, also more than one run takes, before it compares their number with the threshold.
#[test]
fn all_receives_of_a_deep_ring_count() {
    const DEEP: u32 = 100;
    let session = boot();
    let device = start();
    watchdog(LIMIT, || {
        let user = User::new(&device);
        let ring = Ring::receives_for(&user, DEEP);
        let srq = ND_CREATE_SRQ { QueueDepth: DEEP, NotifyThreshold: DEEP, ..create_srq(&World::new(&user)) };
        let srq = create(&user, IOCTL_ND_SRQ_CREATE, &srq, &[ring.mapping()]).unwrap();
        until("the ring sleeps", || ring.word(offset_of!(SOFTNDK_RING, Asleep)).load(Ordering::Acquire) != 0);
        let mut writer = ring.writer();
        for context in 0..DEEP {
            assert!(push(&mut writer, &work(NdkOperationTypeReceive, 0, context.into()), &[]));
        }
        let told = user.send(IOCTL_ND_SRQ_NOTIFY, &handle(srq));
        session.flush_dpcs();
        assert!(told.is_pending());
    });
}
