//! Small sends, which the engine carries out in rows, both ways at once, while flushes, deregistrations, failing queues and
//! the end of the connection cross them: both sides agree about what has arrived, and where.

use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_SILENT_SUCCESS, NDK_RESULT_EX},
    status::STATUS_SUCCESS,
};
use simkernel::{pause, scope, seeds};

use crate::kit::{Buffer, Cq, Options, Pair, QpSizes, Random, Side, World, sge};

/// Sends of one side.
const SENDS: usize = 48;
/// Bytes of a send: its number.
const BYTES: usize = 8;

/// The memory of a side: the numbers it sends, and two regions to receive into.
struct Memory {
    from: Buffer,
    to: [Buffer; 2],
}

impl Memory {
    fn new(side: &Side) -> Self {
        let from = Buffer::full(&side.pd, 1);
        for number in 0..SENDS {
            from.pages.write(number * BYTES, &number.to_le_bytes());
        }
        Self { from, to: [(); 2].map(|()| Buffer::full(&side.pd, 1)) }
    }

    /// The memory of the receive with this number.
    fn target(&self, number: usize) -> (&Buffer, usize) {
        (&self.to[number / 5 % 2], number * BYTES)
    }

    /// How many are posted.
    fn post_receives(&self, side: &Side, random: &mut Random) -> usize {
        for number in 0..SENDS {
            let (buffer, offset) = self.target(number);
            let whole = [buffer.sge(offset, BYTES)];
            let halves = [buffer.sge(offset, 3), buffer.sge(offset + 3, 5)];
            let sges: &[_] = if random.below(12) == 0 { &halves } else { &whole };
            if side.qp.receive(number, sges) != STATUS_SUCCESS {
                return number;
            }
            random.delay(8);
        }
        SENDS
    }

    /// Which of the sends are not silent.
    fn post_sends(&self, side: &Side, random: &mut Random) -> Vec<bool> {
        let mut visible = Vec::new();
        for number in 0..SENDS {
            let offset = number * BYTES;
            let kind = random.below(16);
            let whole = [self.from.sge(offset, BYTES)];
            let halves = [self.from.sge(offset, 1), self.from.sge(offset + 1, 7)];
            let mut flags = if random.below(3) > 0 && number + 1 < SENDS { NDK_OP_FLAG_DEFER } else { 0 };
            if random.below(5) == 0 {
                flags |= NDK_OP_FLAG_SILENT_SUCCESS;
            }
            let bytes = number.to_le_bytes();
            let inline = [sge(bytes.as_ptr().expose_provenance() as u64, BYTES, 0)];
            let (sges, flags): (&[_], _) = match kind {
                0 => (&halves, flags),
                1 => (&inline, flags | NDK_OP_FLAG_INLINE),
                _ => (&whole, flags),
            };
            if side.qp.send(number, sges, flags) != STATUS_SUCCESS {
                break;
            }
            visible.push(flags & NDK_OP_FLAG_SILENT_SUCCESS == 0);
        }
        visible
    }

    /// The numbers that have arrived, in order.
    fn arrived(&self, results: &[NDK_RESULT_EX]) -> Vec<usize> {
        let number = |result: &NDK_RESULT_EX| {
            assert_eq!(result.BytesTransferred as usize, BYTES);
            let (buffer, offset) = self.target(result.RequestContext.addr());
            let bytes = buffer.pages.read(offset, BYTES);
            usize::from_le_bytes(bytes.try_into().expect("8 bytes"))
        };
        succeeded(results).map(number).collect()
    }
}

fn succeeded(results: &[NDK_RESULT_EX]) -> impl Iterator<Item = &NDK_RESULT_EX> {
    results.iter().filter(|result| result.Status == STATUS_SUCCESS)
}

fn contexts(results: &[NDK_RESULT_EX]) -> Vec<usize> {
    results.iter().map(|result| result.RequestContext.addr()).collect()
}

fn drain(cq: &Cq) -> Vec<NDK_RESULT_EX> {
    let mut results = Vec::new();
    loop {
        let some = cq.poll(100);
        if some.is_empty() {
            return results;
        }
        results.extend(some);
    }
}

/// What crosses the sends.
fn disturb(side: &Side, memory: &Memory, random: &mut Random) {
    for _ in 0..random.below(30) {
        pause();
    }
    match random.below(6) {
        0 => side.qp.flush(),
        1 => (0..3).for_each(|_| {
            side.qp.flush();
            pause();
        }),
        2 => drop(side.connector.disconnect().wait()),
        3 => {
            let target = &memory.to[1];
            target.mr.deregister().succeed();
            // The memory is the consumer's own again.
            let before = target.pages.read(0, SENDS * BYTES);
            (0..10).for_each(|_| pause());
            assert_eq!(target.pages.read(0, SENDS * BYTES), before, "written after the deregistration");
        }
        4 => memory.from.mr.deregister().succeed(),
        _ => {}
    }
}

/// With `overruns`, the completion queues are too small for all. How many sends have arrived.
fn session(seed: u64, overruns: bool) -> usize {
    let world = World::seeded(seed);
    let mut random = Random::new(seed);
    let sizes = QpSizes { receives: SENDS as u32, requests: SENDS as u32, ..QpSizes::default() };
    let pair =
        Pair::with(&world.adapter, Options { sizes, cq_depth: if overruns { 24 } else { 256 }, ..Options::default() });
    let sides = [pair.active, pair.passive];
    let memory = [Memory::new(&sides[0]), Memory::new(&sides[1])];
    let seeds: Vec<u64> = (0..6).map(|_| random.below(1 << 30) as u64).collect();
    let (memories, seeds) = (&memory, &seeds);
    let posted = scope(|scope| {
        let posters = [0, 1].map(|index| {
            let (side, memory) = (&sides[index], &memories[index]);
            let receives = scope.spawn(move || memory.post_receives(side, &mut Random::new(seeds[index])));
            scope.spawn(move || disturb(side, memory, &mut Random::new(seeds[2 + index])));
            (receives, scope.spawn(move || memory.post_sends(side, &mut Random::new(seeds[4 + index]))))
        });
        posters.map(|(receives, sends)| (receives.join().expect("a receiver"), sends.join().expect("a sender")))
    });
    world.flush_dpcs();
    sides.iter().for_each(|side| side.connector.close_now());
    sides.iter().for_each(|side| side.qp.flush());
    world.flush_dpcs();
    let mut all = 0;
    for (index, (_, visible)) in posted.iter().enumerate() {
        let (sends, receives) = (drain(&sides[index].initiator_cq), drain(&sides[1 - index].receive_cq));
        // Each request that is not silent completes once, in order; a silent one only if it failed.
        let mut completed = contexts(&sends).into_iter().peekable();
        for (number, visible) in visible.iter().enumerate() {
            assert!(completed.next_if_eq(&number).is_some() || !visible || overruns, "seed {seed}: send {number}");
        }
        assert_eq!(completed.next(), None, "seed {seed}");
        let received = contexts(&receives);
        assert!(received.iter().copied().eq(0..received.len()), "seed {seed}: {received:?}");
        assert!(received.len() == posted[1 - index].0 || overruns, "seed {seed}: {}", received.len());
        // What was sent is what has arrived. A queue may have had no room for the completion of the last.
        let arrived = memories[1 - index].arrived(&receives);
        let sent: Vec<_> = succeeded(&sends).map(|result| result.RequestContext.addr()).collect();
        let of_visible: Vec<_> = arrived.iter().copied().filter(|&number| visible[number]).collect();
        let same = sent.iter().zip(&of_visible).all(|(sent, arrived)| sent == arrived);
        let all_reported = sent.len() == of_visible.len() || overruns && sent.len() <= of_visible.len() + 1;
        assert!(same && all_reported, "seed {seed}: {sent:?}, {of_visible:?}");
        assert!(arrived.is_sorted(), "seed {seed}: {arrived:?}");
        all += arrived.len();
    }
    for buffer in memory.into_iter().flat_map(|Memory { from, to: [one, two] }| [from, one, two]) {
        buffer.mr.close_now();
    }
    for side in sides {
        side.without_connector().close();
    }
    pair.listener.close_now();
    all
}

#[test]
fn both_sides_agree_about_what_has_arrived() {
    let arrived: Vec<_> = seeds(150).map(|seed| session(seed, false)).collect();
    let all = arrived.iter().filter(|&&arrived| arrived == 2 * SENDS).count();
    let some = arrived.iter().filter(|&&arrived| (1..2 * SENDS).contains(&arrived)).count();
    assert!(all > 0 && some > 0 || std::env::var("SOFTNDK_SEED").is_ok(), "{all} {some}");
}

#[test]
fn queues_overrun_in_the_middle() {
    let arrived: Vec<_> = seeds(50).map(|seed| session(seed, true)).collect();
    assert!(arrived.iter().all(|&arrived| arrived <= 2 * 24));
    assert!(arrived.iter().any(|&arrived| arrived > 24) || std::env::var("SOFTNDK_SEED").is_ok());
}

/// Sends behind a row with an overrun are not carried out, also if a send of the row is silent.
#[test]
fn nothing_is_sent_behind_a_row_that_overran_the_senders_queue() {
    const ROW: usize = 32;
    const MORE: usize = 4;
    let world = World::new();
    let sizes = QpSizes { receives: 64, requests: 128, ..QpSizes::default() };
    let pair = Pair::with(&world.adapter, Options { sizes, cq_depth: 40, ..Options::default() });
    let (active, passive) = (&pair.active, &pair.passive);
    (0..ROW + MORE).for_each(|number| assert_eq!(passive.qp.receive(number, &[]), STATUS_SUCCESS));
    // The sender's queue has room for one more completion.
    (0..39).for_each(|number| assert_eq!(active.qp.write(number, &[], 0, 0, 0), STATUS_SUCCESS));
    world.flush_dpcs();
    let memory = Memory::new(active);
    for number in 0..ROW + MORE {
        let silent = if number == 0 { NDK_OP_FLAG_SILENT_SUCCESS } else { 0 };
        let defer = if number + 1 < ROW + MORE { NDK_OP_FLAG_DEFER } else { 0 };
        assert_eq!(active.qp.send(number, &[memory.from.sge(0, 0)], silent | defer), STATUS_SUCCESS);
    }
    world.flush_dpcs();
    let received = drain(&passive.receive_cq);
    assert_eq!(succeeded(&received).count(), ROW);
    for buffer in [memory.from].into_iter().chain(memory.to) {
        buffer.mr.close_now();
    }
    pair.close();
}

/// The message whose completion overran the queue has arrived; the messages behind it, which were copied in one row with it, have not.
// Shows S1501.
#[test]
fn messages_that_an_overrun_keeps_out_are_not_counted() {
    const DEPTH: usize = 3;
    let world = World::new();
    let pair = Pair::with(&world.adapter, Options { cq_depth: DEPTH as u32, ..Options::default() });
    let (active, passive) = (&pair.active, &pair.passive);
    let memory = [Memory::new(active), Memory::new(passive)];
    for number in 0..2 * DEPTH {
        let (buffer, offset) = memory[1].target(number);
        assert_eq!(passive.qp.receive(number, &[buffer.sge(offset, BYTES)]), STATUS_SUCCESS);
    }
    let before = world.provider.counters();
    for number in 0..2 * DEPTH {
        let flags = if number + 1 < 2 * DEPTH { NDK_OP_FLAG_DEFER } else { 0 } | NDK_OP_FLAG_SILENT_SUCCESS;
        assert_eq!(active.qp.send(number, &[memory[0].from.sge(number * BYTES, BYTES)], flags), STATUS_SUCCESS);
    }
    world.flush_dpcs();
    let after = world.provider.counters();
    let frames = after.RDMAInFrames - before.RDMAInFrames;
    assert_eq!(frames, DEPTH as u64 + 1);
    assert_eq!(after.RDMAInOctets - before.RDMAInOctets, frames * BYTES as u64);
    assert_eq!(after.CQError, 1);
    for buffer in memory.into_iter().flat_map(|Memory { from, to: [one, two] }| [from, one, two]) {
        buffer.mr.close_now();
    }
    pair.close();
}
