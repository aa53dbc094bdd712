//! Completion queues and shared receive queues.
#![expect(unsafe_code, reason = "calls through COM interfaces")]

use std::time::{Duration, Instant};

use nd_com::v2::{IND2CompletionQueue, IND2SharedReceiveQueue, ND2_RESULT, ND2_SGE};
use ndk_abi::status::NTSTATUS;

use super::{Request, Signal, ask, begin, call, queue_pair::sge_pointer, saw};
use crate::error::{Error, Result};

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

    pub(crate) fn resize(&self, depth: u32) -> Result<()> {
        ask!(IND2CompletionQueue::Resize, self.com, depth)
    }

    pub(crate) fn notify(&self, kind: u32) -> Result<Request> {
        self.notify_by(kind, Signal::Event)
    }

    pub(crate) fn notify_by(&self, kind: u32, signal: Signal) -> Result<Request> {
        begin!(signal, self.patience, IND2CompletionQueue::Notify, self.com, kind)
    }

    /// GetResults, once.
    pub(crate) fn poll(&self, count: u32) -> Vec<Completion> {
        // SAFETY: an ND2_RESULT is plain data, for which zeroes are good.
        let mut results = vec![unsafe { std::mem::zeroed::<ND2_RESULT>() }; count as usize];
        // SAFETY: the interface is held; there are as many results as it is told.
        let filled = unsafe { self.com.GetResults(results.as_mut_ptr().cast(), count) };
        assert!(filled <= count, "GetResults says that it filled in {filled} of {count} results");
        results[..filled as usize].iter().map(Completion::of).collect()
    }

    /// Polls until there is one.
    pub(crate) fn take_one(&self) -> Result<Completion> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(result) = self.poll(1).pop() {
                return Ok(result);
            }
            if Instant::now() > deadline {
                return Err(Error::Stalled { awaited: "a completion".to_owned(), after: self.patience });
            }
            std::thread::yield_now();
        }
    }

    pub(crate) fn cancel(&self) -> Result<()> {
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
