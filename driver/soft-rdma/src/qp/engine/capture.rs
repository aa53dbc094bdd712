//! What a step within the device adds to a capture: the DDP segments that a wire would have carried.

use iwarp::segment::{ReadRequest, Segment, Send, Tagged, Untagged};
use platform::{Platform, Weak};

use crate::{
    Error, QueuePair,
    qp::engine::{Progress, StepData, Transfer},
    qp::request::Piece,
};

impl<P: Platform> QueuePair<P> {
    /// Captures what a step has moved, or that it has failed. Not inlined: the engine's frame would get room for a record.
    #[cold]
    #[inline(never)]
    pub(super) fn capture(&self, data: &StepData, inline: &[u8], transfer: Transfer, progress: &Progress) {
        let connector = self.state.lock().connector.as_ref().and_then(Weak::upgrade);
        let Some(connector) = connector else { return };
        let Some(tap) = self.pd.adapter().device().capture().tap(|| connector.addresses_and_role().0) else { return };
        let bytes = match progress {
            Progress::Bytes(bytes) => *bytes,
            Progress::Complete if data.length == 0 => 0,
            Progress::Failed(error) => return tap.failed(*error),
            Progress::NoReceive { .. } if !self.state.lock().awaits_receive => return tap.not_ready(tap.sent),
            _ => return,
        };
        let ends_message = u64::from(bytes) == data.left();
        let position = |offset: u32| data.done.saturating_add(offset.into());
        let copy = |offset: u32, to: &mut [u8]| self.captured(data, inline, offset, to);
        match transfer {
            Transfer::Send { invalidate, solicited } => {
                let segment = |offset, last| {
                    let mo = u32::try_from(position(offset)).unwrap_or(u32::MAX);
                    Segment::Send(Untagged { last: last && ends_message, msn: 0, mo }, Send { solicited, invalidate })
                };
                tap.segments(tap.sent, bytes, segment, copy);
            }
            Transfer::Write(remote) => {
                let segment = |offset, last| {
                    let offset = remote.address.wrapping_add(position(offset));
                    Segment::Write(Tagged { last: last && ends_message, stag: remote.token, offset })
                };
                tap.segments(tap.sent, bytes, segment, copy);
            }
            Transfer::Read(remote) => {
                if data.done == 0 {
                    let request = ReadRequest {
                        sink_stag: 0,
                        sink_offset: 0,
                        size: data.length,
                        source_stag: remote.token,
                        source_offset: remote.address,
                    };
                    let untagged = Untagged { last: true, msn: 0, mo: 0 };
                    tap.segments(tap.sent, 0, |_, _| Segment::ReadRequest(untagged, request), |_, _| Ok(()));
                }
                let segment = |offset, last| {
                    Segment::ReadResponse(Tagged { last: last && ends_message, stag: 0, offset: position(offset) })
                };
                tap.segments(tap.received, bytes, segment, copy);
            }
        }
    }

    /// Copies data that the step has moved, from `offset` on: a read has placed it, a send or write has sent it from there.
    fn captured(&self, data: &StepData, inline: &[u8], offset: u32, to: &mut [u8]) -> Result<(), Error> {
        if to.is_empty() {
            return Ok(());
        }
        let local = match data.local {
            Some(Piece { address, token, length }) => {
                let address = address.checked_add(offset.into()).ok_or(Error::AccessViolation)?;
                Some(Piece { address, token, length: length.saturating_sub(offset) })
            }
            None => None,
        };
        let done = data.done.saturating_add(offset.into());
        self.copy_out(to, &StepData { done, local, ..*data }, inline)
    }
}
