//! The device connects.

use std::{net::SocketAddr, time::Duration};

use iwarp::{
    mpa::{Enhanced, FrameKind, MAX_READS, MpaFrame, READS_NOT_NEGOTIATED, Revision, RtrKinds},
    segment::Segment,
};
use peer::{
    device::{HOST, Inbox, LIMITS, PORT, Side, ignore, machine},
    establish::{PAGES, at, by_device, connect},
    frames,
    raw::Door,
};
use soft_rdma::{Connect, Connector, Error, Outcome, Post, ReadLimits, Source, limits};

use super::{data, device_posts, peer_receives, peer_sends, play, play_often};
use crate::pauses;

/// Byte for byte.
#[test]
fn its_request() {
    play(|_| {
        let adapter = machine(HOST);
        let door = Door::listen(at(PORT));
        for length in [0, 4, 252, limits::PRIVATE_DATA] {
            let side = Side::new(Connector::new(&adapter).unwrap(), 1).unwrap();
            let mine = data(length);
            assert_eq!(connect(&side, &mine, &Inbox::default()), Ok(Outcome::Pending));
            let raw = door.accept();
            let size = (length + 4) as u16;
            // Revision 2; IRD and ORD of 8, a write or a read first.
            let expected = [&b"MPA ID Req Frame"[..], &[0x10, 2], &size.to_be_bytes(), &[0x80, 8, 0xC0, 8], &mine];
            assert_eq!(raw.mpa_frame(FrameKind::Request), Some(expected.concat()));
            pauses();
            assert_eq!(raw.has_come(), 0, "it waits for the Reply");
        }
        // A consumer in the kernel that wants no reads asks for none.
        let side = Side::new(Connector::new(&adapter).unwrap(), 1).unwrap();
        let request = Connect {
            queue_pair: side.queue_pair(),
            source: Source::Address(SocketAddr::new(HOST, 0)),
            remote: at(PORT),
            limits: ReadLimits::default(),
            private_data: &[],
        };
        let outcome = Connector::connect(side.connector(), request, ignore());
        assert_eq!(outcome, Ok(Outcome::Pending));
        let expected = [&b"MPA ID Req Frame"[..], &[0x10, 2, 0, 4, 0x80, 0, 0x80, 0]].concat();
        assert_eq!(door.accept().mpa_frame(FrameKind::Request), Some(expected));
        let side = Side::new(Connector::new(&adapter).unwrap(), 1).unwrap();
        let long = data(limits::PRIVATE_DATA + 1);
        assert_eq!(connect(&side, &long, &Inbox::default()), Err(Error::InvalidBufferSize));
    });
}

/// A responder that does not want to be spoken to first: rev 1, rev 2, without and with numbers of reads.
#[test]
fn replies_without_a_first_message() {
    play(|kernel| {
        let adapter = machine(HOST);
        let door = Door::listen(at(PORT));
        for revision in [Revision::One, Revision::Two(None), frames::enhanced(RtrKinds::empty())] {
            for crc in [false, true] {
                let reply = MpaFrame { crc, ..frames::plain(FrameKind::Reply, revision) };
                let connected = by_device(&adapter, &door, &reply);
                pauses();
                kernel.advance(Duration::from_secs(1));
                pauses();
                assert_eq!(connected.raw.has_come(), 0);
                device_posts(&connected.side);
                peer_receives(&connected, 1);
                peer_sends(&connected, 1);
            }
        }
    });
}

/// If it wants them, there are CRCs although the responder asks for none.
// Shows S804.
#[test]
fn it_asks_for_crcs() {
    play(|_| {
        let adapter = machine(HOST);
        let door = Door::listen(at(PORT));
        for wants in [false, true] {
            adapter.device().want_crc(wants);
            let reply = frames::plain(FrameKind::Reply, Revision::Two(None));
            let connected = by_device(&adapter, &door, &reply);
            assert_eq!(connected.raw.crc.get(), wants);
            device_posts(&connected.side);
            peer_receives(&connected, 1);
            peer_sends(&connected, 1);
        }
    });
}

/// Each kind of first message that the device has offered, and both.
// Shows S803.
#[test]
fn replies_with_a_first_message() {
    play(|_| {
        let adapter = machine(HOST);
        let door = Door::listen(at(PORT));
        let both = RtrKinds::WRITE | RtrKinds::READ;
        for kinds in [RtrKinds::WRITE, RtrKinds::READ, both, RtrKinds::all()] {
            for crc in [false, true] {
                let reply = MpaFrame { crc, ..frames::plain(FrameKind::Reply, frames::enhanced(kinds)) };
                let connected = by_device(&adapter, &door, &reply);
                let first = connected.raw.ulpdu().unwrap();
                if kinds == RtrKinds::READ {
                    // Size 0, of tag 1; the tag and the offset of the sink are what the answer names.
                    assert_eq!((first[1], &first[10..14], &first[30..34]), (0x41, &[0, 0, 0, 1][..], &[0; 4][..]));
                    let stag = u32::from_be_bytes(first[18..22].try_into().unwrap());
                    let offset = u64::from_be_bytes(first[22..30].try_into().unwrap());
                    connected.raw.send_frames([&frames::answer(true, stag, offset, &[])]);
                } else {
                    assert_eq!(first, frames::write(1, 0, &[]));
                }
                peer_sends(&connected, 1);
                device_posts(&connected.side);
                peer_receives(&connected, 1);
            }
        }
    });
}

/// Linux siw may not notice an early first message until more bytes arrive: the device repeats the message once.
#[test]
fn a_responder_that_has_missed_the_first_message() {
    play_often(10, |kernel| {
        let adapter = machine(HOST);
        let door = Door::listen(at(PORT));
        let reply = frames::plain(FrameKind::Reply, frames::enhanced(RtrKinds::WRITE));
        let connected = by_device(&adapter, &door, &reply);
        let first = Some(frames::write(1, 0, &[]));
        assert_eq!(connected.raw.ulpdu(), first);
        pauses();
        kernel.advance(Duration::from_millis(49));
        pauses();
        assert_eq!(connected.raw.has_come(), 0, "too early");
        kernel.advance(Duration::from_millis(1));
        assert_eq!(connected.raw.ulpdu(), first);
        for _ in 0..10 {
            pauses();
            kernel.advance(Duration::from_millis(500));
        }
        pauses();
        assert_eq!(connected.raw.has_come(), 0, "once");
        peer_sends(&connected, 1);
        device_posts(&connected.side);
        peer_receives(&connected, 1);
    });
}

/// The repeated first message waits for the end of a message that is half sent (RFC 5041 section 5.2).
#[test]
fn the_first_message_is_not_repeated_within_another() {
    play(|kernel| {
        kernel.limit_in_flight(1000);
        let adapter = machine(HOST);
        let door = Door::listen(at(PORT));
        let reply = frames::plain(FrameKind::Reply, frames::enhanced(RtrKinds::WRITE));
        let connected = by_device(&adapter, &door, &reply);
        let (raw, side) = (&connected.raw, &connected.side);
        assert_eq!(raw.ulpdu(), Some(frames::write(1, 0, &[])));
        // More than the buffers hold.
        side.post(1, &[side.sge(0, 0x10000); 8], Post::Send(None)).unwrap();
        pauses();
        kernel.advance(Duration::from_millis(50));
        let mut received = 0;
        loop {
            let ulpdu = raw.ulpdu().unwrap();
            let (segment, data) = Segment::parse(&ulpdu).unwrap();
            let Segment::Send(part, _) = segment else { panic!("behind {received} bytes: {segment:?}") };
            received += data.len();
            if part.last {
                break;
            }
        }
        assert_eq!(received, 8 * 0x10000);
    });
}

/// One that has answered gets none.
#[test]
fn a_responder_that_has_got_the_first_message() {
    play_often(10, |kernel| {
        let adapter = machine(HOST);
        let door = Door::listen(at(PORT));
        let reply = frames::plain(FrameKind::Reply, frames::enhanced(RtrKinds::WRITE));
        let connected = by_device(&adapter, &door, &reply);
        assert_eq!(connected.raw.ulpdu(), Some(frames::write(1, 0, &[])));
        pauses();
        peer_sends(&connected, 1);
        pauses();
        kernel.advance(Duration::from_secs(1));
        pauses();
        assert_eq!(connected.raw.has_come(), 0);
        device_posts(&connected.side);
        peer_receives(&connected, 1);
    });
}

/// Each limit is the smaller one of both sides; if the peer gives none, the own limits count.
#[test]
fn reads() {
    play(|_| {
        let adapter = machine(HOST);
        let door = Door::listen(at(PORT));
        let mine = LIMITS.inbound as u16;
        let agreed = |revision| {
            let connected = by_device(&adapter, &door, &frames::plain(FrameKind::Reply, revision));
            connected.side.connector().connection_data(|limits, _| limits)
        };
        for (inbound, outbound) in [(0, 0), (1, 2), (3, 0), (100, 8), (MAX_READS, 7)] {
            let enhanced = Enhanced { inbound_reads: inbound, outbound_reads: outbound, ..Enhanced::default() };
            let expected = ReadLimits { inbound: mine.min(outbound).into(), outbound: mine.min(inbound).into() };
            assert_eq!(agreed(Revision::Two(Some(enhanced))), expected);
        }
        let silent = Enhanced {
            inbound_reads: READS_NOT_NEGOTIATED,
            outbound_reads: READS_NOT_NEGOTIATED,
            ..Enhanced::default()
        };
        for revision in [Revision::One, Revision::Two(None), Revision::Two(Some(silent))] {
            assert_eq!(agreed(revision), LIMITS);
        }
    });
}

#[test]
fn private_data_of_a_reply() {
    play(|_| {
        let adapter = machine(HOST);
        let door = Door::listen(at(PORT));
        for revision in [Revision::One, frames::enhanced(RtrKinds::WRITE)] {
            for length in [0, 1, 252, 508] {
                let theirs = data(length);
                let reply = MpaFrame { private_data: &theirs, ..frames::plain(FrameKind::Reply, revision) };
                let connected = by_device(&adapter, &door, &reply);
                assert_eq!(connected.side.connector().connection_data(|_, data| data.to_vec()), theirs);
            }
        }
    });
}

/// The Reply arrives byte by byte.
#[test]
fn a_reply_in_pieces() {
    play(|_| {
        let adapter = machine(HOST);
        let door = Door::listen(at(PORT));
        let side = Side::new(Connector::new(&adapter).unwrap(), PAGES).unwrap();
        let done = Inbox::default();
        assert_eq!(connect(&side, &[], &done), Ok(Outcome::Pending));
        let raw = door.accept();
        assert!(raw.mpa_frame(FrameKind::Request).is_some());
        let theirs = data(30);
        let revision = frames::enhanced(RtrKinds::WRITE);
        for byte in frames::mpa_frame(&MpaFrame { private_data: &theirs, ..frames::plain(FrameKind::Reply, revision) })
        {
            assert_eq!(done.take(), None, "too early");
            raw.send(&[byte]);
            pauses();
        }
        assert_eq!(done.wait("the connect"), Ok(()));
        assert_eq!(side.connector().connection_data(|_, data| data.to_vec()), theirs);
    });
}
