//! Messages to send: from the queue of upper messages to sends, as credits and places allow (MS-SMBD 3.1.5.1).

use ndk_abi::ndkpi::{NDK_OP_FLAG_DEFER, NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT, NDK_OP_FLAG_SILENT_SUCCESS};
use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_CONNECTION_INVALID, STATUS_INTERNAL_ERROR, STATUS_QUOTA_EXCEEDED,
    STATUS_SUCCESS,
};
use ndk_consumer::{Data, Work};
use platform::{Deferred, Slice};
use zerocopy::IntoBytes;

use super::{Connection, Keepalive, MESSAGE_BYTES, Phase, Purpose, State};
use crate::region::RegionMemory;
use crate::report::{Failure, Step};
use crate::wire::{DATA_OFFSET, DataTransfer, EMPTY_LENGTH, RESPONSE_REQUESTED};
use crate::{Kernel, PlatformOf, Ref};

/// The most sends of one batch. Only the last send of a batch is signalled and not deferred.
const BATCH: usize = 16;
/// The most receives that one refill posts.
const REFILL: u32 = 256;

/// An upper message that is being sent.
pub(super) struct Outgoing<K: Kernel> {
    bytes: Slice<u8, PlatformOf<K>>,
    sent: usize,
    /// The peer's token that the first fragment invalidates.
    invalidate: Option<u32>,
    /// The wait of the message for a credit or for room was counted already.
    stalled: bool,
}

/// A send that has its place and its buffer.
struct Fragment {
    context: u64,
    slot: u32,
    length: u32,
    invalidate: Option<u32>,
    /// The fragment ends its upper message, or has no payload: a waiting consumer should be notified.
    solicited: bool,
}

impl<K: Kernel> Connection<K> {
    /// Whether an upper message of `length` bytes may be sent now. STATUS_CONNECTION_INVALID: the connection is not established;
    /// STATUS_BUFFER_OVERFLOW: the message is empty, or longer than the peer accepts; STATUS_QUOTA_EXCEEDED: too many bytes wait.
    pub(crate) fn check_send(&self, length: usize) -> Result<(), NTSTATUS> {
        self.state.lock().check_send(length)
    }

    /// Sends an upper message, and invalidates a token of the peer with it. Errors as [`Self::check_send`], STATUS_QUOTA_EXCEEDED if too many
    /// messages wait, and the status of a failure that ends the connection during the call.
    pub(crate) fn send(
        this: &Ref<Self, K>,
        bytes: Slice<u8, PlatformOf<K>>,
        invalidate: Option<u32>,
    ) -> Result<(), NTSTATUS> {
        let mut state = this.state.lock();
        state.check_send(bytes.len())?;
        let length = bytes.len();
        let message = Outgoing { bytes, sent: 0, invalidate, stalled: false };
        state.outgoing.push(message).map_err(|_full| STATUS_QUOTA_EXCEEDED)?;
        state.outgoing_bytes = state.outgoing_bytes.saturating_add(length);
        Self::pump(this, &mut state);
        match state.failure {
            Some(failure) => Err(failure.status),
            None => Ok(()),
        }
    }

    /// Sends at most one batch; the deferred call sends the rest.
    pub(super) fn pump(this: &Ref<Self, K>, state: &mut State<K>) {
        let mut last: Option<Fragment> = None;
        let mut result = Ok(());
        for number in 1..=BATCH {
            let next = match this.compose(state) {
                Ok(Some(next)) => next,
                Ok(None) => break,
                Err(status) => {
                    result = Err(status);
                    break;
                }
            };
            if let Some(before) = last.replace(next) {
                result = result.and(this.post_send(state, &before, NDK_OP_FLAG_SILENT_SUCCESS | NDK_OP_FLAG_DEFER));
            }
            if number == BATCH {
                Deferred::schedule(this);
            }
        }
        if let Some(last) = last {
            result = result.and_then(|()| this.post_send(state, &last, 0));
        }
        if let Err(status) = result {
            state.fail(Failure { step: Step::Transport, status });
            this.bell.ring();
        }
    }

    /// Builds the next send, if a message, an answer, a keepalive or a grant is due, and if room and credits allow a send.
    fn compose(&self, state: &mut State<K>) -> Result<Option<Fragment>, NTSTATUS> {
        let queued = !state.outgoing.is_empty();
        let asked = state.answer_due || state.keepalive == Keepalive::Pending;
        if state.phase != Phase::Established || !(queued || asked || state.credits.grant_due()) {
            return Ok(None);
        }
        if !state.initiator.has_room_for_send() {
            if stalls(state) {
                state.figures.queue_stalls = state.figures.queue_stalls.saturating_add(1);
            }
            return Ok(None);
        }
        self.refill(state)?;
        if queued && state.credits.must_post() {
            self.post_receive(state)?;
            state.credits.posted();
        }
        if !state.credits.may_send() {
            if stalls(state) {
                state.figures.credit_stalls = state.figures.credit_stalls.saturating_add(1);
            }
            return Ok(None);
        }
        if !queued && !asked && !state.credits.has_grant() {
            state.credits.forget_grant();
            return Ok(None);
        }
        let (context, slot) = state.initiator.take(Purpose::Send, 0);
        let mut header = DataTransfer {
            credits_requested: self.settings.credits.into(),
            credits_granted: state.credits.spend().into(),
            flags: 0.into(),
            reserved: 0.into(),
            remaining_data_length: 0.into(),
            data_offset: 0.into(),
            data_length: 0.into(),
        };
        if state.keepalive == Keepalive::Pending {
            header.flags = RESPONSE_REQUESTED.into();
            state.keepalive = Keepalive::Sent;
        }
        state.answer_due = false;
        let mut fragment = Fragment { context, slot, length: EMPTY_LENGTH, invalidate: None, solicited: true };
        self.add_payload(state, &mut header, &mut fragment)?;
        self.qp.context().write_send(slot, 0, header.as_bytes())?;
        state.figures.messages_sent = state.figures.messages_sent.saturating_add(1);
        Ok(Some(fragment))
    }

    /// Adds the next part of the oldest upper message.
    fn add_payload(
        &self,
        state: &mut State<K>,
        header: &mut DataTransfer,
        fragment: &mut Fragment,
    ) -> Result<(), NTSTATUS> {
        let room = state.terms.send_size.saturating_sub(DATA_OFFSET) as usize;
        let Some(message) = state.outgoing.front() else { return Ok(()) };
        let rest = message.bytes.get(message.sent..).unwrap_or(&[]);
        let (part, after) = rest.split_at_checked(room).unwrap_or((rest, &[]));
        header.data_offset = DATA_OFFSET.into();
        header.data_length = u32::try_from(part.len()).map_err(|_| STATUS_INTERNAL_ERROR)?.into();
        header.remaining_data_length = u32::try_from(after.len()).map_err(|_| STATUS_INTERNAL_ERROR)?.into();
        fragment.length = header.data_length.get().saturating_add(DATA_OFFSET);
        fragment.invalidate = message.invalidate.take();
        fragment.solicited = after.is_empty();
        self.qp.context().write_send(fragment.slot, DATA_OFFSET as usize, part)?;
        message.sent = message.sent.saturating_add(part.len());
        message.stalled = false;
        if fragment.solicited {
            state.outgoing_bytes = state.outgoing_bytes.saturating_sub(message.bytes.len());
            state.outgoing.pop();
        }
        Ok(())
    }

    fn post_send(&self, state: &mut State<K>, fragment: &Fragment, flags: u32) -> Result<(), NTSTATUS> {
        let solicit = if fragment.solicited { NDK_OP_FLAG_SEND_AND_SOLICIT_EVENT } else { 0 };
        let sges = [self.qp.context().send_sge(fragment.slot, fragment.length)];
        let data = Data::Regions(&sges);
        let work: Work<'_, RegionMemory<K>, PlatformOf<K>> = match fragment.invalidate {
            Some(token) => Work::SendAndInvalidate { data, token },
            None => Work::Send(data),
        };
        match self.qp.post(fragment.context, &work, flags | solicit) {
            STATUS_SUCCESS => {
                if flags & NDK_OP_FLAG_SILENT_SUCCESS == 0 {
                    state.initiator.signalled(fragment.context);
                }
                Ok(())
            }
            status => Err(status),
        }
    }

    /// Sends a message of the negotiation, which takes no credit.
    pub(super) fn send_negotiation(&self, state: &mut State<K>, bytes: &[u8]) -> Result<(), NTSTATUS> {
        let (context, slot) = state.initiator.take(Purpose::Send, 0);
        self.qp.context().write_send(slot, 0, bytes)?;
        let length = u32::try_from(bytes.len()).map_err(|_| STATUS_INTERNAL_ERROR)?;
        state.figures.messages_sent = state.figures.messages_sent.saturating_add(1);
        self.post_send(state, &Fragment { context, slot, length, invalidate: None, solicited: true }, 0)
    }

    /// Posts receives up to the target. They are posted before they are granted: the peer may use a grant at once.
    pub(super) fn refill(&self, state: &mut State<K>) -> Result<(), NTSTATUS> {
        for _ in 0..state.credits.wanted_receives().min(REFILL) {
            self.post_receive(state)?;
            state.credits.posted();
        }
        Ok(())
    }
}

impl<K: Kernel> State<K> {
    fn check_send(&self, length: usize) -> Result<(), NTSTATUS> {
        if self.phase != Phase::Established {
            Err(STATUS_CONNECTION_INVALID)
        } else if length == 0 || length > self.terms.fragmented_size as usize {
            Err(STATUS_BUFFER_OVERFLOW)
        } else if self.outgoing_bytes.saturating_add(length) > MESSAGE_BYTES {
            Err(STATUS_QUOTA_EXCEEDED)
        } else {
            Ok(())
        }
    }
}

/// Whether the oldest message begins to wait now.
fn stalls<K: Kernel>(state: &mut State<K>) -> bool {
    state.outgoing.front().is_some_and(|message| !core::mem::replace(&mut message.stalled, true))
}
