//! Two machines: what a device does with another one over the network.

#![expect(unsafe_code, reason = "memory is promised to be valid, as a kernel consumer does")]

use std::ops::Range;

use platform::{Addresses, Cause, Notice};
use simkernel::{Pages, Session, SimKernel, boot_seeded, scope, seeds};
use soft_rdma::{
    Access, Completion, Connector, Counter, CounterValues, Error, FastRegistration, Flags, MemoryRegion, Outcome, Post,
    QueuePair, Remote, Sge, Status,
};

use crate::common::{
    Arc, BASE, HOST, LIMITS, OTHER_HOST, Side, accept, accepted_apart, accepted_by, machine, side_in, wait_until,
};

fn statuses(completions: &[Completion]) -> Vec<Status> {
    completions.iter().map(|completion| completion.status).collect()
}

/// The next completions.
fn completions(side: &Side, count: usize) -> Vec<Completion> {
    let found = std::cell::RefCell::new(Vec::new());
    wait_until(|| {
        found.borrow_mut().extend(side.completions());
        found.borrow().len() >= count
    });
    found.into_inner()
}

fn connected(kernel: &Session, pages: &Pages) -> (Side, Side) {
    let (active, passive) = accepted_apart(kernel, pages);
    complete_connect(&active, &passive);
    (active, passive)
}

/// Completes the connect, and waits until the passive side may send.
fn complete_connect(active: &Side, passive: &Side) {
    wait_until(|| match Connector::complete_connect(&active.connector, None) {
        Err(Error::ConnectionInvalid) => false,
        other => {
            assert_eq!(other, Ok(Outcome::Done));
            true
        }
    });
    let post = || QueuePair::post(&passive.queue_pair, 0, &[], Flags::SILENT_SUCCESS, Post::Send(None));
    active.queue_pair.post_receive(0, &[]).unwrap();
    wait_until(|| post() == Ok(()));
    assert_eq!(statuses(&completions(active, 1)), [Ok(())]);
}

/// Closes both sides, one after the other.
fn close(sides: (Side, Side)) {
    for side in [sides.0, sides.1] {
        let Side { connector, queue_pair, cq, pd, region, device: _ } = side;
        let _may_wait = soft_rdma::close(connector, crate::common::ignore());
        let _may_wait = soft_rdma::close(queue_pair, crate::common::ignore());
        drop((cq, pd, region));
    }
}

/// Plays `what` with two connected machines, many times.
fn play(what: impl Fn(&Side, &Side, &Pages)) {
    for seed in seeds(20) {
        println!("seed {seed}");
        let kernel = boot_seeded(seed);
        // Peers that are slow are not meant to be given up.
        kernel.hold_clock();
        let pages = Pages::new(64);
        let sides = connected(&kernel, &pages);
        what(&sides.0, &sides.1, &pages);
        close(sides);
        kernel.flush_dpcs();
    }
}

/// Waits until the queue pair is dead: it cancels what is posted.
fn ends(side: &Side) {
    wait_until(|| {
        let posted = QueuePair::post(&side.queue_pair, 3, &[], Flags::SILENT_SUCCESS, Post::Send(None));
        assert!(matches!(posted, Ok(()) | Err(Error::QueueFull)), "{posted:?}");
        statuses(&side.completions()).contains(&Err(Error::Canceled))
    });
}

/// A region of all pages with such rights, besides the side's own.
fn region(side: &Side, pages: &Pages, access: Access) -> Arc<MemoryRegion<SimKernel>> {
    let region = MemoryRegion::new(&side.pd, false).unwrap();
    MemoryRegion::register(&region, BASE, pages.size() as u64, access, crate::common::runs_of(pages)).unwrap();
    region
}

/// Posts on `from`, and waits until it is reported.
fn post(from: &Side, context: usize, sges: &[Sge], what: Post<'_, SimKernel>) -> Status {
    QueuePair::post(&from.queue_pair, context, sges, Flags::empty(), what).unwrap();
    let reported = completions(from, 1);
    assert_eq!(reported[0].request_context, context);
    reported[0].status
}

fn fill(pages: &Pages, range: Range<usize>, by: u8) {
    let bytes: Vec<u8> = range.clone().map(|place| (place as u8).wrapping_mul(31).wrapping_add(by)).collect();
    pages.write(range.start, &bytes);
}

// Shows S801.
#[test]
fn messages_go_both_ways() {
    play(|active, passive, pages| {
        for (from, to) in [(active, passive), (passive, active)] {
            fill(pages, 0..0x1800, 7);
            to.queue_pair.post_receive(2, &[to.sge(0x2000, 0x1000), to.sge(0x4000, 0x1000)]).unwrap();
            assert_eq!(post(from, 1, &[from.sge(0, 0x1000), from.sge(0x1000, 0x800)], Post::Send(None)), Ok(()));
            let received = completions(to, 1);
            assert_eq!((statuses(&received), received[0].bytes), (vec![Ok(())], 0x1800));
            assert_eq!(pages.read(0x2000, 0x1000), pages.read(0, 0x1000));
            assert_eq!(pages.read(0x4000, 0x800), pages.read(0x1000, 0x800));
        }
    });
}

const REMOTE: Access = Access::LOCAL_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_WRITE);

// Shows S801.
#[test]
fn writes_and_reads() {
    play(|active, passive, pages| {
        for (from, to) in [(active, passive), (passive, active)] {
            let target = region(to, pages, REMOTE);
            let remote = |offset: u64| Remote { address: BASE + offset, token: target.token() };
            fill(pages, 0..0x8000, 3);
            assert_eq!(post(from, 1, &[from.sge(0, 0x8000)], Post::Write(remote(0x10000))), Ok(()));
            // The write is placed when a later read is answered (RFC 5040 section 5.5).
            let back = [from.sge(0x20000, 0x3000), from.sge(0x24000, 0x5000)];
            assert_eq!(post(from, 2, &back, Post::Read(remote(0x10000))), Ok(()));
            assert_eq!(pages.read(0x10000, 0x8000), pages.read(0, 0x8000));
            assert_eq!(pages.read(0x20000, 0x3000), pages.read(0, 0x3000));
            assert_eq!(pages.read(0x24000, 0x5000), pages.read(0x3000, 0x5000));
            // Without data nothing is looked at.
            let nothing = Remote { address: 0, token: 0 };
            assert_eq!(post(from, 3, &[], Post::Write(nothing)), Ok(()));
            assert_eq!(post(from, 4, &[], Post::Read(nothing)), Ok(()));
        }
    });
}

/// Each device counts its data out and in: the bytes of sends, writes and read responses, and how many of these there were.
// Shows S1501.
#[test]
fn each_device_counts_what_it_sends_and_receives() {
    play(|active, passive, pages| {
        let target = region(passive, pages, REMOTE);
        let remote = Remote { address: BASE, token: target.token() };
        let counts = || {
            let read = || {
                let [near, far] = [active, passive].map(|side| side.device.counters().read());
                let gone = |of: CounterValues| (of[Counter::OutOctets], of[Counter::OutFrames]);
                let come = |of: CounterValues| (of[Counter::InOctets], of[Counter::InFrames]);
                ([gone(near), come(near)], [come(far), gone(far)])
            };
            // What one has sent the other has received; it is counted when it has been reported.
            wait_until(|| {
                let (near, far) = read();
                near == far
            });
            read().0
        };
        let [sent, returned] = counts();
        // One segment, and several.
        let sizes = [64, 0x12345];
        for (context, size) in sizes.into_iter().enumerate() {
            passive.queue_pair.post_receive(context, &[passive.sge(0x20000, size)]).unwrap();
            assert_eq!(post(active, 1, &[active.sge(0, size)], Post::Send(None)), Ok(()));
            assert_eq!(post(active, 2, &[active.sge(0, size)], Post::Write(remote)), Ok(()));
            assert_eq!(completions(passive, 1)[0].bytes, size);
        }
        let sizes = sizes.map(u64::from);
        let moved = 2 * sizes.iter().sum::<u64>();
        assert_eq!(counts(), [(sent.0 + moved, sent.1 + 4), returned]);
        for size in [64, 0x12345] {
            assert_eq!(post(active, 3, &[active.sge(0x20000, size)], Post::Read(remote)), Ok(()));
        }
        assert_eq!(counts(), [(sent.0 + moved, sent.1 + 4), (returned.0 + moved / 2, returned.1 + 2)]);
    });
}

/// A connect that cannot be completed, for want of memory, counts as a failed one.
// Shows S1501.
#[test]
fn a_connect_that_cannot_be_completed_has_failed() {
    for seed in seeds(20) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let pages = Pages::new(64);
        let sides = accepted_apart(&kernel, &pages);
        // The Reply arrives.
        (0..200).for_each(|_| simkernel::pause());
        let fault = kernel.fail_allocation(1);
        assert_eq!(Connector::complete_connect(&sides.0.connector, None), Err(Error::ConnectionAborted), "seed {seed}");
        assert!(fault.happened(), "seed {seed}");
        drop(fault);
        let failures = sides.0.device.counters().read()[Counter::ConnectFailures];
        assert_eq!(failures, 1, "seed {seed}");
        close(sides);
    }
}

/// The addresses in the list are TCP's; TCP has picked the active side's port.
// Shows S1304.
#[test]
fn connections_over_a_wire_are_listed_as_those_of_tcp() {
    play(|active, passive, _| {
        let [near, far] = [active, passive].map(|side| {
            let sides: Vec<_> = side.device.connections().collect();
            assert_eq!(sides.len(), 1);
            assert!(sides[0].over_tcp);
            (sides[0].local, sides[0].remote)
        });
        assert_eq!((near.1, near.0), far);
        assert_ne!(near.0.port(), 0);
    });
}

/// The consumer posts more when it sees the first completion of a flush, and so schedules the engine: what was posted before is cancelled, not sent.
#[test]
fn a_flush_cancels_all_that_was_posted_before() {
    play(|active, passive, _| {
        (1..8).for_each(|context| passive.queue_pair.post_receive(context, &[]).unwrap());
        // What is left of the connecting calls the engine, too.
        (0..200).for_each(|_| simkernel::pause());
        let post = |context, flags| QueuePair::post(&active.queue_pair, context, &[], flags, Post::Send(None)).unwrap();
        (1..7).for_each(|context| post(context, Flags::DEFER));
        let mut seen = Vec::new();
        scope(|scope| {
            scope.spawn(|| QueuePair::flush(&active.queue_pair));
            seen = completions(active, 1);
            post(7, Flags::empty());
        });
        seen.extend(completions(active, 7 - seen.len()));
        let canceled = Err(Error::Canceled);
        assert_eq!(statuses(&seen), [canceled, canceled, canceled, canceled, canceled, canceled, Ok(())]);
        assert_eq!(completions(passive, 1).len(), 1);
    });
}

/// More than may be under way, among sends, of which the last waits for all reads: all are reported in the order in which they were posted.
// Shows S808.
#[test]
fn reads_among_sends_are_reported_in_order() {
    play(|active, passive, pages| {
        let target = region(passive, pages, REMOTE);
        for context in [20, 21, 22] {
            passive.queue_pair.post_receive(context, &[passive.sge(0x20000, 64)]).unwrap();
        }
        let remote = Remote { address: BASE, token: target.token() };
        for (context, is_read) in [(1, true), (2, false), (3, true), (4, false), (5, true), (6, false)] {
            let sge = [active.sge(0x1000 * context, 64)];
            let what = if is_read { Post::Read(remote) } else { Post::Send(None) };
            let flags = if context == 6 { Flags::READ_FENCE } else { Flags::empty() };
            QueuePair::post(&active.queue_pair, context, &sge, flags, what).unwrap();
        }
        let reported = completions(active, 6);
        assert_eq!(
            reported.iter().map(|completion| completion.request_context).collect::<Vec<_>>(),
            [1, 2, 3, 4, 5, 6]
        );
        assert!(reported.iter().all(|completion| completion.status == Ok(())));
        let received = completions(passive, 3);
        assert_eq!(received.iter().map(|completion| completion.request_context).collect::<Vec<_>>(), [20, 21, 22]);
    });
}

/// Each read response reaches its own read.
#[test]
fn answers_of_reads_under_way_at_once() {
    play(|active, passive, pages| {
        let target = region(passive, pages, REMOTE);
        fill(pages, 0..0x4000, 9);
        let lengths = [0x100, 0x40, 0x1800, 0, 0x40];
        for (number, length) in lengths.into_iter().enumerate() {
            let remote = Remote { address: BASE + 0x800 * number as u64, token: target.token() };
            let sge = [active.sge(0x8000 + 0x2000 * number, length)];
            QueuePair::post(&active.queue_pair, number, &sge, Flags::empty(), Post::Read(remote)).unwrap();
        }
        let reported = completions(active, lengths.len());
        assert!(
            reported.iter().enumerate().all(|(number, read)| (read.request_context, read.status) == (number, Ok(())))
        );
        for (number, length) in lengths.into_iter().enumerate() {
            let (from, to) = (0x800 * number, 0x8000 + 0x2000 * number);
            assert_eq!(pages.read(to, length as usize), pages.read(from, length as usize), "read {number}");
            assert_eq!(pages.read(to + length as usize, 16), [0; 16], "behind read {number}");
        }
    });
}

/// A send that arrives before a receive is posted waits, as it does in one device.
#[test]
fn a_send_waits_for_a_receive() {
    play(|active, passive, _| {
        assert_eq!(post(active, 1, &[active.sge(0, 64)], Post::Send(None)), Ok(()), "it is handed over");
        (0..2_000).for_each(|_| simkernel::pause());
        passive.queue_pair.post_receive(2, &[passive.sge(0x2000, 64)]).unwrap();
        assert_eq!(statuses(&completions(passive, 1)), [Ok(())]);
    });
}

/// A send does not wait without end; its time begins with its own wait.
// Shows S807.
#[test]
fn a_send_does_not_wait_for_ever() {
    for seed in seeds(20) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let pages = Pages::new(64);
        let (active, passive) = connected(&kernel, &pages);
        active.queue_pair.post_receive(3, &[]).unwrap();
        let waits = |seconds| {
            assert_eq!(post(&active, 1, &[active.sge(0, 64)], Post::Send(None)), Ok(()), "it is handed over");
            (0..2_000).for_each(|_| simkernel::pause());
            for second in 0..seconds {
                assert!(active.completions().is_empty(), "seed {seed}: it still waits after {second} seconds");
                kernel.advance(std::time::Duration::from_secs(1));
                (0..200).for_each(|_| simkernel::pause());
            }
        };
        waits(4);
        passive.queue_pair.post_receive(2, &[passive.sge(0x2000, 64)]).unwrap();
        assert_eq!(statuses(&completions(&passive, 1)), [Ok(())]);
        waits(5);
        assert_eq!(statuses(&completions(&active, 1)), [Err(Error::Canceled)]);
        [&active, &passive].into_iter().for_each(ends);
        close((active, passive));
        kernel.flush_dpcs();
    }
}

// Shows S637.
#[test]
fn a_send_tells_what_it_invalidates_and_solicits() {
    play(|active, passive, _| {
        passive.queue_pair.post_receive(2, &[passive.sge(0x2000, 64)]).unwrap();
        let sge = [active.sge(0, 64)];
        QueuePair::post(&active.queue_pair, 1, &sge, Flags::SEND_AND_SOLICIT_EVENT, Post::Send(None)).unwrap();
        assert!(completions(passive, 1)[0].solicited);
    });
}

/// The peer's Send invalidates a region that another queue pair reads at that time: the invalidation waits, and the connection goes on.
#[test]
fn a_send_that_invalidates_a_region_in_use() {
    let hosts = [HOST, OTHER_HOST];
    for seed in seeds(60) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let pages = Pages::new(64);
        let machines = hosts.map(machine);
        let [near, far] = &machines;
        let (peer, owner) = accepted_by(&kernel, &pages, [near, far], hosts);
        complete_connect(&peer, &owner);
        let second = side_in(&owner.pd, far, Connector::new(far).unwrap(), &pages, None);
        let (second, its_peer) = accept(&kernel, &pages, second, near, [OTHER_HOST, HOST], LIMITS, |_| None);
        complete_connect(&second, &its_peer);
        let region = MemoryRegion::new(&owner.pd, true).unwrap();
        MemoryRegion::initialize_fast(&region, 64, true).unwrap();
        let logical: Vec<u64> =
            (0..16).map(|page| pages.address(page * 4096).expose_provenance().get() as u64).collect();
        // SAFETY: the pages outlive the region.
        let registration = unsafe { FastRegistration::new(&logical, 0, 0x10000, BASE, Access::REMOTE_READ) };
        assert_eq!(post(&owner, 1, &[], Post::FastRegister(&region, registration)), Ok(()));
        its_peer.queue_pair.post_receive(2, &[its_peer.sge(0x20000, 0x10000)]).unwrap();
        owner.queue_pair.post_receive(3, &[]).unwrap();
        scope(|scope| {
            scope.spawn(|| {
                let sge = Sge { address: BASE, length: 0x10000, token: region.token() };
                QueuePair::post(&second.queue_pair, 4, &[sge], Flags::empty(), Post::Send(None)).unwrap();
            });
            scope.spawn(|| {
                let invalidate = Post::Send(Some(region.token()));
                QueuePair::post(&peer.queue_pair, 5, &[], Flags::empty(), invalidate).unwrap();
            });
        });
        let received = completions(&owner, 1);
        assert_eq!(statuses(&received), [Ok(())], "seed {seed}");
        assert_eq!(received[0].invalidated_token, region.token());
        close((peer, owner));
        close((second, its_peer));
        kernel.flush_dpcs();
    }
}

/// An access that the peer may not make ends the connection. The Terminate says why: a read reports that cause; a write has succeeded
/// before.
#[test]
fn access_that_is_not_allowed() {
    type Wrong = fn(Remote) -> Post<'static, SimKernel>;
    let (violation, resources) = (Err(Error::AccessViolation), Err(Error::RemoteResources));
    let cases: [(Access, u64, Wrong, Status); 6] = [
        (REMOTE.difference(Access::REMOTE_WRITE), 0, Post::Write, Ok(())),
        (REMOTE.difference(Access::REMOTE_READ), 0, Post::Read, violation),
        (REMOTE, 64 * 4096 - 63, Post::Write, Ok(())),
        (REMOTE, 64 * 4096 - 63, Post::Read, resources),
        (REMOTE, u64::MAX - BASE - 10, Post::Write, Ok(())),
        (REMOTE, u64::MAX - BASE - 10, Post::Read, resources),
    ];
    for (access, offset, what, expected) in cases {
        play(|active, passive, pages| {
            let target = region(passive, pages, access);
            passive.queue_pair.post_receive(2, &[passive.sge(0x2000, 64)]).unwrap();
            let remote = Remote { address: BASE + offset, token: target.token() };
            QueuePair::post(&active.queue_pair, 1, &[active.sge(0, 64)], Flags::empty(), what(remote)).unwrap();
            assert_eq!(statuses(&completions(passive, 1)), [Err(Error::Canceled)]);
            assert_eq!(statuses(&completions(active, 1)), [expected]);
            ends(active);
        });
    }
}

/// The notices say which machine ended the connection, and why.
// Shows S1505.
#[test]
fn terminates_are_noticed() {
    for seed in seeds(20) {
        let kernel = boot_seeded(seed);
        kernel.hold_clock();
        let pages = Pages::new(64);
        let (active, passive) = connected(&kernel, &pages);
        kernel.keep_notices();
        passive.queue_pair.post_receive(2, &[passive.sge(0x2000, 64)]).unwrap();
        let nothing = Remote { address: BASE, token: 0 };
        QueuePair::post(&active.queue_pair, 1, &[active.sge(0, 64)], Flags::empty(), Post::Read(nothing)).unwrap();
        assert_eq!(statuses(&completions(&active, 1)), [Err(Error::AccessViolation)]);
        let ends =
            |side: &Side| Addresses { local: side.connector.local_address(), remote: side.connector.peer_address() };
        let (ours, theirs) = (ends(&active), ends(&passive));
        kernel.flush_dpcs();
        let notices = kernel.take_notices();
        let iwarp::terminate::Cause { layer, kind, code } = iwarp::terminate::Cause::STAG;
        let cause = Cause { layer, kind, code };
        let sent = Notice::TerminateSent { addresses: theirs, cause };
        let received = Notice::TerminateReceived { addresses: ours, cause };
        let place = |sought| notices.iter().position(|notice| *notice == sought);
        let places = place(sent).zip(place(received));
        assert!(places.is_some_and(|(sent, received)| sent < received), "seed {seed}: {notices:#?}");
        close((active, passive));
        kernel.flush_dpcs();
    }
}

#[test]
fn a_disconnect_is_seen_by_the_peer() {
    play(|active, passive, _| {
        for side in [active, passive] {
            side.queue_pair.post_receive(9, &[]).unwrap();
        }
        let disconnect = |side: &Side| Connector::disconnect(&side.connector, crate::common::ignore());
        assert!(disconnect(active).is_ok());
        assert_eq!(statuses(&completions(active, 1)), [Err(Error::Canceled)]);
        wait_until(|| passive.device.counters().read()[Counter::ActiveConnections] == 0);
        // The post is accepted, and its send is cancelled with the receive.
        QueuePair::post(&passive.queue_pair, 1, &[], Flags::SILENT_SUCCESS, Post::Send(None)).unwrap();
        assert!(passive.completions().is_empty(), "nothing is flushed before the consumer does");
        QueuePair::flush(&passive.queue_pair);
        let mut flushed = completions(passive, 2);
        flushed.sort_by_key(|completion| completion.request_context);
        assert_eq!(flushed.iter().map(|completion| completion.request_context).collect::<Vec<_>>(), [1, 9]);
        assert_eq!(statuses(&flushed), [Err(Error::Canceled); 2]);
        assert!(disconnect(passive).is_ok());
    });
}
