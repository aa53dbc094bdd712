//! What a writer makes of records, read with pcap-file and etherparse.

use std::{borrow::Cow, net::SocketAddr};

use capture::Writer;
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use iwarp::{
    fpdu::{self, ParsedFpdu},
    mpa::{FrameKind, MAX_FRAME, MpaFrame, Revision},
    segment::{Segment, Send, Tagged, Untagged},
};
use ndk_abi::{
    sockaddr::SOCKADDR_INET,
    softndk_ioctl::{
        SOFTNDK_CAPTURE, SOFTNDK_CAPTURE_ENDED, SOFTNDK_CAPTURE_FAILED, SOFTNDK_CAPTURE_FAULT, SOFTNDK_CAPTURE_MORE,
        SOFTNDK_CAPTURE_RECORD, SOFTNDK_CAPTURE_SEGMENT, SOFTNDK_CAPTURE_STREAM, SOFTNDK_IOCTL_VERSION,
    },
};
use pcap_file::pcapng::{
    Block, PcapNgReader,
    blocks::{enhanced_packet::EnhancedPacketOption, interface_statistics::InterfaceStatisticsOption},
};
use zerocopy::IntoBytes as _;

const NEAR: &str = "10.0.0.1:50000";
const FAR: &str = "10.0.0.2:5445";

/// A record from one address to another.
fn record(kind: u32, [source, destination]: [&str; 2], value: u32, left: u32, data: &[u8]) -> Vec<u8> {
    let address = |address: &str| SOCKADDR_INET::new(address.parse::<SocketAddr>().unwrap());
    let record = SOFTNDK_CAPTURE_RECORD {
        Time: 134_000_000_000_000_000,
        Kind: kind,
        Value: value,
        Captured: data.len() as u32,
        Left: left,
        Source: address(source),
        Destination: address(destination),
    };
    let mut bytes = [record.as_bytes(), data].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

fn answer(records: &[Vec<u8>], dropped: u64) -> Vec<u8> {
    let capture = SOFTNDK_CAPTURE { Version: SOFTNDK_IOCTL_VERSION, Count: records.len() as u32, Dropped: dropped };
    [capture.as_bytes(), &records.concat()].concat()
}

/// A packet: its source's port, its flags of SYN, FIN and RST, its sequence number, its bytes, how many there were, and its comments.
#[derive(Debug)]
struct Packet {
    port: u16,
    flags: [bool; 3],
    sequence: u32,
    payload: Vec<u8>,
    missing: usize,
    comments: Vec<String>,
}

/// The packets of a file, and the comments at its end.
fn read(file: &[u8]) -> (Vec<Packet>, Vec<String>) {
    let mut reader = PcapNgReader::new(file).unwrap();
    let (mut packets, mut last) = (Vec::new(), Vec::new());
    while let Some(block) = reader.next_block() {
        match block.unwrap() {
            Block::EnhancedPacket(packet) => {
                let missing = packet.original_len as usize - packet.data.len();
                // The IP header has the length of the whole packet.
                let whole = [&packet.data[..], &vec![0; missing]].concat();
                let sliced = SlicedPacket::from_ip(&whole).unwrap();
                let Some(TransportSlice::Tcp(tcp)) = sliced.transport else { panic!("no TCP") };
                if let (Some(NetSlice::Ipv4(ip)), 0) = (&sliced.net, missing) {
                    assert_eq!(
                        tcp.calc_checksum_ipv4(ip.header().source(), ip.header().destination()).unwrap(),
                        tcp.checksum()
                    );
                }
                let payload = tcp.payload();
                let comment = |option: &EnhancedPacketOption<'_>| match option {
                    EnhancedPacketOption::Comment(comment) => Some(Cow::into_owned(comment.clone())),
                    _ => None,
                };
                packets.push(Packet {
                    port: tcp.source_port(),
                    flags: [tcp.syn(), tcp.fin(), tcp.rst()],
                    sequence: tcp.sequence_number(),
                    payload: payload[..payload.len() - missing].to_vec(),
                    missing,
                    comments: packet.options.iter().filter_map(comment).collect(),
                });
            }
            Block::InterfaceStatistics(statistics) => {
                let comment = |option: &InterfaceStatisticsOption<'_>| match option {
                    InterfaceStatisticsOption::Comment(comment) => Some(Cow::into_owned(comment.clone())),
                    _ => None,
                };
                last.extend(statistics.options.iter().filter_map(comment));
            }
            _ => {}
        }
    }
    (packets, last)
}

/// What a writer makes of these records.
fn written(records: &[Vec<u8>], dropped: u64) -> (Vec<Packet>, Vec<String>) {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    assert_eq!(writer.write(&answer(records, dropped)).unwrap() as usize, records.len());
    writer.finish().unwrap();
    read(&file)
}

fn request() -> Vec<u8> {
    let revision = Revision::One;
    let frame =
        MpaFrame { kind: FrameKind::Request, markers: false, crc: true, reject: false, revision, private_data: &[] };
    let mut bytes = [0; MAX_FRAME];
    let length = frame.emit(&mut bytes).unwrap();
    bytes[..length].to_vec()
}

fn segment(segment: &Segment, data: &[u8]) -> Vec<u8> {
    let mut bytes = [0; 64];
    let length = segment.emit(&mut bytes).unwrap();
    [&bytes[..length], data].concat()
}

fn send(last: bool, mo: u32) -> Segment {
    Segment::Send(Untagged { last, msn: 0, mo }, Send::default())
}

/// The segments of the FPDUs in packets.
fn segments(packets: &[Packet]) -> Vec<Segment> {
    let parse = |packet: &Packet| match fpdu::parse(&packet.payload, Some(iwarp::crc::Crc32c::PORTABLE)) {
        Ok(ParsedFpdu::Whole { ulpdu, .. }) => Some(Segment::parse(ulpdu).unwrap().0),
        _ => None,
    };
    packets.iter().filter_map(parse).collect()
}

const OUT: [&str; 2] = [NEAR, FAR];
const BACK: [&str; 2] = [FAR, NEAR];

// Shows S1722.
#[test]
fn comments_wait_for_a_packet_and_begin_no_connection() {
    let asks = request();
    let records = [
        record(SOFTNDK_CAPTURE_FAULT, OUT, 2, 0, b"on connect do send-timeout 2s\0\0"),
        record(SOFTNDK_CAPTURE_STREAM, OUT, asks.len() as u32, 0, &asks),
        record(SOFTNDK_CAPTURE_FAILED, ["10.0.0.9:1", "10.0.0.9:2"], 0xC000_0005, 0, &[]),
        record(SOFTNDK_CAPTURE_FAULT, ["0.0.0.0:0", "0.0.0.0:0"], 1, 0, b"on register do ..."),
    ];
    let (packets, last) = written(&records, 3);
    assert_eq!(packets.iter().map(|packet| packet.payload.len()).collect::<Vec<_>>(), [0, 0, 0, asks.len()]);
    assert_eq!(
        packets[0].comments,
        ["3 records were dropped before this", "fault rule 2 has fired: on connect do send-timeout 2s"]
    );
    assert!(packets[1..].iter().all(|packet| packet.comments.is_empty()));
    assert_eq!(last.len(), 2, "{last:?}");
    assert!(last.iter().any(|comment| comment.contains("10.0.0.9:1") && comment.contains("STATUS_ACCESS_VIOLATION")));
}

// Shows S1721.
#[test]
fn what_moves_within_the_device_becomes_fpdus_with_numbers() {
    let data = vec![7; 70_000];
    let read = Segment::ReadRequest(
        Untagged { last: true, msn: 0, mo: 0 },
        iwarp::segment::ReadRequest { sink_stag: 0, sink_offset: 0, size: 9, source_stag: 5, source_offset: 1 },
    );
    let tagged = |last, stag, offset| Tagged { last, stag, offset };
    let whole = |it: &Segment, data: &[u8]| {
        let bytes = segment(it, data);
        (bytes.len() as u32, bytes)
    };
    let (write_length, write) = whole(&Segment::Write(tagged(true, 8, 100)), &data);
    let parts = [
        (OUT, whole(&send(false, 0), &data[..9])),
        (OUT, whole(&send(true, 9), &data[..9])),
        (OUT, whole(&send(true, 0), &[])),
        (OUT, (write_length, write)),
        (BACK, whole(&read, &[])),
        (OUT, whole(&Segment::ReadResponse(tagged(true, 0, 0)), &data[..9])),
    ];
    let records: Vec<_> =
        parts.iter().map(|(way, (length, bytes))| record(SOFTNDK_CAPTURE_SEGMENT, *way, *length, 0, bytes)).collect();
    let (packets, _) = written(&records, 0);
    assert!(packets[0].comments[0].contains("began before this file"), "{:?}", packets[0]);
    let found = segments(&packets);
    let untagged = |last, msn, mo| Segment::Send(Untagged { last, msn, mo }, Send::default());
    assert_eq!(found[..3], [untagged(false, 1, 0), untagged(true, 1, 9), untagged(true, 2, 0)]);
    assert_eq!(
        found[3..6],
        [(false, 100), (false, 100 + (32 << 10)), (true, 100 + (64 << 10))]
            .map(|(last, offset)| Segment::Write(tagged(last, 8, offset)))
    );
    assert!(matches!(found[6], Segment::ReadRequest(Untagged { msn: 1, .. }, request) if request.sink_stag == 1));
    assert_eq!(found[7..], [Segment::ReadResponse(tagged(true, 1, 0))]);

    // Each side's bytes are numbered without a gap.
    for port in [50000, 5445] {
        let mut next = None;
        for packet in packets.iter().filter(|packet| packet.port == port) {
            assert_eq!(next.unwrap_or(packet.sequence), packet.sequence, "{packet:?}");
            let used = packet.payload.len() + packet.missing + usize::from(packet.flags[0] || packet.flags[1]);
            next = Some(packet.sequence.wrapping_add(used as u32));
        }
    }
}

// Shows S1722.
#[test]
fn bytes_without_their_rest_end_with_their_connection() {
    let asks = request();
    let cut = vec![1; 200];
    let records = [
        record(SOFTNDK_CAPTURE_STREAM, OUT, asks.len() as u32, 0, &asks),
        record(SOFTNDK_CAPTURE_STREAM, BACK, 5000, 4800, &cut),
        record(SOFTNDK_CAPTURE_ENDED, OUT, 2, 0, &[]),
        // A Terminate goes out when the connection has ended.
        record(SOFTNDK_CAPTURE_STREAM, OUT, 64, 0, &[2; 64]),
        record(SOFTNDK_CAPTURE_STREAM, OUT, asks.len() as u32, 0, &asks),
        record(SOFTNDK_CAPTURE_STREAM, BACK, 300, 100, &[3; 200]),
        record(SOFTNDK_CAPTURE_MORE, BACK, 0, 0, &[4; 100]),
        record(SOFTNDK_CAPTURE_ENDED, BACK, 0, 0, &[]),
    ];
    let (packets, _) = written(&records, 0);
    let found: Vec<_> =
        packets.iter().map(|packet| (packet.port, packet.flags, packet.payload.len(), packet.missing)).collect();
    let (near, far) = (50000, 5445);
    let [none, syn, fin, rst] = [[false; 3], [true, false, false], [false, true, false], [false, false, true]];
    let opened = [(near, syn, 0, 0), (far, syn, 0, 0), (near, none, 0, 0), (near, none, asks.len(), 0)];
    let first = [(near, none, 64, 0), (far, none, 200, 4800), (near, rst, 0, 0)];
    let second = [(far, none, 300, 0), (far, fin, 0, 0), (near, fin, 0, 0)];
    assert_eq!(found, [&opened[..], &first, &opened, &second].concat());
}

// Shows S1723.
#[test]
fn a_connection_goes_on_in_the_next_file() {
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let piece = |mo, last| {
        let bytes = segment(&send(last, mo), &[5; 9]);
        record(SOFTNDK_CAPTURE_SEGMENT, ["[fd00::1]:50000", "[fd00::2]:5445"], bytes.len() as u32, 0, &bytes)
    };
    let mut writer = Writer::new(&mut first).unwrap();
    writer.write(&answer(&[piece(0, true), piece(0, false)], 2)).unwrap();
    writer.next(&mut second).unwrap();
    writer.write(&answer(&[piece(9, true)], 2)).unwrap();
    assert_eq!(writer.finish().unwrap().dropped, 2);
    let (packets, _) = read(&second);
    let untagged = |last, msn, mo| Segment::Send(Untagged { last, msn, mo }, Send::default());
    assert_eq!(segments(&packets), [untagged(true, 2, 9)]);
    assert!(packets[0].comments[0].contains("began before this file"), "{:?}", packets[0]);
}

// Shows S1722.
#[test]
fn what_is_no_answer_is_refused() {
    let mut writer = Writer::new(Vec::new()).unwrap();
    let good = answer(&[record(SOFTNDK_CAPTURE_ENDED, OUT, 0, 0, &[9; 30])], 0);
    for length in 0..good.len() {
        assert!(writer.write(&good[..length]).is_err(), "{length}");
    }
    assert_eq!(writer.write(&good).unwrap(), 1);
}

// Shows S1723.
#[test]
fn many_connections_take_no_more_memory_than_some() {
    let asks = request();
    let mut records = Vec::new();
    for port in 1000..1200 {
        let near = format!("10.0.0.1:{port}");
        records.push(record(SOFTNDK_CAPTURE_STREAM, [&near, FAR], asks.len() as u32, 0, &asks));
        // Both sides tell of the end of a connection within the adapter.
        records.push(record(SOFTNDK_CAPTURE_ENDED, [&near, FAR], 0, 0, &[]));
        records.push(record(SOFTNDK_CAPTURE_ENDED, [FAR, &near], 1, 0, &[]));
    }
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    writer.write(&answer(&records, 0)).unwrap();
    let before = writer.figures().packets;
    let after = writer.finish().unwrap().packets;
    // Of each connection a handshake, the Request and two ends; of some the ends wait.
    assert_eq!(after, 200 * 6);
    assert!((1..=128).contains(&(after - before)), "{before} packets of {after}");
    let (packets, _) = read(&file);
    assert_eq!(packets.iter().filter(|packet| packet.flags[1]).count(), 2 * 200);
}
