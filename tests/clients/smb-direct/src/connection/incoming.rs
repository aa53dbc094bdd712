//! Received messages: checks, credits, reassembly (MS-SMBD 3.1.5.8).

use ndk_abi::status::{NTSTATUS, STATUS_INTERNAL_ERROR, STATUS_INVALID_NETWORK_RESPONSE, STATUS_QUOTA_EXCEEDED};
use platform::Slice;
use zerocopy::{FromZeros, IntoBytes};

use super::{Connection, Keepalive, MESSAGE_BYTES, Message, Phase, State, Watch};
use crate::report::{Failure, Step};
use crate::wire::{DataTransfer, EMPTY_LENGTH, RESPONSE_REQUESTED};
use crate::{Kernel, PlatformOf, no_memory};

/// The upper message that is being reassembled.
pub(super) struct Assembly<K: Kernel> {
    bytes: Option<Slice<u8, PlatformOf<K>>>,
    filled: usize,
    /// The token that a fragment invalidated; any fragment may do so, but only one.
    invalidated: Option<u32>,
}

impl<K: Kernel> Default for Assembly<K> {
    fn default() -> Self {
        Self { bytes: None, filled: 0, invalidated: None }
    }
}

impl<K: Kernel> Connection<K> {
    /// Handles the message of a completed receive.
    pub(super) fn received(&self, state: &mut State<K>, slot: u32, length: u32, token: Option<u32>) {
        state.figures.messages_received = state.figures.messages_received.saturating_add(1);
        let (step, result) = match state.phase {
            Phase::Over => (Step::Transport, Ok(())),
            // The message came before the call of `connected`: the accept may not have completed, and nothing can be sent before.
            Phase::Passive if !state.up => {
                state.held = Some((slot, length));
                return;
            }
            Phase::Active | Phase::Passive => return self.negotiation_received(state, slot, length),
            Phase::Established => (Step::Transport, self.data_received(state, slot, length, token)),
        };
        state.free.give_back(slot);
        if let Err(status) = result {
            state.fail(Failure { step, status });
        }
    }

    fn negotiation_received(&self, state: &mut State<K>, slot: u32, length: u32) {
        if let Err(status) = self.negotiate(state, slot, length) {
            state.fail(Failure { step: Step::Negotiate, status });
        }
    }

    /// Handles a data transfer message. STATUS_INVALID_NETWORK_RESPONSE: the message breaks the protocol.
    fn data_received(&self, state: &mut State<K>, slot: u32, length: u32, token: Option<u32>) -> Result<(), NTSTATUS> {
        if length < EMPTY_LENGTH {
            return Err(STATUS_INVALID_NETWORK_RESPONSE);
        }
        let mut header = DataTransfer::new_zeroed();
        self.qp.context().read_receive(slot, 0, header.as_mut_bytes())?;
        let (requested, granted) = (header.credits_requested.get(), header.credits_granted.get());
        let (offset, part) = (header.data_offset.get(), header.data_length.get());
        let has_payload = part > 0;
        let fits = offset.checked_add(part).is_some_and(|end| end <= length);
        let total = part.checked_add(header.remaining_data_length.get());
        let total = total.filter(|total| *total <= self.settings.fragmented_size);
        let (true, Some(total)) = (fits && requested > 0 && offset.is_multiple_of(8), total) else {
            return Err(STATUS_INVALID_NETWORK_RESPONSE);
        };
        if !state.credits.received(requested, granted, has_payload) {
            return Err(STATUS_INVALID_NETWORK_RESPONSE);
        }
        if state.keepalive == Keepalive::Sent {
            state.figures.keepalives = state.figures.keepalives.saturating_add(1);
            state.keepalive = Keepalive::None;
        }
        Watch::start(&self.watch, self.settings.keepalive_interval);
        // The answer does not set the flag: otherwise both ends would ask each other for ever.
        state.answer_due |= header.flags.get() & RESPONSE_REQUESTED != 0;
        if token.is_some() && core::mem::replace(&mut state.assembly.invalidated, token).is_some() {
            return Err(STATUS_INVALID_NETWORK_RESPONSE);
        }
        if has_payload { self.append(state, slot, offset as usize, part as usize, total as usize) } else { Ok(()) }
    }

    /// Appends a fragment of `part` bytes; `total` is `part` and the bytes that later fragments bring.
    fn append(
        &self,
        state: &mut State<K>,
        slot: u32,
        offset: usize,
        part: usize,
        total: usize,
    ) -> Result<(), NTSTATUS> {
        let assembly = &mut state.assembly;
        let bytes = match &mut assembly.bytes {
            Some(bytes) => bytes,
            none => {
                if state.inbox_bytes.saturating_add(total) > MESSAGE_BYTES {
                    return Err(STATUS_QUOTA_EXCEEDED);
                }
                assembly.filled = 0;
                none.insert(Slice::filled(total, 0).map_err(no_memory)?)
            }
        };
        let rest = bytes.get_mut(assembly.filled..).ok_or(STATUS_INTERNAL_ERROR)?;
        if rest.len() != total {
            return Err(STATUS_INVALID_NETWORK_RESPONSE);
        }
        let place = rest.get_mut(..part).ok_or(STATUS_INVALID_NETWORK_RESPONSE)?;
        self.qp.context().read_receive(slot, offset, place)?;
        assembly.filled = assembly.filled.saturating_add(part);
        if part < total {
            return Ok(());
        }
        let Some(bytes) = assembly.bytes.take() else { return Err(STATUS_INTERNAL_ERROR) };
        state.inbox_bytes = state.inbox_bytes.saturating_add(bytes.len());
        let message = Message { bytes, invalidated: assembly.invalidated.take() };
        state.inbox.push(message).map_err(|_full| STATUS_QUOTA_EXCEEDED)
    }
}
