//! Completion queues and shared receive queues.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::time::Duration;

use anyhow::ensure;
use nd_com::v2::{IND2CompletionQueue, IND2SharedReceiveQueue, ND2_RESULT, ND2_SGE};
use ndk_abi::status::NTSTATUS;

use super::{Request, Signal, ask, begin, both, call, queue_pair::sge_pointer, saw};
use crate::error::Result;

/// ND2_RESULT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) status: NTSTATUS,
    pub(crate) bytes: u32,
    /// Of the queue pair; version 1 has none.
    pub(crate) qp_context: usize,
    pub(crate) context: usize,
    pub(crate) kind: i32,
}

/// The names of the kinds of request, by number.
pub(crate) const KINDS: [&str; 6] = ["Receive", "Send", "Bind", "Invalidate", "Read", "Write"];

impl Completion {
    fn of(result: &ND2_RESULT) -> Self {
        let status = NTSTATUS(result.Status.0);
        let kind = result.RequestType;
        if let Some(name) = usize::try_from(kind).ok().and_then(|kind| KINDS.get(kind)) {
            saw(name, status);
        }
        Self {
            status,
            bytes: result.BytesTransferred,
            qp_context: result.QueuePairContext.addr(),
            context: result.RequestContext.addr(),
            kind,
        }
    }
}

/// IND2CompletionQueue.
#[derive(Clone)]
pub(crate) struct Cq {
    pub(crate) com: IND2CompletionQueue,
    pub(super) patience: Duration,
}

impl Cq {
    /// GetNotifyAffinity: group and mask.
    pub(crate) fn affinity(&self) -> Result<(u16, usize)> {
        let (mut group, mut affinity) = (u16::MAX, 0);
        ask!(IND2CompletionQueue::GetNotifyAffinity, self.com, &raw mut group, &raw mut affinity)?;
        Ok((group, affinity))
    }

    /// GetNotifyAffinity without room for one of its answers.
    pub(crate) fn affinity_nowhere(&self, no_group: bool) -> NTSTATUS {
        let (mut group, mut affinity) = (0_u16, 0_usize);
        let (none, nowhere) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (group, affinity) = if no_group { (none, &raw mut affinity) } else { (&raw mut group, nowhere) };
        call!(IND2CompletionQueue::GetNotifyAffinity, self.com, group, affinity)
    }
}

impl both::CompletionQueue for Cq {
    fn patience(&self) -> Duration {
        self.patience
    }

    fn resize(&self, depth: usize) -> Result<()> {
        ask!(IND2CompletionQueue::Resize, self.com, depth as u32)
    }

    fn notify_by(&self, kind: u32, signal: Signal) -> Result<Request> {
        begin!(signal, self.patience, IND2CompletionQueue::Notify, self.com, kind)
    }

    fn poll(&self, count: usize) -> anyhow::Result<Vec<Completion>> {
        // SAFETY: an ND2_RESULT is plain data, for which zeroes are good.
        let mut results = vec![unsafe { std::mem::zeroed::<ND2_RESULT>() }; count];
        // SAFETY: the interface is held; there are as many results as it is told.
        let filled = unsafe { self.com.GetResults(results.as_mut_ptr().cast(), count as u32) } as usize;
        ensure!(filled <= count, "GetResults says that it filled in {filled} of {count} results");
        Ok(results[..filled].iter().map(Completion::of).collect())
    }

    fn cancel(&self) -> Result<()> {
        ask!(IND2Overlapped::CancelOverlappedRequests, self.com)
    }
}

/// IND2SharedReceiveQueue.
#[derive(Clone)]
pub(crate) struct Srq {
    pub(crate) com: IND2SharedReceiveQueue,
    pub(super) patience: Duration,
}

impl Srq {
    pub(crate) fn affinity(&self) -> Result<(u16, usize)> {
        let (mut group, mut affinity) = (u16::MAX, 0);
        ask!(IND2SharedReceiveQueue::GetNotifyAffinity, self.com, &raw mut group, &raw mut affinity)?;
        Ok((group, affinity))
    }

    pub(crate) fn affinity_nowhere(&self, no_group: bool) -> NTSTATUS {
        let (mut group, mut affinity) = (0_u16, 0_usize);
        let (none, nowhere) = (std::ptr::null_mut(), std::ptr::null_mut());
        let (group, affinity) = if no_group { (none, &raw mut affinity) } else { (&raw mut group, nowhere) };
        call!(IND2SharedReceiveQueue::GetNotifyAffinity, self.com, group, affinity)
    }

    pub(crate) fn modify(&self, depth: u32, threshold: u32) -> Result<()> {
        ask!(IND2SharedReceiveQueue::Modify, self.com, depth, threshold)
    }

    pub(crate) fn notify(&self) -> Result<Request> {
        begin!(Signal::Event, self.patience, IND2SharedReceiveQueue::Notify, self.com)
    }

    pub(crate) fn receive(&self, context: usize, sges: &[ND2_SGE]) -> Result<()> {
        let context = std::ptr::without_provenance_mut(context);
        ask!(IND2SharedReceiveQueue::Receive, self.com, context, sge_pointer(sges), sges.len() as u32)
    }

    pub(crate) fn cancel(&self) -> Result<()> {
        ask!(IND2Overlapped::CancelOverlappedRequests, self.com)
    }
}
