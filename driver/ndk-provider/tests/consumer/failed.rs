//! A connection that has failed transfers nothing, also if a disconnect had begun before the failure.

use ndk_abi::status::STATUS_SUCCESS;
use simkernel::{pause, scope, seeds};

use crate::kit::{Options, Pair, Random, Side, Unconnected, World, sge};

const MESSAGES: usize = 16;
/// SGEs of a message: with one, several messages go in one step, without any one by one.
const SGES: [usize; 2] = [1, 0];

/// A connection whose passive side has receives for all messages, and a queue for `reports` of them.
fn pair(world: &World, reports: u32) -> Pair {
    let active = Unconnected::new(&world.adapter, Pair::ACTIVE, Options::default());
    let passive = Unconnected::new(&world.adapter, Pair::PASSIVE, Options { cq_depth: reports, ..Options::default() });
    let pair = Pair::of(&world.adapter, active, passive, (4, 4));
    (0..MESSAGES).for_each(|context| assert_eq!(pair.passive.qp.receive(context, &[]), STATUS_SUCCESS));
    pair
}

/// The active side sends, while `disconnects` disconnects.
fn send(pair: &Pair, disconnects: &Side, seed: u64, posts: impl FnOnce()) {
    scope(|scope| {
        scope.spawn(|| {
            (0..Random::new(seed).below(40)).for_each(|_| pause());
            _ = disconnects.connector.disconnect().wait();
        });
        posts();
    });
    pair.active.qp.flush();
}

/// Nothing arrives whose completion would be lost, but for the message that makes the queue overrun.
#[test]
fn one_message_arrives_unreported() {
    const REPORTS: usize = 2;
    for (seed, sges) in seeds(300).flat_map(|seed| SGES.map(|sges| (seed, vec![sge(0, 0, 0); sges]))) {
        let world = World::seeded(seed);
        let pair = pair(&world, REPORTS as u32);
        send(&pair, &pair.passive, seed, || {
            (0..MESSAGES).for_each(|context| _ = pair.active.qp.send(context, &sges, 0));
        });
        world.flush_dpcs();
        let results = pair.active.initiator_cq.poll(MESSAGES);
        let sent = results.iter().filter(|result| result.Status == STATUS_SUCCESS).count();
        assert!(sent <= REPORTS + 1, "seed {seed}: {sent} sends");
        pair.close();
    }
}

/// What was posted behind a request that fails does not succeed.
#[test]
fn nothing_succeeds_after_a_failure() {
    for (seed, sges) in seeds(300).flat_map(|seed| SGES.map(|sges| (seed, vec![sge(0, 0, 0); sges]))) {
        let world = World::seeded(seed);
        let pair = pair(&world, 256);
        send(&pair, &pair.active, seed, || {
            _ = pair.active.qp.send(0, &[sge(0, 1, 0xBAD)], 0);
            (1..MESSAGES).for_each(|context| _ = pair.active.qp.send(context, &sges, 0));
        });
        world.flush_dpcs();
        let results = pair.active.initiator_cq.poll(MESSAGES);
        assert!(results.iter().all(|result| result.Status != STATUS_SUCCESS), "seed {seed}: {results:?}");
        assert!(pair.passive.receive_cq.poll(MESSAGES).iter().all(|result| result.Status != STATUS_SUCCESS));
        pair.close();
    }
}
