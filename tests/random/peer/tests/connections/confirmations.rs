//! A program's send or write over the wire ends when the peer has placed it, which the device learns from the answer to a read without
//! data behind it. A fenced request, also a kernel consumer's, waits for the answers to the reads before it.

use std::time::Duration;

use iwarp::{
    mpa::{Enhanced, FrameKind, Revision},
    segment::{Segment, Send, Untagged},
    terminate::{Cause, MAX_BODY, Terminate},
};
use peer::{
    device::{BASE, HOST, PORT, Side, machine_of_program},
    establish::{By, Connected, MakeSide, Scene, at, by_device},
    frames,
    raw::{Door, Raw},
};
use simkernel::{Session, boot_seeded, scope, seeds};
use soft_rdma::{Access, BindRange, Counter, Error, Flags, MemoryWindow, Post, QueuePair, Remote, Sge, Status};

const REMOTE: Remote = Remote { address: 0x5000, token: 0x1234 };
const CANCELED: Status = Err(Error::Canceled);
/// Fewer than the seconds that a message for a kernel consumer waits.
const SECONDS: u32 = 3;

/// Plays a test with connections of a program, begun by either side.
fn play(what: impl Fn(&Session, &Scene)) {
    play_with(SECONDS, what);
}

fn play_with(send_timeout: u32, what: impl Fn(&Session, &Scene)) {
    play_made(Side::new, send_timeout, what);
}

fn play_made(make: MakeSide, send_timeout: u32, what: impl Fn(&Session, &Scene)) {
    for seed in seeds(4) {
        for by in By::ALL {
            let kernel = boot_seeded(seed);
            kernel.hold_clock();
            let scene = Scene::on(machine_of_program(HOST, send_timeout), make, by, seed % 2 == 0);
            what(&kernel, &scene);
        }
    }
}

fn send(side: &Side, context: usize) {
    side.post(context, &[side.sge(0, 64)], Post::Send(None)).unwrap();
}

fn send_silently(side: &Side, context: usize) {
    let sges = [side.sge(0, 64)];
    QueuePair::post(side.queue_pair(), context, &sges, Flags::SILENT_SUCCESS, Post::Send(None)).unwrap();
}

fn next(raw: &Raw) -> Segment {
    Segment::parse(&raw.ulpdu().expect("an FPDU")).expect("a segment").0
}

/// The next FPDU is the send with this MSN.
fn is_send(raw: &Raw, msn: u32) {
    assert_eq!(next(raw), Segment::Send(Untagged { last: true, msn, mo: 0 }, Send::default()));
}

/// The next FPDU is a read of `size` bytes with this MSN, which is its tag, too.
fn is_read(raw: &Raw, msn: u32, size: u32) {
    let Segment::ReadRequest(untagged, request) = next(raw) else { panic!("no read request") };
    assert_eq!((untagged.msn, request.sink_stag, request.size), (msn, msn, size));
}

/// Answers a read.
fn answer(raw: &Raw, msn: u32, data: &[u8]) {
    raw.send_frames([&frames::answer(true, msn, 0, data)]);
}

/// The device sends nothing and reports nothing by itself.
fn is_quiet(kernel: &Session, raw: &Raw, side: &Side) {
    kernel.flush_dpcs();
    assert_eq!((raw.ulpdu_that_has_come(), side.completions().len()), (None, 0));
}

fn terminate(raw: &Raw, cause: Cause, ulpdu: &[u8]) {
    let mut bytes = [0; MAX_BODY];
    let count = Terminate::of(cause, ulpdu).emit(&mut bytes).unwrap();
    let segment = Segment::Terminate(Untagged { last: true, msn: 1, mo: 0 });
    raw.send_frames([&frames::ulpdu(&segment, &bytes[..count])]);
}

/// How everything ends that was posted, in order; then the connection is over.
fn ends(side: &Side, expected: &[(usize, Status)]) {
    assert_eq!(side.disconnects.wait("the disconnect event"), 1);
    assert_eq!(side.completed(expected.len()), expected);
    side.wait_for_end();
}

// Shows S954.
#[test]
fn sends_and_writes_end_when_the_peer_has_answered() {
    play(|kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        is_quiet(kernel, raw, side);
        answer(raw, 1, &[]);
        assert_eq!(side.completed(1), [(10, Ok(()))]);
        side.post(11, &[side.sge(0, 64)], Post::Write(REMOTE)).unwrap();
        assert!(matches!(next(raw), Segment::Write(_)));
        is_read(raw, 2, 0);
        is_quiet(kernel, raw, side);
        answer(raw, 2, &[]);
        assert_eq!(side.completed(1), [(11, Ok(()))]);
        is_quiet(kernel, raw, side);
    });
}

// Shows S955.
#[test]
fn one_read_at_a_time_confirms_all_before_it() {
    play(|kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        for context in 11..14 {
            send(side, context);
        }
        (2..5).for_each(|msn| is_send(raw, msn));
        is_quiet(kernel, raw, side);
        answer(raw, 1, &[]);
        assert_eq!(side.completed(1), [(10, Ok(()))]);
        is_read(raw, 2, 0);
        is_quiet(kernel, raw, side);
        answer(raw, 2, &[]);
        assert_eq!(side.completed(3), [(11, Ok(())), (12, Ok(())), (13, Ok(()))]);
        is_quiet(kernel, raw, side);
    });
}

/// Its completion is not asked for. Behind one that waits it keeps its place.
#[test]
fn a_silent_send_needs_no_confirmation() {
    play(|kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        // More than the queue is deep.
        for msn in 1..20 {
            send_silently(side, 0);
            is_send(raw, msn);
        }
        is_quiet(kernel, raw, side);
        send(side, 10);
        is_send(raw, 20);
        is_read(raw, 1, 0);
        send_silently(side, 11);
        is_send(raw, 21);
        is_quiet(kernel, raw, side);
        answer(raw, 1, &[]);
        assert_eq!(side.completed(1), [(10, Ok(()))]);
        is_quiet(kernel, raw, side);
    });
}

#[test]
fn the_answer_to_a_programs_read_confirms_too() {
    play(|kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        send(side, 11);
        is_send(raw, 2);
        side.post(12, &[side.sge(0x8000, 16)], Post::Read(REMOTE)).unwrap();
        is_read(raw, 2, 16);
        send(side, 13);
        is_send(raw, 3);
        answer(raw, 1, &[]);
        assert_eq!(side.completed(1), [(10, Ok(()))]);
        is_read(raw, 3, 0);
        is_quiet(kernel, raw, side);
        answer(raw, 2, &[b'a'; 16]);
        assert_eq!(side.completed(2), [(11, Ok(())), (12, Ok(()))]);
        assert_eq!(side.pages.read(0x8000, 16), [b'a'; 16]);
        is_quiet(kernel, raw, side);
        answer(raw, 3, &[]);
        assert_eq!(side.completed(1), [(13, Ok(()))]);
    });
}

/// The peer serves three reads at a time: the one without data is one of them.
// Shows S955.
#[test]
fn a_read_without_data_counts_against_the_peers_limit() {
    play(|kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        for context in 10..13 {
            side.post(context, &[side.sge(0x8000, 16)], Post::Read(REMOTE)).unwrap();
        }
        (1..4).for_each(|msn| is_read(raw, msn, 16));
        send(side, 13);
        is_send(raw, 1);
        is_quiet(kernel, raw, side);
        answer(raw, 1, &[b'a'; 16]);
        is_read(raw, 4, 0);
        side.post(14, &[side.sge(0x8000, 16)], Post::Read(REMOTE)).unwrap();
        kernel.flush_dpcs();
        assert_eq!(raw.ulpdu_that_has_come(), None);
        answer(raw, 2, &[b'b'; 16]);
        is_read(raw, 5, 16);
        answer(raw, 3, &[b'c'; 16]);
        answer(raw, 4, &[]);
        answer(raw, 5, &[b'd'; 16]);
        assert_eq!(side.completed(5), [10, 11, 12, 13, 14].map(|context| (context, Ok(()))));
    });
}

/// What was sent before it was placed.
// Shows S954.
#[test]
fn the_request_that_the_peer_refuses_ends_so() {
    let send = frames::send(2, &[0; 64]);
    let write = frames::write(REMOTE.token, REMOTE.address, &[0; 64]);
    let refusals = [
        (Cause::NO_BUFFER, &send, Error::TimedOut),
        (Cause::UNTAGGED_TOO_LONG, &send, Error::DataError),
        (Cause::TAGGED_STAG, &write, Error::AccessViolation),
        (Cause::TAGGED_BOUNDS, &write, Error::AccessViolation),
        (Cause::ACCESS, &write, Error::AccessViolation),
    ];
    for (cause, refused, error) in refusals {
        play(|_, scene| {
            let (raw, side) = (scene.raw(), scene.side());
            let post = |context, what| side.post(context, &[side.sge(0, 64)], what).unwrap();
            post(10, Post::Send(None));
            post(11, if *refused == send { Post::Send(None) } else { Post::Write(REMOTE) });
            post(12, Post::Send(None));
            let sent = (0..4).map(|_| raw.ulpdu().expect("three requests and a read")).collect::<Vec<_>>();
            assert!(sent.contains(refused));
            terminate(raw, cause, refused);
            ends(side, &[(10, Ok(())), (11, Err(error)), (12, CANCELED)]);
        });
    }
}

/// A silent one, too, if it still has its place.
#[test]
fn a_silent_send_that_the_peer_refuses_is_told() {
    play(|_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        send_silently(side, 11);
        is_send(raw, 2);
        terminate(raw, Cause::NO_BUFFER, &frames::send(2, &[0; 64]));
        ends(side, &[(10, Ok(())), (11, Err(Error::TimedOut))]);
    });
}

/// The read that confirms what is before it has a tag, too.
#[test]
fn a_read_behind_it_is_refused() {
    play(|_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        side.post(11, &[side.sge(0x8000, 16)], Post::Read(REMOTE)).unwrap();
        let request = raw.ulpdu().expect("the read");
        terminate(raw, Cause::STAG, &request);
        ends(side, &[(10, Ok(())), (11, Err(Error::AccessViolation))]);
    });
}

/// Linux siw refuses a read that arrives after its consumer has disconnected.
#[test]
fn a_terminate_that_names_no_request_refuses_nothing() {
    play(|_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        let confirmation = raw.ulpdu().expect("the read");
        terminate(raw, Cause::ACCESS, &confirmation);
        ends(side, &[(10, Ok(()))]);
    });
}

/// The consumer may post that receive only when its send has ended.
#[test]
fn a_message_that_waits_for_its_receive_holds_no_completion_back() {
    for make in [Side::new as MakeSide, Side::sharing] {
        play_made(make, SECONDS, |kernel, scene| {
            let (raw, side) = (scene.raw(), scene.side());
            send(side, 10);
            is_send(raw, 1);
            is_read(raw, 1, 0);
            raw.send_frames([&frames::send(1, b"held")]);
            answer(raw, 1, &[]);
            assert_eq!(side.completed(1), [(10, Ok(()))]);
            send(side, 11);
            is_send(raw, 2);
            assert_eq!(side.completed(1), [(11, Ok(()))]);
            side.receive(12, 0x8000, 64);
            assert_eq!(side.completed(1), [(12, Ok(()))]);
            kernel.flush_dpcs();
            // The peer takes the reads that the device has sent since: the next segment is the send below.
            while raw.ulpdu_that_has_come().is_some() {}
            send(side, 13);
            is_send(raw, 3);
        });
    }
}

/// The fault is this side's: it is told when what was sent before has ended.
#[test]
fn a_request_that_fails_here_waits_for_what_is_before_it() {
    let nowhere = |_: &Side| Sge { address: 0, length: 64, token: 0x4711 };
    play(|kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        side.post(11, &[nowhere(side)], Post::Send(None)).unwrap();
        is_send(raw, 1);
        is_read(raw, 1, 0);
        is_quiet(kernel, raw, side);
        answer(raw, 1, &[]);
        ends(side, &[(10, Ok(())), (11, Err(Error::AccessViolation))]);
    });
    // The device has sent a part of the message: the connection cannot wait.
    play(|_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        side.post(11, &[side.sge(0, 64), nowhere(side)], Post::Send(None)).unwrap();
        ends(side, &[(10, CANCELED), (11, Err(Error::AccessViolation))]);
    });
    // Without confirmations a fault behind what awaits the peer is not told: the flush cancels all.
    play_with(0, |_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        side.post(10, &[side.sge(0x8000, 16)], Post::Read(REMOTE)).unwrap();
        is_read(raw, 1, 16);
        side.post(11, &[nowhere(side)], Post::Send(None)).unwrap();
        ends(side, &[(10, CANCELED), (11, CANCELED)]);
    });
}

/// The peer has no part in a bind.
#[test]
fn a_bind_needs_no_confirmation() {
    play(|kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let region = side.region_of(&side.pd, Access::LOCAL_WRITE).unwrap();
        let window = MemoryWindow::new(&side.pd).unwrap();
        let bind_range = BindRange { address: BASE, length: 64, access: Access::REMOTE_READ };
        side.post(10, &[], Post::Bind(&window, &region, bind_range)).unwrap();
        assert_eq!(side.completed(1), [(10, Ok(()))]);
        is_quiet(kernel, raw, side);
    });
}

/// NDK_OP_FLAG_READ_FENCE: "all prior read requests must be complete before the hardware begins processing this request".
// Shows S213.
#[test]
fn a_fenced_send_waits_for_the_answer_to_a_read() {
    for send_timeout in [0, SECONDS] {
        play_with(send_timeout, |kernel, scene| {
            let (raw, side) = (scene.raw(), scene.side());
            side.post(10, &[side.sge(0x8000, 16)], Post::Read(REMOTE)).unwrap();
            is_read(raw, 1, 16);
            let sges = [side.sge(0, 64)];
            QueuePair::post(side.queue_pair(), 11, &sges, Flags::READ_FENCE, Post::Send(None)).unwrap();
            is_quiet(kernel, raw, side);
            answer(raw, 1, &[b'a'; 16]);
            is_send(raw, 1);
            assert_eq!(side.completed(1)[0], (10, Ok(())));
        });
    }
}

#[test]
fn a_peer_that_finishes_has_read_all() {
    play(|_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        send(side, 11);
        is_send(raw, 1);
        raw.finish();
        assert_eq!(side.disconnects.wait("the disconnect event"), 0);
        assert_eq!(side.completed(2), [(10, Ok(())), (11, Ok(()))]);
    });
}

/// It may be the peer's end after what it has received last: Linux siw resets a connection that it closes with our read unread.
#[test]
fn a_reset_refuses_nothing() {
    play(|_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        raw.reset();
        ends(side, &[(10, Ok(()))]);
    });
}

/// The peer's answers arrive while the consumer flushes: behind a cancelled request none succeeds, and the Terminate tells of no fault of the peer.
#[test]
fn answers_cross_a_flush() {
    for reads in [false, true] {
        for seed in seeds(60) {
            let kernel = boot_seeded(seed);
            kernel.hold_clock();
            let scene = Scene::on(machine_of_program(HOST, SECONDS), Side::new, By::Peer, false);
            let (raw, side) = (scene.raw(), scene.side());
            let answers = if reads {
                for context in 11..14 {
                    side.post(context, &[side.sge(0x8000, 16)], Post::Read(REMOTE)).unwrap();
                }
                (1..4).for_each(|msn| is_read(raw, msn, 16));
                (1..4).map(|msn| frames::answer(true, msn, 0, &[b'a'; 16])).collect()
            } else {
                send(side, 10);
                is_send(raw, 1);
                is_read(raw, 1, 0);
                (11..14).for_each(|context| send(side, context));
                (2..5).for_each(|msn| is_send(raw, msn));
                answer(raw, 1, &[]);
                assert_eq!(side.completed(1), [(10, Ok(()))]);
                is_read(raw, 2, 0);
                vec![frames::answer(true, 2, 0, &[])]
            };
            let queue_pair = side.queue_pair();
            scope(|scope| {
                scope.spawn(|| {
                    (0..seed % 16).for_each(|_| simkernel::pause());
                    QueuePair::flush(queue_pair);
                });
                raw.send_frames(&answers);
            });
            let completed = side.completed(3);
            let flushed = completed.iter().any(|(_, status)| *status == CANCELED);
            assert!(completed.is_sorted_by_key(|(_, status)| *status == CANCELED), "seed {seed}: {completed:?}");
            if flushed {
                assert_eq!(side.disconnects.wait("the disconnect event"), 1);
                let ulpdu = raw.ulpdu().expect("a Terminate");
                let (Segment::Terminate(_), body) = Segment::parse(&ulpdu).unwrap() else { panic!("no Terminate") };
                assert_eq!(Terminate::parse(body).expect("a Terminate").cause, Cause::LOCAL, "seed {seed}");
            }
        }
    }
}

/// The peer may have it, or not.
#[test]
fn a_flush_of_what_is_not_confirmed_ends_the_connection() {
    play(|_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        side.receive(11, 0x8000, 64);
        QueuePair::flush(side.queue_pair());
        ends(side, &[(10, CANCELED), (11, CANCELED)]);
    });
}

/// If Linux siw is sending when the read arrives, its read response has some bytes of its last send or write.
// Shows S955.
#[test]
fn bytes_in_the_answer_are_dropped() {
    play(|kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        let memory = side.pages.read(0, side.pages.size());
        raw.send_frames([&frames::answer(false, 1, 0, b"some")]);
        is_quiet(kernel, raw, side);
        raw.send_frames([&frames::answer(true, 1, 4, b"data")]);
        assert_eq!(side.completed(1), [(10, Ok(()))]);
        assert_eq!(side.connector().adapter().device().counters().value(Counter::InOctets), 0);
        assert!(side.pages.read(0, side.pages.size()) == memory, "a byte of the answer was placed");
        send(side, 11);
        is_send(raw, 2);
        is_read(raw, 2, 0);
        answer(raw, 2, &[]);
        assert_eq!(side.completed(1), [(11, Ok(()))]);
    });
}

#[test]
fn wrong_answers_end_the_connection() {
    let answers =
        [(frames::answer(true, 2, 0, &[]), Cause::TAGGED_STAG), (frames::answer(true, 0, 0, &[]), Cause::TAGGED_STAG)];
    for (wrong, cause) in answers {
        play(|_, scene| {
            let (raw, side) = (scene.raw(), scene.side());
            send(side, 10);
            is_send(raw, 1);
            is_read(raw, 1, 0);
            raw.send_frames([&wrong]);
            ends(side, &[(10, CANCELED)]);
            let ulpdu = raw.ulpdu().expect("a Terminate");
            let (Segment::Terminate(_), body) = Segment::parse(&ulpdu).unwrap() else { panic!("no Terminate") };
            assert_eq!(Terminate::parse(body).expect("a Terminate").cause, cause);
        });
    }
    // A second answer to one read, while a later send is not confirmed.
    play(|_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        send(side, 11);
        is_send(raw, 2);
        let answer = frames::answer(true, 1, 0, &[]);
        raw.send_frames([&answer, &answer]);
        ends(side, &[(10, Ok(())), (11, CANCELED)]);
    });
    // A second answer to one read.
    play(|_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        is_read(raw, 1, 0);
        answer(raw, 1, &[]);
        answer(raw, 1, &[]);
        ends(side, &[(10, Ok(()))]);
    });
}

/// `SendTimeout` 0.
// Shows S954.
#[test]
fn without_a_limit_a_send_ends_when_it_is_handed_to_tcp() {
    play_with(0, |kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        send(side, 10);
        is_send(raw, 1);
        assert_eq!(side.completed(1), [(10, Ok(()))]);
        is_quiet(kernel, raw, side);
    });
}

/// A peer that serves no reads cannot confirm anything.
#[test]
fn without_reads_a_send_ends_when_it_is_handed_to_tcp() {
    for seed in seeds(4) {
        let kernel = boot_seeded(seed);
        let door = Door::listen(at(PORT));
        let serves_none = Enhanced { inbound_reads: 0, outbound_reads: 0, ..Enhanced::default() };
        let reply = frames::plain(FrameKind::Reply, Revision::Two(Some(serves_none)));
        let Connected { raw, side } = by_device(&machine_of_program(HOST, SECONDS), &door, &reply);
        send(&side, 10);
        is_send(&raw, 1);
        assert_eq!(side.completed(1), [(10, Ok(()))]);
        is_quiet(&kernel, &raw, &side);
    }
}

/// The receiver's half: what a program has no receive for is refused after `SendTimeout`.
// Shows S954.
#[test]
fn a_program_holds_a_message_as_long_as_it_may_wait() {
    play(|kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        raw.send_frames([&frames::send(1, b"held")]);
        // What arrives behind the message does not begin its time anew.
        let pass = |seconds: u32| {
            for _ in 0..2 * seconds {
                raw.send_frames([&frames::write(1, 0, &[])]);
                kernel.flush_dpcs();
                (0..200).for_each(|_| simkernel::pause());
                kernel.advance(Duration::from_millis(500));
            }
            kernel.flush_dpcs();
        };
        pass(SECONDS - 1);
        assert_eq!(side.disconnects.take(), None, "before its time");
        pass(2);
        ends(side, &[]);
        let ulpdu = raw.ulpdu().expect("a Terminate");
        let (Segment::Terminate(_), body) = Segment::parse(&ulpdu).unwrap() else { panic!("no Terminate") };
        assert_eq!(Terminate::parse(body).expect("a Terminate").cause, Cause::NO_BUFFER);
    });
}
