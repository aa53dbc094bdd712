//! What a message costs with many queue pairs and many tokens.
//!
//! The queue pairs are served in turns: a few messages for one, then the next. All share one domain and, on each side, one
//! completion queue. The messages of a turn lie in a pool that all queue pairs share, as a server has one of the buffers that
//! it used last: a buffer that has left the caches is the consumer's, and what it costs is not the device's. A second figure,
//! which nothing is asked of, has slots of its own for each queue pair in one large buffer.
//!
//! The reference makes the same turns over rings: as many as there are queue pairs, of as many slots, each with its own state.
//! Its messages lie in its slots, of which each ring has its own: that is what a ring is. What it loses to the caches, nobody
//! could keep who keeps the messages apart.

use indicatif::ProgressBar;
use ndk_abi::ndkpi::NDK_OP_FLAG_DEFER;

use crate::{
    figures::{Figure, Target},
    memory::{Buffer, Memory, Message},
    messages::Ring,
    ndk::{Adapter, Connector, Cq, Mr, Pd, Qp, QpSizes},
    sample::{Cost, Round, compare, timed},
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
    /// The messages of a turn, of senders and of receivers.
    pool: [Buffer; 2],
    /// Slots for each queue pair.
    own: [Buffer; 2],
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
        let buffers = |slots: usize| [0, 1].map(|_| Buffer::new(&pd, slots * size_of::<Message>()));
        let (pool, own) = (buffers(TURN), buffers(count * TURN));
        let next = std::cell::Cell::new(0);
        Self { _connectors: connectors, pairs, pool, own, receive_cq, initiator_cq, _pd: pd, next }
    }

    /// Passes `count` messages, in the slots that all share.
    fn pass(&self, count: usize) -> u64 {
        self.turns(count, &self.pool, |_| 0)
    }

    /// Passes `count` messages, in slots of each queue pair's own.
    fn pass_own(&self, count: usize) -> u64 {
        self.turns(count, &self.own, |index| index * TURN)
    }

    /// Passes `count` messages; `first_slot` says where those of a queue pair begin in `buffers`.
    #[inline]
    fn turns(&self, count: usize, [from, to]: &[Buffer; 2], first_slot: impl Fn(usize) -> usize) -> u64 {
        let mut sum = 0u64;
        for turn in 0..count / TURN {
            let index = self.next.get();
            self.next.set(if index + 1 < self.pairs.len() { index + 1 } else { 0 });
            let [sender, receiver] = &self.pairs[index];
            let first = first_slot(index);
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

/// For each of `counts`: nanoseconds of a message at that number of queue pairs, and in that number of rings.
pub(crate) fn by_count(bar: &ProgressBar, counts: &[usize]) -> Vec<[f64; 2]> {
    let adapter = Adapter::default();
    let measure = |&count: &usize| {
        let (crowd, mut rings) = (Crowd::new(&adapter, count, bar), Rings::new(count));
        let contenders: &mut [(usize, Round<'_>)] =
            &mut [(ROUND, timed(|count| crowd.pass(count))), (ROUND, timed(|count| rings.pass(count)))];
        let costs = compare(bar, 20, contenders);
        [costs[0].typical, costs[1].typical]
    };
    counts.iter().map(measure).collect()
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
    for crowd in &crowds {
        contenders.push((ROUND, timed(|count| crowd.pass_own(count))));
    }
    for rings in &mut rings {
        contenders.push((ROUND, timed(|count| rings.pass(count))));
    }
    let costs = compare(bar, 40, &mut contenders);
    let figure = |name: String, reference: &str, costs: &[Cost], which: usize, target| Figure {
        name,
        unit: "ns",
        value: costs[which].typical,
        reference: reference.to_owned(),
        reference_value: costs[0].typical,
        compared: "times its cost",
        ratio: costs[which].typical / costs[0].typical,
        target,
    };
    let mut figures = Vec::new();
    for (which, name) in [(1, "100 queue pairs"), (2, "10,000 queue pairs")] {
        let target = Some(Target::AtMost(1.3));
        figures.push(figure(format!("a message at {name}"), "at one", &costs[0..3], which, target));
        figures.push(figure(format!("a message at {name}, buffers of each"), "at one", &costs[3..6], which, None));
        figures.push(figure(format!("a message in as many rings ({name})"), "in one", &costs[6..9], which, None));
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
        unit: "ns",
        value: costs[1].typical,
        reference: "with two".to_owned(),
        reference_value: costs[0].typical,
        compared: "times its cost",
        ratio: costs[1].typical / costs[0].typical,
        target: Some(Target::AtMost(1.3)),
    }]
}
