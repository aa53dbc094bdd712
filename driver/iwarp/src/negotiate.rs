//! What the two startup frames agree on: CRC, reads under way, and who sends first (RFC 5044 section 7.1; RFC 6581 section 9).

use crate::mpa::{Enhanced, Kind, MAX_READS, READS_NOT_NEGOTIATED, ReadyToReceive, Revision, Startup};
use crate::terminate::Cause;

/// What this side wants.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// CRCs. The peer may want them too.
    pub crc: bool,
    /// Reads of the peer that are served at a time.
    pub inbound_reads: u16,
    /// Own reads at a time.
    pub outbound_reads: u16,
    /// In either direction one read at least, if the peer negotiates them: this side reads by itself, too.
    pub reads_itself: bool,
}

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Both send CRCs, and check them.
    pub crc: bool,
    /// Reads of the peer that are served at a time.
    pub inbound_reads: u16,
    /// Own reads at a time.
    pub outbound_reads: u16,
    /// The first FPDU of the initiator, which the consumers do not see. `None`: it has no such duty, and the responder sends
    /// nothing before its first message.
    pub first: Option<First>,
}

/// A message without data that says that the responder may send too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    /// A write, which nobody answers.
    Write,
    /// A read, which is one of those under way until it is answered.
    Read,
    /// A send, for which no receive is used.
    Send,
}

/// In order of preference: the one that costs least first.
const FIRST: [(ReadyToReceive, First); 3] =
    [(ReadyToReceive::WRITE, First::Write), (ReadyToReceive::READ, First::Read), (ReadyToReceive::SEND, First::Send)];

impl Wish {
    /// The Request of an initiator. It offers to send first, so that a responder need not wait for a message of the consumer;
    /// and the kinds that need no receive.
    pub fn request<'a>(&self, private_data: &'a [u8]) -> Startup<'a> {
        let mut ready_to_receive = ReadyToReceive::WRITE;
        ready_to_receive.set(ReadyToReceive::READ, self.outbound_reads > 0);
        let enhanced = Enhanced {
            peer_to_peer: true,
            ready_to_receive,
            inbound_reads: self.at_least(self.inbound_reads).min(MAX_READS),
            outbound_reads: self.at_least(self.outbound_reads).min(MAX_READS),
        };
        let revision = Revision::Two(Some(enhanced));
        Startup { kind: Kind::Request, markers: false, crc: self.crc, reject: false, revision, private_data }
    }

    /// What a responder does after `request`. `None`: it wants markers, which we do not send; it is to be refused.
    pub fn agree(&self, request: &Startup<'_>) -> Option<Agreed> {
        if request.markers {
            return None;
        }
        let crc = self.crc || request.crc;
        let Revision::Two(Some(theirs)) = request.revision else { return Some(self.unlimited(crc)) };
        // An initiator that names no kind is asked for the simplest; it may not know that, and end the connection.
        let first = theirs.peer_to_peer.then(|| preferred(theirs.ready_to_receive).unwrap_or(First::Write));
        Some(Agreed {
            crc,
            inbound_reads: self.at_most(self.inbound_reads, theirs.outbound_reads),
            outbound_reads: self.at_most(self.outbound_reads, theirs.inbound_reads),
            first,
        })
    }

    /// What an initiator does after the `reply` to its `request`, which does not reject. Errors: [`Cause::STARTUP`],
    /// [`Cause::INSUFFICIENT_READS`], [`Cause::NO_READY_TO_RECEIVE`].
    pub fn conclude(&self, request: &Startup<'_>, reply: &Startup<'_>) -> Result<Agreed, Cause> {
        if reply.markers {
            return Err(Cause::STARTUP);
        }
        let crc = request.crc || reply.crc;
        let (Revision::Two(Some(ours)), Revision::Two(Some(theirs))) = (request.revision, reply.revision) else {
            return Ok(self.unlimited(crc));
        };
        // It was told what we serve.
        if theirs.outbound_reads != READS_NOT_NEGOTIATED && theirs.outbound_reads > ours.inbound_reads {
            return Err(Cause::INSUFFICIENT_READS);
        }
        let first = if theirs.peer_to_peer {
            let common = preferred(ours.ready_to_receive & theirs.ready_to_receive);
            Some(common.ok_or(Cause::NO_READY_TO_RECEIVE)?)
        } else {
            None
        };
        let outbound_reads = self.at_most(self.outbound_reads, theirs.inbound_reads);
        if first == Some(First::Read) && outbound_reads == 0 {
            return Err(Cause::NO_READY_TO_RECEIVE);
        }
        let inbound_reads = self.at_most(self.inbound_reads, theirs.outbound_reads);
        Ok(Agreed { crc, inbound_reads, outbound_reads, first })
    }

    /// What is asked for where the consumer wants `reads`.
    fn at_least(&self, reads: u16) -> u16 {
        reads.max(self.reads_itself.into())
    }

    /// What the consumer wants, or what the peer says if that is fewer.
    fn at_most(&self, reads: u16, peer: u16) -> u16 {
        if peer == READS_NOT_NEGOTIATED { reads } else { self.at_least(reads).min(peer) }
    }

    /// The peer says nothing of reads, and does not send first.
    const fn unlimited(&self, crc: bool) -> Agreed {
        Agreed { crc, inbound_reads: self.inbound_reads, outbound_reads: self.outbound_reads, first: None }
    }
}

impl Agreed {
    /// The Reply of a responder that accepts `request` on these terms.
    pub fn accept<'a>(&self, request: &Startup<'_>, private_data: &'a [u8]) -> Startup<'a> {
        let ready_to_receive =
            FIRST.iter().filter(|(_, first)| Some(*first) == self.first).map(|(kind, _)| *kind).collect();
        let enhanced = Enhanced {
            peer_to_peer: self.first.is_some(),
            ready_to_receive,
            inbound_reads: self.inbound_reads.min(MAX_READS),
            outbound_reads: self.outbound_reads.min(MAX_READS),
        };
        reply(request, self.crc, enhanced, private_data)
    }
}

/// The Reply that refuses `request`.
pub fn reject<'a>(request: &Startup<'_>, private_data: &'a [u8]) -> Startup<'a> {
    Startup { reject: true, ..reply(request, request.crc, Enhanced::default(), private_data) }
}

/// A Reply of the revision of its Request.
fn reply<'a>(request: &Startup<'_>, crc: bool, enhanced: Enhanced, private_data: &'a [u8]) -> Startup<'a> {
    let revision = match request.revision {
        Revision::Two(Some(_)) => Revision::Two(Some(enhanced)),
        other => other,
    };
    Startup { kind: Kind::Reply, markers: false, crc, reject: false, revision, private_data }
}

fn preferred(kinds: ReadyToReceive) -> Option<First> {
    FIRST.iter().find(|(kind, _)| kinds.contains(*kind)).map(|(_, first)| *first)
}
