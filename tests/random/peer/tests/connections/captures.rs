//! What Linux siw has sent as an initiator, to the device; which answers what siw has answered, byte for byte.

#[path = "../../../../../driver/iwarp/tests/streams/mod.rs"]
mod streams;

use std::path::Path;

use iwarp::{
    crc::Crc32c,
    fpdu::{self, ParsedFpdu},
    mpa::{self, FrameKind, MpaFrame},
    segment::{ReadRequest, Segment},
};
use peer::{
    device::{HOST, Inbox, Listening, Side, machine},
    establish::{DEVICE, PAGES, accept, at},
    frames,
    raw::Raw,
};
use simkernel::{boot_seeded, seeds};
use soft_rdma::{Outcome, Post, Remote};

use streams::Streams;

/// The Request or Reply of a direction, whether it asks for CRCs, and the FPDUs behind it.
fn split(kind: FrameKind, stream: &[u8]) -> (Vec<u8>, bool, Vec<u8>) {
    let Ok(mpa::ParsedFrame::Frame(frame, size)) = MpaFrame::parse(kind, stream) else { panic!("{kind:?}") };
    (stream[..size].to_vec(), frame.crc, stream[size..].to_vec())
}

fn ulpdus(mut stream: &[u8], crc: bool) -> Vec<Vec<u8>> {
    let mut ulpdus = Vec::new();
    while let ParsedFpdu::Whole { ulpdu, size } = fpdu::parse(stream, crc.then_some(Crc32c::PORTABLE)).expect("its CRC")
    {
        ulpdus.push(ulpdu.to_vec());
        stream = &stream[size..];
    }
    assert!(stream.is_empty());
    ulpdus
}

/// What rping does: the client tells the server where its memory is, the server reads it and answers; the client tells where a second one
/// is, the server writes it and answers; and again.
fn replay([client, server]: &Streams) {
    let (request, crc, client) = split(FrameKind::Request, client);
    let (reply, _, server) = split(FrameKind::Reply, server);
    let adapter = machine(HOST);
    let listening = Listening::new(&adapter).unwrap();
    let raw = Raw::connect(at(0), DEVICE);
    raw.crc.set(crc);
    raw.send(&request);
    let side = Side::new(listening.incoming.wait("the request"), PAGES).unwrap();
    let done = Inbox::default();
    assert_eq!(accept(&side, &[], &done), Ok(Outcome::Pending));
    assert_eq!(done.wait("the accept"), Ok(()));
    assert_eq!(raw.mpa_frame(FrameKind::Reply), Some(reply), "the Reply of siw");

    let mut client = ulpdus(&client, crc).into_iter();
    let mut server = ulpdus(&server, crc).into_iter();
    let mut rounds = 0;
    while let Some(send) = client.next() {
        let data = data_of(&send);
        side.receive(1, 0, 64);
        raw.send_frames([&send]);
        assert_eq!(side.completed(1), [(1, Ok(()))]);
        assert_eq!(side.pages.read(0, data.len()), data);
        loop {
            let answered = server.next().expect("what siw has answered");
            let (segment, data) = Segment::parse(&answered).expect("a segment");
            side.pages.write(0x1000, data);
            let sge = side.sge(0x1000, data.len() as u32);
            match segment {
                Segment::Send(..) => {
                    side.post(2, &[sge], Post::Send(None)).unwrap();
                    assert_eq!(raw.ulpdu().as_ref(), Some(&answered));
                }
                Segment::Write(to) => {
                    side.post(2, &[sge], Post::Write(Remote { address: to.offset, token: to.stag })).unwrap();
                    assert_eq!(raw.ulpdu().as_ref(), Some(&answered));
                }
                Segment::ReadRequest(untagged, read) => {
                    let remote = Remote { address: read.source_offset, token: read.source_stag };
                    side.post(2, &[side.sge(0x2000, read.size)], Post::Read(remote)).unwrap();
                    let asked = raw.ulpdu().expect("its request");
                    let (asked, _) = Segment::parse(&asked).expect("a segment");
                    let Segment::ReadRequest(number, own) = asked else { panic!("{asked:?}") };
                    // The requester chooses the sink.
                    let sink = ReadRequest { sink_stag: own.sink_stag, sink_offset: own.sink_offset, ..read };
                    assert_eq!((number, own), (untagged, sink));
                    let answer = client.next().expect("its answer");
                    let data = data_of(&answer).to_vec();
                    raw.send_frames([&frames::answer(true, own.sink_stag, own.sink_offset, &data)]);
                    assert_eq!(side.completed(1), [(2, Ok(()))]);
                    assert_eq!(side.pages.read(0x2000, data.len()), data);
                    rounds += 1;
                    continue;
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(side.completed(1), [(2, Ok(()))]);
            if matches!(segment, Segment::Send(..)) {
                break;
            }
        }
    }
    assert_eq!((rounds, server.count()), (3, 0));
    raw.finish();
    assert_eq!(side.disconnects.wait("the disconnect"), 0);
}

fn data_of(ulpdu: &[u8]) -> &[u8] {
    Segment::parse(ulpdu).expect("a segment").1
}

/// The connections with that place in a capture.
fn replay_all(capture: &str, places: &[usize]) {
    let captures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../driver/iwarp/tests/captures");
    let connections = streams::connections(&captures.join(capture));
    for place in places {
        for seed in seeds(5) {
            let kernel = boot_seeded(seed);
            kernel.hold_clock();
            replay(&connections[*place]);
        }
    }
}

// Shows S802.
#[test]
fn rping() {
    replay_all("rping-self.pcap", &[0]);
}

/// With CRCs and without.
#[test]
fn rping_of_another_machine() {
    replay_all("rping-host.pcap", &[0, 1]);
}
