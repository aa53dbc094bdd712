//! A process goes through all phases of a program, and is killed at a moment that a seed chooses. `SOFTNDK_SEED` repeats one life.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
};

use ndk_abi::{describe::ZeroInit, nd_ioctl::*, ndkpi::*, sockaddr::SOCKADDR_INET, softndk_ioctl::*, status::*};
use ndk_provider::ObjectCounts;
use simkernel::{Session, boot_seeded, pause, seeds};
use users::{
    User, World,
    host::ADAPTER_ID,
    rings::{DEPTH, Ring, Ringed, push, with_mappings},
    start,
    user::{Answer, Memory, handle, registration, work},
};
use zerocopy::IntoBytes;

/// The number of lives.
const LIVES: u64 = 250;
/// The phases of a life. `Life::phase` is an index.
const PHASES: [&str; 5] = ["makes objects", "connects", "streams", "changes rings", "disconnects and frees"];
/// Longer than most lives, in pauses.
const LONGEST: u64 = 400;

/// The number of the process that is killed.
const MORTAL: u64 = 0x666;

/// A process that may be killed at any moment, so that each of its requests may fail.
struct Life<'a> {
    user: User<'a>,
    phase: AtomicU32,
}

impl Life<'_> {
    fn enter(&self, phase: u32) {
        self.phase.store(phase, Ordering::Relaxed);
    }

    /// Goes through all phases and adds the sent requests to `answers`. `None`: the process was killed.
    fn live(&self, to: SOCKADDR_INET, answers: &RefCell<Vec<Answer>>) -> Option<()> {
        let user = &self.user;
        let world = self.objects()?;
        let ringed = Ringed::new(user, &world).ok()?;
        let sent = |answer: Answer| answers.borrow_mut().push(answer);
        sent(user.notify(ringed.cq, ND_CQ_NOTIFY_ANY));
        sent(user.notify(ringed.cq, ND_CQ_NOTIFY_ERRORS));
        sent(user.send(IOCTL_ND_SRQ_NOTIFY, &handle(ringed.srq)));
        let memory = self.memory(&world)?;
        self.enter(1);
        let connect = user.connect(world.connector, ringed.qp, to, b"hello");
        await_end(&connect);
        sent(connect);
        let complete = user.send(IOCTL_ND_CONNECTOR_COMPLETE_CONNECT, &handle(world.connector));
        await_end(&complete);
        sent(complete);
        sent(user.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(world.connector)));
        self.enter(2);
        self.stream(&ringed, &memory);
        self.enter(3);
        self.change_rings(&ringed)?;
        self.enter(4);
        let disconnect = user.send(IOCTL_ND_CONNECTOR_DISCONNECT, &handle(world.connector));
        await_end(&disconnect);
        sent(disconnect);
        let frees = [
            (IOCTL_ND_QP_FREE, ringed.srq_qp),
            (IOCTL_ND_QP_FREE, ringed.qp),
            (IOCTL_ND_SRQ_FREE, ringed.srq),
            (IOCTL_ND_MR_DEREGISTER, memory.mr),
            (IOCTL_ND_MR_FREE, memory.mr),
            (IOCTL_ND_CQ_FREE, ringed.cq),
            (IOCTL_ND_CONNECTOR_FREE, world.connector),
            (IOCTL_ND_PD_FREE, world.pd),
            (IOCTL_ND_ADAPTER_CLOSE, world.adapter),
        ];
        frees.into_iter().all(|(code, object)| user.call(code, &handle(object)) == STATUS_SUCCESS).then_some(())
    }

    /// An adapter, a domain and a connector; the other handles are 0.
    fn objects(&self) -> Option<World> {
        let user = &self.user;
        let open = ND_OPEN_ADAPTER { Version: 1, AdapterId: ADAPTER_ID, ..ND_OPEN_ADAPTER::ZERO };
        let adapter = user.ask::<_, ND_RESOURCE_DESCRIPTOR>(IOCTL_ND_ADAPTER_OPEN, &open).ok()?.Handle;
        let pd = user.ask(IOCTL_ND_PD_CREATE, &handle(adapter)).ok()?;
        let connector = user.ask(IOCTL_ND_CONNECTOR_CREATE, &handle(adapter)).ok()?;
        let pages = user.device.host().map(1);
        Some(World { adapter, pd, cq: 0, mr: 0, mw: 0, srq: 0, qp: 0, connector, listener: 0, pages })
    }

    fn memory(&self, world: &World) -> Option<Memory> {
        let pages = self.user.device.host().map(2);
        let mr = self.user.ask(IOCTL_ND_MR_CREATE, &handle(world.pd)).ok()?;
        let flags = ND_MR_FLAG_ALLOW_LOCAL_WRITE | ND_MR_FLAG_ALLOW_REMOTE_READ;
        let tokens = self.user.ask(IOCTL_ND_MR_REGISTER, &registration(mr, &pages, flags)).ok()?;
        Some(Memory { pages, mr, tokens })
    }

    fn stream(&self, ringed: &Ringed, memory: &Memory) {
        let [mut sends, mut receives] = ringed.writers();
        let mut completions = ringed.completions();
        for context in 0..24 {
            let send = SOFTNDK_POST { SgeCount: 1, ..work(NdkOperationTypeSend, 0, context) };
            push(&mut sends, &send, &[memory.sge(0, 512)]);
            push(&mut receives, &work(NdkOperationTypeReceive, 0, context), &[]);
            self.user.send(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp));
            (0..8).for_each(|_| pause());
            if completions.poll(DEPTH as usize, drop) > 0 {
                self.user.send(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.cq));
            }
        }
    }

    fn change_rings(&self, ringed: &Ringed) -> Option<()> {
        let user = &self.user;
        let cq = ND_CQ_MODIFY {
            Version: 1,
            QueueDepth: DEPTH,
            CeMappingCount: 1,
            CbMappingsOffset: size_of::<ND_CQ_MODIFY>() as u32,
            CqHandle: ringed.cq,
        };
        let srq = ND_SRQ_MODIFY {
            Version: 1,
            QueueDepth: DEPTH,
            CeMappingCount: 1,
            CbMappingsOffset: size_of::<ND_SRQ_MODIFY>() as u32,
            SrqHandle: ringed.srq,
            ..ND_SRQ_MODIFY::ZERO
        };
        let room = size_of::<ND_RESOURCE_DESCRIPTOR>() + size_of::<ND_MAPPING_RESULT>();
        for _ in 0..4 {
            for (code, input, ring) in [
                (IOCTL_ND_CQ_MODIFY, cq.as_bytes(), Ring::completions(user)),
                (IOCTL_ND_SRQ_MODIFY, srq.as_bytes(), Ring::receives(user)),
            ] {
                let changed = user.send_bytes(code, &with_mappings(input, &[ring.mapping()]), room);
                if changed.wait() != STATUS_SUCCESS {
                    return None;
                }
            }
        }
        Some(())
    }
}

/// Waits until a request ends, at the latest with its process.
fn await_end(answer: &Answer) {
    while answer.is_pending() {
        pause();
    }
}

/// The peer: accepts, receives messages until the connection ends, and flushes its queue pair.
fn serve(peer: &User<'_>, at: &World, ringed: &Ringed, is_over: &AtomicBool) {
    let request = peer.get_request(at.listener, at.connector);
    while request.is_pending() && !is_over.load(Ordering::Relaxed) {
        pause();
    }
    if request.is_pending() {
        assert_eq!(peer.call(IOCTL_ND_LISTENER_CANCEL_IO, &handle(at.listener)), STATUS_SUCCESS);
        return await_end(&request);
    }
    let accept = peer.accept(at.connector, ringed.qp, b"");
    await_end(&accept);
    if accept.wait() != STATUS_SUCCESS {
        return;
    }
    let gone = peer.send(IOCTL_ND_CONNECTOR_NOTIFY_DISCONNECT, &handle(at.connector));
    let [_, mut receives] = ringed.writers();
    let mut completions = ringed.completions();
    while gone.is_pending() {
        push(&mut receives, &work(NdkOperationTypeReceive, 0, 0), &[]);
        peer.send(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.qp));
        (0..8).for_each(|_| pause());
        if completions.poll(DEPTH as usize, drop) > 0 {
            peer.send(IOCTL_SOFTNDK_DOORBELL, &handle(ringed.cq));
        }
    }
    assert_eq!(gone.wait(), STATUS_SUCCESS);
    assert_eq!(peer.call(IOCTL_ND_QP_FLUSH, &handle(ringed.qp)), STATUS_SUCCESS);
}

/// Plays one life: the phase in which the process was killed. `None`: the life was over before.
fn play(session: &Session, moment: u64) -> Option<&'static str> {
    let device = start();
    let peer = User::new(&device);
    let at = World::listening(&peer);
    let ringed = Ringed::new(&peer, &at).unwrap();
    let to = peer.ask(IOCTL_ND_LISTENER_GET_ADDRESS, &handle(at.listener)).unwrap();
    let own = device.host().pinned();
    let life = Life { user: User::new_of_process(&device, MORTAL), phase: AtomicU32::new(0) };
    let is_over = AtomicBool::new(false);
    let lived = simkernel::scope(|scope| {
        scope.spawn(|| serve(&peer, &at, &ringed, &is_over));
        let lives = scope.spawn(|| {
            let answers = RefCell::default();
            let lived = life.live(to, &answers).is_some();
            (lived, answers.into_inner())
        });
        (0..moment).for_each(|_| pause());
        let phase = life.phase.load(Ordering::Relaxed);
        life.user.file.cleanup(&simkernel::passive());
        // Only the peer's memory is still locked.
        assert_eq!(device.host().pinned(), own);
        is_over.store(true, Ordering::Relaxed);
        let (lived, answers) = lives.join().unwrap();
        assert!(answers.iter().all(|answer| !answer.is_pending()));
        (!lived).then(|| PHASES[phase as usize])
    });
    session.flush_dpcs();
    assert_eq!(peer.call(IOCTL_ND_CQ_CANCEL_IO, &handle(ringed.cq)), STATUS_SUCCESS);
    drop((life, peer));
    assert_eq!(device.host().pinned(), 0);
    assert_eq!(device.host().provider().object_counts(), ObjectCounts::default());
    lived
}

// Shows S907, T5.
#[test]
fn a_process_dies_at_any_moment() {
    let mut deaths = BTreeMap::<_, u32>::new();
    let seeds = seeds(LIVES);
    let is_all = seeds.end - seeds.start >= LIVES;
    for seed in seeds {
        let session = boot_seeded(seed);
        *deaths.entry(play(&session, seed * 7919 % LONGEST)).or_default() += 1;
    }
    println!("{deaths:?}");
    // The test shows something only if each phase is cut short.
    assert!(!is_all || PHASES.iter().all(|phase| deaths.contains_key(&Some(*phase))), "{deaths:?}");
}
