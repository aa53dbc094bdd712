//! Completion queues (4.1, 4.2).

use std::collections::VecDeque;

use ndk_abi::{
    ndkpi::{
        NDK_OPERATION_TYPE, NdkOperationTypeBind, NdkOperationTypeFastRegister, NdkOperationTypeInvalidate,
        NdkOperationTypeRead, NdkOperationTypeReceive, NdkOperationTypeReceiveAndInvalidate, NdkOperationTypeSend,
        NdkOperationTypeWrite,
    },
    status::{NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_INVALID_PARAMETER, STATUS_SUCCESS},
};

use super::{Callback, FaultPoint, Life, Mistake, Model, Result, mismatch};

/// In the order of the merge table: the larger one wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arm {
    Errors,
    Solicited,
    Any,
}

/// Whether an entry arrived after the last callback was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Age {
    Old,
    /// In one operation with that callback: the model does not know the order.
    Unknown,
    New,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) qp: usize,
    /// One of these: two if the provider may check either side first.
    pub(super) status: Vec<NTSTATUS>,
    pub(super) context: usize,
    pub(super) kind: NDK_OPERATION_TYPE,
    /// Of receives that succeed.
    pub(super) bytes: u32,
    pub(super) token: u32,
    pub(super) solicited: bool,
}

#[derive(Debug)]
struct Queued {
    entry: Entry,
    batch: u64,
    age: Age,
}

#[derive(Debug)]
pub(crate) struct Cq {
    pub(crate) life: Life,
    depth: usize,
    entries: VecDeque<Queued>,
    pub(super) armed: Option<Arm>,
    overrun: Option<Overrun>,
}

/// A queue that is dead.
#[derive(Debug)]
struct Overrun {
    batch: u64,
    /// The number of its entries; the model does not know which entries of the last operation are among them.
    left: usize,
    /// The consumer was told.
    told: bool,
    /// Its queue pairs are dead too.
    ended: bool,
}

/// A completion as it was polled; what NdkGetCqResults does not give is `None`.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: NTSTATUS,
    pub(crate) bytes: u32,
    pub(crate) qp_context: usize,
    pub(crate) context: usize,
    pub(crate) extended: Option<(NDK_OPERATION_TYPE, u32, usize)>,
}

fn name(kind: NDK_OPERATION_TYPE) -> &'static str {
    const NAMES: [(NDK_OPERATION_TYPE, &str); 8] = [
        (NdkOperationTypeBind, "a bind"),
        (NdkOperationTypeReceive, "a receive"),
        (NdkOperationTypeReceiveAndInvalidate, "a receive that invalidates"),
        (NdkOperationTypeSend, "a send"),
        (NdkOperationTypeRead, "a read"),
        (NdkOperationTypeWrite, "a write"),
        (NdkOperationTypeFastRegister, "a fast registration"),
        (NdkOperationTypeInvalidate, "an invalidation"),
    ];
    NAMES.iter().find(|name| name.0 == kind).map_or("something else", |name| name.1)
}

fn is_receive(kind: NDK_OPERATION_TYPE) -> bool {
    kind.0 & NdkOperationTypeReceive.0 != 0
}

impl Entry {
    fn matches(&self, seen: &Seen) -> bool {
        let received = is_receive(self.kind) && seen.status == STATUS_SUCCESS;
        let invalidated = seen.status == STATUS_SUCCESS && self.kind == NdkOperationTypeReceiveAndInvalidate;
        let extended = seen.extended.is_none_or(|(kind, provider, output)| {
            // Of a receive that failed it does not matter which of the two it would have been.
            let kind_fits = kind == self.kind || (!received && is_receive(kind) && is_receive(self.kind));
            kind_fits
                && (seen.status != STATUS_SUCCESS || provider == 0)
                && (!invalidated || output == self.token as usize)
        });
        self.status.contains(&seen.status)
            && self.context == seen.context
            && seen.qp_context == super::Qp::context(self.qp)
            && (!received || self.bytes == seen.bytes)
            && extended
    }
}

impl Cq {
    fn satisfies(arm: Arm, entry: &Entry) -> bool {
        match arm {
            Arm::Errors => false,
            Arm::Solicited => entry.solicited,
            Arm::Any => true,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.overrun.as_ref().map_or(self.entries.len(), |overrun| overrun.left)
    }

    pub(super) fn died_in(&self, batch: u64) -> bool {
        self.overrun.as_ref().is_some_and(|overrun| overrun.batch == batch)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.overrun.is_some()
    }
}

impl Model {
    pub(crate) fn create_cq(&mut self, depth: u32) -> usize {
        self.cqs.push(Cq {
            life: Life::Open,
            depth: depth as usize,
            entries: VecDeque::new(),
            armed: None,
            overrun: None,
        });
        self.cqs.len() - 1
    }

    pub(super) fn complete(&mut self, cq: usize, entry: Entry) {
        let batch = self.batch;
        let fails = !self.cqs[cq].is_dead() && self.pass(FaultPoint::Complete, 0).is_some();
        let queue = &mut self.cqs[cq];
        if queue.overrun.as_ref().is_some_and(|overrun| overrun.batch != batch) {
            return;
        }
        if fails {
            queue.overrun = Some(Overrun { batch, left: queue.entries.len(), told: false, ended: false });
        }
        if queue.overrun.is_none() && queue.entries.len() >= queue.depth {
            *self.outcomes.entry(("an overrun of a CQ", STATUS_BUFFER_OVERFLOW)).or_default() += 1;
            queue.overrun = Some(Overrun { batch, left: queue.depth, told: false, ended: false });
        }
        queue.entries.push_back(Queued { entry, batch, age: Age::New });
    }

    /// NdkArmCq. Entries that are present count if they arrived after the last callback (rule 3) and fit (rule 7).
    pub(crate) fn arm(&mut self, cq: usize, arm: Arm) {
        let queue = &mut self.cqs[cq];
        queue.armed = Some(queue.armed.map_or(arm, |armed| armed.max(arm)));
    }

    /// The queue pairs of a queue that has died, once.
    pub(super) fn qps_to_end(&mut self) -> Vec<usize> {
        let died = self.cqs.iter().position(|cq| cq.overrun.as_ref().is_some_and(|overrun| !overrun.ended));
        let Some(cq) = died else { return Vec::new() };
        if let Some(overrun) = &mut self.cqs[cq].overrun {
            overrun.ended = true;
        }
        let on_it = |&qp: &usize| {
            let qp = &self.qps[qp];
            qp.life != Life::Gone && (qp.receive_cq == cq || qp.initiator_cq == cq)
        };
        (0..self.qps.len()).filter(on_it).collect()
    }

    /// What an arm of a dead queue leads to (rules 8 and 9).
    fn notify_failure(&mut self, cq: usize, called: &[Callback]) {
        let batch = self.batch;
        let queue = &mut self.cqs[cq];
        let Some(overrun) = &mut queue.overrun else { return };
        if queue.armed.is_none() || overrun.told {
            return;
        }
        queue.armed = None;
        // A completion just before may have called.
        let before = Callback::CqNotified(cq, STATUS_SUCCESS);
        if overrun.batch == batch && called.contains(&before) {
            self.due.push(before);
        } else {
            overrun.told = true;
            self.due.push(Callback::CqNotified(cq, STATUS_BUFFER_OVERFLOW));
        }
    }

    /// At the end of an operation: whether the arm is satisfied. `called` decides where the rules leave it open.
    pub(super) fn notify_cq(&mut self, cq: usize, called: &[Callback]) {
        if self.cqs[cq].overrun.is_some() {
            return self.notify_failure(cq, called);
        }
        let batch = self.batch;
        let queue = &mut self.cqs[cq];
        let Some(arm) = queue.armed else { return };
        let fitting = queue.entries.iter().filter(|queued| Cq::satisfies(arm, &queued.entry));
        let newest = fitting.map(|queued| queued.age as u8).max().unwrap_or(0);
        let callback = Callback::CqNotified(cq, STATUS_SUCCESS);
        let forgets = self.mistake == Some(Mistake::ArmsForget) && !queue.entries.is_empty();
        let must = newest == Age::New as u8 || forgets;
        let may = newest == Age::Unknown as u8 && called.contains(&callback);
        if !must && !may {
            return;
        }
        self.due.push(callback);
        queue.armed = None;
        // If any entry satisfies the arm, the first new entry was present when the callback was called; the model does not know the order
        // of this operation's other entries.
        let recent = queue.entries.iter().filter(|queued| queued.batch == batch).count();
        let mut first = arm == Arm::Any;
        for queued in &mut queue.entries {
            let is_old = queued.batch != batch || recent == 1 || std::mem::take(&mut first);
            queued.age = if is_old { Age::Old } else { Age::Unknown };
        }
    }

    /// NdkGetCqResults and NdkGetCqResultsEx with room for `count`.
    pub(crate) fn poll(&mut self, cq: usize, count: usize, seen: &[Seen]) -> Result<()> {
        let queue = &mut self.cqs[cq];
        if seen.len() != count.min(queue.len()) {
            mismatch!("{} of {} completions for {count}: {:?}", seen.len(), queue.len(), queue.entries);
        }
        if let Some(overrun) = &mut queue.overrun {
            overrun.left -= seen.len();
        }
        for one in seen {
            let queue = &mut self.cqs[cq];
            let batch = queue.entries.front().map_or(0, |first| first.batch);
            // Any queue's first one of that operation: between two queues there is no order.
            let mut passed: Vec<(usize, bool)> = Vec::new();
            let position = queue.entries.iter().take_while(|queued| queued.batch == batch).position(|queued| {
                let stream = (queued.entry.qp, is_receive(queued.entry.kind));
                let is_first = !passed.contains(&stream);
                passed.push(stream);
                is_first && queued.entry.matches(one)
            });
            let Some(position) = position else {
                mismatch!("completion {one:?} is not due: {:?}", queue.entries);
            };
            let entry = queue.entries.remove(position);
            let kind = entry.map_or("", |queued| name(queued.entry.kind));
            *self.outcomes.entry((kind, one.status)).or_default() += 1;
        }
        Ok(())
    }

    /// NdkResizeCq.
    pub(crate) fn resize_cq(&mut self, cq: usize, depth: u32, actual: NTSTATUS) -> Result<()> {
        const LIMIT: u32 = 65_536;
        let queue = &self.cqs[cq];
        let broken = [
            (depth == 0 || depth > LIMIT, STATUS_INVALID_PARAMETER),
            ((depth as usize) < queue.len(), STATUS_BUFFER_OVERFLOW),
        ];
        if self.judge("NdkResizeCq", &broken, actual)? {
            self.cqs[cq].depth = depth as usize;
        }
        Ok(())
    }
}
