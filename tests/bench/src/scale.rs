//! What a message costs with many queue pairs and many tokens.
//!
//! The queue pairs are served in turns: a few messages for one, then the next. All share one domain, and on each side one
//! completion queue and one buffer, in which each queue pair has slots of its own. The reference makes the same turns over
//! rings: as many as there are queue pairs, of as many slots, each with its own state. What it loses to the caches, nobody
//! could keep.

use indicatif::ProgressBar;
use ndk_abi::ndkpi::NDK_OP_FLAG_DEFER;

use crate::{
    figures::{Figure, Target},
    memory::{Buffer, Memory},
    messages::Ring,
    ndk::{Adapter, Connector, Cq, Mr, Pd, Qp, QpSizes},
    sample::{Round, compare, timed},
};

/// Messages for a queue pair before the next has its turn.
const TURN: usize = 16;
/// Requests of a queue.
const DEPTH: usize = 16;
const ROUND: usize = 40_000;

/// Connected queue pairs, senders and receivers.
struct Crowd {
    _connectors: Vec<[Connector; 2]>,
    pairs: Vec<[Qp; 2]>,
    buffers: [Buffer; 2],
    receive_cq: Cq,
    initiator_cq: Cq,
    _pd: Pd,
    next: std::cell::Cell<usize>,
}

impl Crowd {
    fn new(adapter: &Adapter, count: usize, bar: &ProgressBar) -> Self {
        let listener = adapter.listener();
        let pd = adapter.pd();
        let (receive_cq, initiator_cq) = (adapter.cq(DEPTH as u32 * 4), adapter.cq(DEPTH as u32 * 4));
        let sizes = QpSizes { depth: DEPTH as u32, sges: 1, inline_data: 0 };
        let mut pairs = Vec::with_capacity(count);
        let mut connectors = Vec::with_capacity(count);
        for index in 0..count {
            let pair = [0, 1].map(|_| pd.qp(&receive_cq, &initiator_cq, index, sizes));
            connectors.push(adapter.connect(&listener, &pair[0], &pair[1]));
            pairs.push(pair);
            bar.tick();
        }
        let buffers = [0, 1].map(|_| Buffer::new(&pd, count * DEPTH * 64));
        let next = std::cell::Cell::new(0);
        Self { _connectors: connectors, pairs, buffers, receive_cq, initiator_cq, _pd: pd, next }
    }

    /// Passes `count` messages.
    fn pass(&self, count: usize) -> u64 {
        let [from, to] = &self.buffers;
        let mut sum = 0u64;
        for turn in 0..count / TURN {
            let index = self.next.get();
            self.next.set(if index + 1 < self.pairs.len() { index + 1 } else { 0 });
            let [sender, receiver] = &self.pairs[index];
            let first = index * DEPTH;
            for slot in first..first + TURN {
                receiver.receive(slot, &to.message(slot));
            }
            for slot in first..first + TURN {
                from.memory.write(slot, [turn as u64; 8]);
                let flags = if slot + 1 == first + TURN { 0 } else { NDK_OP_FLAG_DEFER };
                sender.send(slot, &from.message(slot), flags);
            }
            self.receive_cq.take(TURN, |result| {
                sum = sum.wrapping_add(to.memory.read(result.RequestContext.addr())[0]);
            });
            self.initiator_cq.take(TURN, |_| ());
        }
        sum
    }
}

/// The reference: a ring for each queue pair.
struct Rings(Vec<Ring>, usize);

impl Rings {
    fn new(count: usize) -> Self {
        Self((0..count).map(|_| Ring::with_capacity(DEPTH)).collect(), 0)
    }

    fn pass(&mut self, count: usize) -> u64 {
        let mut sum = 0u64;
        for _ in 0..count / TURN {
            self.1 = if self.1 + 1 < self.0.len() { self.1 + 1 } else { 0 };
            sum = sum.wrapping_add(self.0[self.1].pass(TURN, TURN));
        }
        sum
    }
}

/// Cost at 1, 100 and 10,000 queue pairs.
pub fn queue_pairs(bar: &ProgressBar) -> Vec<Figure> {
    let adapter = Adapter::default();
    let counts = [1, 100, 10_000];
    let crowds = counts.map(|count| Crowd::new(&adapter, count, bar));
    let mut rings = counts.map(Rings::new);
    let mut contenders: Vec<(usize, Round<'_>)> = Vec::new();
    for crowd in &crowds {
        contenders.push((ROUND, timed(|count| crowd.pass(count))));
    }
    for rings in &mut rings {
        contenders.push((ROUND, timed(|count| rings.pass(count))));
    }
    let costs = compare(bar, 40, &mut contenders);
    let mut figures = Vec::new();
    for (name, ours, theirs) in [("100 queue pairs", 1, 4), ("10,000 queue pairs", 2, 5)] {
        figures.push(Figure {
            name: format!("a message at {name}"),
            nanoseconds: costs[ours].typical,
            reference: "at one".to_owned(),
            reference_nanoseconds: costs[0].typical,
            compared: "times its cost",
            ratio: costs[ours].typical / costs[0].typical,
            target: Some(Target::AtMost(1.3)),
        });
        figures.push(Figure {
            name: format!("a message in as many rings ({name})"),
            nanoseconds: costs[theirs].typical,
            reference: "in one".to_owned(),
            reference_nanoseconds: costs[3].typical,
            compared: "times its cost",
            ratio: costs[theirs].typical / costs[3].typical,
            target: None,
        });
    }
    figures
}

/// Cost with 1,000,000 registered tokens: of one region among them, and of another region for each message.
pub fn tokens(bar: &ProgressBar) -> Vec<Figure> {
    const TOKENS: usize = 1_000_000;
    let few = Adapter::default();
    let many = Adapter::default();
    let alone = Crowd::new(&few, 1, bar);
    let pd = many.pd();
    let memory = Memory::new(64);
    let mdl = memory.mdl();
    let register = |count: usize| -> Vec<Mr> {
        let region = |_| {
            let mr = pd.mr();
            let _token = mr.register(&mdl, 64);
            mr
        };
        (0..count).map(region).inspect(|_| bar.tick()).collect()
    };
    // Half of them before and half of them after, so that those in use lie in the middle of the table.
    let _before = register(TOKENS / 2);
    let among = Crowd::new(&many, 1, bar);
    let _after = register(TOKENS / 2);
    let contenders: &mut [(usize, Round<'_>)] =
        &mut [(ROUND, timed(|count| alone.pass(count))), (ROUND, timed(|count| among.pass(count)))];
    let costs = compare(bar, 40, contenders);
    vec![Figure {
        name: "a message with 1,000,000 tokens".to_owned(),
        nanoseconds: costs[1].typical,
        reference: "with two".to_owned(),
        reference_nanoseconds: costs[0].typical,
        compared: "times its cost",
        ratio: costs[1].typical / costs[0].typical,
        target: Some(Target::AtMost(1.3)),
    }]
}
