//! Any bytes at all: nothing panics, and what is read is what was written.

use iwarp::crc::Crc32c;
use iwarp::fpdu;
use iwarp::mpa::{self, Enhanced, FrameKind, InvalidFrame, MpaFrame, READS_NOT_NEGOTIATED, Revision, RtrKinds};
use iwarp::segment::{MAX_HEADER, ReadRequest, Segment, Send, Tagged, Untagged};
use iwarp::terminate::{Cause, MAX_BODY, Terminate};
use proptest::prelude::*;

fn any_tagged() -> impl Strategy<Value = Tagged> {
    any::<(bool, u32, u64)>().prop_map(|(last, stag, offset)| Tagged { last, stag, offset })
}

fn any_untagged() -> impl Strategy<Value = Untagged> {
    any::<(bool, u32, u32)>().prop_map(|(last, msn, mo)| Untagged { last, msn, mo })
}

fn any_read() -> impl Strategy<Value = ReadRequest> {
    any::<(u32, u64, u32, u32, u64)>().prop_map(|(sink_stag, sink_offset, size, source_stag, source_offset)| {
        ReadRequest { sink_stag, sink_offset, size, source_stag, source_offset }
    })
}

fn any_segment() -> impl Strategy<Value = Segment> {
    prop_oneof![
        any_tagged().prop_map(Segment::Write),
        any_tagged().prop_map(Segment::ReadResponse),
        (any_untagged(), any_read())
            .prop_map(|(untagged, read)| Segment::ReadRequest(Untagged { last: true, ..untagged }, read)),
        (any_untagged(), any::<(bool, Option<u32>)>())
            .prop_map(|(untagged, (solicited, invalidate))| Segment::Send(untagged, Send { solicited, invalidate })),
        any_untagged().prop_map(Segment::Terminate),
    ]
}

fn any_revision() -> impl Strategy<Value = Revision> {
    let enhanced = (any::<bool>(), 0..8u8, 0..=READS_NOT_NEGOTIATED, 0..=READS_NOT_NEGOTIATED);
    let enhanced = enhanced.prop_map(|(peer_to_peer, rtr, inbound_reads, outbound_reads)| {
        let rtr_kinds = RtrKinds::from_bits_truncate(rtr);
        Revision::Two(Some(Enhanced { peer_to_peer, rtr_kinds, inbound_reads, outbound_reads }))
    });
    prop_oneof![Just(Revision::One), Just(Revision::Two(None)), enhanced]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn segments(segment in any_segment(), data in prop::collection::vec(any::<u8>(), 0..64)) {
        let data = if matches!(segment, Segment::ReadRequest(..)) { Vec::new() } else { data };
        let mut ulpdu = [0; MAX_HEADER];
        let used = segment.emit(&mut ulpdu).expect("room");
        prop_assert_eq!(segment.emit(&mut ulpdu[..used - 1]), None);
        let ulpdu = [&ulpdu[..used], &data].concat();
        prop_assert_eq!(Segment::parse(&ulpdu), Ok((segment, data.as_slice())));
    }

    #[test]
    fn mpa_frames(
        is_reply in any::<bool>(),
        (markers, crc, reject) in any::<(bool, bool, bool)>(),
        revision in any_revision(),
        private_data in prop::collection::vec(any::<u8>(), 0..=508),
    ) {
        let kind = if is_reply { FrameKind::Reply } else { FrameKind::Request };
        let sent = MpaFrame { kind, markers, crc, reject, revision, private_data: &private_data };
        let mut frame = [0; mpa::MAX_FRAME];
        let used = sent.emit(&mut frame).expect("room");
        let expected = if reject && !is_reply {
            Err(InvalidFrame::RejectInRequest)
        } else {
            Ok(mpa::ParsedFrame::Frame(sent, used))
        };
        prop_assert_eq!(MpaFrame::parse(kind, &frame), expected);
    }

    // Shows T33.
    #[test]
    fn anything(bytes in prop::collection::vec(any::<u8>(), 0..128), crc in any::<bool>()) {
        let _ = MpaFrame::parse(FrameKind::Request, &bytes);
        let _ = MpaFrame::parse(FrameKind::Reply, &bytes);
        let _ = fpdu::parse(&bytes, crc.then_some(Crc32c::PORTABLE));
        let _ = Segment::parse(&bytes);
        for (cause, _) in Cause::ALL {
            let mut body = [0; MAX_BODY];
            let used = Terminate::of(*cause, &bytes).emit(&mut body).expect("room for any");
            prop_assert_eq!(Terminate::parse(&body[..used]).map(|terminate| terminate.cause), Some(*cause));
        }
        if let Some(terminate) = Terminate::parse(&bytes) {
            let mut body = [0; MAX_BODY];
            let used = terminate.emit(&mut body).expect("room for what was read");
            prop_assert_eq!(Terminate::parse(&body[..used]), Some(terminate));
        }
    }
}
