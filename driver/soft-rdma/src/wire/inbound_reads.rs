//! Reads of the peer that wait for their answers, in the order they came: siw's IRQ.

use iwarp::segment::ReadRequest;
use platform::{OutOfMemory, Platform};

use crate::ring::Ring;

/// A read of the peer, of which `done` bytes are answered.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    /// Its MSN.
    pub(super) message: u32,
    pub(super) request: ReadRequest,
    /// Bytes that are sent.
    pub(super) done: u32,
}

/// The reads that wait.
pub(super) struct Answers<P: Platform> {
    waiting: Ring<ReadRequest, P>,
    /// MSN of the oldest: they come in their order, from 1.
    message: u32,
    done: u32,
}

impl<P: Platform> Answers<P> {
    /// Room for `reads` (IRD).
    pub(super) fn new(reads: u16) -> Result<Self, OutOfMemory> {
        const UNUSED: ReadRequest =
            ReadRequest { sink_stag: 0, sink_offset: 0, size: 0, source_stag: 0, source_offset: 0 };
        Ok(Self { waiting: Ring::new(reads.into(), UNUSED)?, message: 1, done: 0 })
    }

    /// Takes a read. False: the peer has more under way than was agreed.
    pub(super) fn push(&mut self, request: ReadRequest) -> bool {
        self.waiting.push(request).is_ok()
    }

    pub(super) fn oldest(&self) -> Option<Answer> {
        self.waiting.front().map(|(_, &request)| Answer { message: self.message, request, done: self.done })
    }

    /// So many bytes more of the oldest are sent, `last` if they are all.
    pub(super) fn sent(&mut self, bytes: u32, last: bool) {
        self.done = self.done.saturating_add(bytes);
        if last {
            self.waiting.skip(1);
            self.message = self.message.wrapping_add(1);
            self.done = 0;
        }
    }
}
