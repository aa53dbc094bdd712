//! Completion queues.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::{ptr, time::Duration};

use anyhow::ensure;
use nd_com::v1::{INDCompletionQueue, ND_RESULT};

use super::{
    super::{Completion, Signal, both},
    Request, ask, begin, results,
};
use crate::error::Result;

/// INDCompletionQueue.
#[derive(Clone)]
pub(crate) struct Cq {
    pub(crate) com: INDCompletionQueue,
    pub(super) patience: Duration,
}

impl both::CompletionQueue for Cq {
    fn patience(&self) -> Duration {
        self.patience
    }

    fn resize(&self, depth: usize) -> Result<()> {
        ask!(INDCompletionQueue::Resize, self.com, depth)
    }

    fn notify_by(&self, kind: u32, signal: Signal) -> Result<Request> {
        begin!(signal, self.patience, INDCompletionQueue::Notify, self.com, kind)
    }

    fn poll(&self, count: usize) -> anyhow::Result<Vec<Completion>> {
        let untouched: *mut ND_RESULT = ptr::without_provenance_mut(0xa5a5);
        let mut found = vec![untouched; count];
        // SAFETY: the interface is held; there are as many places as it is told.
        let filled = unsafe { self.com.GetResults(found.as_mut_ptr(), count) };
        ensure!(filled <= count, "GetResults says that it filled in {filled} of {count} results");
        ensure!(found[filled..].iter().all(|place| *place == untouched), "GetResults wrote more than it said");
        found[..filled].iter().map(|pointer| results::taken(*pointer)).collect()
    }

    fn cancel(&self) -> Result<()> {
        ask!(INDOverlapped::CancelOverlappedRequests, self.com)
    }
}
