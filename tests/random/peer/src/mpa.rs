//! Requests and Replies of MPA made of bytes: the parsed frame does not depend on the bytes behind it, and both sides agree on one set of terms.

use arbitrary::{Arbitrary, Unstructured};
use iwarp::{
    mpa::{FrameKind, InvalidFrame, MAX_FRAME, MAX_READS, MpaFrame, ParsedFrame, Revision},
    negotiate::{Proposal, RtrKind, Terms, reject},
    terminate::Cause,
};

use crate::{Finding, ensure, frames};

/// What a side wants.
#[derive(Arbitrary, Clone, Copy, Debug)]
struct Wanted {
    crc: bool,
    inbound: u16,
    outbound: u16,
}

impl Wanted {
    fn proposal(self) -> Proposal {
        // A device has far fewer, a caller may say more.
        Proposal { crc: self.crc, inbound_reads: self.inbound, outbound_reads: self.outbound, reads_itself: false }
    }
}

/// What an initiator makes of a Reply: what is tested, or what a test puts in its place.
pub type InitiatorTerms = fn(&Proposal, &MpaFrame<'_>, &MpaFrame<'_>) -> Result<Terms, Cause>;

/// Looks at Requests and Replies.
///
/// # Errors
/// What is wrong.
pub fn run(bytes: &[u8]) -> Result<(), Finding> {
    run_with(bytes, Proposal::initiator_terms)
}

/// As [`run`], with another implementation of the initiator.
///
/// # Errors
/// What is wrong.
pub fn run_with(bytes: &[u8], initiator_terms: InitiatorTerms) -> Result<(), Finding> {
    let mut bytes = Unstructured::new(bytes);
    let wanted: (Wanted, Wanted) = bytes.arbitrary().map_err(|error| Finding(error.to_string()))?;
    let frame = bytes.take_rest();
    let [initiator, responder] = [wanted.0, wanted.1].map(Wanted::proposal);
    if let Some(request) = read(FrameKind::Request, frame)? {
        answer(&responder, &request)?;
    }
    let own = initiator.request(&frame[..frame.len().min(64)]);
    if let Some(reply) = read(FrameKind::Reply, frame)?.filter(|reply| !reply.reject)
        && let Ok(terms) = initiator_terms(&initiator, &own, &reply)
    {
        ensure!(!reply.markers, "markers are agreed on");
        check_own(&initiator, &terms)?;
    }
    both(&initiator, &responder, &own, initiator_terms)
}

/// The frame at the start of `bytes`, if it is whole. Checks that bytes behind a frame do not change it, and that no shorter part is a
/// frame.
fn read(kind: FrameKind, bytes: &[u8]) -> Result<Option<MpaFrame<'_>>, Finding> {
    let parsed = MpaFrame::parse(kind, bytes);
    let padded = [bytes, &[0; MAX_FRAME]].concat();
    let with_more = MpaFrame::parse(kind, &padded);
    match parsed {
        Ok(ParsedFrame::Frame(frame, size)) => {
            ensure!(with_more == parsed, "{parsed:?}, but with more behind it {with_more:?}");
            ensure!(size <= bytes.len().min(MAX_FRAME), "{size} of {} bytes", bytes.len());
            for length in 0..size {
                let part = MpaFrame::parse(kind, &bytes[..length]);
                ensure!(part == Ok(ParsedFrame::Incomplete), "the first {length} bytes of {size} are {part:?}");
            }
            let emitted = frames::mpa_frame(&frame);
            let again = MpaFrame::parse(kind, &emitted);
            ensure!(again == Ok(ParsedFrame::Frame(frame, size)), "{frame:?} is sent as {again:?}");
            return Ok(Some(frame));
        }
        Ok(ParsedFrame::Incomplete) => {
            ensure!(bytes.len() < MAX_FRAME, "{} bytes are none yet", bytes.len());
            ensure!(with_more != parsed, "it never ends");
        }
        Err(wrong) => {
            ensure!(with_more == parsed, "{wrong:?}, but with more behind it {with_more:?}");
            ensure!(kind == FrameKind::Request || wrong != InvalidFrame::RejectInRequest, "a Reply cannot reject");
        }
    }
    Ok(None)
}

fn check_own(proposal: &Proposal, terms: &Terms) -> Result<(), Finding> {
    let fewer = terms.inbound_reads <= proposal.inbound_reads && terms.outbound_reads <= proposal.outbound_reads;
    ensure!(fewer && (terms.crc || !proposal.crc), "{terms:?} is more than {proposal:?}");
    Ok(())
}

/// What a responder answers to any Request: a Reply of its revision, which can be read.
fn answer(proposal: &Proposal, request: &MpaFrame<'_>) -> Result<(), Finding> {
    let of_same_kind = |reply: &MpaFrame<'_>| match (request.revision, reply.revision) {
        (Revision::One, Revision::One) => true,
        (Revision::Two(theirs), Revision::Two(ours)) => theirs.is_some() == ours.is_some(),
        _ => false,
    };
    let refused = frames::mpa_frame(&reject(request, b"no"));
    let refused = read(FrameKind::Reply, &refused)?.filter(|reply| reply.reject && reply.private_data == b"no");
    ensure!(refused.is_some_and(|reply| of_same_kind(&reply)), "a reject of {request:?}");
    let Some(terms) = proposal.responder_terms(request) else {
        ensure!(request.markers, "{request:?} is refused");
        return Ok(());
    };
    ensure!(!request.markers && (terms.crc || !request.crc), "{request:?} is accepted as {terms:?}");
    check_own(proposal, &terms)?;
    let bytes = frames::mpa_frame(&terms.accept(request, b"yes"));
    let reply = read(FrameKind::Reply, &bytes)?;
    let right = |reply: &MpaFrame<'_>| {
        of_same_kind(reply) && !reply.reject && reply.crc == terms.crc && reply.private_data == b"yes"
    };
    ensure!(reply.is_some_and(|reply| right(&reply)), "{terms:?} is answered as {reply:?}");
    Ok(())
}

/// A device with another one: neither does what the other does not expect.
fn both(
    initiator: &Proposal,
    responder: &Proposal,
    request: &MpaFrame<'_>,
    initiator_terms: InitiatorTerms,
) -> Result<(), Finding> {
    let bytes = frames::mpa_frame(request);
    let Some(request) = read(FrameKind::Request, &bytes)? else { return Err(Finding("no Request".to_owned())) };
    let Some(theirs) = responder.responder_terms(&request) else { return Err(Finding("it is refused".to_owned())) };
    let bytes = frames::mpa_frame(&theirs.accept(&request, &[]));
    let Some(reply) = read(FrameKind::Reply, &bytes)? else { return Err(Finding("no Reply".to_owned())) };
    let ours =
        initiator_terms(initiator, &request, &reply).map_err(|cause| Finding(format!("{cause} after {reply:?}")))?;
    ensure!((ours.crc, ours.rtr) == (theirs.crc, theirs.rtr), "{ours:?} and {theirs:?}");
    ensure!(ours.rtr == Some(RtrKind::Write), "{ours:?}");
    let [in_ours, in_theirs] = [ours.inbound_reads, theirs.inbound_reads].map(|reads| reads.min(MAX_READS));
    let fit = ours.outbound_reads.min(MAX_READS) <= in_theirs && theirs.outbound_reads.min(MAX_READS) <= in_ours;
    ensure!(fit, "{ours:?} and {theirs:?}");
    Ok(())
}
