//! Several threads and connections at once: posts, flushes, disconnects and closes cross each other.
//!
//! Whatever happens, each request that was accepted completes exactly once (silent ones at most once), in order, and
//! nothing is left.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ndk_abi::{
    ndkpi::{NDK_CQ_NOTIFY_ANY, NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_SILENT_SUCCESS, NDK_RESULT_EX},
    status::{STATUS_CANCELLED, STATUS_SUCCESS},
    wdm::PAGE_SIZE,
};
use simkernel::{Trace, lock_paused, pause, scope, seeds};

use crate::kit::{
    Buffer, Cq, FastRegion, Listener, Options, Pair, QpSizes, Side, Unconnected, World, connect, loopback,
};

/// A small generator (xorshift64*), for different schedules that can be had again.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    /// Lets up to so much time go by.
    pub(crate) fn delay(&mut self, most: usize) {
        for spin in 0..self.below(most) {
            if spin % 64 == 0 { pause() } else { std::hint::spin_loop() }
        }
    }
}

/// Where threads wait for each other before they go on together.
struct Start(AtomicUsize);

impl Start {
    fn of(threads: usize) -> Self {
        Self(AtomicUsize::new(threads))
    }

    fn wait(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
        while self.0.load(Ordering::SeqCst) != 0 {
            pause();
        }
    }
}

/// What a thread posted to one queue, for comparison with its completions.
#[derive(Default)]
struct Posted {
    /// Each accepted request, in order: must it complete?
    accepted: Vec<bool>,
}

impl Posted {
    fn next(&self) -> usize {
        self.accepted.len()
    }

    fn note(&mut self, accepted: bool, visible: bool) {
        if accepted {
            self.accepted.push(visible);
        }
    }

    /// Checks what came out of the queue against what went in.
    #[track_caller]
    fn check(&self, results: &[NDK_RESULT_EX]) {
        let mut contexts = results.iter().map(|result| result.RequestContext.addr()).peekable();
        for (context, &visible) in self.accepted.iter().enumerate() {
            let completed = contexts.next_if_eq(&context).is_some();
            assert!(completed || !visible, "request {context} of {} did not complete", self.accepted.len());
        }
        assert_eq!(contexts.next(), None, "a completion out of order, or of nothing");
        // After an error, which ends the connection, there are only cancellations. They may also come before: of a flush.
        let error = |result: &NDK_RESULT_EX| ![STATUS_SUCCESS, STATUS_CANCELLED].contains(&result.Status);
        let failed = results.iter().position(error);
        let rest = &results[failed.map_or(results.len(), |first| first + 1)..];
        assert!(rest.iter().all(|result| result.Status == STATUS_CANCELLED), "{rest:?}");
    }
}

fn drain(cq: &Cq) -> Vec<NDK_RESULT_EX> {
    let mut all = Vec::new();
    loop {
        let some = cq.poll(64);
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

/// Where requests may go.
struct Memory {
    local: Buffer,
    remote: (u64, u32),
}

/// Posts requests of all kinds until told to stop.
fn post_requests(side: &Side, memory: &Memory, random: &mut Random, most: usize, stop: &AtomicBool) -> Posted {
    let mut posted = Posted::default();
    let size = memory.local.pages.size();
    while !stop.load(Ordering::SeqCst) && posted.next() < most {
        let context = posted.next();
        let visible = random.below(3) > 0;
        let mut flags = if visible { 0 } else { NDK_OP_FLAG_SILENT_SUCCESS };
        if random.below(4) == 0 {
            flags |= NDK_OP_FLAG_DEFER;
        }
        let length = random.below(size);
        let sges = [memory.local.sge(0, length / 2), memory.local.sge(length / 2, length - length / 2)];
        let status = match random.below(5) {
            0 => side.qp.send(context, &sges, flags),
            1 => side.qp.send(context, &[], flags | NDK_OP_FLAG_INLINE),
            2 => side.qp.read(context, &sges, memory.remote.0, memory.remote.1, flags),
            _ => side.qp.write(context, &sges, memory.remote.0, memory.remote.1, flags),
        };
        posted.note(status == STATUS_SUCCESS, visible);
        if status != STATUS_SUCCESS {
            pause();
        }
    }
    posted
}

/// Posts receives until told to stop.
fn post_receives(side: &Side, target: &Buffer, random: &mut Random, most: usize, stop: &AtomicBool) -> Posted {
    let mut posted = Posted::default();
    while !stop.load(Ordering::SeqCst) && posted.next() < most {
        let status = side.qp.receive(posted.next(), &[target.sge(0, target.pages.size())]);
        posted.note(status == STATUS_SUCCESS, true);
        if status != STATUS_SUCCESS || random.below(8) == 0 {
            pause();
        }
    }
    posted
}

/// How a side ends its connection.
fn end(side: &Side, way: usize, random: &mut Random) {
    random.delay(2000);
    match way {
        0 => {
            // Fails if the connection has ended by then and that is all the same.
            side.connector.disconnect().wait();
        }
        1 => side.qp.flush(),
        2 => {
            side.qp.flush();
            side.connector.disconnect().wait();
        }
        _ => {}
    }
}

/// One connection from set-up to the end, with four posting threads and two that end it.
fn connection(world: &World, listener: &Listener, requests: usize, seed: u64) {
    let adapter = &world.adapter;
    let sizes = QpSizes { receives: 16, requests: 16, ..QpSizes::default() };
    let options = Options { cq_depth: 1024, sizes, ..Options::default() };
    let sides = [Unconnected::new(adapter, 1, options), Unconnected::new(adapter, 2, options)];
    let (ours, theirs) = connect(adapter, listener, &sides[0].qp, &sides[1].qp, (4, 4));
    let sides = [sides[0].with(ours.0, ours.1), sides[1].with(theirs.0, theirs.1)];
    let targets = sides.map(|side| Buffer::full(&side.pd, 32));
    let memory = [0, 1].map(|index| Memory {
        local: Buffer::full(&sides[index].pd, 32),
        remote: (targets[1 - index].base, targets[1 - index].token),
    });
    let stop = AtomicBool::new(false);
    let start = Start::of(6);
    let (requests, receives) = scope(|scope| {
        let (stop, start, memory, targets) = (&stop, &start, &memory, &targets);
        let posters = [0, 1].map(|index| {
            scope.spawn(move || {
                let mut random = Random::new(seed * 10 + index as u64);
                start.wait();
                post_requests(&sides[index], &memory[index], &mut random, requests, stop)
            })
        });
        let receivers = [0, 1].map(|index| {
            scope.spawn(move || {
                let mut random = Random::new(seed * 10 + 2 + index as u64);
                start.wait();
                post_receives(&sides[index], &targets[index], &mut random, requests, stop)
            })
        });
        let enders = [0, 1].map(|index| {
            scope.spawn(move || {
                let mut random = Random::new(seed * 10 + 4 + index as u64);
                let way = random.below(4);
                start.wait();
                end(&sides[index], way, &mut random);
            })
        });
        enders.into_iter().for_each(|ender| ender.join().expect("an end"));
        stop.store(true, Ordering::SeqCst);
        (posters.map(|poster| poster.join().expect("a poster")), receivers.map(|one| one.join().expect("a receiver")))
    });
    // In any order: the queue pair may be closed before its connector, the regions before the queue pair.
    let mut random = Random::new(seed * 10 + 6);
    let early = random.below(2) == 0;
    let closes: Vec<_> = if early { sides.map(|side| side.qp.close()).into() } else { Vec::new() };
    targets.into_iter().for_each(|target| target.mr.close().succeed());
    memory.into_iter().for_each(|memory| memory.local.mr.close().succeed());
    sides.iter().for_each(|side| side.connector.close_now());
    let late: Vec<_> = if early { Vec::new() } else { sides.map(|side| side.qp.close()).into() };
    closes.into_iter().chain(late).for_each(|close| close.succeed());
    for (index, side) in sides.iter().enumerate() {
        requests[index].check(&drain(&side.initiator_cq));
        receives[index].check(&drain(&side.receive_cq));
        side.receive_cq.close_now();
        side.initiator_cq.close_now();
        side.pd.close_now();
    }
}

#[test]
fn connections_end_while_everything_is_posted() {
    let world = World::new();
    let listeners = [0, 1].map(|_| {
        let listener = world.adapter.create_listener().expect("a listener");
        assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
        listener
    });
    scope(|scope| {
        for (number, listener) in listeners.iter().enumerate() {
            let world = &world;
            scope.spawn(move || {
                (0..60).for_each(|round| connection(world, listener, 400, 1000 * number as u64 + round))
            });
        }
    });
    listeners.into_iter().for_each(|listener| listener.close_now());
    world.settle();
    assert_eq!(world.provider.counters().ActiveConnection, 0);
}

/// The same with schedules that replay.
#[test]
fn connections_end_in_every_order() {
    for seed in seeds(150) {
        seeded_connection(seed);
    }
}

fn seeded_connection(seed: u64) -> Trace {
    let world = World::seeded(seed);
    let listener = world.adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
    connection(&world, &listener, 12, seed);
    listener.close_now();
    world.settle();
    world.session.trace().expect("a seeded session")
}

/// The device does nothing that depends on anything but its callers.
#[test]
fn connections_replay() {
    for seed in 0..5 {
        let (once, again) = (seeded_connection(seed), seeded_connection(seed));
        assert_eq!(once.count, again.count, "seed {seed}");
        let same = once.steps.iter().zip(&again.steps).take_while(|(one, other)| one == other).count();
        assert!(
            once == again,
            "seed {seed} parts after {same} steps: {:?}",
            (once.steps.get(same), again.steps.get(same))
        );
    }
}

/// Connects, rejects and closes cross in every phase, from both sides.
#[test]
fn set_ups_are_given_up_in_every_phase() {
    let world = World::new();
    scope(|scope| {
        for number in 0..3 {
            let world = &world;
            scope.spawn(move || (0..150).for_each(|round| set_up(world, 1000 * number + round)));
        }
    });
    world.settle();
    assert_eq!(world.provider.counters().ActiveConnection, 0);
}

/// The same with schedules that replay.
#[test]
fn set_ups_are_given_up_in_every_order() {
    for seed in seeds(300) {
        let world = World::seeded(seed);
        scope(|scope| {
            for number in 0..2 {
                let world = &world;
                scope.spawn(move || set_up(world, 2 * seed + number));
            }
        });
    }
}

fn set_up(world: &World, seed: u64) {
    let mut random = Random::new(seed);
    let adapter = &world.adapter;
    let sides = [0, 1].map(|tag| Unconnected::new(adapter, tag, Options::default()));
    let listener = adapter.create_listener().expect("a listener");
    assert_eq!(listener.listen(loopback(0)), STATUS_SUCCESS);
    let (passive, way) = (sides[1].qp, random.below(4));
    let accepts = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let accepted = accepts.clone();
    listener.events.on_call(move |event| {
        let connector = crate::kit::Connector::of_event(event.value);
        let mut accepted = lock_paused(&accepted);
        match way {
            0 => {
                // An error if the peer has given up.
                connector.reject(b"no");
            }
            1 => {}
            _ => {
                let accept = connector.accept(&passive, (1, 1), &[], None);
                accepted.push(accept);
            }
        }
        accepted.push(connector.close());
    });
    let keep_open = way == 3;
    if keep_open {
        let accepted = accepts.clone();
        listener.events.on_call(move |event| {
            let connector = crate::kit::Connector::of_event(event.value);
            lock_paused(&accepted).push(connector.accept(&passive, (1, 1), &[], None));
        });
    }
    let connector = adapter.create_connector().expect("a connector");
    let remote = listener.local_address().expect("it listens");
    let connect = connector.connect(&sides[0].qp, loopback(0), remote, (1, 1), &[]);
    random.delay(20_000);
    if random.below(2) == 0 {
        // Whatever comes of it.
        if connect.wait() == STATUS_SUCCESS {
            connector.complete(None).wait();
        }
    }
    connector.close_now();
    connect.wait();
    let closing = listener.close();
    // No more events from here on, once those that run have ended.
    world.settle();
    if keep_open {
        for event in listener.events.calls() {
            crate::kit::Connector::of_event(event.value).close_now();
        }
    }
    lock_paused(&accepts).iter().for_each(|request| {
        request.wait();
    });
    closing.succeed();
    sides.iter().for_each(|side| side.close());
}

/// Fast registration, use and invalidation on several connections that share a domain.
#[test]
fn registrations_on_several_connections() {
    let world = World::new();
    scope(|scope| {
        for number in 0..3u64 {
            let world = &world;
            scope.spawn(move || {
                let pair = Pair::new(&world.adapter);
                let region = FastRegion::new(&world.adapter, &pair.passive.pd, 4, true);
                let local = Buffer::full(&pair.active.pd, 4);
                let mut random = Random::new(number);
                for round in 0..150 {
                    region.register(&pair.passive, ndk_abi::ndkpi::NDK_OP_FLAG_ALLOW_REMOTE_WRITE);
                    let length = random.below(4 * PAGE_SIZE);
                    let flags = NDK_OP_FLAG_SILENT_SUCCESS;
                    let sges = [local.sge(0, length)];
                    let token = region.mr.token();
                    assert_eq!(pair.active.qp.write(1, &sges, region.base, token, flags), STATUS_SUCCESS);
                    assert_eq!(pair.passive.qp.receive(round, &[]), STATUS_SUCCESS);
                    if random.below(2) == 0 {
                        assert_eq!(pair.active.qp.send_and_invalidate(2, &[], flags, token), STATUS_SUCCESS);
                        pair.passive.expect_receive(round, STATUS_SUCCESS);
                    } else {
                        assert_eq!(pair.active.qp.send(2, &[], flags), STATUS_SUCCESS);
                        pair.passive.expect_receive(round, STATUS_SUCCESS);
                        region.invalidate(&pair.passive);
                    }
                }
                region.close();
                local.close();
                pair.close();
            });
        }
    });
}

/// Arming and polling on one queue that several connections complete to.
#[test]
fn one_queue_for_several_connections() {
    const EACH: usize = 400;
    let world = World::new();
    let cq = world.adapter.create_cq(1024).expect("a CQ");
    let pairs: Vec<_> = (0..3)
        .map(|tag| {
            let passive = Unconnected::new(&world.adapter, tag, Options::default());
            passive.qp.close_now();
            let qp = passive.pd.create_qp(&cq, &passive.initiator_cq, tag, QpSizes::default()).expect("a QP");
            let active = Unconnected::new(&world.adapter, tag, Options::default());
            Pair::of(&world.adapter, active, Unconnected { qp, ..passive }, (1, 1))
        })
        .collect();
    scope(|scope| {
        for pair in &pairs {
            scope.spawn(move || {
                for context in 0..EACH {
                    while pair.passive.qp.receive(context, &[]) != STATUS_SUCCESS {
                        pause();
                    }
                    while pair.active.qp.send(context, &[], NDK_OP_FLAG_SILENT_SUCCESS) != STATUS_SUCCESS {
                        pause();
                    }
                }
            });
        }
        let mut next = [0; 3];
        let mut notifications = 0;
        while next.iter().sum::<usize>() < 3 * EACH {
            cq.arm(NDK_CQ_NOTIFY_ANY);
            notifications += 1;
            cq.notified.wait_for(notifications);
            for result in cq.poll(1024) {
                let tag = result.QPContext.addr();
                assert_eq!(result.RequestContext.addr(), next[tag]);
                next[tag] += 1;
            }
        }
    });
    for pair in pairs {
        pair.active.close();
        pair.passive.connector.close_now();
        pair.passive.qp.close_now();
        pair.passive.receive_cq.close_now();
        pair.passive.initiator_cq.close_now();
        pair.passive.pd.close_now();
        pair.listener.close_now();
    }
    cq.close_now();
}
