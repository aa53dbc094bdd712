//! The device connects, and the peer does not do what it should.

use std::time::Duration;

use iwarp::mpa::{Enhanced, FrameKind, MpaFrame, Revision, RtrKinds};
use peer::{
    device::{HOST, Inbox, LIMITS, PORT, Side, machine},
    establish::{PAGES, at, connect},
    frames,
    raw::{Door, Raw},
};
use simkernel::Session;
use soft_rdma::{Connector, Error, Outcome, Status};

use super::{data, play};
use crate::pauses;

/// A connect whose Request the peer has received.
struct Asked {
    raw: Raw,
    side: Side,
    done: Inbox<Status>,
    door: Door,
}

fn ask() -> Asked {
    let adapter = machine(HOST);
    let door = Door::listen(at(PORT));
    let side = Side::new(Connector::new(&adapter).unwrap(), PAGES).unwrap();
    let done = Inbox::default();
    assert_eq!(connect(&side, &[], &done), Ok(Outcome::Pending));
    let raw = door.accept();
    assert!(raw.mpa_frame(FrameKind::Request).is_some());
    Asked { raw, side, done, door }
}

impl Asked {
    /// The connect fails; connector and queue pair are as before, for another attempt.
    fn fails(&self, error: Error) {
        assert_eq!(self.done.wait("the connect"), Err(error));
        assert_eq!(Connector::complete_connect(self.side.connector(), None), Err(Error::ConnectionInvalid));
        assert_eq!(connect(&self.side, b"again", &self.done), Ok(Outcome::Pending));
        let again = self.door.accept();
        let request = again.mpa_frame(FrameKind::Request).unwrap();
        assert!(request.ends_with(b"again"));
        again.send(&reply());
        assert_eq!(self.done.wait("the connect"), Ok(()));
        assert_eq!(Connector::complete_connect(self.side.connector(), None), Ok(Outcome::Done));
        assert_eq!(again.ulpdu(), Some(frames::write(1, 0, &[])));
    }
}

fn reply() -> Vec<u8> {
    frames::mpa_frame(&frames::plain(FrameKind::Reply, frames::enhanced(RtrKinds::WRITE)))
}

#[test]
fn what_is_no_reply() {
    let changed = |place: usize, to: u8| {
        let mut reply = reply();
        reply[place] = to;
        reply
    };
    let wrong = [
        ("the first byte", changed(0, b'm')),
        ("the last byte of the key", changed(15, b'f')),
        ("a Request", changed(9, b'q')),
        ("revision 0", changed(17, 0)),
        ("revision 3", changed(17, 3)),
        ("513 bytes", [&reply()[..18], &[2, 1], &[0; 513]].concat()),
        ("3 bytes", [&reply()[..18], &[0, 3], &[0; 3]].concat()),
        ("an HTTP reply", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    ];
    for (name, bytes) in wrong {
        play(|_| {
            println!("{name}");
            let asked = ask();
            asked.raw.send(&bytes);
            let (answer, ended) = asked.raw.rest();
            assert!(answer.is_empty() && ended.is_err(), "{name}: {answer:02x?}, {ended:?}");
            asked.fails(Error::ConnectionAborted);
        });
    }
}

/// A Terminate of MPA, and nothing else, before the end of the stream.
fn declined(raw: &Raw, code: u8) {
    let body = [0x20, code, 0, 0];
    let head = [0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0];
    assert_eq!(raw.ulpdu(), Some([&head[..], &body].concat()));
    assert_eq!(raw.rest(), (Vec::new(), Ok(())));
}

/// What it agrees to is nothing to go on with: it is told why (RFC 6581 section 9).
#[test]
fn replies_that_are_declined() {
    let reads = LIMITS.inbound as u16;
    let with = |enhanced| frames::plain(FrameKind::Reply, Revision::Two(Some(enhanced)));
    let more = Enhanced { inbound_reads: reads, outbound_reads: reads + 1, ..Enhanced::default() };
    let first = Enhanced { peer_to_peer: true, inbound_reads: reads, outbound_reads: reads, ..Enhanced::default() };
    let by = |rtr_kinds| with(Enhanced { rtr_kinds, ..first });
    let no_reads = Enhanced { rtr_kinds: RtrKinds::READ, inbound_reads: 0, ..first };
    let plain = frames::plain(FrameKind::Reply, Revision::One);
    let cases = [
        (MpaFrame { markers: true, ..plain }, 4),
        (MpaFrame { markers: true, ..with(first) }, 4),
        (with(more), 6),
        (by(RtrKinds::SEND), 7),
        (by(RtrKinds::empty()), 7),
        (with(no_reads), 7),
    ];
    for (reply, code) in cases {
        for crc in [false, true] {
            play(|_| {
                let asked = ask();
                asked.raw.crc.set(crc);
                asked.raw.send(&frames::mpa_frame(&MpaFrame { crc, ..reply }));
                declined(&asked.raw, code);
                asked.fails(Error::ConnectionAborted);
            });
        }
    }
}

#[test]
fn a_reject() {
    for revision in [Revision::One, Revision::Two(None), frames::enhanced(RtrKinds::WRITE)] {
        for length in [0, 2, 508] {
            play(|_| {
                let asked = ask();
                let theirs = data(length);
                let reply =
                    MpaFrame { reject: true, private_data: &theirs, ..frames::plain(FrameKind::Reply, revision) };
                asked.raw.send(&frames::mpa_frame(&reply));
                assert!(asked.raw.rest().0.is_empty());
                simkernel::pause();
                assert_eq!(asked.side.connector().connection_data(|_, data| data.to_vec()), theirs);
                asked.fails(Error::ConnectionRefused);
            });
        }
    }
}

/// Its program accepts when it likes: no time is too long, until the consumer gives up.
// Shows T37.
#[test]
fn a_silent_peer() {
    for length in [0, 1, 19, 23] {
        play(|kernel| {
            let asked = ask();
            asked.raw.send(&reply()[..length]);
            pauses();
            kernel.advance(Duration::from_secs(3600));
            pauses();
            assert_eq!((asked.done.take(), asked.raw.ended()), (None, None));
            if length == 0 {
                asked.raw.send(&reply());
                assert_eq!(asked.done.wait("the connect"), Ok(()));
            } else {
                drop(asked.side);
                assert_eq!(asked.done.wait("the connect"), Err(Error::Canceled));
                assert!(matches!(asked.raw.rest(), (answer, Err(_)) if answer.is_empty()));
            }
        });
    }
}

#[test]
fn it_goes_before_the_reply() {
    for length in [0, 1, 23] {
        for finishes in [true, false] {
            play(|_| {
                let asked = ask();
                asked.raw.send(&reply()[..length]);
                if finishes {
                    asked.raw.finish()
                } else {
                    asked.raw.reset()
                }
                asked.fails(Error::ConnectionAborted);
            });
        }
    }
}

/// It has accepted; the consumer has not completed.
fn replied(what: impl Fn(&Session, &Asked)) {
    play(|kernel| {
        let asked = ask();
        asked.raw.send(&reply());
        assert_eq!(asked.done.wait("the connect"), Ok(()));
        what(kernel, &asked);
    });
}

#[test]
fn it_goes_before_the_consumer_completes() {
    let ways: [fn(&Raw); 3] = [Raw::finish, Raw::reset, |raw| raw.send(b"?")];
    for (number, way) in ways.into_iter().enumerate() {
        replied(|kernel, asked| {
            way(&asked.raw);
            if number == 1 {
                pauses();
                kernel.flush_dpcs();
            } else {
                assert!(asked.raw.rest().0.is_empty());
            }
            let completed = Connector::complete_connect(asked.side.connector(), None);
            assert_eq!(completed, Err(Error::ConnectionAborted));
        });
    }
}

/// It has time.
#[test]
fn the_consumer_completes_late_or_never() {
    replied(|kernel, asked| {
        pauses();
        kernel.advance(Duration::from_secs(60));
        pauses();
        assert_eq!(asked.raw.ended(), None);
        assert_eq!(asked.raw.has_come(), 0);
        assert_eq!(Connector::complete_connect(asked.side.connector(), None), Ok(Outcome::Done));
        assert_eq!(asked.raw.ulpdu(), Some(frames::write(1, 0, &[])));
    });
    replied(|_, asked| {
        assert_eq!(Connector::reject(asked.side.connector(), b"no"), Ok(()));
        assert!(matches!(asked.raw.rest(), (answer, _) if answer.is_empty()));
    });
    replied(|_, asked| {
        let side = Side::new(Connector::new(asked.side.connector().adapter()).unwrap(), 1).unwrap();
        drop(side);
        assert_eq!(asked.raw.ended(), None, "another's close");
    });
}
