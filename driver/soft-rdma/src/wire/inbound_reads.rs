//! The peer's reads whose response is due, oldest first: siw's IRQ.

use iwarp::segment::ReadRequest;
use platform::{OutOfMemory, Platform};

use crate::ring::Ring;

/// A read of the peer, and how much of its response is sent.
#[derive(Clone, Copy)]
pub(super) struct InboundRead {
    /// The MSN of the request.
    pub(super) msn: u32,
    pub(super) request: ReadRequest,
    /// Bytes of the response that are sent.
    pub(super) done: u32,
}

/// The reads of the peer whose response is due.
pub(super) struct InboundReads<P: Platform> {
    requests: Ring<ReadRequest, P>,
    /// MSN of the oldest read: the first is 1, each next one is 1 more.
    msn: u32,
    done: u32,
}

impl<P: Platform> InboundReads<P> {
    /// Makes room for `reads` reads (IRD).
    pub(super) fn new(reads: u16) -> Result<Self, OutOfMemory> {
        const UNUSED: ReadRequest =
            ReadRequest { sink_stag: 0, sink_offset: 0, size: 0, source_stag: 0, source_offset: 0 };
        Ok(Self { requests: Ring::new(reads.into(), UNUSED)?, msn: 1, done: 0 })
    }

    /// Queues a read. False: the peer has more reads under way than the agreed IRD.
    pub(super) fn push(&mut self, request: ReadRequest) -> bool {
        self.requests.push(request).is_ok()
    }

    pub(super) fn oldest(&self) -> Option<InboundRead> {
        self.requests.front().map(|(_, &request)| InboundRead { msn: self.msn, request, done: self.done })
    }

    /// `bytes` more of the oldest read are sent. `last`: its response is complete.
    pub(super) fn sent(&mut self, bytes: u32, last: bool) {
        self.done = self.done.saturating_add(bytes);
        if last {
            self.requests.skip(1);
            self.msn = self.msn.wrapping_add(1);
            self.done = 0;
        }
    }
}
