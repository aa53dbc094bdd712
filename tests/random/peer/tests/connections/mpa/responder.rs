//! The device listens.

use iwarp::mpa::{Enhanced, FrameKind, MAX_READS, MpaFrame, ParsedFrame, READS_NOT_NEGOTIATED, Revision, RtrKinds};
use peer::{
    device::{HOST, Inbox, LIMITS, Listening, Side, machine},
    establish::{Connected, DEVICE, PAGES, accept, at, by_peer},
    frames,
    raw::Raw,
};
use soft_rdma::{Connector, Error, Outcome, ReadLimits, limits};

use super::{data, device_posts, peer_receives, peer_sends, play};
use crate::pauses;

/// What the device answers to a Request, and what its consumer is told of that.
struct Answered {
    connected: Connected,
    reply: Vec<u8>,
    offered: (ReadLimits, Vec<u8>),
    agreed: ReadLimits,
}

/// Connects with `request`, is accepted with `private_data`, and sends `first` if there is one.
fn connect(listening: &Listening, request: &MpaFrame<'_>, private_data: &[u8], first: Option<&Vec<u8>>) -> Answered {
    let raw = Raw::connect(at(0), DEVICE);
    raw.send(&frames::mpa_frame(request));
    let side = Side::new(listening.incoming.wait("the request"), PAGES).unwrap();
    let offered = side.connector().connection_data(|limits, data| (limits, data.to_vec()));
    assert_eq!(side.connector().peer_address().map(|address| address.ip()), Some(at(0).ip()));
    let done = Inbox::default();
    assert_eq!(accept(&side, private_data, &done), Ok(Outcome::Pending));
    let reply = raw.mpa_frame(FrameKind::Reply).unwrap();
    raw.crc.set(request.crc);
    if let Some(first) = first {
        pauses();
        assert_eq!(done.take(), None, "the peer has not sent anything");
        raw.send_frames([first]);
    }
    assert_eq!(done.wait("the end of the accept"), Ok(()));
    let agreed = side.connector().connection_data(|limits, _| limits);
    Answered { connected: Connected { raw, side }, reply, offered, agreed }
}

fn parse(reply: &[u8]) -> MpaFrame<'_> {
    match MpaFrame::parse(FrameKind::Reply, reply).unwrap() {
        ParsedFrame::Frame(reply, _) => reply,
        ParsedFrame::Incomplete => unreachable!("it is whole"),
    }
}

/// If it wants them, there are CRCs although the initiator asks for none.
#[test]
fn it_asks_for_crcs() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        for wants in [false, true] {
            adapter.device().want_crc(wants);
            let request = frames::plain(FrameKind::Request, frames::enhanced(RtrKinds::empty()));
            let connected = by_peer(&listening, &request, None);
            assert_eq!(connected.raw.crc.get(), wants);
            peer_sends(&connected, 1);
            device_posts(&connected.side);
            peer_receives(&connected, 1);
        }
    });
}

/// Neither sends first: the device holds back what it has until the peer has sent something.
// Shows S803.
#[test]
fn requests_without_a_first_message() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        for revision in [Revision::One, Revision::Two(None), frames::enhanced(RtrKinds::empty())] {
            for crc in [false, true] {
                let request = MpaFrame { crc, ..frames::plain(FrameKind::Request, revision) };
                let answered = connect(&listening, &request, b"pong", None);
                let reply = parse(&answered.reply);
                assert_eq!((reply.revision, reply.crc, reply.reject, reply.markers), (revision, crc, false, false));
                assert_eq!(reply.private_data, b"pong");
                device_posts(&answered.connected.side);
                pauses();
                assert_eq!(answered.connected.raw.has_come(), 0, "a responder does not send first");
                answered.connected.side.receive(6, 0x200, 8);
                answered.connected.raw.send_frames([&frames::send(1, b"first")]);
                assert_eq!(answered.connected.raw.ulpdu(), Some(frames::send(1, b"to peer")));
                let mut completed = answered.connected.side.completed(2);
                completed.sort_by_key(|(context, _)| *context);
                assert_eq!(completed, [(6, Ok(())), (8, Ok(()))]);
            }
        }
    });
}

/// Each kind of what the peer may send first, and each choice of them.
// Shows S803.
#[test]
fn requests_with_a_first_message() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        for kinds in 1..8 {
            let kinds = RtrKinds::from_bits(kinds).unwrap();
            // The one that costs least.
            let (kind, first) = match kinds {
                kinds if kinds.contains(RtrKinds::WRITE) => (RtrKinds::WRITE, frames::write(1, 0, &[])),
                kinds if kinds.contains(RtrKinds::READ) => (RtrKinds::READ, frames::read(1, 0, 1, 0)),
                _ => (RtrKinds::SEND, frames::send(1, &[])),
            };
            for crc in [false, true] {
                let request = MpaFrame { crc, ..frames::plain(FrameKind::Request, frames::enhanced(kinds)) };
                let answered = connect(&listening, &request, &[], Some(&first));
                let reply = parse(&answered.reply);
                assert_eq!((reply.revision, reply.crc), (frames::enhanced(kind), crc));
                if kind == RtrKinds::READ {
                    let answer = answered.connected.raw.ulpdu();
                    assert_eq!(answer, Some(frames::answer(true, 0x77, 0x1000, &[])), "its answer");
                }
                peer_sends(&answered.connected, if kind == RtrKinds::SEND { 2 } else { 1 });
                device_posts(&answered.connected.side);
                peer_receives(&answered.connected, 1);
            }
        }
    });
}

/// It names no kind: it is asked for a write.
#[test]
fn a_request_to_send_first_without_a_kind() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let Revision::Two(Some(enhanced)) = frames::enhanced(RtrKinds::empty()) else { unreachable!() };
        let revision = Revision::Two(Some(Enhanced { peer_to_peer: true, ..enhanced }));
        let request = frames::plain(FrameKind::Request, revision);
        let answered = connect(&listening, &request, &[], Some(&frames::write(1, 0, &[])));
        assert_eq!(parse(&answered.reply).revision, frames::enhanced(RtrKinds::WRITE));
        device_posts(&answered.connected.side);
        peer_receives(&answered.connected, 1);
    });
}

#[test]
fn private_data() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        for revision in [Revision::One, Revision::Two(None), frames::enhanced(RtrKinds::empty())] {
            for length in [0, 1, 56, 252, 507, 508] {
                let mine = data(length);
                let request = MpaFrame { private_data: &mine, ..frames::plain(FrameKind::Request, revision) };
                let answered = connect(&listening, &request, &mine, None);
                assert_eq!(answered.offered.1, mine);
                assert_eq!(parse(&answered.reply).private_data, mine);
            }
        }
        // A peer without read limits in its frame may send a little more.
        for revision in [Revision::One, Revision::Two(None)] {
            for length in [509, 512] {
                let theirs = data(length);
                let request = MpaFrame { private_data: &theirs, ..frames::plain(FrameKind::Request, revision) };
                assert_eq!(connect(&listening, &request, &[], None).offered.1, theirs);
            }
        }
        let raw = Raw::connect(at(0), DEVICE);
        raw.send(&frames::mpa_frame(&frames::plain(FrameKind::Request, Revision::One)));
        let side = Side::new(listening.incoming.wait("the request"), 1).unwrap();
        let long = data(limits::PRIVATE_DATA + 1);
        assert_eq!(accept(&side, &long, &Inbox::default()), Err(Error::InvalidBufferSize));
        assert_eq!(Connector::reject(side.connector(), &long), Err(Error::InvalidBufferSize));
    });
}

/// The fewer reads count; a peer may not say how many.
#[test]
fn reads() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let mine = LIMITS.inbound as u16;
        for (inbound, outbound) in [(0, 0), (1, 2), (3, 0), (100, 7), (MAX_READS, MAX_READS)] {
            let enhanced = Enhanced { inbound_reads: inbound, outbound_reads: outbound, ..Enhanced::default() };
            let request = frames::plain(FrameKind::Request, Revision::Two(Some(enhanced)));
            let answered = connect(&listening, &request, &[], None);
            let Revision::Two(Some(reply)) = parse(&answered.reply).revision else { panic!("not enhanced") };
            assert_eq!((reply.inbound_reads, reply.outbound_reads), (mine.min(outbound), mine.min(inbound)));
            let agreed = ReadLimits { inbound: mine.min(outbound).into(), outbound: mine.min(inbound).into() };
            assert_eq!(answered.agreed, agreed);
            let of_peer = |reads: u16| limits::READ_LIMIT.min(reads.into());
            assert_eq!(answered.offered.0, ReadLimits { inbound: of_peer(outbound), outbound: of_peer(inbound) });
        }
        let enhanced = Enhanced {
            inbound_reads: READS_NOT_NEGOTIATED,
            outbound_reads: READS_NOT_NEGOTIATED,
            ..Enhanced::default()
        };
        for revision in [Revision::One, Revision::Two(None), Revision::Two(Some(enhanced))] {
            let answered = connect(&listening, &frames::plain(FrameKind::Request, revision), &[], None);
            assert_eq!(answered.agreed, LIMITS);
            assert_eq!(answered.offered.0, ReadLimits { inbound: limits::READ_LIMIT, outbound: limits::READ_LIMIT });
        }
    });
}

/// The Request arrives byte by byte.
#[test]
fn a_request_in_pieces() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        let raw = Raw::connect(at(0), DEVICE);
        let mine = data(30);
        let revision = frames::enhanced(RtrKinds::WRITE);
        for byte in frames::mpa_frame(&MpaFrame { private_data: &mine, ..frames::plain(FrameKind::Request, revision) })
        {
            assert!(listening.incoming.take().is_none(), "too early");
            raw.send(&[byte]);
            pauses();
        }
        let side = Side::new(listening.incoming.wait("the request"), 1).unwrap();
        assert_eq!(side.connector().connection_data(|_, data| data.to_vec()), mine);
    });
}

/// The consumer says no.
#[test]
fn a_reject() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        for revision in [Revision::One, Revision::Two(None), frames::enhanced(RtrKinds::WRITE)] {
            for length in [0, 2, 508] {
                let raw = Raw::connect(at(0), DEVICE);
                let crc = length == 2;
                raw.send(&frames::mpa_frame(&MpaFrame { crc, ..frames::plain(FrameKind::Request, revision) }));
                let side = Side::new(listening.incoming.wait("the request"), 1).unwrap();
                let mine = data(length);
                assert_eq!(Connector::reject(side.connector(), &mine), Ok(()));
                let reply = raw.mpa_frame(FrameKind::Reply).unwrap();
                let expected = match revision {
                    Revision::Two(Some(_)) => Revision::Two(Some(Enhanced::default())),
                    other => other,
                };
                let expected =
                    MpaFrame { reject: true, crc, private_data: &mine, ..frames::plain(FrameKind::Reply, expected) };
                assert_eq!(parse(&reply), expected);
                assert_eq!(raw.rest(), (Vec::new(), Ok(())));
            }
        }
    });
}

/// Markers are refused, without asking the consumer.
#[test]
fn markers() {
    play(|_| {
        let adapter = machine(HOST);
        let listening = Listening::new(&adapter).unwrap();
        for revision in [Revision::One, Revision::Two(None), frames::enhanced(RtrKinds::WRITE)] {
            let raw = Raw::connect(at(0), DEVICE);
            raw.send(&frames::mpa_frame(&MpaFrame { markers: true, ..frames::plain(FrameKind::Request, revision) }));
            let reply = raw.mpa_frame(FrameKind::Reply).unwrap();
            assert!(parse(&reply).reject && !parse(&reply).markers);
            assert_eq!(raw.rest(), (Vec::new(), Ok(())));
            assert!(listening.incoming.take().is_none());
        }
    });
}
