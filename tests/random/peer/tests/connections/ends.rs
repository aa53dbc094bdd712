//! How connections end: by the peer in any moment and in any way, and by this side while the peer does what it likes.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use iwarp::{
    segment::{Segment, Tagged},
    terminate::{Cause, Terminate},
};
use peer::{
    device::{Inbox, Side},
    establish::{By, Connected, Scene},
    frames,
    raw::Raw,
};
use simkernel::{boot_seeded, scope};
use soft_rdma::{Adapter, Connector, Error, Outcome, Post, Remote, Status};

use crate::{pauses, play};

const CANCELED: Status = Err(Error::Canceled);

/// The device posts a read of 16 bytes.
fn reads(side: &Side) {
    let remote = Remote { address: 0x5000, token: 0x1234 };
    side.post(10, &[side.sge(0x8000, 16)], Post::Read(remote)).unwrap();
}

/// How the peer ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    Finishes,
    Resets,
}

/// In the middle of a message, or with a read unanswered, the peer's finish is not a graceful end.
// Shows S809.
#[test]
fn the_peer_goes() {
    type Before = fn(&Raw, &Side);
    let befores: [(&str, bool, Before); 10] = [
        ("nothing", true, |_, _| {}),
        ("a message", true, |raw, _| raw.send_frames([&frames::send(1, b"hello")])),
        ("a write", true, |raw, _| raw.send_frames([&frames::write(0, 0, &[])])),
        ("half a write", false, |raw, _| {
            let half = Segment::Write(Tagged { last: false, stag: 0, offset: 0 });
            raw.send_frames([&frames::ulpdu(&half, &[])]);
        }),
        ("half a length", false, |raw, _| raw.send(&[0])),
        ("half an FPDU", false, |raw, _| raw.send(&frames::fpdu(&frames::send(1, b"hello"), raw.crc.get())[..20])),
        ("all but a byte", false, |raw, _| {
            let frame = frames::fpdu(&frames::send(1, b"hello"), raw.crc.get());
            raw.send(&frame[..frame.len() - 1]);
        }),
        ("half a message", false, |raw, _| raw.send_frames([&frames::send_part(false, 1, 0, b"hello")])),
        ("half a message without data", false, |raw, _| raw.send_frames([&frames::send_part(false, 1, 0, &[])])),
        ("an open read", false, |raw, side| {
            reads(side);
            assert!(raw.ulpdu().is_some());
        }),
    ];
    for (name, whole, before) in befores {
        for goes in [Goes::Finishes, Goes::Resets] {
            play(6, |kernel, scene| {
                println!("{name}, {goes:?}");
                let (raw, side) = (scene.raw(), scene.side());
                side.receive(1, 0, 64);
                before(raw, side);
                pauses();
                let _taken_by_the_message = side.completions();
                side.receive(2, 0, 64);
                if goes == Goes::Finishes {
                    raw.finish()
                } else {
                    raw.reset()
                }
                let reason = side.disconnects.wait("the disconnect event");
                let graceful = whole && goes == Goes::Finishes;
                assert_eq!(reason, u32::from(!graceful), "after {name}");
                if graceful {
                    // The device ends the stream, as it can send nothing: the peer does not wait for the consumer.
                    assert_eq!(raw.rest(), (Vec::new(), Ok(())), "no Terminate");
                    // Until the consumer has had enough, its receives wait.
                    assert!(side.completions().is_empty());
                    let done = Inbox::default();
                    if Connector::disconnect(side.connector(), done.callback()) == Ok(Outcome::Pending) {
                        assert_eq!(done.wait("the disconnect"), Ok(()));
                    }
                    assert_eq!(side.completed(1).last(), Some(&(2, CANCELED)));
                } else {
                    assert!(side.completed(1).iter().all(|(_, status)| *status == CANCELED));
                }
                side.wait_for_end();
                kernel.flush_dpcs();
                assert!(side.disconnects.take().is_none(), "once");
            });
        }
    }
}

/// A message waits for its receive, and not more behind it than there is room for; the connection is dead: it does not wait any longer.
/// The clock stands still.
#[test]
fn the_peer_resets_behind_a_message_that_waits() {
    for behind in [0, 100, 2000] {
        play(6, |_, scene| {
            let (raw, side) = (scene.raw(), scene.side());
            raw.send_frames([&frames::send(1, b"hello"), &frames::send(2, &vec![0; behind])]);
            pauses();
            assert!(side.disconnects.take().is_none(), "it waits");
            raw.reset();
            assert_eq!(side.disconnects.wait("the disconnect event"), 1);
            side.wait_for_end();
        });
    }
}

/// The device never answers a Terminate with a Terminate, for any cause, in the RFC's order of bits or in siw's.
// Shows S809.
#[test]
fn the_peer_terminates() {
    let body = |cause| {
        let mut bytes = [0; 64];
        let count = Terminate { cause, headers: None }.emit(&mut bytes).unwrap();
        bytes[..count].to_vec()
    };
    let bodies = [
        body(Cause::LOCAL),
        body(Cause::NO_BUFFER),
        body(Cause::NO_BUFFER.swapped()),
        body(Cause { layer: 15, kind: 15, code: 255 }),
        // What it says is there is not.
        vec![0x11, 0, 0xE0, 0],
        vec![0x11],
        Vec::new(),
        vec![0xff; 200],
    ];
    for body in bodies {
        play(6, |_, scene| {
            let (raw, side) = (scene.raw(), scene.side());
            side.receive(1, 0, 64);
            reads(side);
            assert!(raw.ulpdu().is_some());
            let head = [0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0];
            raw.send_frames([&[&head[..], &body].concat()]);
            assert_eq!(side.disconnects.wait("the disconnect event"), 1);
            let mut completed = side.completed(2);
            completed.sort_by_key(|(context, _)| *context);
            assert_eq!(completed, [(1, CANCELED), (10, CANCELED)]);
            assert_eq!(raw.rest(), (Vec::new(), Ok(())), "no Terminate");
            side.wait_for_end();
        });
    }
}

/// The consumer disconnects: what was posted and sent is before the FIN, and no Terminate.
#[test]
fn this_side_disconnects() {
    play(6, |_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        side.receive(1, 0, 64);
        side.post(2, &[side.sge(0, 5)], Post::Send(None)).unwrap();
        assert_eq!(side.completed(1), [(2, Ok(()))]);
        let done = Inbox::default();
        if Connector::disconnect(side.connector(), done.callback()) == Ok(Outcome::Pending) {
            assert_eq!(done.wait("the disconnect"), Ok(()));
        }
        assert_eq!(side.completed(1), [(1, CANCELED)]);
        assert_eq!(raw.ulpdu(), Some(frames::send(1, &[0; 5])));
        assert_eq!(raw.rest(), (Vec::new(), Ok(())));
        // What the peer still sends is not looked at.
        raw.send_frames([&frames::send(9, b"late")]);
        raw.send(b"and this is no FPDU at all");
        raw.finish();
        pauses();
        assert!(side.disconnects.take().is_none(), "it was its own act");
    });
}

/// The peer does not finish: after five seconds it is reset.
// Shows S809.
#[test]
fn the_peer_does_not_finish() {
    play(6, |kernel, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let done = Inbox::default();
        if Connector::disconnect(side.connector(), done.callback()) == Ok(Outcome::Pending) {
            assert_eq!(done.wait("the disconnect"), Ok(()));
        }
        assert_eq!(raw.rest(), (Vec::new(), Ok(())));
        pauses();
        let sockets = kernel.ledger().open_sockets;
        kernel.advance(Duration::from_millis(4999));
        pauses();
        assert_eq!(kernel.ledger().open_sockets, sockets, "too early");
        kernel.advance(Duration::from_millis(1));
        pauses();
        assert_eq!(kernel.ledger().open_sockets, sockets - 1);
    });
}

/// An error of this side's, with a read of the peer unanswered: a Terminate says so (0, 0, 00).
#[test]
fn this_side_fails() {
    play(6, |_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        // A send of what is no memory.
        let mut nowhere = side.sge(0, 64);
        nowhere.token ^= 1;
        side.post(3, &[nowhere], Post::Send(None)).unwrap();
        assert_eq!(side.completed(1), [(3, Err(Error::AccessViolation))]);
        assert_eq!(side.disconnects.wait("the disconnect event"), 1);
        let head = [0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(raw.ulpdu(), Some([&head[..], &[0; 4]].concat()));
        assert_eq!(raw.rest(), (Vec::new(), Ok(())));
    });
}

/// A read's own token names no memory, which the device finds when the response arrives. The send behind the read is cancelled.
#[test]
fn a_read_fails_when_it_is_answered() {
    play(6, |_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let mut nowhere = side.sge(0x8000, 16);
        nowhere.token ^= 1;
        side.post(10, &[nowhere], Post::Read(Remote { address: 0x5000, token: 0x1234 })).unwrap();
        side.post(11, &[side.sge(0, 5)], Post::Send(None)).unwrap();
        assert!(raw.ulpdu().is_some(), "the read");
        assert_eq!(raw.ulpdu(), Some(frames::send(1, &[0; 5])));
        raw.send_frames([&frames::answer(true, 1, 0, &[b'a'; 16])]);
        assert_eq!(side.disconnects.wait("the disconnect event"), 1);
        assert_eq!(side.completed(2), [(10, Err(Error::AccessViolation)), (11, CANCELED)]);
        side.wait_for_end();
    });
}

/// The adapter is closed while the peer has not finished: the wait for the connection ends when that is reset.
#[test]
fn lingering_connections_are_waited_for() {
    let kernel = boot_seeded(1);
    kernel.hold_clock();
    let Scene { connected: Connected { raw: _raw, side }, adapter, .. } = Scene::new(By::Device, true);
    drop(side);
    let lingering = Adapter::close(adapter, &simkernel::passive());
    let over = AtomicBool::new(false);
    scope(|scope| {
        scope.spawn(|| {
            lingering.wait(&simkernel::passive());
            over.store(true, Ordering::SeqCst);
        });
        pauses();
        assert!(!over.load(Ordering::SeqCst));
        kernel.advance(Duration::from_secs(5));
    });
}
