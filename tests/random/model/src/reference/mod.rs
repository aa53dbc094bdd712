//! The reference model: what NDKPI (`../shared/reference/ndkpi.md` 3 and 4, `docs/decisions.md` where that is silent) says
//! a provider does, in the simplest way that can be written. Single-threaded, no locks, no reference counts, memory in
//! vectors; every call runs to its end.
//!
//! A call takes what the provider answered. Where the rules leave the answer open the model follows it; where they do not
//! and it is another one, the call fails.

mod connection;
mod cq;
mod end;
mod faults;
mod memory;
mod qp;
mod srq;
mod window;
mod work;

pub(crate) use connection::{Connector, Listener, Phase as ConnectorPhase};
pub(crate) use cq::{Arm, Cq, Seen};
pub(crate) use faults::{Fault, Point as FaultPoint, Rule as FaultRule};
pub(crate) use memory::{Buffer, Extent, FastRegistration, Region};
pub use qp::{COMMON_FLAGS, FAST_REGISTER_FLAGS, SEND_FLAGS, WRITE_FLAGS};
pub(crate) use qp::{Phase, Qp, QpSizes};
pub(crate) use srq::Srq;
pub(crate) use window::{Bind, Window};
pub(crate) use work::{Request, Sge, Work};

use std::{collections::BTreeMap, fmt};

use ndk_abi::status::{NTSTATUS, STATUS_SUCCESS};

/// What the provider did that it must not, or did not that it must.
#[derive(Debug)]
pub struct Mismatch(pub String);

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) type Result<T> = std::result::Result<T, Mismatch>;

/// Fails with a formatted message.
macro_rules! mismatch {
    ($($message:tt)*) => { return Err($crate::reference::Mismatch(format!($($message)*))) };
}
pub(crate) use mismatch;

/// An object of the model, by its kind and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Object {
    Cq(usize),
    Srq(usize),
    Mr(usize),
    Mw(usize),
    Qp(usize),
    Connector(usize),
    Listener(usize),
}

/// A call of one of the consumer's callbacks. An asynchronous request that ends inline counts as called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Callback {
    CqNotified(usize, NTSTATUS),
    SrqNotified(usize, NTSTATUS),
    /// The request with this number has ended.
    Completed(usize, NTSTATUS),
    /// The reason, of an Ex callback.
    Disconnected(usize, Option<u32>),
    /// Of a listener, with a connector, which gets this index.
    ConnectEvent(usize, usize),
    Closed(Object),
}

impl Callback {
    /// The callback, as far as the model knows it: if a queue has failed, a connection may have been aborted before the other side learned
    /// of the peer's end.
    fn after(self, failed: bool) -> Self {
        match self {
            Self::Disconnected(connector, Some(_)) if failed => Self::Disconnected(connector, Some(1)),
            other => other,
        }
    }

    fn outcome(&self) -> (&'static str, NTSTATUS) {
        match *self {
            Self::CqNotified(_, status) => ("a CQ notification", status),
            Self::SrqNotified(_, status) => ("an SRQ notification", status),
            Self::Completed(_, status) => ("a request", status),
            Self::Disconnected(_, None) => ("a disconnect event", STATUS_SUCCESS),
            Self::Disconnected(_, Some(reason)) => ("a disconnect event with a reason", NTSTATUS(reason.cast_signed())),
            Self::ConnectEvent(..) => ("a connect event", STATUS_SUCCESS),
            Self::Closed(_) => ("a close", STATUS_SUCCESS),
        }
    }
}

/// The life of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Life {
    #[default]
    Open,
    /// Closed by the consumer, but other objects depend on it.
    Closing,
    Gone,
}

/// What a deliberately wrong model gets wrong, to see that the comparison finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The last byte of a region is not part of it.
    RegionsEndEarly,
    /// An arm is satisfied by entries that were notified of before.
    ArmsForget,
    /// A flush leaves receives in their queue.
    FlushKeepsReceives,
    /// Fault rules fire from the first passage on.
    RulesForgetAfter,
}

/// Everything. Objects are never removed; indices are for good.
#[derive(Default)]
pub(crate) struct Model {
    pub(crate) cqs: Vec<Cq>,
    pub(crate) srqs: Vec<Srq>,
    pub(crate) regions: Vec<Region>,
    pub(crate) windows: Vec<Window>,
    pub(crate) qps: Vec<Qp>,
    pub(crate) connectors: Vec<Connector>,
    pub(crate) listeners: Vec<Listener>,
    pub(crate) buffers: Vec<Buffer>,
    /// What the provider has to call during this operation, how often.
    due: Vec<Callback>,
    /// Counts operations: completions of one operation on different queues have no order.
    batch: u64,
    /// Parts of buffers with any content, as of requests that failed half way.
    pub(crate) undefined: Vec<Extent>,
    pub(crate) outcomes: Outcomes,
    pub(crate) rules: Vec<FaultRule>,
    pub(crate) mistake: Option<Mistake>,
}

/// How often each call ended in each way.
pub type Outcomes = BTreeMap<(&'static str, NTSTATUS), u64>;

impl Model {
    /// Compares a status with what the broken rules ask for. True: success, and none is broken.
    fn judge(&mut self, call: &'static str, broken: &[(bool, NTSTATUS)], actual: NTSTATUS) -> Result<bool> {
        *self.outcomes.entry((call, actual)).or_default() += 1;
        let allowed: Vec<_> = broken.iter().filter(|rule| rule.0).map(|rule| rule.1).collect();
        match (allowed.is_empty(), actual) {
            (true, STATUS_SUCCESS) => Ok(true),
            (true, _) => mismatch!("{call} gave {actual}, not STATUS_SUCCESS"),
            (false, _) if allowed.contains(&actual) => Ok(false),
            (false, _) => mismatch!("{call} gave {actual}, not one of {allowed:?}"),
        }
    }

    /// A new operation begins.
    pub(crate) fn begin(&mut self) {
        self.batch += 1;
        self.due.clear();
        self.undefined.clear();
    }

    /// The operation is over and nothing is under way: compares the callbacks that were called.
    pub(crate) fn end(&mut self, called: &[Callback]) -> Result<()> {
        self.run();
        self.finish_closes();
        for cq in 0..self.cqs.len() {
            self.notify_cq(cq, called);
        }
        let failed = self.cqs.iter().any(|cq| cq.died_in(self.batch));
        let mut difference: BTreeMap<Callback, i32> = BTreeMap::new();
        called.iter().for_each(|callback| *difference.entry(callback.after(failed)).or_default() += 1);
        self.due.iter().for_each(|callback| *difference.entry(callback.after(failed)).or_default() -= 1);
        difference.retain(|_, count| *count != 0);
        for callback in called {
            *self.outcomes.entry(callback.outcome()).or_default() += 1;
        }
        if !difference.is_empty() {
            mismatch!("callbacks that were called too often, or (below 0) too seldom: {difference:?}");
        }
        Ok(())
    }

    /// The consumer closes an object.
    pub(crate) fn close(&mut self, object: Object) {
        *self.life(object) = Life::Closing;
        match object {
            Object::Cq(cq) => self.cqs[cq].armed = None,
            Object::Srq(srq) => self.srqs[srq].armed = false,
            // Of a region with windows only a reference is given up.
            Object::Mr(region) if self.is_bound(region) => self.regions[region].token = 0,
            Object::Mr(region) => self.regions[region].close(),
            Object::Mw(_) => {}
            Object::Qp(qp) => self.close_qp(qp),
            Object::Connector(connector) => self.close_connector(connector),
            Object::Listener(_) => {}
        }
        self.run();
    }

    /// The request with this number ends during this operation.
    pub(crate) fn ends(&mut self, request: usize, status: NTSTATUS) {
        self.due.push(Callback::Completed(request, status));
    }

    pub(crate) fn life(&mut self, object: Object) -> &mut Life {
        match object {
            Object::Cq(index) => &mut self.cqs[index].life,
            Object::Srq(index) => &mut self.srqs[index].life,
            Object::Mr(index) => &mut self.regions[index].life,
            Object::Mw(index) => &mut self.windows[index].life,
            Object::Qp(index) => &mut self.qps[index].life,
            Object::Connector(index) => &mut self.connectors[index].life,
            Object::Listener(index) => &mut self.listeners[index].life,
        }
    }

    /// Whether an object that still exists depends on the object (4.7: antecedents).
    fn is_used(&self, object: Object) -> bool {
        let mut qps = self.qps.iter().filter(|qp| qp.life != Life::Gone);
        let mut connectors = self.connectors.iter().filter(|connector| connector.life != Life::Gone);
        match object {
            Object::Cq(cq) => qps.any(|qp| qp.receive_cq == cq || qp.initiator_cq == cq),
            Object::Srq(srq) => qps.any(|qp| qp.srq == Some(srq)),
            Object::Mr(region) => qps.any(|qp| qp.uses(object)) || self.is_bound(region),
            Object::Mw(_) => qps.any(|qp| qp.uses(object)),
            Object::Qp(qp) => connectors.any(|connector| connector.qp == Some(qp)),
            Object::Connector(_) => false,
            Object::Listener(listener) => connectors.any(|connector| connector.listener == Some(listener)),
        }
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = Object> + use<> {
        let connectors = (0..self.connectors.len()).map(Object::Connector);
        let qps = (0..self.qps.len()).map(Object::Qp);
        let cqs = (0..self.cqs.len()).map(Object::Cq);
        let memory = (0..self.windows.len()).map(Object::Mw).chain((0..self.regions.len()).map(Object::Mr));
        let rest = (0..self.srqs.len()).map(Object::Srq).chain(memory);
        connectors.chain(qps).chain(cqs).chain(rest).chain((0..self.listeners.len()).map(Object::Listener))
    }

    /// Ends the closes of objects without dependents: successors first, so that one pass is enough.
    fn finish_closes(&mut self) {
        for object in self.objects() {
            if *self.life(object) == Life::Closing && !self.is_used(object) {
                *self.life(object) = Life::Gone;
                self.due.push(Callback::Closed(object));
            }
        }
    }
}
