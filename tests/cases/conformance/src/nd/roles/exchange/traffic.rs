//! The connections of an end, and the queues that they share.

use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use ndk_abi::status::STATUS_SUCCESS;

use super::{
    super::{
        control::{ANY, disconnected},
        role::Role,
    },
    figures::Figures,
    link::{Link, SLOT},
};
use crate::nd::{
    cases::both::disconnect::told,
    client::{Completion, Mr, QpSize, ReadLimits, Request, Srq, SrqSize, both::CompletionQueue as _},
    pair::{End, RECEIVE, is},
};

const LINKS: usize = 4;
/// Receives in the shared queue; at least `LOW` while at most four messages of each link are on their way.
const RECEIVES: usize = 64;
const LOW: usize = 32;

/// The traffic of one end. Links and notifications go before the queues.
pub(super) struct Traffic {
    pub(super) links: Vec<Link>,
    arrival: Option<Request>,
    low: Option<Request>,
    /// Receives that are not in the queue.
    free: Vec<usize>,
    srq: Srq,
    slots: Mr,
    /// Its completion queue for receives is for everything.
    end: End,
    pub(super) figures: Figures,
    /// A request that failed.
    pub(super) failed: Vec<Completion>,
    last: Instant,
    patience: Duration,
}

impl Traffic {
    pub(super) fn new(role: &Role<'_>) -> anyhow::Result<Self> {
        let end = role.site.end_with_cqs(QpSize::default(), 512)?;
        let slots = end.buffer(RECEIVES * SLOT)?;
        let srq = end.adapter.srq(SrqSize { depth: RECEIVES as u32, sges: 1, threshold: LOW as u32 })?;
        let mut traffic = Self {
            links: Vec::new(),
            arrival: None,
            low: None,
            free: (0..RECEIVES).collect(),
            srq,
            slots,
            end,
            figures: Figures::default(),
            failed: Vec::new(),
            last: Instant::now(),
            patience: role.site.patience,
        };
        traffic.post_receives()?;
        traffic.low = Some(traffic.srq.notify()?);
        for link in 0..LINKS {
            let (end, size) = (&traffic.end, QpSize { context: link, ..QpSize::default() });
            let qp = end.adapter.qp_with_srq(&end.receive_cq, &end.receive_cq, &traffic.srq, size)?;
            let connector = end.adapter.connector()?;
            role.join(end, &connector, &qp, ReadLimits::default())?;
            let seed = |connects| (link as u64 + 1) << 48 | u64::from(connects) << 40;
            let seeds = (seed(role.connects()), seed(!role.connects()));
            let link = Link::new(end, connector, qp, seeds, |memory| role.swap_memory(memory))?;
            traffic.links.push(link);
        }
        role.meet()?;
        traffic.last = Instant::now();
        Ok(traffic)
    }

    /// Has the peer read something else than it has written.
    pub(super) fn spoil(&mut self) {
        self.links.iter_mut().for_each(|link| link.spoils = true);
    }

    fn post_receives(&mut self) -> anyhow::Result<()> {
        for slot in self.free.drain(..) {
            self.srq.receive(slot, &[self.slots.sge(slot * SLOT..(slot + 1) * SLOT)])?;
        }
        Ok(())
    }

    /// Fills the shared queue, if it was said to run low.
    pub(super) fn refill(&mut self) -> anyhow::Result<()> {
        // Asking costs more than counting.
        if self.free.len() <= RECEIVES - LOW || self.low.as_mut().is_some_and(|low| !low.is_over()) {
            return Ok(());
        }
        if let Some(mut low) = self.low.take() {
            is(low.status()?, STATUS_SUCCESS, "Notify of the shared queue")?;
        }
        self.figures.refills += 1;
        self.post_receives()?;
        self.low = Some(self.srq.notify()?);
        Ok(())
    }

    /// Begins rounds where none is under way, if it is time for more.
    pub(super) fn start_rounds(&mut self, is_time: bool) -> anyhow::Result<()> {
        if is_time { self.links.iter_mut().try_for_each(Link::start) } else { Ok(()) }
    }

    /// Takes what has completed; whether something has.
    pub(super) fn take_completions(&mut self) -> anyhow::Result<bool> {
        let found = self.end.receive_cq.poll(32)?;
        if found.is_empty() {
            return Ok(false);
        }
        self.last = Instant::now();
        let mut result = self.arrived();
        for completion in found {
            // Those behind a failure are counted, too.
            let taken = self.take(completion);
            result = result.and(taken);
        }
        result.map(|()| true)
    }

    /// Checks that a pending Notify ends with the completions that have arrived, taken or not.
    fn arrived(&mut self) -> anyhow::Result<()> {
        let Some(mut arrival) = self.arrival.take() else { return Ok(()) };
        ensure!(arrival.is_over_within(self.patience), "completions have come, and Notify waits");
        is(arrival.status()?, STATUS_SUCCESS, "Notify of the completion queue")
    }

    fn take(&mut self, found: Completion) -> anyhow::Result<()> {
        let link = self.links.get_mut(found.qp_context).context("a completion of a queue pair that is not ours")?;
        if found.status != STATUS_SUCCESS {
            if found.kind != RECEIVE {
                link.outstanding = link.outstanding.saturating_sub(1);
            }
            self.failed.push(found);
            anyhow::bail!("a request of kind {} ended with {}", found.kind, found.status);
        }
        let bytes = if found.kind == RECEIVE {
            let (start, bytes) = (found.context * SLOT, found.bytes as usize);
            ensure!(found.context < RECEIVES && bytes <= SLOT, "a receive of {bytes} bytes, {:#x}", found.context);
            let message = self.slots.memory().read(start..start + bytes);
            self.free.push(found.context);
            link.received(&message)?;
            bytes
        } else {
            link.completed(found)?
        };
        self.figures.add(found.kind, bytes);
        Ok(())
    }

    /// What has completed, as it is.
    pub(super) fn poll(&self) -> anyhow::Result<Vec<Completion>> {
        self.end.receive_cq.poll(32)
    }

    /// Waits for a completion, so long at most.
    pub(super) fn wait(&mut self, limit: Duration) -> anyhow::Result<()> {
        let mut arrival = match self.arrival.take() {
            Some(arrival) => arrival,
            None => self.end.receive_cq.notify(ANY)?,
        };
        if arrival.is_over_within(limit) {
            return is(arrival.status()?, STATUS_SUCCESS, "Notify of the completion queue");
        }
        // Wine returns before a request has reached the driver, and a ring can be read without the driver. This request follows the Notify.
        self.end.adapter.addresses()?;
        self.arrival = Some(arrival);
        Ok(())
    }

    pub(super) fn is_at_rest(&self) -> bool {
        self.links.iter().all(Link::is_at_rest)
    }

    pub(super) fn state(&self) -> String {
        self.links.iter().map(Link::state).collect::<Vec<_>>().join("; ")
    }

    pub(super) fn quiet_for(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.last)
    }

    /// Whether a connection is over.
    pub(super) fn is_lost(&mut self) -> bool {
        self.links.iter_mut().any(|link| link.lost.as_mut().is_none_or(Request::is_over))
    }

    /// Ends the connections when both ends are done: the connecting end disconnects, the other is told.
    pub(super) fn end(self, role: &Role<'_>) -> anyhow::Result<()> {
        role.meet()?;
        for mut link in self.links {
            let lost = link.lost.take().context("a notification that was taken")?;
            if role.connects() {
                disconnected(&link.connector)?;
                drop(lost);
            } else {
                told(lost)?;
                disconnected(&link.connector)?;
            }
        }
        role.meet()
    }
}
