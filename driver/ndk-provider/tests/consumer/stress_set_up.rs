//! Several threads at once: connects, accepts, rejects and closes cross each other.

use ndk_abi::status::STATUS_SUCCESS;
use simkernel::{lock_paused, scope, seeds};

use crate::kit::{Options, Random, Unconnected, World, loopback};

/// Connects, rejects and closes cross in every phase, from both sides.
// Shows S704.
#[test]
fn set_ups_are_given_up_in_every_phase() {
    let world = World::new();
    scope(|scope| {
        for number in 0..3 {
            let world = &world;
            scope.spawn(move || (0..150).for_each(|round| set_up(world, 1000 * number + round)));
        }
    });
    world.flush_dpcs();
    assert_eq!(world.provider.counters().ActiveConnection, 0);
}

/// Like `set_ups_are_given_up_in_every_phase`, with schedules that replay.
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
        // The connect may fail: the peer may have rejected it, or closed.
        if connect.wait() == STATUS_SUCCESS {
            connector.complete(None).wait();
        }
    }
    connector.close_now();
    connect.wait();
    let closing = listener.close();
    // The listener calls no event after this, once the running ones have returned.
    world.flush_dpcs();
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
