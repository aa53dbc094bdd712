//! What a peer sends.

use iwarp::{
    crc::Crc32c,
    fpdu::{self, Trailer},
    mpa::{Enhanced, FrameKind, MAX_FRAME, MpaFrame, Revision, RtrKinds},
    segment::{MAX_HEADER, ReadRequest, Segment, Send, Tagged, Untagged},
};

/// Reads that a peer says it serves, and makes.
pub const READS: u16 = 3;

/// An FPDU.
///
/// # Panics
/// If the ULPDU is too long.
#[must_use]
pub fn fpdu(ulpdu: &[u8], crc: bool) -> Vec<u8> {
    let length = u16::try_from(ulpdu.len()).expect("a ULPDU");
    let mut bytes = [&fpdu::length(length), ulpdu].concat();
    let digest = crc.then(|| {
        let mut digest = Crc32c::PORTABLE.digest();
        digest.update(&bytes);
        digest
    });
    bytes.extend(Trailer::new(length, digest).as_bytes());
    bytes
}

/// A ULPDU.
///
/// # Panics
/// Never: there is room.
#[must_use]
pub fn ulpdu(segment: &Segment, data: &[u8]) -> Vec<u8> {
    let mut bytes = [0; MAX_HEADER];
    let header = segment.emit(&mut bytes).expect("room");
    [&bytes[..header], data].concat()
}

/// A write of one segment.
#[must_use]
pub fn write(stag: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    ulpdu(&Segment::Write(Tagged { last: true, stag, offset }), data)
}

/// An answer of one segment, or a part of one.
#[must_use]
pub fn answer(last: bool, stag: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    ulpdu(&Segment::ReadResponse(Tagged { last, stag, offset }), data)
}

/// A part of a send.
#[must_use]
pub fn send_part(last: bool, msn: u32, mo: u32, data: &[u8]) -> Vec<u8> {
    ulpdu(&Segment::Send(Untagged { last, msn, mo }, Send::default()), data)
}

/// A send of one segment.
#[must_use]
pub fn send(msn: u32, data: &[u8]) -> Vec<u8> {
    send_part(true, msn, 0, data)
}

/// A send that invalidates.
#[must_use]
pub fn send_and_invalidate(msn: u32, stag: u32, data: &[u8]) -> Vec<u8> {
    let send = Send { solicited: false, invalidate: Some(stag) };
    ulpdu(&Segment::Send(Untagged { last: true, msn, mo: 0 }, send), data)
}

/// A read.
#[must_use]
pub fn read(msn: u32, size: u32, stag: u32, offset: u64) -> Vec<u8> {
    let request = ReadRequest { sink_stag: 0x77, sink_offset: 0x1000, size, source_stag: stag, source_offset: offset };
    ulpdu(&Segment::ReadRequest(Untagged { last: true, msn, mo: 0 }, request), &[])
}

/// The bytes of a Request or Reply.
///
/// # Panics
/// If its private data is too long.
#[must_use]
pub fn mpa_frame(frame: &MpaFrame<'_>) -> Vec<u8> {
    let mut bytes = [0; MAX_FRAME];
    let count = frame.emit(&mut bytes).expect("a Request or Reply");
    bytes[..count].to_vec()
}

/// Revision 2, with this many reads in both directions; the initiator sends one of `rtr_kinds` first, unless they are none.
#[must_use]
pub fn enhanced(rtr_kinds: RtrKinds) -> Revision {
    Revision::Two(Some(Enhanced {
        peer_to_peer: !rtr_kinds.is_empty(),
        rtr_kinds,
        inbound_reads: READS,
        outbound_reads: READS,
    }))
}

/// A Request or Reply without private data, that asks for nothing special.
#[must_use]
pub fn plain(kind: FrameKind, revision: Revision) -> MpaFrame<'static> {
    MpaFrame { kind, markers: false, crc: false, reject: false, revision, private_data: &[] }
}
