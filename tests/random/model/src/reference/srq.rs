//! Shared receive queues (4.3).

use std::collections::VecDeque;

use ndk_abi::status::{
    NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_DATA_OVERRUN, STATUS_INVALID_PARAMETER, STATUS_NO_MORE_ENTRIES,
    STATUS_SUCCESS,
};

use super::{
    Callback, Life, Model, Phase, Result,
    qp::{LONGEST, Receive},
    work::{Sge, total},
};

#[derive(Debug)]
pub(crate) struct Srq {
    pub(crate) life: Life,
    pub(crate) depth: usize,
    sges: usize,
    threshold: usize,
    pub(super) armed: bool,
    pub(super) receives: VecDeque<Receive>,
}

impl Model {
    /// Not armed: `docs/decisions.md`.
    pub(crate) fn create_srq(&mut self, depth: u32, sges: u32, threshold: u32) -> usize {
        self.srqs.push(Srq {
            life: Life::Open,
            depth: depth as usize,
            sges: sges as usize,
            threshold: threshold as usize,
            armed: false,
            receives: VecDeque::new(),
        });
        self.srqs.len() - 1
    }

    /// The queue pairs whose peers have a send that waits for a receive of this queue.
    pub(crate) fn waiting_for(&self, srq: usize) -> Vec<usize> {
        let waits = |qp: &usize| {
            let qp = &self.qps[*qp];
            qp.srq == Some(srq) && qp.phase == Phase::Connected && qp.peer.is_some_and(|peer| self.qps[peer].waits())
        };
        (0..self.qps.len()).filter(waits).collect()
    }

    /// NdkSrqReceive. If several sends wait for it, that to `taker` gets it.
    pub(crate) fn srq_receive(
        &mut self,
        srq: usize,
        context: usize,
        sges: &[Sge],
        taker: Option<usize>,
        actual: NTSTATUS,
    ) -> Result<()> {
        let queue = &self.srqs[srq];
        let broken = [
            (sges.len() > queue.sges, STATUS_DATA_OVERRUN),
            (total(sges) > LONGEST, STATUS_BUFFER_OVERFLOW),
            (queue.receives.len() >= queue.depth, STATUS_NO_MORE_ENTRIES),
        ];
        if self.judge("NdkSrqReceive", &broken, actual)? {
            self.srqs[srq].receives.push_back(Receive { context, sges: sges.to_vec() });
            if let Some(sender) = taker.and_then(|taker| self.qps[taker].peer) {
                self.step(sender);
            }
            self.run();
        }
        Ok(())
    }

    /// NdkModifySrq.
    pub(crate) fn modify_srq(&mut self, srq: usize, depth: u32, threshold: u32, actual: NTSTATUS) -> Result<()> {
        const LIMIT: u32 = 16_384;
        let queue = &self.srqs[srq];
        let broken = [
            (depth > LIMIT, STATUS_INVALID_PARAMETER),
            (depth != 0 && (depth as usize) < queue.receives.len(), STATUS_BUFFER_OVERFLOW),
        ];
        if !self.judge("NdkModifySrq", &broken, actual)? {
            return Ok(());
        }
        let queue = &mut self.srqs[srq];
        if depth != 0 {
            queue.depth = depth as usize;
        }
        if threshold != 0 {
            queue.threshold = threshold as usize;
            queue.armed = true;
        }
        self.notify_srq(srq);
        Ok(())
    }

    fn notify_srq(&mut self, srq: usize) {
        let queue = &mut self.srqs[srq];
        if queue.armed && queue.receives.len() < queue.threshold {
            queue.armed = false;
            self.due.push(Callback::SrqNotified(srq, STATUS_SUCCESS));
        }
    }

    pub(super) fn take_from_srq(&mut self, srq: usize) -> Option<Receive> {
        let receive = self.srqs[srq].receives.pop_front()?;
        self.notify_srq(srq);
        Some(receive)
    }
}
