//! The device listens, and the peer does not do what it should.

use std::{cell::Cell, time::Duration};

use iwarp::mpa::{FrameKind, MpaFrame, RtrKinds};
use peer::{
    Arc,
    device::{HOST, Inbox, Listening, Side, machine, machine_of_program},
    establish::{DEVICE, PAGES, accept, at, by_peer},
    frames,
    raw::Raw,
};
use simkernel::{Session, SimKernel, scope};
use soft_rdma::{Adapter, Connector, Error, Outcome, Status};

use super::{device_posts, peer_receives, peer_sends, play, play_often};
use crate::pauses;

fn request() -> Vec<u8> {
    frames::mpa_frame(&frames::plain(FrameKind::Request, frames::enhanced(RtrKinds::WRITE)))
}

/// The listener serves another peer as before.
fn others_are_served(listening: &Listening) {
    let request = frames::plain(FrameKind::Request, frames::enhanced(RtrKinds::WRITE));
    let connected = by_peer(listening, &request, Some(&frames::write(1, 0, &[])));
    peer_sends(&connected, 1);
    device_posts(&connected.side);
    peer_receives(&connected, 1);
}

/// The device closes each connection without an answer; a consumer that got the request of one cannot accept it.
// Shows T37.
#[test]
fn what_is_no_request() {
    let changed = |place: usize, to: u8| {
        let mut request = request();
        request[place] = to;
        request
    };
    let wrong = [
        ("the first byte", changed(0, b'm')),
        ("the last byte of the key", changed(15, b'f')),
        ("a Reply", changed(9, b'p')),
        ("revision 0", changed(17, 0)),
        ("revision 3", changed(17, 3)),
        ("R", changed(16, 0x30)),
        ("513 bytes", [&request()[..18], &[2, 1], &[0; 513]].concat()),
        ("65535 bytes", [&request()[..18], &[0xff, 0xff], &[0; 600]].concat()),
        ("3 bytes", [&request()[..18], &[0, 3], &[0; 3]].concat()),
        ("one byte behind it", [request(), vec![0]].concat()),
        ("an FPDU behind it", [request(), frames::fpdu(&frames::write(1, 0, &[]), false)].concat()),
        ("another one behind it", [request(), request()].concat()),
        ("an HTTP request", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n".to_vec()),
    ];
    let refused_unseen = Cell::new(0);
    for (name, bytes) in wrong {
        play(|kernel| {
            println!("{name}");
            let adapter = machine(HOST);
            let listening = Listening::new(&adapter).unwrap();
            let raw = Raw::connect(at(0), DEVICE);
            // The bytes behind a Request may arrive after the connect event: then the accept is aborted.
            raw.send(&bytes);
            let (answer, ended) = raw.rest();
            assert!(answer.is_empty() && ended.is_err(), "{name}: {answer:02x?}, {ended:?}");
            kernel.flush_dpcs();
            if let Some(connector) = listening.incoming.take() {
                assert!(name.contains("behind"), "{name}");
                let side = Side::new(connector, PAGES).unwrap();
                assert_eq!(accept(&side, &[], &Inbox::default()), Err(Error::ConnectionAborted));
            } else if name.contains("behind") {
                refused_unseen.set(refused_unseen.get() + 1);
            }
            others_are_served(&listening);
        });
    }
    // If the bytes behind a Request arrive with it, there is no connect event.
    assert!(refused_unseen.get() > 0 || std::env::var("SOFTNDK_SEED").is_ok());
}

/// It sends a part of its Request, and no more.
// Shows T37.
#[test]
fn half_a_request() {
    for length in [0, 1, 16, 19, 20, 23] {
        let begin = |_: &Session| {
            let adapter = machine(HOST);
            let listening = Listening::new(&adapter).unwrap();
            let raw = Raw::connect(at(0), DEVICE);
            raw.send(&request()[..length]);
            pauses();
            (listening, raw)
        };
        play(|kernel| {
            let (listening, raw) = begin(kernel);
            kernel.advance(Duration::from_millis(4999));
            pauses();
            assert_eq!(raw.ended(), None, "too early");
            kernel.advance(Duration::from_millis(1));
            assert!(matches!(raw.rest(), (answer, Err(_)) if answer.is_empty()));
            others_are_served(&listening);
            assert!(listening.incoming.take().is_none());
        });
        for finishes in [true, false] {
            play(|kernel| {
                let (listening, raw) = begin(kernel);
                if finishes {
                    raw.finish()
                } else {
                    raw.reset()
                }
                assert!(finishes.then(|| raw.rest()).is_none_or(|(answer, _)| answer.is_empty()));
                others_are_served(&listening);
                assert!(listening.incoming.take().is_none());
            });
        }
    }
}

/// The last byte of a Request that is refused arrives just when its time runs out: the device either refuses it, or closes the connection
/// as late, but never begins to refuse it and then closes by the timer of the Request.
#[test]
fn a_request_at_the_last_moment() {
    let markers = MpaFrame { markers: true, ..frames::plain(FrameKind::Request, frames::enhanced(RtrKinds::WRITE)) };
    let (request, mut refused) = (frames::mpa_frame(&markers), 0);
    play_often(100, |kernel| {
        let adapter = machine(HOST);
        let _listening = Listening::new(&adapter).unwrap();
        let raw = Raw::connect(at(0), DEVICE);
        pauses();
        // All but a byte.
        raw.send(&request[..request.len() - 1]);
        pauses();
        kernel.advance(Duration::from_millis(4999));
        scope(|scope| {
            scope.spawn(|| kernel.advance(Duration::from_millis(1)));
            raw.send(&request[request.len() - 1..]);
        });
        let (answer, ended) = raw.rest();
        assert_eq!(answer.is_empty(), ended.is_err(), "{answer:02x?}, {ended:?}");
        refused += u32::from(ended.is_ok());
    });
    println!("{refused} were refused in time");
}

/// How a peer ends, or sends too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    Finishes,
    Resets,
    Speaks,
}

impl Goes {
    const ALL: [Self; 3] = [Self::Finishes, Self::Resets, Self::Speaks];

    fn go(self, raw: &Raw) {
        match self {
            Self::Finishes => raw.finish(),
            Self::Resets => raw.reset(),
            Self::Speaks => raw.send(b"?"),
        }
    }
}

/// While the consumer thinks.
#[test]
fn it_goes_before_the_accept() {
    for goes in Goes::ALL {
        play(|_| {
            let adapter = machine(HOST);
            let listening = Listening::new(&adapter).unwrap();
            let raw = Raw::connect(at(0), DEVICE);
            raw.send(&request());
            let side = Side::new(listening.incoming.wait("the request"), PAGES).unwrap();
            goes.go(&raw);
            // Until the device has noticed, an accept is taken, and then fails.
            if goes == Goes::Resets {
                pauses();
            } else {
                assert!(raw.rest().0.is_empty());
            }
            let done = Inbox::default();
            match accept(&side, &[], &done) {
                Ok(Outcome::Pending) => assert_eq!(done.wait("the accept"), Err(Error::ConnectionAborted)),
                other => assert_eq!(other, Err(Error::ConnectionAborted)),
            }
            assert!(matches!(Connector::reject(side.connector(), &[]), Err(Error::ConnectionAborted)));
            others_are_served(&listening);
        });
    }
}

/// It was accepted, and does not send what it has to send first.
#[test]
fn it_goes_after_the_accept() {
    for goes in [Goes::Finishes, Goes::Resets] {
        play(|_| {
            let adapter = machine(HOST);
            let listening = Listening::new(&adapter).unwrap();
            let raw = Raw::connect(at(0), DEVICE);
            raw.send(&request());
            let side = Side::new(listening.incoming.wait("the request"), PAGES).unwrap();
            side.receive(1, 0, 1);
            let done = Inbox::default();
            assert_eq!(accept(&side, &[], &done), Ok(Outcome::Pending));
            goes.go(&raw);
            assert_eq!(done.wait("the accept"), Err(Error::ConnectionAborted));
            others_are_served(&listening);
            assert!(side.disconnects.take().is_none(), "it was not connected");
        });
    }
}

/// The consumer has accepted, the initiator has the Reply, and the device waits for its first message.
fn accepting(adapter: &Arc<Adapter<SimKernel>>) -> (Listening, Raw, Side, Inbox<Status>) {
    let listening = Listening::new(adapter).unwrap();
    let raw = Raw::connect(at(0), DEVICE);
    raw.send(&request());
    let side = Side::new(listening.incoming.wait("the request"), PAGES).unwrap();
    let done = Inbox::default();
    assert_eq!(accept(&side, &[], &done), Ok(Outcome::Pending));
    assert!(raw.mpa_frame(FrameKind::Reply).is_some());
    (listening, raw, side, done)
}

// Shows T37.
#[test]
fn it_is_silent_after_the_accept() {
    // Nothing; the half of an FPDU.
    for length in [0, 1, 10] {
        play(|kernel| {
            let (_listening, raw, _side, done) = accepting(&machine(HOST));
            raw.send(&frames::fpdu(&frames::write(1, 0, &[]), false)[..length]);
            pauses();
            kernel.advance(Duration::from_millis(9999));
            pauses();
            assert_eq!(done.take(), None, "too early");
            kernel.advance(Duration::from_millis(1));
            assert_eq!(done.wait("the accept"), Err(Error::ConnectionAborted));
            assert!(raw.rest().1.is_err());
        });
    }
}

/// IND2Connector::CompleteConnect has no limit of time; a program may cancel its Accept.
// Shows N90.
#[test]
fn it_takes_its_time_after_the_accept_of_a_program() {
    for (send_timeout, completes) in [(0, true), (4, true), (4, false)] {
        play(|kernel| {
            let (_listening, raw, side, done) = accepting(&machine_of_program(HOST, send_timeout));
            pauses();
            kernel.advance(Duration::from_secs(3600));
            pauses();
            assert_eq!(done.take(), None, "the accept is over");
            if completes {
                raw.send_frames([&frames::write(1, 0, &[])]);
                assert_eq!(done.wait("the accept"), Ok(()));
            } else {
                Connector::discard(side.connector());
                assert_eq!(done.wait("the accept"), Err(Error::Canceled));
                assert!(raw.rest().1.is_err());
            }
        });
    }
}

/// Without memory for the Reply a program's accept fails: no timer would end its wait for the initiator.
#[test]
fn the_accept_of_a_program_has_no_memory() {
    let failed = Cell::new(0);
    for nth in 1..4 {
        play(|kernel| {
            let listening = Listening::new(&machine_of_program(HOST, 4)).unwrap();
            let raw = Raw::connect(at(0), DEVICE);
            raw.send(&request());
            let side = Side::new(listening.incoming.wait("the request"), PAGES).unwrap();
            kernel.flush_dpcs();
            let done = Inbox::default();
            let fault = kernel.fail_allocation(nth);
            let accepted = accept(&side, &[], &done);
            drop(fault);
            if accepted == Ok(Outcome::Pending) {
                assert!(raw.mpa_frame(FrameKind::Reply).is_some());
            } else {
                assert_eq!(accepted, Err(Error::ConnectionAborted));
                assert!(raw.rest().1.is_err());
                failed.set(failed.get() + 1);
            }
        });
    }
    assert!(failed.get() > 0);
}

/// The CRC of the first FPDU.
#[test]
fn its_first_message_is_broken() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let raw = Raw::connect(at(0), DEVICE);
        let revision = frames::enhanced(RtrKinds::WRITE);
        raw.send(&frames::mpa_frame(&MpaFrame { crc: true, ..frames::plain(FrameKind::Request, revision) }));
        let side = Side::new(listening.incoming.wait("the request"), PAGES).unwrap();
        let done = Inbox::default();
        assert_eq!(accept(&side, &[], &done), Ok(Outcome::Pending));
        assert!(raw.mpa_frame(FrameKind::Reply).is_some());
        raw.send(&frames::fpdu(&frames::write(1, 0, &[]), false));
        assert_eq!(done.wait("the accept"), Err(Error::ConnectionAborted));
        assert!(matches!(raw.rest(), (answer, Err(_)) if answer.is_empty()));
        others_are_served(&listening);
    });
}

/// Something else than was agreed, or more.
#[test]
fn its_first_message_is_another() {
    let write = frames::write(1, 0, &[]);
    let part = [&[write[0] & !0x40], &write[1..]].concat();
    let others = [
        (RtrKinds::WRITE, frames::send(1, b"hello")),
        (RtrKinds::WRITE, frames::send(1, &[])),
        (RtrKinds::WRITE, frames::write(1, 0, b"x")),
        (RtrKinds::WRITE, part),
        (RtrKinds::WRITE, frames::read(1, 0, 1, 0)),
        (RtrKinds::WRITE, frames::answer(true, 1, 0, &[])),
        (RtrKinds::READ, write.clone()),
        (RtrKinds::READ, frames::read(1, 1, 1, 0)),
        (RtrKinds::SEND, write),
        (RtrKinds::SEND, frames::send(1, b"x")),
        (RtrKinds::SEND, frames::send_part(false, 1, 0, &[])),
    ];
    for (kind, first) in others {
        play(|_| {
            println!("{kind:?}: {first:02x?}");
            let adapter = machine(HOST);
            let listening = Listening::new(&adapter).unwrap();
            let raw = Raw::connect(at(0), DEVICE);
            raw.send(&frames::mpa_frame(&frames::plain(FrameKind::Request, frames::enhanced(kind))));
            let side = Side::new(listening.incoming.wait("the request"), PAGES).unwrap();
            side.receive(1, 0, 64);
            let done = Inbox::default();
            assert_eq!(accept(&side, &[], &done), Ok(Outcome::Pending));
            assert!(raw.mpa_frame(FrameKind::Reply).is_some());
            raw.send_frames([&first]);
            assert_eq!(done.wait("the accept"), Err(Error::ConnectionAborted));
            assert!(matches!(raw.rest(), (answer, Err(_)) if answer.is_empty()));
            assert!(side.completions().is_empty(), "nothing was received");
            others_are_served(&listening);
        });
    }
}

/// The listener is closed while a peer has not sent its Request.
#[test]
fn the_listener_goes() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let raw = Raw::connect(at(0), DEVICE);
        raw.send(&request()[..7]);
        pauses();
        drop(listening);
        // The clock stands still: the close of the adapter does not wait for this peer.
        assert!(matches!(raw.rest(), (answer, Err(_)) if answer.is_empty()));
    });
}

/// The listener is closed at any moment of an accept: no connection stays open that the listener does not know.
#[test]
fn the_listener_goes_while_peers_come() {
    for most in 0..30 {
        play_often(4, |_| {
            let adapter = machine(HOST);
            let listening = Listening::new(&adapter).unwrap();
            let raws: Vec<_> = (0..3).map(|_| Raw::connect(at(0), DEVICE)).collect();
            (0..most).for_each(|_| simkernel::pause());
            drop(listening);
            for raw in raws {
                let (answer, _) = raw.rest();
                assert!(answer.is_empty());
            }
        });
    }
}
