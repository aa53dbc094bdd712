//! Several threads at once: posts, flushes, disconnects and closes of connections cross each other.
//!
//! In every schedule, each accepted request completes exactly once (a silent one at most once), in order, and no object is left.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_SILENT_SUCCESS, NDK_RESULT_EX},
    status::{STATUS_CANCELLED, STATUS_SUCCESS},
};
use simkernel::{Trace, pause, scope, seeds};

use crate::kit::{Buffer, Cq, Listener, Options, QpSizes, Random, Side, Unconnected, World, connect, loopback};

/// A barrier: each thread waits until all have arrived.
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

    /// Checks the completions of the queue against the accepted posts.
    #[track_caller]
    fn check(&self, results: &[NDK_RESULT_EX]) {
        let mut contexts = results.iter().map(|result| result.RequestContext.addr()).peekable();
        for (context, &visible) in self.accepted.iter().enumerate() {
            let completed = contexts.next_if_eq(&context).is_some();
            assert!(completed || !visible, "request {context} of {} did not complete", self.accepted.len());
        }
        assert_eq!(contexts.next(), None, "a completion out of order, or of nothing");
        // After an error, which ends the connection, all completions are cancelled. A flush may have cancelled some before.
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
            // Fails if the connection has ended by then: the test accepts both outcomes.
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

// Shows S205.
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
    world.flush_dpcs();
    assert_eq!(world.provider.counters().ActiveConnection, 0);
}

/// Like `connections_end_while_everything_is_posted`, with schedules that replay.
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
    world.flush_dpcs();
    world.session.trace().expect("a seeded session")
}

/// The device does nothing that depends on anything but its callers.
// Shows S1207.
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
