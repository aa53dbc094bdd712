//! Initiator requests that are posted when the connection has ended: they are taken, and cancelled.

use std::cell::Cell;

use ndk_abi::{
    ndkpi::{NDK_OP_FLAG_DEFER, NDK_OP_FLAG_INLINE, NDK_OP_FLAG_SILENT_SUCCESS},
    status::{
        NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_DATA_OVERRUN,
        STATUS_INVALID_DEVICE_REQUEST, STATUS_INVALID_PARAMETER_4, STATUS_NO_MORE_ENTRIES, STATUS_SUCCESS,
    },
    wdm::PAGE_SIZE,
};
use simkernel::{scope, seeds};

use crate::{
    bind::READ,
    fast_register::REMOTE,
    kit::{Buffer, FastRegion, Options, Pair, QpSizes, World, complain, sge},
};

/// A kind of request, posted with a context and flags.
type Post<'a> = (&'static str, Box<dyn Fn(usize, u32) -> NTSTATUS + 'a>);

/// Each kind of initiator request of a consumer that learns of the end only by its disconnect event (NDKPerf.sys asserts that
/// NdkWrite succeeds).
// Shows S921.
#[test]
fn requests_that_are_posted_after_the_end_are_cancelled() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let side = &pair.active;
    let (local, region) = (Buffer::full(&side.pd, 1), FastRegion::new(&world.adapter, &side.pd, 1, true));
    let mw = side.pd.create_mw().expect("a window");
    pair.active.disconnect();
    pair.passive.disconnected.wait_for(1);
    let (qp, small, large) = (side.qp, local.sge(0, 64), local.sge(0, PAGE_SIZE));
    let bytes = [7; 8];
    let inline = sge(bytes.as_ptr().expose_provenance() as u64, bytes.len(), 0);
    let kinds: [Post<'_>; 9] = [
        ("a send of nothing", Box::new(|context, flags| qp.send(context, &[], flags))),
        ("a small send", Box::new(|context, flags| qp.send(context, &[small], flags))),
        ("a send", Box::new(|context, flags| qp.send(context, &[large], flags))),
        ("inline data", Box::new(|context, flags| qp.send(context, &[inline], flags | NDK_OP_FLAG_INLINE))),
        ("a send with invalidation", Box::new(|context, flags| qp.send_and_invalidate(context, &[small], flags, 1))),
        ("a read", Box::new(|context, flags| qp.read(context, &[large], 0, 0, flags))),
        ("a write", Box::new(|context, flags| qp.write(context, &[large], 0, 0, flags))),
        ("a fast registration", Box::new(|context, flags| region.post(side, context, REMOTE | flags))),
        ("an invalidation", Box::new(|context, flags| qp.invalidate(context, &region.mr, flags))),
    ];
    for (what, post) in &kinds {
        for flags in [0, NDK_OP_FLAG_SILENT_SUCCESS, NDK_OP_FLAG_DEFER] {
            // More than the queue holds, as each is over at once.
            for context in 0..40 {
                assert_eq!(post(context, flags), STATUS_SUCCESS, "{what}");
                side.expect(context, STATUS_CANCELLED);
            }
        }
    }
    let bind = qp.bind(1, &mw, &local.mr, (local.base, 8), READ);
    assert_eq!(bind, STATUS_SUCCESS);
    side.expect(1, STATUS_CANCELLED);
    assert_eq!(qp.invalidate_window(2, &mw, 0), STATUS_SUCCESS);
    side.expect(2, STATUS_CANCELLED);
    // What needs no connection is checked as before.
    assert_eq!(qp.send(1, &[small; 20], 0), STATUS_DATA_OVERRUN);
    assert_eq!(qp.send(1, &[sge(0, usize::MAX >> 33, 0)], 0), STATUS_BUFFER_OVERFLOW);
    assert_eq!(qp.send(1, &[], 0x1000_0000), STATUS_INVALID_PARAMETER_4);
    assert_eq!(region.post(&pair.passive, 1, REMOTE), STATUS_ACCESS_VIOLATION, "a stranger's region");
    assert_eq!(qp.fast_register(1, &local.mr, &region.lam, 8, region.base, 0), STATUS_INVALID_DEVICE_REQUEST);
    world.flush_dpcs();
    world.assert_empty(&side.initiator_cq);
    drop(kinds);
    mw.close_now();
    region.close();
    local.close();
    pair.passive.disconnect();
    pair.close();
}

/// After the peer's disconnect nothing is flushed until the consumer does, and all is in the order of the posts.
// Shows S921.
#[test]
fn requests_that_are_posted_after_the_event_wait_for_the_flush() {
    let world = World::new();
    let sizes = QpSizes { requests: 4, ..QpSizes::default() };
    let pair = Pair::with(&world.adapter, Options { sizes, ..Options::default() });
    let side = &pair.passive;
    let region = FastRegion::new(&world.adapter, &side.pd, 1, true);
    // It waits, as the peer has no receive.
    assert_eq!(side.qp.send(0, &[], 0), STATUS_SUCCESS);
    world.flush_dpcs();
    pair.active.disconnect();
    side.disconnected.wait_for(1);
    let (mut next, mut cancelled) = (1, 0);
    for _ in 0..3 {
        for context in next..cancelled + 4 {
            let posted = match context % 4 {
                0 => side.qp.send(context, &[], 0),
                1 => side.qp.write(context, &[], 0, 0, NDK_OP_FLAG_SILENT_SUCCESS),
                2 => region.post(side, context, REMOTE),
                _ => side.qp.read(context, &[], 0, 0, NDK_OP_FLAG_DEFER),
            };
            assert_eq!(posted, STATUS_SUCCESS);
        }
        next = cancelled + 4;
        assert_eq!(side.qp.send(next, &[], 0), STATUS_NO_MORE_ENTRIES);
        world.flush_dpcs();
        world.assert_empty(&side.initiator_cq);
        side.qp.flush();
        (cancelled..next).for_each(|context| {
            side.expect(context, STATUS_CANCELLED);
        });
        cancelled = next;
    }
    assert_eq!(side.qp.send(next, &[], NDK_OP_FLAG_SILENT_SUCCESS), STATUS_SUCCESS);
    side.disconnect();
    side.expect(next, STATUS_CANCELLED);
    assert_eq!(side.qp.send(next + 1, &[], 0), STATUS_SUCCESS);
    side.expect(next + 1, STATUS_CANCELLED);
    region.close();
    pair.close();
}

/// A consumer posts while its disconnect, on another processor, cancels what it has posted before.
// Shows S921.
#[test]
fn posts_while_the_disconnect_flushes() {
    const POSTS: usize = 200;
    for seed in seeds(20) {
        let world = World::seeded(seed);
        let pair = Pair::with(&world.adapter, Options { cq_depth: 2 * POSTS as u32, ..Options::default() });
        let side = &pair.active;
        // All of them wait behind this one.
        assert_eq!(side.qp.send(0, &[], 0), STATUS_SUCCESS);
        let posted = scope(|scope| {
            let poster = scope.spawn(|| {
                let posts = (1..POSTS).filter(|&context| match side.qp.write(context, &[], 0, 0, 0) {
                    STATUS_SUCCESS => true,
                    status => {
                        assert_eq!(status, STATUS_NO_MORE_ENTRIES);
                        false
                    }
                });
                posts.collect::<Vec<_>>()
            });
            side.disconnect();
            poster.join().expect("the poster")
        });
        side.expect(0, STATUS_CANCELLED);
        for context in posted {
            side.expect(context, STATUS_CANCELLED);
        }
        world.flush_dpcs();
        world.assert_empty(&side.initiator_cq);
        pair.close();
    }
}

/// The flush of a disconnect frees a request, which ends the close of its region; the consumer posts more from that callback. The flush
/// cancels what was posted before it began; the engine cancels the new posts, after that.
#[test]
fn posts_in_the_middle_of_a_flush() {
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let side = &pair.active;
    let region = FastRegion::new(&world.adapter, &side.pd, 1, true);
    // It waits, as the peer has no receive.
    assert_eq!(side.qp.send(0, &[], 0), STATUS_SUCCESS);
    assert_eq!(region.post(side, 1, REMOTE), STATUS_SUCCESS);
    assert_eq!(side.qp.send(2, &[], 0), STATUS_SUCCESS);
    world.flush_dpcs();
    let close = region.mr.close();
    assert!(close.pended() && !close.is_done());
    let qp = side.qp;
    close.completion.on_call(move |_| {
        for context in 3..6 {
            if qp.write(context, &[], 0, 0, NDK_OP_FLAG_DEFER) != STATUS_SUCCESS {
                complain(format!("write {context} was refused"));
            }
        }
    });
    side.disconnect();
    close.succeed();
    (0..6).for_each(|context| {
        side.expect(context, STATUS_CANCELLED);
    });
    world.flush_dpcs();
    world.assert_empty(&side.initiator_cq);
    pair.close();
}

/// A post calls no callback: in the middle of a flush it cancels only its own request.
#[test]
fn a_post_in_the_middle_of_a_flush_gives_up_no_other_request() {
    // Each post schedules the engine, which may close the second region on another processor.
    thread_local!(static POSTS: Cell<bool> = const { Cell::new(false) });
    let world = World::new();
    let pair = Pair::new(&world.adapter);
    let side = &pair.active;
    let regions = [0, 1].map(|_| FastRegion::new(&world.adapter, &side.pd, 1, true));
    assert_eq!(side.qp.send(0, &[], 0), STATUS_SUCCESS);
    for (region, context) in regions.iter().zip(1..) {
        assert_eq!(region.post(side, context, REMOTE), STATUS_SUCCESS);
    }
    world.flush_dpcs();
    let [first, second] = regions.map(|region| region.mr.close());
    let qp = side.qp;
    first.completion.on_call(move |_| {
        POSTS.set(true);
        for context in 3..6 {
            if qp.send(context, &[sge(1, 8, 0)], 0) != STATUS_SUCCESS {
                complain(format!("send {context} was refused"));
            }
        }
        POSTS.set(false);
    });
    second.completion.on_call(|_| {
        if POSTS.get() {
            complain("a region was closed within a post".to_owned());
        }
    });
    side.disconnect();
    first.succeed();
    second.succeed();
    (0..6).for_each(|context| {
        side.expect(context, STATUS_CANCELLED);
    });
    world.flush_dpcs();
    world.assert_empty(&side.initiator_cq);
    pair.close();
}
