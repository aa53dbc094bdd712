//! How queue pairs end (4.9).

use ndk_abi::status::STATUS_CANCELLED;

use super::{Mistake, Model, Phase, Qp};

impl Qp {
    /// Whether its connection is established, or has ended.
    pub(crate) fn was_connected(&self) -> bool {
        ![Phase::Idle, Phase::Connecting].contains(&self.phase)
    }
}

impl Model {
    /// One of its completion queues is dead: so is the queue pair.
    pub(super) fn queue_failed(&mut self, qp: usize) {
        match self.qps[qp].phase {
            Phase::Connected => self.abort(qp),
            Phase::Idle | Phase::PeerGone => self.terminate(qp),
            // It will be seen when it is connected.
            Phase::Connecting | Phase::Dead => {}
        }
    }

    /// Whether one of its completion queues is dead.
    pub(super) fn has_failed_queue(&self, qp: usize) -> bool {
        let qp = &self.qps[qp];
        self.cqs[qp.receive_cq].is_dead() || self.cqs[qp.initiator_cq].is_dead()
    }

    /// NdkFlush: all that is posted is cancelled. Receives of a shared queue are not the queue pair's.
    pub(crate) fn flush(&mut self, qp: usize) {
        for request in std::mem::take(&mut self.qps[qp].requests) {
            self.complete_request(qp, &request, Some(vec![STATUS_CANCELLED]));
        }
        (self.qps[qp].awaits_receive, self.qps[qp].has_passed) = (false, false);
        if self.mistake == Some(Mistake::FlushKeepsReceives) {
            return;
        }
        for receive in std::mem::take(&mut self.qps[qp].receives) {
            self.complete_receive(qp, &receive, vec![STATUS_CANCELLED], 0, None, true);
        }
    }

    /// This side has ended the connection, or it was aborted.
    pub(super) fn terminate(&mut self, qp: usize) {
        self.qps[qp].phase = Phase::Dead;
        self.flush(qp);
    }

    /// A connected queue pair lives on until its connector is closed; other queue pairs are flushed.
    pub(super) fn close_qp(&mut self, qp: usize) {
        if !matches!(self.qps[qp].phase, Phase::Connected | Phase::PeerGone) {
            self.flush(qp);
        }
    }
}
