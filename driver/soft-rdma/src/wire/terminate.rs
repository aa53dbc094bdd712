//! The peer's Terminate (RFC 5040 section 4.8). If its headers match a request of this side, that request ends with the status that it has between
//! two queue pairs of one device. Sends and writes before it are placed; all other requests are flushed. Headers that match no request are ignored.
//! If all requests were flushed, 21 cases would end otherwise than within the device (docs/decisions.md).

use iwarp::{
    segment::{ReadRequest, Segment, Tagged},
    terminate::{Cause, Terminate},
};
use platform::{Arc, Platform};

use super::transmit::TxStream;
use crate::{
    Error, QueuePair, Remote,
    qp::LockedQp,
    qp::request::{InitiatorRequest, Operation},
};

/// The message of this side that the peer's Terminate names, and the status of its request.
#[derive(Clone, Copy)]
pub(super) struct TerminatedMessage {
    message: Message,
    error: Error,
}

#[derive(Clone, Copy)]
enum Message {
    Read(ReadRequest),
    Write(Tagged),
    /// The MSN of the send.
    Send(u32),
}

impl TerminatedMessage {
    /// The message that the `body` of a Terminate names; `None`: the Terminate names no message, or its cause does not fit that message.
    pub(super) fn parse(body: &[u8]) -> Option<Self> {
        let Terminate { cause, headers } = Terminate::parse(body)?;
        let (message, error) = match headers?.segment()? {
            Segment::ReadRequest(_, request) => (Message::Read(request), of_read(cause)?),
            Segment::Write(to) => (Message::Write(to), of_write(cause)?),
            Segment::Send(untagged, _) => (Message::Send(untagged.msn), of_send(cause)?),
            Segment::ReadResponse(_) | Segment::Terminate(_) => return None,
        };
        Some(Self { message, error })
    }
}

fn of_read(cause: Cause) -> Option<Error> {
    match cause {
        Cause::STAG | Cause::ACCESS | Cause::NOT_OF_STREAM | Cause::PROTECTION => Some(Error::AccessViolation),
        Cause::BOUNDS | Cause::WRAP => Some(Error::RemoteResources),
        _ => None,
    }
}

fn of_write(cause: Cause) -> Option<Error> {
    match cause {
        Cause::TAGGED_STAG
        | Cause::TAGGED_BOUNDS
        | Cause::TAGGED_NOT_OF_STREAM
        | Cause::TAGGED_WRAP
        | Cause::ACCESS
        | Cause::PROTECTION => Some(Error::AccessViolation),
        _ => None,
    }
}

/// NO_BUFFER: no receive in time. The others: the receive was too small, or the tag could not be invalidated.
fn of_send(cause: Cause) -> Option<Error> {
    match cause {
        Cause::NO_BUFFER => Some(Error::TimedOut),
        Cause::UNTAGGED_TOO_LONG
        | Cause::NOT_INVALIDATED
        | Cause::PROTECTED_FROM_INVALIDATION
        | Cause::STAG
        | Cause::ACCESS
        | Cause::NOT_OF_STREAM
        | Cause::PROTECTION => Some(Error::DataError),
        _ => None,
    }
}

impl<P: Platform> QueuePair<P> {
    /// The peer has refused a message, and ended the stream by a Terminate. Notes the request of that message, which the flush ends
    /// with the error. `next_response` is the sink STag of the read whose response is due.
    pub(super) fn note_terminated(
        this: &Arc<Self, P>,
        terminated: Option<TerminatedMessage>,
        tx: &TxStream<P>,
        next_response: u32,
    ) {
        let mut state = this.state.lock();
        state.failed_request = terminated.and_then(|terminated| {
            let found = match terminated.message {
                Message::Read(request) => state.read_named(&request, next_response, tx.confirmation),
                Message::Write(to) => state.write_named(to),
                Message::Send(msn) => state.send_named(msn, tx.next_send),
            };
            found.map(|slot| (slot, terminated.error))
        });
        drop(state);
        // The peer has placed all messages before the refused one. If the Terminate names no request, or the read that confirms (siw refuses a read
        // that arrives after its consumer has disconnected), what was handed to TCP counts as placed.
        Self::confirm(this, |state| {
            let oldest = state.initiator_queue.front().map(|(slot, _)| slot);
            !state.oldest_is_read() && oldest != state.failed_request.map(|(slot, _)| slot)
        });
    }
}

/// Searches the requests that are carried out or begun, and not completed. Each `*_named` returns the request's slot.
impl<P: Platform> LockedQp<P> {
    /// `confirmation`: the sink STag of the wire's own read under way, which is no request.
    fn read_named(&mut self, request: &ReadRequest, next_response: u32, confirmation: Option<u32>) -> Option<usize> {
        let mut number = next_response;
        for place in 0..self.outstanding {
            let (slot, &InitiatorRequest { data, .. }) = self.initiator_queue.nth(place)?;
            if let Some(&mut Operation::Read(Remote { address, token })) = self.operation_mut(slot) {
                if confirmation == Some(number) {
                    number = number.wrapping_add(1);
                }
                if number == request.sink_stag {
                    let is_it =
                        (request.source_stag, request.source_offset, request.size) == (token, address, data.length);
                    return is_it.then_some(slot);
                }
                number = number.wrapping_add(1);
            }
        }
        None
    }

    fn write_named(&mut self, to: Tagged) -> Option<usize> {
        (0..self.begun()).find_map(|place| {
            let (slot, &InitiatorRequest { data, .. }) = self.initiator_queue.nth(place)?;
            match self.operation_mut(slot) {
                Some(&mut Operation::Write(Remote { address, token })) if token == to.stag => {
                    let offset = to.offset.checked_sub(address)?;
                    (offset < data.length.into()).then_some(slot)
                }
                _ => None,
            }
        })
    }

    fn send_named(&mut self, msn: u32, next_send: u32) -> Option<usize> {
        let mut number = next_send;
        for place in (0..self.begun()).rev() {
            let (slot, _) = self.initiator_queue.nth(place)?;
            if matches!(self.operation_mut(slot), None | Some(Operation::Send(_))) {
                number = number.wrapping_sub((place < self.outstanding).into());
                if number == msn {
                    return Some(slot);
                }
            }
        }
        None
    }

    /// The number of oldest requests of which the peer may have received a part.
    fn begun(&self) -> usize {
        self.outstanding.saturating_add((self.done > 0).into())
    }
}
