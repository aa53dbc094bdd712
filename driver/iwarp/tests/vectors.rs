//! Frames as the RFCs have them, read and written. Each was made by one program and checked by another that shares no code.

use iwarp::crc::Crc32c;
use iwarp::fpdu::{self, ParsedFpdu, Trailer};
use iwarp::mpa::{self, Enhanced, FrameKind, MpaFrame, Revision, RtrKinds};
use iwarp::segment::{MAX_HEADER, ReadRequest, Segment, Send, Tagged, Untagged};
use iwarp::terminate::{Cause, MAX_BODY, Terminate, TerminatedHeaders};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().filter_map(|digit| digit.to_digit(16)).map(|digit| digit as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

const BASE: MpaFrame<'static> = MpaFrame {
    kind: FrameKind::Request,
    markers: false,
    crc: true,
    reject: false,
    revision: Revision::One,
    private_data: b"",
};

fn enhanced(peer_to_peer: bool, rtr: RtrKinds, inbound_reads: u16, outbound_reads: u16) -> Revision {
    Revision::Two(Some(Enhanced { peer_to_peer, rtr_kinds: rtr, inbound_reads, outbound_reads }))
}

// Shows S802.
#[test]
fn mpa_frames() {
    let (write, read) = (RtrKinds::WRITE, RtrKinds::READ);
    let frames = [
        ("4d504120494420526571204672616d6540010000", BASE),
        (
            "4d504120494420526570204672616d65400100026f6b",
            MpaFrame { kind: FrameKind::Reply, private_data: b"ok", ..BASE },
        ),
        (
            "4d504120494420526571204672616d65500200088010c01070696e67",
            MpaFrame { revision: enhanced(true, write | read, 16, 16), private_data: b"ping", ..BASE },
        ),
        (
            "4d504120494420526570204672616d655002000880108010706f6e67",
            MpaFrame { kind: FrameKind::Reply, revision: enhanced(true, write, 16, 16), private_data: b"pong", ..BASE },
        ),
        (
            "4d504120494420526570204672616d6570020006000000006e6f",
            MpaFrame {
                kind: FrameKind::Reply,
                reject: true,
                revision: enhanced(false, RtrKinds::empty(), 0, 0),
                private_data: b"no",
                ..BASE
            },
        ),
        (
            "4d504120494420526571204672616d65400100080000001000000010",
            MpaFrame { private_data: &[0, 0, 0, 16, 0, 0, 0, 16], ..BASE },
        ),
        (
            "4d504120494420526571204672616d651002000400010001",
            MpaFrame { crc: false, revision: enhanced(false, RtrKinds::empty(), 1, 1), ..BASE },
        ),
    ];
    for (hex, frame) in frames {
        let bytes = bytes(hex);
        assert_eq!(MpaFrame::parse(frame.kind, &bytes), Ok(mpa::ParsedFrame::Frame(frame, bytes.len())));
        let mut written = [0xee; mpa::MAX_FRAME];
        assert_eq!(frame.emit(&mut written), Some(bytes.len()));
        assert_eq!(written[..bytes.len()], bytes);
        for part in 0..bytes.len() {
            assert_eq!(
                MpaFrame::parse(frame.kind, &bytes[..part]),
                Ok(mpa::ParsedFrame::Incomplete),
                "{part} bytes of {hex}"
            );
        }
    }
}

#[test]
fn what_is_no_startup_frame() {
    let good = bytes("4d504120494420526571204672616d65500200088010c01070696e67");
    let with = |place: usize, byte: u8| {
        let mut frame = good.clone();
        frame[place] = byte;
        MpaFrame::parse(FrameKind::Request, &frame).map(|_| ())
    };
    assert_eq!(
        MpaFrame::parse(FrameKind::Reply, &good[..12]),
        Err(mpa::InvalidFrame::Key),
        "as soon as it can be told"
    );
    assert_eq!(with(0, b'm'), Err(mpa::InvalidFrame::Key));
    assert_eq!(with(16, 0x70), Err(mpa::InvalidFrame::RejectInRequest));
    assert_eq!(with(17, 0), Err(mpa::InvalidFrame::Revision(0)));
    assert_eq!(with(17, 3), Err(mpa::InvalidFrame::Revision(3)));
    assert_eq!(with(18, 2), Err(mpa::InvalidFrame::TooLong), "before the data is there");
    assert_eq!(with(19, 3), Err(mpa::InvalidFrame::EnhancedMissing));
    assert_eq!(with(16, 0x5f), Ok(()), "reserved bits are not looked at");
}

#[test]
fn private_data_of_either_revision_has_its_limit() {
    let data = [7; mpa::MAX_PRIVATE_DATA + 1];
    for revision in [Revision::One, Revision::Two(None), enhanced(false, RtrKinds::empty(), 0, 0)] {
        let most = MpaFrame { revision, ..BASE }.private_data_limit();
        let mut frame = [0; mpa::MAX_FRAME];
        assert_eq!(MpaFrame { revision, private_data: &data[..most], ..BASE }.emit(&mut frame), Some(mpa::MAX_FRAME));
        let whole = MpaFrame { revision, private_data: &data[..most], ..BASE };
        assert_eq!(MpaFrame::parse(BASE.kind, &frame), Ok(mpa::ParsedFrame::Frame(whole, mpa::MAX_FRAME)));
        assert_eq!(MpaFrame { revision, private_data: &data[..=most], ..BASE }.emit(&mut frame), None);
        let mut small = [0; mpa::MAX_FRAME - 1];
        assert_eq!(MpaFrame { revision, private_data: &data[..most], ..BASE }.emit(&mut small), None);
    }
}

#[test]
fn crc_of_rfc_3720() {
    let crc = |bytes: &[u8]| {
        let mut digest = Crc32c::PORTABLE.digest();
        bytes.iter().for_each(|byte| digest.update(&[*byte]));
        let mut whole = Crc32c::PORTABLE.digest();
        whole.update(bytes);
        assert_eq!(digest.finish(), whole.finish());
        whole.finish()
    };
    assert_eq!(crc(b"123456789"), 0xe306_9283_u32.to_le_bytes());
    assert_eq!(crc(&[0; 32]), [0xaa, 0x36, 0x91, 0x8a]);
    assert_eq!(crc(&[0xff; 32]), [0x43, 0xab, 0xa8, 0x62]);
    assert_eq!(crc(&(0..32).collect::<Vec<u8>>()), [0x4e, 0x79, 0xdd, 0x46]);
}

/// An FPDU with this segment.
fn frame(segment: &Segment, data: &[u8], crc: bool) -> Vec<u8> {
    let mut header = [0; MAX_HEADER];
    let used = segment.emit(&mut header).expect("room");
    let ulpdu = u16::try_from(used + data.len()).expect("a ULPDU");
    let mut frame = [&fpdu::length(ulpdu), &header[..used], data].concat();
    let mut digest = Crc32c::PORTABLE.digest();
    digest.update(&frame);
    frame.extend_from_slice(Trailer::new(ulpdu, crc.then_some(digest)).as_bytes());
    frame
}

fn ulpdu(frame: &[u8]) -> &[u8] {
    match fpdu::parse(frame, Some(Crc32c::PORTABLE)) {
        Ok(ParsedFpdu::Whole { ulpdu, size }) if size == frame.len() => ulpdu,
        other => panic!("{other:?}"),
    }
}

fn untagged(last: bool, msn: u32, mo: u32) -> Untagged {
    Untagged { last, msn, mo }
}

fn send(solicited: bool, invalidate: Option<u32>) -> Send {
    Send { solicited, invalidate }
}

const F1: &str = "001741430000000000000000000000010000000068656c6c6f000000b990b10c";
const F2B: &str = "0014414300000000000000000000000200000008494a0000e7b8714f";
const F3: &str = "001ec140000102030000000012340000000102030405060708090a0b0c0d0e0f41120cb9";
const F4: &str = "002e414100000000000000010000000100000000aabbcc01000000000000100000000008112233440000000000002000\
                  70ea7998";
const READ: ReadRequest = ReadRequest {
    sink_stag: 0xaabb_cc01,
    sink_offset: 0x1000,
    size: 8,
    source_stag: 0x1122_3344,
    source_offset: 0x2000,
};

// Shows S802.
#[test]
fn segments() {
    let tagged = |stag, offset| Tagged { last: true, stag, offset };
    let sixteen: Vec<u8> = (0..16).collect();
    let frames: [(&str, Segment, &[u8]); 10] = [
        ("000ec140000000010000000000000000ebd34c5f", Segment::Write(tagged(1, 0)), b""),
        (F1, Segment::Send(untagged(true, 1, 0), send(false, None)), b"hello"),
        (
            "001a0143000000000000000000000002000000004142434445464748c72af293",
            Segment::Send(untagged(false, 2, 0), send(false, None)),
            b"ABCDEFGH",
        ),
        (F2B, Segment::Send(untagged(true, 2, 8), send(false, None)), b"IJ"),
        (F3, Segment::Write(tagged(0x0001_0203, 0x1234_0000)), &sixteen),
        (F4, Segment::ReadRequest(untagged(true, 1, 0), READ), b""),
        (
            "0016c142aabbcc01000000000000100052444d41726561648beb4e8c",
            Segment::ReadResponse(tagged(0xaabb_cc01, 0x1000)),
            b"RDMAread",
        ),
        (
            "00164146aabbcc01000000000000000300000000627965216b1d9942",
            Segment::Send(untagged(true, 3, 0), send(true, Some(0xaabb_cc01))),
            b"bye!",
        ),
        (
            "00124144aabbcc01000000000000000400000000d483cb77",
            Segment::Send(untagged(true, 4, 0), send(false, Some(0xaabb_cc01))),
            b"",
        ),
        (
            "0012414500000000000000000000000500000000db7a1be1",
            Segment::Send(untagged(true, 5, 0), send(true, None)),
            b"",
        ),
    ];
    for (hex, segment, data) in frames {
        let bytes = bytes(hex);
        assert_eq!(Segment::parse(ulpdu(&bytes)), Ok((segment, data)), "{hex}");
        assert_eq!(frame(&segment, data, true), bytes, "{hex}");
        for part in 0..bytes.len() {
            let size = (part >= fpdu::LENGTH).then_some(bytes.len());
            assert_eq!(fpdu::parse(&bytes[..part], Some(Crc32c::PORTABLE)), Ok(ParsedFpdu::Incomplete(size)));
        }
    }
    let without_crc = bytes("001741430000000000000000000000010000000068656c6c6f00000000000000");
    assert_eq!(frame(&frames[1].1, b"hello", false), without_crc);
    assert!(matches!(fpdu::parse(&without_crc, None), Ok(ParsedFpdu::Whole { .. })));
    assert_eq!(fpdu::parse(&without_crc, Some(Crc32c::PORTABLE)), Err(Cause::CRC));
}

#[test]
fn segments_that_end_a_message_with_data() {
    let tagged = |last| Tagged { last, stag: 1, offset: 0 };
    for last in [true, false] {
        assert_eq!(Segment::Write(tagged(last)).ends_data(0), Some(last));
        assert_eq!(Segment::ReadResponse(tagged(last)).ends_data(1), Some(last));
        assert_eq!(Segment::ReadResponse(tagged(last)).ends_data(0), None);
        assert_eq!(Segment::Send(untagged(last, 1, 0), send(false, None)).ends_data(0), Some(last));
    }
    assert_eq!(Segment::ReadRequest(untagged(true, 1, 0), READ).ends_data(0), None);
    assert_eq!(Segment::Terminate(untagged(true, 1, 0)).ends_data(9), None);
}

// Shows S804.
#[test]
fn each_bit_that_flips_is_found_by_the_crc() {
    let good = bytes(F1);
    // The first two bytes say where the CRC is.
    for bit in fpdu::LENGTH * 8..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(fpdu::parse(&bad, Some(Crc32c::PORTABLE)), Err(Cause::CRC), "bit {bit}");
    }
}

#[test]
fn what_is_wrong_with_a_segment() {
    let with = |hex: &str, place: usize, byte: u8| {
        let mut ulpdu = ulpdu(&bytes(hex)).to_vec();
        ulpdu[place] = byte;
        Segment::parse(&ulpdu).map(|_| ()).expect_err("it is wrong")
    };
    assert_eq!(with(F1, 0, 0x42), Cause::UNTAGGED_VERSION);
    assert_eq!(with(F3, 0, 0xc2), Cause::TAGGED_VERSION);
    assert_eq!(with(F1, 1, 0x83), Cause::RDMAP_VERSION);
    for opcode in 8..16 {
        assert_eq!(with(F1, 1, 0x40 | opcode), Cause::OPCODE, "RFC 7306 and reserved ones");
        assert_eq!(with(F3, 1, 0x40 | opcode), Cause::OPCODE);
    }
    assert_eq!(with(F1, 1, 0x40), Cause::OPCODE, "a write is tagged");
    assert_eq!(with(F3, 1, 0x43), Cause::OPCODE, "a send is not");
    for (hex, opcode) in [(F1, 0x43), (F1, 0x47), (F4, 0x41)] {
        let mut ulpdu = ulpdu(&bytes(hex)).to_vec();
        (ulpdu[1], ulpdu[9]) = (opcode, 3);
        assert_eq!(Segment::parse(&ulpdu), Err(Cause::QUEUE));
    }
    for hex in [F1, F3, F4] {
        let bytes = bytes(hex);
        let ulpdu = ulpdu(&bytes);
        let header = match hex {
            F1 => 18,
            F3 => 14,
            _ => 46,
        };
        for short in 0..header {
            assert_eq!(Segment::parse(&ulpdu[..short]), Err(Cause::LENGTH), "{short} bytes");
        }
    }
    let mut reserved = ulpdu(&bytes(F1)).to_vec();
    (reserved[0], reserved[1]) = (0x41 | 0x3c, 0x43 | 0x30);
    assert!(Segment::parse(&reserved).is_ok(), "reserved bits are not looked at");
}

#[test]
fn terminates() {
    let (f1, f3, f4) = (bytes(F1), bytes(F3), bytes(F4));
    let (f1, f3, f4) = (ulpdu(&f1), ulpdu(&f3), ulpdu(&f4));
    let frames = [
        (
            "002a4147000000000000000200000001000000001202c00000174143000000000000000000000001000000009b27256c",
            Terminate::of(Cause::NO_BUFFER, f1),
            Some(TerminatedHeaders { length: 23, ddp: &f1[..18], read_request: &[] }),
        ),
        (
            "00464147000000000000000200000001000000000100e000002e414100000000000000010000000100000000aabbcc01\
             00000000000010000000000811223344000000000000200089fbf481",
            Terminate::of(Cause::STAG, f4),
            Some(TerminatedHeaders { length: 46, ddp: &f4[..18], read_request: &f4[18..] }),
        ),
        ("0016414700000000000000020000000100000000200200007fe42585", Terminate::of(Cause::CRC, f1), None),
        (
            "00264147000000000000000200000001000000001101c000001ec140000102030000000012340000a193d616",
            Terminate::of(Cause::TAGGED_BOUNDS, f3),
            Some(TerminatedHeaders { length: 30, ddp: &f3[..14], read_request: &[] }),
        ),
    ];
    for (hex, terminate, headers) in frames {
        assert_eq!(terminate.headers, headers);
        let mut body = [0; MAX_BODY];
        let used = terminate.emit(&mut body).expect("room");
        let header = Segment::Terminate(untagged(true, 1, 0));
        assert_eq!(frame(&header, &body[..used], true), bytes(hex), "{terminate:?}");
        assert_eq!(Terminate::parse(&body[..used]), Some(terminate));
        assert_eq!(terminate.emit(&mut body[..used - 1]), None);
    }
}

#[test]
fn headers_go_along_where_the_rfc_has_them() {
    let (f3, f4) = (bytes(F3), bytes(F4));
    let (f3, f4) = (ulpdu(&f3), ulpdu(&f4));
    for (cause, _) in Cause::ALL {
        let unreadable = [Cause::OPCODE, Cause::RDMAP_VERSION, Cause::TAGGED_VERSION, Cause::UNTAGGED_VERSION];
        let some = matches!((cause.layer, cause.kind), (0 | 1, 1 | 2)) && !unreadable.contains(cause);
        assert_eq!(Terminate::of(*cause, f3).headers.is_some(), some, "{cause}");
        let whole = Terminate::of(*cause, f4).headers.is_some_and(|headers| !headers.read_request.is_empty());
        assert_eq!(whole, (cause.layer, cause.kind) == (0, 1), "{cause}");
    }
}

#[test]
fn causes_have_names() {
    for (cause, name) in Cause::ALL {
        let Cause { layer, kind, code } = *cause;
        assert_eq!(cause.to_string(), format!("{name} ({layer}, {kind}, {code:#04x})"));
        assert_eq!(format!("{cause:?}"), cause.to_string());
    }
    assert_eq!(Cause { layer: 3, kind: 0, code: 1 }.to_string(), "unknown (3, 0, 0x01)");
}

/// Linux siw writes layer and kind, and the bits of HdrCt, in the order of its compiler.
#[test]
fn terminates_of_siw_can_be_read() {
    let parsed = |body: &[u8]| Terminate::parse(body).expect("a body").cause;
    assert_eq!(parsed(&[0x02, 0x02, 0, 0]).swapped(), Cause::CRC);
    // If HdrCt has only bits that the RFC reserves, the parser reads the Terminate in siw's order.
    assert_eq!(parsed(&[0x21, 0x02, 0x03, 0]), Cause::NO_BUFFER);
    assert_eq!(parsed(&[0x10, 0x00, 0x07, 0]), Cause::STAG);
    assert_eq!(parsed(&[0x10, 0x00, 0xe7, 0]), Cause::DDP_LOCAL, "the right bits count");
    assert_eq!(Terminate::parse(&[0x12, 2, 0xe0]), None);
    assert_eq!(Terminate::parse(&[0x12, 2, 0xe0, 0]).map(|terminate| terminate.headers), Some(None));
    let f4 = bytes(F4);
    let f4 = ulpdu(&f4);
    for one_of_both in [0x80, 0x40] {
        let body = [&[0x01, 0, one_of_both, 0, 0, 46][..], f4].concat();
        assert_eq!(Terminate::parse(&body).map(|terminate| terminate.headers), Some(None), "{one_of_both:#x}");
    }
    let body = [&[0x10, 0, 0x07, 0, 0, 0][..], f4].concat();
    let terminate = Terminate::parse(&body).expect("a body");
    assert_eq!(terminate.headers, Some(TerminatedHeaders { length: 0, ddp: &f4[..18], read_request: &f4[18..] }));
    // The Terminate of the capture, which siw sent after a part of a read response.
    let body = bytes("1101030005788142c9c53e0000007f3cf0000e00");
    let terminate = Terminate::parse(&body).expect("a body");
    assert_eq!(terminate.cause, Cause::TAGGED_BOUNDS);
    let answer = Segment::ReadResponse(Tagged { last: false, stag: 0xc9c5_3e00, offset: 0x7f3c_f000_0e00 });
    assert_eq!(terminate.headers.and_then(|headers| headers.segment()), Some(answer));
}

/// What a Terminate says was wrong, read as a segment.
#[test]
fn segments_of_terminates() {
    for hex in [F1, F3, F4] {
        let bytes = bytes(hex);
        let ulpdu = ulpdu(&bytes);
        let (segment, _) = Segment::parse(ulpdu).expect("a segment");
        for cause in [Cause::STAG, Cause::NO_BUFFER] {
            let named = Terminate::of(cause, ulpdu).headers.expect("its header").segment();
            // Of a read request DDP's header says too little.
            let whole = hex != F4 || cause == Cause::STAG;
            assert_eq!(named, whole.then_some(segment), "{cause}, {segment:?}");
        }
    }
    let wrong = |ddp, read_request| TerminatedHeaders { length: 0, ddp, read_request }.segment();
    assert_eq!(wrong(&[], &[]), None);
    assert_eq!(wrong(&[0xff; 14], &[]), None, "no segment at all");
    assert_eq!(wrong(&[0xff; 18], &[0xff; 28]), None);
    assert_eq!(wrong(&[0x41; 18], &[0xff; 29]), None, "longer than any");
}

#[test]
fn sizes() {
    for ulpdu in 0..=u16::MAX {
        let size = fpdu::size(ulpdu);
        assert_eq!(size % 4, 0);
        assert!((6..=9).contains(&(size - usize::from(ulpdu))), "{ulpdu}");
    }
}
