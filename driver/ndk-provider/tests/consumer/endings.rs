//! Both sides end a connection at once, in all pairs of ways: the provider calls each callback exactly once, or not at all where the rule
//! says so.

use ndk_abi::status::{STATUS_CANCELLED, STATUS_CONNECTION_INVALID, STATUS_SUCCESS};
use simkernel::{scope, seeds};

use crate::kit::{HeldProcessors, Pair, Random, Request, Side, Waiter, World, loopback, sge};

/// What a side does to end its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Nothing,
    Disconnect,
    /// Two calls of NdkDisconnect, one after the other.
    DisconnectTwice,
    /// Closes the connector, connected as it is.
    Close,
    DisconnectAndClose,
    /// Writes where it must not: the connection is aborted.
    Abort,
    /// Flushes, which aborts what is half done.
    Flush,
}
use Way::*;

const WAYS: [Way; 7] = [Nothing, Disconnect, DisconnectTwice, Close, DisconnectAndClose, Abort, Flush];
const RECEIVES: usize = 3;

/// The requests that a side made to end its connection.
struct Ended {
    disconnects: Vec<Request>,
    close: Option<Request>,
}

fn end(side: &Side, way: Way, random: &mut Random) -> Ended {
    let mut ended = Ended { disconnects: Vec::new(), close: None };
    random.delay(300);
    if matches!(way, Disconnect | DisconnectTwice | DisconnectAndClose) {
        ended.disconnects.push(side.connector.disconnect());
        random.delay(100);
    }
    match way {
        DisconnectTwice => ended.disconnects.push(side.connector.disconnect()),
        Close | DisconnectAndClose => ended.close = Some(side.connector.close()),
        // Refused inline if the connection has ended by then.
        Abort => _ = side.qp.write(1000, &[sge(0, 1, 0xBAD)], 0, 0xBAD, 0),
        Flush => side.qp.flush(),
        Nothing | Disconnect => {}
    }
    ended
}

fn both_end(world: &World, ways: [Way; 2], seed: u64) {
    let pair = Pair::new(&world.adapter);
    let sides = [pair.active, pair.passive];
    for side in sides {
        (0..RECEIVES).for_each(|context| assert_eq!(side.qp.receive(context, &[]), STATUS_SUCCESS));
    }
    let [ours, theirs] = scope(|scope| {
        let ends = [0, 1].map(|index| {
            scope.spawn(move || end(&sides[index], ways[index], &mut Random::new(2 * seed + index as u64)))
        });
        ends.map(|end| end.join().expect("no panic"))
    });
    for ended in [&ours, &theirs] {
        // The first disconnect succeeds, even if the peer has ended the connection; after it there is no connection to disconnect.
        for (nth, disconnect) in ended.disconnects.iter().enumerate() {
            let status = disconnect.wait();
            let expected = if nth == 0 { STATUS_SUCCESS } else { STATUS_CONNECTION_INVALID };
            // A close cancels it if it still waits for accesses to memory.
            let cancelled = ended.close.is_some() && status == STATUS_CANCELLED;
            assert!(cancelled || status == expected, "{ways:?}, disconnect {nth}: {status}");
        }
        if let Some(close) = ended.close {
            close.succeed();
        }
    }
    world.flush_dpcs();
    check_events(sides[0].disconnected, ways, &ours);
    check_events(sides[1].disconnected, [ways[1], ways[0]], &theirs);
    for (side, ended) in sides.iter().zip([&ours, &theirs]) {
        if ended.close.is_none() {
            side.connector.close_now();
        }
    }
    world.flush_dpcs();
    for side in sides {
        // Each receive was flushed once.
        let results = side.receive_cq.poll(RECEIVES + 1);
        let contexts: Vec<_> = results.iter().map(|result| result.RequestContext.addr()).collect();
        assert_eq!(contexts, (0..RECEIVES).collect::<Vec<_>>(), "{ways:?}");
        assert!(results.iter().all(|result| result.Status == STATUS_CANCELLED), "{ways:?}: {results:?}");
        side.without_connector().close();
    }
    pair.listener.close_now();
}

/// Checks that the disconnect event was called, or not, as networkdirect-disconnect-scheme says.
fn check_events(event: &Waiter, [own, other]: [Way; 2], ended: &Ended) {
    let calls = event.calls();
    let ends = |way| !matches!(way, Nothing | Flush);
    let local = matches!(own, Disconnect | DisconnectTwice | Close | DisconnectAndClose);
    assert!(calls.len() <= 1, "{own:?} and {other:?}: {calls:?}");
    if !local && (ends(other) || own == Abort) {
        assert_eq!(calls.len(), 1, "{own:?} and {other:?}: somebody else ended it");
    }
    if !ends(other) && own != Abort {
        assert_eq!(calls.len(), 0, "{own:?} and {other:?}: nobody else ended it");
    }
    if let Some(call) = calls.first() {
        let aborted = [own, other].contains(&Abort);
        assert!(call.value == 0 || (call.value == 1 && aborted), "{own:?} and {other:?}: reason {}", call.value);
        // No event is called after the close.
        let close = ended.close.filter(|close| close.pended());
        assert!(close.is_none_or(|close| call.ended < Some(close.completion.calls()[0].begun)));
    }
}

// Shows S710.
#[test]
fn both_sides_end_in_every_order() {
    let ways = WAYS.len() as u64;
    for seed in seeds(4 * ways * ways) {
        let [ours, theirs] = [seed, seed / ways].map(|number| WAYS[(number % ways) as usize]);
        let world = World::seeded(seed);
        both_end(&world, [ours, theirs], seed);
        world.flush_dpcs();
        assert_eq!(world.provider.counters().ActiveConnection, 0, "{ours:?} and {theirs:?}");
    }
}

#[test]
fn both_sides_end_in_parallel() {
    let world = World::new();
    for round in 0..4 {
        for ours in WAYS {
            WAYS.into_iter().for_each(|theirs| both_end(&world, [ours, theirs], round));
        }
    }
    world.flush_dpcs();
    assert_eq!(world.provider.counters().ActiveConnection, 0);
}

/// The event is due, but not delivered, when the consumer itself disconnects: the provider does not deliver it.
#[test]
fn an_event_that_comes_too_late() {
    let world = World::new();
    for by_active in [true, false] {
        let pair = Pair::new(&world.adapter);
        let view = if by_active { pair } else { pair.swapped() };
        let held = HeldProcessors::new();
        let first = view.active.connector.disconnect();
        let second = view.passive.connector.disconnect();
        drop(held);
        first.succeed();
        second.succeed();
        world.flush_dpcs();
        assert_eq!((view.active.disconnected.count(), view.passive.disconnected.count()), (0, 0));
        pair.close();
    }
}

/// One side completes while the other disconnects or closes in the completion of its accept, or at once.
#[test]
fn the_last_step_and_the_end_cross() {
    for seed in seeds(200) {
        let world = World::seeded(seed);
        let mut random = Random::new(seed);
        let scene = crate::connector::Scene::new(&world);
        let connect = scene.connector.connect(&scene.active.qp, loopback(0), scene.remote(), (1, 1), &[]);
        let theirs = scene.listener.take();
        let events = ["disconnect event, active", "disconnect event, passive"].map(Waiter::deferred);
        let accept = theirs.accept_ex(&scene.passive.qp, (1, 1), &[], Some(events[1]));
        connect.succeed();
        let way = random.below(4);
        let (complete, end) = scope(|scope| {
            let (mut one, mut other) = (Random::new(seed * 2), Random::new(seed * 2 + 1));
            let connector = scene.connector;
            let complete = scope.spawn(move || {
                one.delay(200);
                connector.complete_ex(Some(events[0]))
            });
            let end = scope.spawn(move || {
                other.delay(200);
                match way {
                    0 => theirs.disconnect(),
                    1 => {
                        accept.wait();
                        theirs.disconnect()
                    }
                    _ => theirs.close(),
                }
            });
            (complete.join().expect("no panic"), end.join().expect("no panic"))
        });
        let (completed, ended, accepted) = (complete.wait(), end.wait(), accept.wait());
        world.flush_dpcs();
        let (active, passive) = (events[0].count(), events[1].count());
        let all = format!("{completed:?} {accepted:?} {ended:?}, {active} {passive} events, way {way}");
        assert_eq!(passive, 0, "its own act: {all}");
        match way {
            // Too early to disconnect: nothing ended.
            0 if ended == STATUS_CONNECTION_INVALID => {
                assert_eq!((completed, accepted, active), (STATUS_SUCCESS, STATUS_SUCCESS, 0), "{all}");
            }
            0 | 1 => assert_eq!((accepted, ended), (STATUS_SUCCESS, STATUS_SUCCESS), "{all}"),
            _ => assert!([STATUS_SUCCESS, STATUS_CANCELLED].contains(&accepted), "{all}"),
        }
        if ended == STATUS_SUCCESS {
            // The active side is told in one of two ways.
            assert_eq!(active, usize::from(completed == STATUS_SUCCESS), "{all}");
        }
        if way < 2 {
            theirs.close_now();
        } else if accepted == STATUS_CANCELLED {
            let live = world.session.ledger().live;
            let connectors = live.iter().filter(|live| live.place.file().ends_with("connect/connector/mod.rs"));
            assert_eq!(connectors.count(), 1, "the active side keeps nothing of the closed one: {all}");
        }
        scene.close(true);
    }
}
