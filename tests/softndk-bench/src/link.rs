//! Two connected queue pairs, each side with its own domain, completion queues and buffer.

use std::sync::Arc;

use ndk_abi::ndkpi::NDK_OP_FLAG_DEFER;

use crate::{
    memory::{Buffer, Message},
    ndk::{Adapter, Connector, Cq, Listener, Pd, Qp, QpSizes},
};

/// Posts in one batch: all but the last are deferred.
pub const BATCH: usize = 32;

/// One side.
#[derive(Debug)]
pub struct Side {
    /// The queue pair.
    pub qp: Qp,
    /// A message slot for each request.
    pub buffer: Buffer,
    /// For receives.
    pub receive_cq: Arc<Cq>,
    /// For sends.
    pub initiator_cq: Cq,
    _pd: Pd,
}

impl Side {
    fn new(adapter: &Adapter, depth: usize, bytes: usize) -> Self {
        Self::with_receive_cq(adapter, depth, bytes, &Arc::new(adapter.cq(depth as u32)))
    }

    /// One whose receives complete to `receive_cq`.
    #[must_use]
    pub fn with_receive_cq(adapter: &Adapter, depth: usize, bytes: usize, receive_cq: &Arc<Cq>) -> Self {
        let pd = adapter.pd();
        let (receive_cq, initiator_cq) = (receive_cq.clone(), adapter.cq(depth as u32));
        let sizes = QpSizes { depth: depth as u32, sges: 1, inline_data: 0 };
        let qp = pd.qp(&receive_cq, &initiator_cq, 0, sizes);
        let buffer = Buffer::new(&pd, bytes);
        Self { qp, buffer, receive_cq, initiator_cq, _pd: pd }
    }
}

/// A connection. The sender's sends go to the receiver's receives.
#[derive(Debug)]
pub struct Link {
    _connectors: [Connector; 2],
    /// Who posts sends.
    pub sender: Side,
    /// Who posts receives.
    pub receiver: Side,
    /// Requests that each queue takes, and messages in each buffer.
    pub depth: usize,
}

impl Link {
    /// A connection for messages, `depth` of them.
    #[must_use]
    pub fn new(adapter: &Adapter, listener: &Listener, depth: usize) -> Self {
        Self::with_bytes(adapter, listener, depth, depth * size_of::<Message>())
    }

    /// A connection with `bytes` of buffer on each side.
    #[must_use]
    pub fn with_bytes(adapter: &Adapter, listener: &Listener, depth: usize, bytes: usize) -> Self {
        Self::of(adapter, listener, depth, Side::new(adapter, depth, bytes), Side::new(adapter, depth, bytes))
    }

    /// A connection between two devices, with `bytes` of buffer on each side.
    #[must_use]
    pub fn between(from: &Adapter, to: &Adapter, listener: &Listener, depth: usize, bytes: usize) -> Self {
        Self::of(from, listener, depth, Side::new(from, depth, bytes), Side::new(to, depth, bytes))
    }

    /// The same with completion queues for the receives of both sides.
    #[must_use]
    pub fn between_notified(
        [from, to]: [&Adapter; 2],
        listener: &Listener,
        depth: usize,
        bytes: usize,
        [ours, theirs]: [&Arc<Cq>; 2],
    ) -> Self {
        let sender = Side::with_receive_cq(from, depth, bytes, ours);
        Self::of(from, listener, depth, sender, Side::with_receive_cq(to, depth, bytes, theirs))
    }

    /// A connection for messages whose receives complete to `receive_cq`.
    #[must_use]
    pub fn notified(adapter: &Adapter, listener: &Listener, depth: usize, receive_cq: &Arc<Cq>) -> Self {
        let bytes = depth * size_of::<Message>();
        let receiver = Side::with_receive_cq(adapter, depth, bytes, receive_cq);
        Self::of(adapter, listener, depth, Side::new(adapter, depth, bytes), receiver)
    }

    fn of(adapter: &Adapter, listener: &Listener, depth: usize, sender: Side, receiver: Side) -> Self {
        let connectors = adapter.connect(listener, &sender.qp, &receiver.qp);
        Self { _connectors: connectors, sender, receiver, depth }
    }

    /// Posts a receive for each of the messages `first..first + count`.
    #[inline]
    pub fn post_receives(&self, first: usize, count: usize) {
        for index in first..first + count {
            let slot = index % self.depth;
            self.receiver.qp.receive(slot, &self.receiver.buffer.message(slot));
        }
    }

    /// Writes and sends the messages `first..first + count` as one batch.
    #[inline]
    pub fn post_sends(&self, first: usize, count: usize) {
        for index in first..first + count {
            let slot = index % self.depth;
            self.sender.buffer.memory.write(slot, [index as u64; 8]);
            let flags = if index + 1 == first + count { 0 } else { NDK_OP_FLAG_DEFER };
            self.sender.qp.send(slot, &self.sender.buffer.message(slot), flags);
        }
    }

    /// Passes `count` messages, `batch` at a time, all on this thread; the sum of their first words.
    #[must_use]
    pub fn pass(&self, count: usize, batch: usize) -> u64 {
        let mut sum = 0u64;
        for first in (0..count).step_by(batch) {
            self.post_receives(first, batch);
            self.post_sends(first, batch);
            self.receiver.receive_cq.take(batch, |result| {
                sum = sum.wrapping_add(self.receiver.buffer.memory.read(result.RequestContext.addr())[0]);
            });
            self.sender.initiator_cq.take(batch, |_| ());
        }
        sum
    }
}
