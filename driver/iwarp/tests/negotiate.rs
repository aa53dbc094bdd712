//! What two sides agree on, from the Request and the Reply that each of them sees.

use iwarp::mpa::{self, Enhanced, FrameKind, MAX_READS, MpaFrame, READS_NOT_NEGOTIATED, Revision, RtrKinds};
use iwarp::negotiate::{Proposal, RtrKind, Terms, reject};
use iwarp::terminate::Cause;
use proptest::prelude::*;

const PROPOSAL: Proposal = Proposal { crc: false, inbound_reads: 16, outbound_reads: 8, reads_itself: false };

/// What the peer sees of a frame.
fn sent<'a>(frame: &MpaFrame<'_>, bytes: &'a mut [u8]) -> MpaFrame<'a> {
    let used = frame.emit(bytes).expect("room");
    match MpaFrame::parse(frame.kind, &bytes[..used]) {
        Ok(mpa::ParsedFrame::Frame(frame, size)) if size == used => frame,
        other => panic!("{other:?}"),
    }
}

/// What both sides do: the initiator first.
fn both(initiator: Proposal, responder: Proposal) -> (Terms, Terms) {
    let (mut there, mut back) = ([0; mpa::MAX_FRAME], [0; mpa::MAX_FRAME]);
    let request = sent(&initiator.request(b"request"), &mut there);
    let passive = responder.responder_terms(&request).expect("no markers");
    let reply = sent(&passive.accept(&request, b"reply"), &mut back);
    assert_eq!((request.private_data, reply.private_data), (&b"request"[..], &b"reply"[..]));
    (initiator.initiator_terms(&request, &reply).expect("it is what was asked for"), passive)
}

fn enhanced(request: &MpaFrame<'_>) -> Enhanced {
    match request.revision {
        Revision::Two(Some(enhanced)) => enhanced,
        other => panic!("{other:?}"),
    }
}

fn with(base: &MpaFrame<'static>, change: impl FnOnce(&mut Enhanced)) -> MpaFrame<'static> {
    let mut words = enhanced(base);
    change(&mut words);
    MpaFrame { revision: Revision::Two(Some(words)), ..*base }
}

#[test]
fn the_smaller_limits_win() {
    let (active, passive) = both(PROPOSAL, Proposal { inbound_reads: 4, outbound_reads: 32, ..PROPOSAL });
    assert_eq!((active.outbound_reads, passive.inbound_reads), (4, 4));
    assert_eq!((active.inbound_reads, passive.outbound_reads), (16, 16));
    assert_eq!((active.rtr, passive.rtr), (Some(RtrKind::Write), Some(RtrKind::Write)));
}

// Shows S804.
#[test]
fn either_side_turns_crcs_on() {
    for (one, other) in [(false, false), (false, true), (true, false), (true, true)] {
        let (active, passive) = both(Proposal { crc: one, ..PROPOSAL }, Proposal { crc: other, ..PROPOSAL });
        assert_eq!((active.crc, passive.crc), (one || other, one || other));
    }
}

/// A read as the first frame is offered by an initiator that may read.
#[test]
fn a_read_as_the_first_frame_takes_a_read() {
    for (outbound_reads, offered) in [(0, RtrKinds::WRITE), (1, RtrKinds::WRITE | RtrKinds::READ)] {
        let request = Proposal { outbound_reads, ..PROPOSAL }.request(b"");
        assert_eq!(enhanced(&request).rtr_kinds, offered, "{outbound_reads} reads");
    }
}

/// As Linux siw asks by default.
#[test]
fn an_initiator_need_not_send_first() {
    let request = with(&PROPOSAL.request(b""), |words| {
        (words.peer_to_peer, words.rtr_kinds) = (false, RtrKinds::empty());
    });
    let terms = PROPOSAL.responder_terms(&request).expect("no markers");
    assert_eq!(terms.rtr, None);
    let reply = enhanced(&terms.accept(&request, b""));
    assert_eq!((reply.peer_to_peer, reply.rtr_kinds), (false, RtrKinds::empty()));
}

#[test]
fn one_kind_of_first_frame_is_chosen() {
    let kinds = [
        (RtrKinds::all(), RtrKind::Write, RtrKinds::WRITE),
        (RtrKinds::READ | RtrKinds::SEND, RtrKind::Read, RtrKinds::READ),
        (RtrKinds::SEND, RtrKind::Send, RtrKinds::SEND),
        (RtrKinds::empty(), RtrKind::Write, RtrKinds::WRITE),
    ];
    for (offered, rtr, chosen) in kinds {
        let request = with(&PROPOSAL.request(b""), |words| words.rtr_kinds = offered);
        let terms = PROPOSAL.responder_terms(&request).expect("no markers");
        assert_eq!(terms.rtr, Some(rtr));
        assert_eq!(enhanced(&terms.accept(&request, b"")).rtr_kinds, chosen);
    }
}

#[test]
fn replies_that_an_initiator_cannot_take() {
    let request = PROPOSAL.request(b"");
    let reply = PROPOSAL.responder_terms(&request).expect("no markers").accept(&request, b"");
    let refused = |change: fn(&mut Enhanced)| PROPOSAL.initiator_terms(&request, &with(&reply, change)).map(|_| ());
    assert_eq!(refused(|_| ()), Ok(()));
    assert_eq!(refused(|words| words.outbound_reads = 17), Err(Cause::INSUFFICIENT_READS));
    assert_eq!(refused(|words| words.rtr_kinds = RtrKinds::SEND), Err(Cause::NO_MATCHING_RTR));
    assert_eq!(
        refused(|words| (words.rtr_kinds, words.inbound_reads) = (RtrKinds::READ, 0)),
        Err(Cause::NO_MATCHING_RTR),
        "a read that may not be made"
    );
    assert_eq!(
        PROPOSAL.initiator_terms(&request, &MpaFrame { markers: true, ..reply }),
        Err(Cause::INVALID_REQUEST_REPLY)
    );
}

#[test]
fn peers_that_say_nothing_of_reads() {
    let request = MpaFrame { revision: Revision::One, ..PROPOSAL.request(b"") };
    let terms = PROPOSAL.responder_terms(&request).expect("no markers");
    assert_eq!((terms.inbound_reads, terms.outbound_reads, terms.rtr), (16, 8, None));
    assert_eq!(terms.accept(&request, b"").revision, Revision::One, "the revision of the request");
    let open = with(&PROPOSAL.request(b""), |words| {
        (words.inbound_reads, words.outbound_reads) = (READS_NOT_NEGOTIATED, READS_NOT_NEGOTIATED);
    });
    let terms = PROPOSAL.responder_terms(&open).expect("no markers");
    assert_eq!((terms.inbound_reads, terms.outbound_reads), (16, 8));
    // A peer of revision 1 may answer a request of revision 2 so.
    let (request, reply) =
        (PROPOSAL.request(b""), MpaFrame { revision: Revision::One, ..reject(&PROPOSAL.request(b""), b"") });
    let terms = PROPOSAL.initiator_terms(&request, &reply).expect("a reply");
    assert_eq!((terms.inbound_reads, terms.outbound_reads, terms.rtr), (16, 8, None));
}

// Shows S955.
#[test]
fn who_reads_itself_has_a_read_where_reads_are_negotiated() {
    let itself = Proposal { inbound_reads: 0, outbound_reads: 0, reads_itself: true, ..PROPOSAL };
    let reads = |terms: Terms| (terms.inbound_reads, terms.outbound_reads);
    for (active, passive) in [(itself, itself), (itself, PROPOSAL), (PROPOSAL, itself)] {
        let (active, passive) = both(active, passive);
        assert_eq!((reads(active), reads(passive)), ((1, 1), (1, 1)));
    }
    let serves_none = Proposal { inbound_reads: 0, outbound_reads: 0, ..PROPOSAL };
    for (active, passive) in [(itself, serves_none), (serves_none, itself)] {
        let (active, passive) = both(active, passive);
        assert_eq!((reads(active), reads(passive)), ((0, 0), (0, 0)));
    }
    let request = MpaFrame { revision: Revision::One, ..itself.request(b"") };
    assert_eq!(itself.responder_terms(&request).map(reads), Some((0, 0)), "the peer may serve none");
}

// Shows S803.
#[test]
fn markers_are_refused() {
    let request = MpaFrame { markers: true, ..PROPOSAL.request(b"") };
    assert_eq!(PROPOSAL.responder_terms(&request), None);
    let reply = reject(&request, b"no");
    assert_eq!(
        (reply.kind, reply.reject, reply.markers, reply.private_data),
        (FrameKind::Reply, true, false, &b"no"[..])
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Neither side ever makes more reads than the other serves.
    #[test]
    fn reads_are_always_served(one in any::<(bool, u16, u16, bool)>(), other in any::<(bool, u16, u16, bool)>()) {
        let proposal = |(crc, inbound_reads, outbound_reads, reads_itself): (bool, u16, u16, bool)| Proposal {
            crc,
            inbound_reads: inbound_reads.min(MAX_READS),
            outbound_reads: outbound_reads.min(MAX_READS),
            reads_itself,
        };
        let (active, passive) = both(proposal(one), proposal(other));
        prop_assert!(active.outbound_reads <= passive.inbound_reads);
        prop_assert!(passive.outbound_reads <= active.inbound_reads);
        prop_assert_eq!((active.crc, active.rtr), (passive.crc, passive.rtr));
    }
}
