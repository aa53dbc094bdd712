//! What Request and Reply agree on: CRC, reads under way, and the ready-to-receive message (RFC 5044 section 7.1; RFC 6581 section 9).

use crate::mpa::{Enhanced, FrameKind, MAX_READS, MpaFrame, READS_NOT_NEGOTIATED, Revision, RtrKinds};
use crate::terminate::Cause;

/// What this side proposes to the other.
#[derive(Clone, Copy, Debug)]
pub struct Proposal {
    /// This side wants CRCs. The connection also uses CRCs if only the peer wants them.
    pub crc: bool,
    /// Reads of the peer that this side serves at a time (IRD).
    pub inbound_reads: u16,
    /// Reads that this side makes at a time (ORD).
    pub outbound_reads: u16,
    /// This side makes zero-length reads of its own, and serves the peer's: its Request asks for an IRD and an ORD of at least 1. So does its Reply,
    /// where the initiator negotiates that limit and does not ask for 0.
    pub reads_itself: bool,
}

/// The negotiated terms of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Both sides send CRCs, and check them.
    pub crc: bool,
    /// Reads of the peer that this side serves at a time (IRD).
    pub inbound_reads: u16,
    /// Reads that this side makes at a time (ORD).
    pub outbound_reads: u16,
    /// The kind of the initiator's ready-to-receive message, if agreed; no consumer sees that message. `None`: the responder sends nothing until a
    /// consumer's message has arrived from the initiator.
    pub rtr: Option<RtrKind>,
}

/// A ready-to-receive message, without data: the responder may send after its arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtrKind {
    /// A write, which gets no answer.
    Write,
    /// A read, which counts against the ORD until its response arrives.
    Read,
    /// A send, which uses up no receive.
    Send,
}

/// The kinds in order of preference, the cheapest first.
const RTR_PREFERENCE: [(RtrKinds, RtrKind); 3] =
    [(RtrKinds::WRITE, RtrKind::Write), (RtrKinds::READ, RtrKind::Read), (RtrKinds::SEND, RtrKind::Send)];

impl Proposal {
    /// The Request of an initiator. The Request offers the kinds of ready-to-receive message that need no receive, so that the responder need not
    /// wait for a consumer's message.
    pub fn request<'a>(&self, private_data: &'a [u8]) -> MpaFrame<'a> {
        let mut rtr_kinds = RtrKinds::WRITE;
        rtr_kinds.set(RtrKinds::READ, self.outbound_reads > 0);
        let enhanced = Enhanced {
            peer_to_peer: true,
            rtr_kinds,
            inbound_reads: self.at_least(self.inbound_reads).min(MAX_READS),
            outbound_reads: self.at_least(self.outbound_reads).min(MAX_READS),
        };
        let revision = Revision::Two(Some(enhanced));
        MpaFrame { kind: FrameKind::Request, markers: false, crc: self.crc, reject: false, revision, private_data }
    }

    /// The terms of a responder that accepts `request`. `None`: the responder must reject, as the initiator wants markers, which are not supported.
    pub fn responder_terms(&self, request: &MpaFrame<'_>) -> Option<Terms> {
        if request.markers {
            return None;
        }
        let crc = self.crc || request.crc;
        let Revision::Two(Some(theirs)) = request.revision else { return Some(self.unlimited(crc)) };
        // If the initiator names no kind, the Reply names the cheapest. An initiator that does not support that kind ends the connection.
        let rtr = theirs.peer_to_peer.then(|| preferred(theirs.rtr_kinds).unwrap_or(RtrKind::Write));
        Some(Terms {
            crc,
            inbound_reads: self.at_most(self.inbound_reads, theirs.outbound_reads),
            outbound_reads: self.at_most(self.outbound_reads, theirs.inbound_reads),
            rtr,
        })
    }

    /// The terms of an initiator, from its `request` and a `reply` that does not reject. Errors: [`Cause::INVALID_REQUEST_REPLY`],
    /// [`Cause::INSUFFICIENT_READS`], [`Cause::NO_MATCHING_RTR`].
    pub fn initiator_terms(&self, request: &MpaFrame<'_>, reply: &MpaFrame<'_>) -> Result<Terms, Cause> {
        if reply.markers {
            return Err(Cause::INVALID_REQUEST_REPLY);
        }
        let crc = request.crc || reply.crc;
        let (Revision::Two(Some(ours)), Revision::Two(Some(theirs))) = (request.revision, reply.revision) else {
            return Ok(self.unlimited(crc));
        };
        // The responder knows the IRD of this side from the Request.
        if theirs.outbound_reads != READS_NOT_NEGOTIATED && theirs.outbound_reads > ours.inbound_reads {
            return Err(Cause::INSUFFICIENT_READS);
        }
        let rtr = if theirs.peer_to_peer {
            let common = preferred(ours.rtr_kinds & theirs.rtr_kinds);
            Some(common.ok_or(Cause::NO_MATCHING_RTR)?)
        } else {
            None
        };
        let outbound_reads = self.at_most(self.outbound_reads, theirs.inbound_reads);
        if rtr == Some(RtrKind::Read) && outbound_reads == 0 {
            return Err(Cause::NO_MATCHING_RTR);
        }
        let inbound_reads = self.at_most(self.inbound_reads, theirs.outbound_reads);
        Ok(Terms { crc, inbound_reads, outbound_reads, rtr })
    }

    /// The number of reads to ask for if the consumer wants `reads`.
    fn at_least(&self, reads: u16) -> u16 {
        reads.max(self.reads_itself.into())
    }

    /// The agreed number of reads: [`Self::at_least`] of `reads`, or the peer's number if that is smaller. If the peer does not negotiate: `reads`.
    fn at_most(&self, reads: u16, peer: u16) -> u16 {
        if peer == READS_NOT_NEGOTIATED { reads } else { self.at_least(reads).min(peer) }
    }

    /// The terms if a frame has no enhanced part: no limit of the peer, no ready-to-receive message.
    const fn unlimited(&self, crc: bool) -> Terms {
        Terms { crc, inbound_reads: self.inbound_reads, outbound_reads: self.outbound_reads, rtr: None }
    }
}

impl Terms {
    /// The Reply of a responder that accepts `request` on these terms.
    pub fn accept<'a>(&self, request: &MpaFrame<'_>, private_data: &'a [u8]) -> MpaFrame<'a> {
        let rtr_kinds =
            RTR_PREFERENCE.iter().filter(|(_, rtr)| Some(*rtr) == self.rtr).map(|(kind, _)| *kind).collect();
        let enhanced = Enhanced {
            peer_to_peer: self.rtr.is_some(),
            rtr_kinds,
            inbound_reads: self.inbound_reads.min(MAX_READS),
            outbound_reads: self.outbound_reads.min(MAX_READS),
        };
        reply(request, self.crc, enhanced, private_data)
    }
}

/// The Reply that rejects `request`.
pub fn reject<'a>(request: &MpaFrame<'_>, private_data: &'a [u8]) -> MpaFrame<'a> {
    MpaFrame { reject: true, ..reply(request, request.crc, Enhanced::default(), private_data) }
}

/// A Reply with the revision of its Request.
fn reply<'a>(request: &MpaFrame<'_>, crc: bool, enhanced: Enhanced, private_data: &'a [u8]) -> MpaFrame<'a> {
    let revision = match request.revision {
        Revision::Two(Some(_)) => Revision::Two(Some(enhanced)),
        other => other,
    };
    MpaFrame { kind: FrameKind::Reply, markers: false, crc, reject: false, revision, private_data }
}

fn preferred(kinds: RtrKinds) -> Option<RtrKind> {
    RTR_PREFERENCE.iter().find(|(kind, _)| kinds.contains(*kind)).map(|(_, rtr)| *rtr)
}
