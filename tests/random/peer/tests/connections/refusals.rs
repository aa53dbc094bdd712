//! Terminates of the peer that refuse a request: the request that they name ends as it would in one device, all others are cancelled. A
//! Terminate that names no request of this side does no harm.

use iwarp::{
    segment::{Segment, Untagged},
    terminate::{Cause, MAX_BODY, Terminate},
};
use peer::{device::Side, establish::Scene, frames, raw::Raw};
use soft_rdma::{Error, Post, Remote, Status};

use crate::play;

const CANCELED: Status = Err(Error::Canceled);
const VIOLATION: Status = Err(Error::AccessViolation);
const REMOTE: Remote = Remote { address: 0x5000, token: 0x1234 };

/// The body of a Terminate for `ulpdu`.
fn body(cause: Cause, ulpdu: &[u8]) -> Vec<u8> {
    let mut bytes = [0; MAX_BODY];
    let count = Terminate::of(cause, ulpdu).emit(&mut bytes).unwrap();
    bytes[..count].to_vec()
}

/// The body as Linux siw sends it.
fn body_of_siw(cause: Cause, ulpdu: &[u8]) -> Vec<u8> {
    let mut bytes = body(cause, ulpdu);
    bytes[0] = bytes[0].rotate_left(4);
    bytes[2] = bytes[2].reverse_bits();
    bytes
}

fn terminate(raw: &Raw, body: &[u8]) {
    let segment = Segment::Terminate(Untagged { last: true, msn: 1, mo: 0 });
    raw.send_frames([&frames::ulpdu(&segment, body)]);
}

/// The device posts a read of 16 bytes; what it asks the peer.
fn read(raw: &Raw, side: &Side, context: usize) -> Vec<u8> {
    side.post(context, &[side.sge(0x8000, 16)], Post::Read(REMOTE)).unwrap();
    raw.ulpdu().expect("a read request")
}

/// How everything ends that was posted, in order; then the connection is over, without an answer to the Terminate.
fn ends(scene: &Scene, expected: &[(usize, Status)]) {
    let (raw, side) = (scene.raw(), scene.side());
    assert_eq!(side.disconnects.wait("the disconnect event"), 1);
    assert_eq!(side.completed(expected.len()), expected);
    side.wait_for_end();
    assert_eq!(raw.rest().1, Ok(()));
}

// Shows S806.
#[test]
fn a_read_is_refused() {
    let resources = Err(Error::RemoteResources);
    let causes = [
        (Cause::STAG, VIOLATION),
        (Cause::NOT_OF_STREAM, VIOLATION),
        (Cause::ACCESS, VIOLATION),
        (Cause::PROTECTION, VIOLATION),
        (Cause::BOUNDS, resources),
        (Cause::WRAP, resources),
        // Not the read's fault, or not said of it in full.
        (Cause::PROTECTED_FROM_INVALIDATION, CANCELED),
        (Cause::LOCAL, CANCELED),
        (Cause::STREAM, CANCELED),
        (Cause::NO_BUFFER, CANCELED),
        (Cause::TAGGED_BOUNDS, CANCELED),
        (Cause::CRC, CANCELED),
    ];
    for (cause, expected) in causes {
        for body in [body, body_of_siw] {
            play(4, |_, scene| {
                let (raw, side) = (scene.raw(), scene.side());
                let request = read(raw, side, 10);
                terminate(raw, &body(cause, &request));
                ends(scene, &[(10, expected)]);
                assert_eq!(side.pages.read(0x8000, 16), [0; 16]);
            });
        }
    }
}

/// The reads that were answered before the Terminate succeed, the others are cancelled.
// Shows S806.
#[test]
fn one_of_several_reads_is_refused() {
    play(4, |_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let requests = [10, 11, 12].map(|context| read(raw, side, context));
        raw.send_frames([&frames::answer(true, 1, 0, &[b'a'; 16])]);
        terminate(raw, &body(Cause::STAG, &requests[1]));
        ends(scene, &[(10, Ok(())), (11, VIOLATION), (12, CANCELED)]);
    });
    play(4, |_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let requests = [10, 11, 12].map(|context| read(raw, side, context));
        terminate(raw, &body(Cause::ACCESS, &requests[2]));
        ends(scene, &[(10, CANCELED), (11, CANCELED), (12, VIOLATION)]);
    });
}

/// A half of the read response has arrived.
#[test]
fn a_read_is_refused_in_the_middle() {
    play(4, |_, scene| {
        let (raw, side) = (scene.raw(), scene.side());
        let request = read(raw, side, 10);
        raw.send_frames([&frames::answer(false, 1, 0, &[b'a'; 8])]);
        terminate(raw, &body(Cause::STAG, &request));
        ends(scene, &[(10, VIOLATION)]);
    });
}

/// A send and a write are handed over, but not reported, as a read before them is not answered: any of the three may be refused.
#[test]
fn what_was_sent_behind_a_read_is_refused() {
    let refusals: [(Cause, usize, [Status; 4]); 3] = [
        (Cause::STAG, 0, [VIOLATION, CANCELED, CANCELED, CANCELED]),
        (Cause::UNTAGGED_TOO_LONG, 1, [CANCELED, Err(Error::DataError), CANCELED, CANCELED]),
        (Cause::TAGGED_STAG, 2, [CANCELED, CANCELED, VIOLATION, CANCELED]),
    ];
    for (cause, which, statuses) in refusals {
        play(4, |_, scene| {
            let (raw, side) = (scene.raw(), scene.side());
            let elsewhere = Remote { address: 0x9000, token: 0x1234 };
            let mut sent = vec![read(raw, side, 10)];
            side.post(11, &[side.sge(0, 64)], Post::Send(None)).unwrap();
            side.post(12, &[side.sge(0, 64)], Post::Write(elsewhere)).unwrap();
            side.post(13, &[side.sge(0, 64)], Post::Send(None)).unwrap();
            sent.extend((0..3).map(|_| raw.ulpdu().expect("what was posted")));
            terminate(raw, &body(cause, &sent[which]));
            let expected = [10, 11, 12, 13].into_iter().zip(statuses).collect::<Vec<_>>();
            ends(scene, &expected);
        });
    }
}

/// A send that is named ends as it would in one device only for what a receiver can say of it.
#[test]
fn a_send_is_refused() {
    let refused = Err(Error::DataError);
    let causes = [
        (Cause::UNTAGGED_TOO_LONG, refused),
        (Cause::NO_BUFFER, Err(Error::TimedOut)),
        (Cause::NOT_INVALIDATED, refused),
        (Cause::PROTECTED_FROM_INVALIDATION, refused),
        (Cause::STAG, refused),
        (Cause::ACCESS, refused),
        (Cause::NOT_OF_STREAM, refused),
        (Cause::PROTECTION, refused),
        (Cause::BOUNDS, CANCELED),
        (Cause::MESSAGE_NUMBER, CANCELED),
        (Cause::QUEUE, CANCELED),
        (Cause::STREAM, CANCELED),
        (Cause::TAGGED_STAG, CANCELED),
    ];
    for (cause, expected) in causes {
        play(4, |_, scene| {
            let (raw, side) = (scene.raw(), scene.side());
            read(raw, side, 10);
            side.post(11, &[side.sge(0, 64)], Post::Send(None)).unwrap();
            let send = raw.ulpdu().expect("the send");
            terminate(raw, &body(cause, &send));
            ends(scene, &[(10, CANCELED), (11, expected)]);
        });
    }
}

/// A Terminate for a write has the STag of the write, and an offset within it.
#[test]
fn only_the_write_that_is_named_is_refused() {
    let Remote { address, token } = REMOTE;
    let names = [
        (token, address, VIOLATION),
        (token, address + 63, VIOLATION),
        (token, address - 1, CANCELED),
        (token, address + 64, CANCELED),
        (token + 1, address, CANCELED),
    ];
    for (stag, offset, expected) in names {
        play(4, |_, scene| {
            let (raw, side) = (scene.raw(), scene.side());
            read(raw, side, 10);
            side.post(11, &[side.sge(0, 64)], Post::Write(REMOTE)).unwrap();
            assert!(raw.ulpdu().is_some(), "the write");
            terminate(raw, &body(Cause::TAGGED_STAG, &frames::write(stag, offset, &[])));
            ends(scene, &[(10, CANCELED), (11, expected)]);
        });
    }
}

/// The peer has read nothing, and what it refuses is more than the buffers of the stream take: a part of it is not sent yet.
#[test]
fn what_is_half_sent_is_refused() {
    let write = frames::write(REMOTE.token, REMOTE.address + 0x321, &[]);
    let send = frames::send_part(false, 1, 0x321, &[]);
    let refusals = [
        (Cause::TAGGED_STAG, &write, Error::AccessViolation),
        (Cause::ACCESS, &write, Error::AccessViolation),
        (Cause::UNTAGGED_TOO_LONG, &send, Error::DataError),
        (Cause::NO_BUFFER, &send, Error::TimedOut),
    ];
    for (cause, segment, error) in refusals {
        play(4, |kernel, scene| {
            let (raw, side) = (scene.raw(), scene.side());
            kernel.limit_in_flight(1000);
            let post = if *segment == write { Post::Write(REMOTE) } else { Post::Send(None) };
            side.post(20, &[side.sge(0, 0x10000); 8], post).unwrap();
            side.post(21, &[], Post::Send(None)).unwrap();
            kernel.flush_dpcs();
            terminate(raw, &body(cause, segment));
            ends(scene, &[(20, Err(error)), (21, CANCELED)]);
        });
    }
}

/// A Terminate that names what this side has not sent, or no more, or that is nothing at all.
// Shows S806.
#[test]
fn what_is_not_ours_is_not_refused() {
    let sink = |number: u32| {
        move |request: &[u8]| {
            let mut other = request.to_vec();
            other[18..22].copy_from_slice(&number.to_be_bytes());
            body(Cause::STAG, &other)
        }
    };
    /// Of a request of the device.
    type Body = Box<dyn Fn(&[u8]) -> Vec<u8>>;
    let mut bodies: Vec<(String, Body)> = vec![
        ("a read that is answered".to_owned(), Box::new(sink(1))),
        ("a read to come".to_owned(), Box::new(sink(3))),
        ("read 0".to_owned(), Box::new(sink(0))),
        ("the last read".to_owned(), Box::new(sink(u32::MAX))),
        ("another source".to_owned(), {
            Box::new(|request| {
                let mut other = request.to_vec();
                other[34] ^= 1;
                body(Cause::STAG, &other)
            })
        }),
        ("a write".to_owned(), Box::new(|_| body(Cause::TAGGED_STAG, &frames::write(0x1234, 0x5000, &[])))),
        ("a send".to_owned(), Box::new(|_| body(Cause::UNTAGGED_TOO_LONG, &frames::send(1, &[])))),
        ("an answer".to_owned(), Box::new(|_| body(Cause::TAGGED_STAG, &frames::answer(true, 2, 0, &[])))),
        ("nothing".to_owned(), Box::new(|_| Vec::new())),
        ("all ones".to_owned(), Box::new(|_| vec![0xff; 300])),
        ("headers that are not there".to_owned(), Box::new(|_| vec![0x01, 0, 0xE0, 0])),
        ("siw's headers that are not there".to_owned(), Box::new(|_| vec![0x10, 0, 0x07, 0])),
    ];
    for length in 0..MAX_BODY {
        let cut = move |request: &[u8]| body(Cause::STAG, request)[..length].to_vec();
        bodies.push((format!("{length} bytes of a body"), Box::new(cut)));
    }
    for (name, body) in &bodies {
        play(4, |_, scene| {
            println!("{name}");
            let (raw, side) = (scene.raw(), scene.side());
            read(raw, side, 10);
            raw.send_frames([&frames::answer(true, 1, 0, &[b'a'; 16])]);
            assert_eq!(side.completed(1), [(10, Ok(()))]);
            let request = read(raw, side, 11);
            side.receive(12, 0, 64);
            terminate(raw, &body(&request));
            ends(scene, &[(11, CANCELED), (12, CANCELED)]);
        });
    }
}
