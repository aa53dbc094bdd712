//! The requests of a file that wait for an event, in the order they were issued.
//!
//! Whoever takes a request out of the table completes it, with no lock held. A request whose cancel routine has begun can
//! only be taken by that routine ([`PendedRequests::cancelled`]); everybody else passes it over.

use core::sync::atomic::Ordering;

use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS};
use platform::{PoolQuota, SpinLock};

use crate::connector::Connector;
use crate::device::Shared;
use crate::file::Opened;
use crate::slab::Slab;
use crate::{Host, Ref, Request};

/// Requests of a file that may wait at a time, besides those that each connector has room for.
const PLACES: u32 = 1024;
/// Of a connector: one for its operation, one that awaits its end. So it is connectors that run out, not requests.
const PLACES_OF_CONNECTOR: u32 = 2;
/// Connectors of a file: as many as the adapter has.
const CONNECTORS: u32 = 65_536;
const CHUNK: u32 = 32;
const CHUNKS: usize = 4_128;
const _: () = assert!(CHUNK as usize * CHUNKS == (PLACES + CONNECTORS * PLACES_OF_CONNECTOR) as usize);

/// What a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A completion queue has a completion, or fails.
    Completion,
    /// One with a ring has a solicited completion, or fails.
    Solicited,
    /// A completion queue fails.
    CqError,
    /// A shared receive queue runs low, or fails.
    SrqLow,
    /// A listener has a connection request for the connector.
    ConnectionRequest,
    /// Connect, complete or accept ends.
    Setup,
    /// The disconnect of the own side ends.
    Disconnect,
    /// The connection ends.
    Disconnected,
}

/// A request that may wait, and the file that it came by.
pub(crate) struct Sent<H: Host> {
    pub(crate) request: H::Request,
    by: Ref<Opened<H>, H>,
}

impl<H: Host> Sent<H> {
    pub(crate) fn new(request: H::Request, by: &Ref<Opened<H>, H>) -> Self {
        Self { request, by: by.clone() }
    }
}

/// A request that waits.
pub(crate) struct Pended<H: Host> {
    request: H::Request,
    /// The file that the request came by.
    pub(crate) by: Ref<Opened<H>, H>,
    /// The handle of the object that the request was sent to.
    pub(crate) owner: u64,
    pub(crate) event: Event,
    /// The connector that the request wants to change.
    pub(crate) connector: Option<Ref<Connector<H>, H>>,
}

struct Entry<H: Host> {
    pended: Pended<H>,
    /// Order of issue.
    sequence: u64,
    /// Its cancel routine has begun. Out of the list then.
    cancelling: bool,
    previous: Option<u64>,
    next: Option<u64>,
}

struct Table<H: Host> {
    entries: Slab<Entry<H>, H::Platform, CHUNK, CHUNKS>,
    first: Option<u64>,
    last: Option<u64>,
    next_sequence: u64,
    connectors: u32,
    /// Requests in it.
    used: u32,
}

/// The table of one file.
pub(crate) struct PendedRequests<H: Host> {
    table: SpinLock<Table<H>, H::Platform>,
    device: Ref<Shared<H>, H>,
}

impl<H: Host> PendedRequests<H> {
    pub(crate) fn new(device: Ref<Shared<H>, H>, quota: &PoolQuota<H::Platform>) -> Self {
        let entries = Slab::new(quota.no_charge());
        let table = Table { entries, first: None, last: None, next_sequence: 0, connectors: 0, used: 0 };
        Self { table: SpinLock::<_, H::Platform>::new(table), device }
    }

    /// Makes room for the requests of a new connector. STATUS_INSUFFICIENT_RESOURCES: the file has too many.
    pub(crate) fn add_connector(&self) -> Result<(), NTSTATUS> {
        let mut table = self.table.lock();
        table.connectors = Some(table.connectors.wrapping_add(1))
            .filter(|&connectors| connectors <= CONNECTORS)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(())
    }

    /// The connector has gone, and its requests with it.
    pub(crate) fn remove_connector(&self) {
        let mut table = self.table.lock();
        table.connectors = table.connectors.saturating_sub(1);
    }

    /// Pends a request: from here on another thread may complete it. `Err`: it could not be pended and is completed; the
    /// status is for the dispatch routine to return.
    pub(crate) fn insert(
        &self,
        sent: Sent<H>,
        owner: u64,
        event: Event,
        connector: Option<Ref<Connector<H>, H>>,
    ) -> Result<u64, NTSTATUS> {
        let Sent { request, by } = sent;
        let pended = Pended { request, by, owner, event, connector };
        let mut table = self.table.lock();
        let id = match table.reserve() {
            Ok(id) => id,
            Err(status) => {
                drop(table);
                return Err(pended.request.complete(status, 0));
            }
        };
        let sequence = table.next_sequence;
        table.next_sequence = sequence.wrapping_add(1);
        let previous = table.last;
        table.entries.fill(id, Entry { pended, sequence, cancelling: false, previous, next: None });
        match previous.and_then(|last| table.entries.get(last)) {
            Some(last) => last.next = Some(id),
            None => table.first = Some(id),
        }
        table.last = Some(id);
        self.device.pended.fetch_add(1, Ordering::Relaxed);
        // Whoever cleans the file up looks here next.
        let pend = |entry: &mut Entry<H>| !entry.pended.by.is_closing() && entry.pended.request.pend(id);
        if table.entries.get(id).is_none_or(pend) {
            return Ok(id);
        }
        let pended = table.unlink(id);
        drop(table);
        if let Some(pended) = pended {
            self.count_out();
            pended.request.complete(STATUS_CANCELLED, 0);
        }
        Err(STATUS_CANCELLED)
    }

    /// Takes a request by its identifier, to complete it. `None`: it was completed, or its cancel routine has begun.
    pub(crate) fn take(&self, id: u64) -> Option<Pended<H>> {
        let taken = self.table.lock().take(id)?;
        self.count_out();
        Some(taken)
    }

    /// Takes the longest waiting request that `wanted` accepts, issued before `end`.
    pub(crate) fn take_first(&self, end: u64, wanted: impl Fn(&Pended<H>) -> bool) -> Option<Pended<H>> {
        let mut table = self.table.lock();
        let mut next = table.first;
        while let Some(id) = next {
            let entry = table.entries.get(id)?;
            if entry.sequence >= end {
                return None;
            }
            next = entry.next;
            if wanted(&entry.pended)
                && let Some(taken) = table.take(id)
            {
                drop(table);
                self.count_out();
                return Some(taken);
            }
        }
        None
    }

    /// The place in the order of issue of the next request.
    pub(crate) fn end(&self) -> u64 {
        self.table.lock().next_sequence
    }

    /// Takes each request that `wanted` accepts and that was issued before now, in order of issue, and gives it to `each`.
    pub(crate) fn take_all(&self, wanted: impl Fn(&Pended<H>) -> bool, each: impl FnMut(Pended<H>)) {
        self.take_until(self.end(), wanted, each);
    }

    /// The same of those that were issued before `end`.
    pub(crate) fn take_until(&self, end: u64, wanted: impl Fn(&Pended<H>) -> bool, mut each: impl FnMut(Pended<H>)) {
        while let Some(pended) = self.take_first(end, &wanted) {
            each(pended);
        }
    }

    /// Whether a request that `wanted` accepts waits.
    pub(crate) fn any(&self, wanted: impl Fn(&Pended<H>) -> bool) -> bool {
        let mut table = self.table.lock();
        let mut next = table.first;
        while let Some(id) = next {
            let Some(entry) = table.entries.get(id) else { return false };
            if wanted(&entry.pended) {
                return true;
            }
            next = entry.next;
        }
        false
    }

    /// Takes a request in its cancel routine.
    pub(crate) fn cancelled(&self, id: u64) -> Option<Pended<H>> {
        let taken = self.table.lock().unlink(id)?;
        self.count_out();
        Some(taken)
    }

    fn count_out(&self) {
        self.device.pended.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<H: Host> Table<H> {
    fn reserve(&mut self) -> Result<u64, NTSTATUS> {
        let places = self.connectors.saturating_mul(PLACES_OF_CONNECTOR).saturating_add(PLACES);
        if self.used >= places {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let id = self.entries.reserve()?;
        self.used = self.used.saturating_add(1);
        Ok(id)
    }

    fn take(&mut self, id: u64) -> Option<Pended<H>> {
        let entry = self.entries.get(id)?;
        if entry.cancelling {
            return None;
        }
        if entry.pended.request.unpend() {
            return self.unlink(id);
        }
        // The cancel routine is on its way and takes it from the slab; searches need not see it any more.
        entry.cancelling = true;
        self.detach(id);
        None
    }

    fn unlink(&mut self, id: u64) -> Option<Pended<H>> {
        if !self.entries.get(id)?.cancelling {
            self.detach(id);
        }
        self.used = self.used.saturating_sub(1);
        self.entries.remove(id).map(|entry| entry.pended)
    }

    /// Takes an entry out of the list, not out of the slab.
    fn detach(&mut self, id: u64) {
        let Some(entry) = self.entries.get(id) else { return };
        let (previous, next) = (entry.previous.take(), entry.next.take());
        match previous.and_then(|previous| self.entries.get(previous)) {
            Some(entry) => entry.next = next,
            None => self.first = next,
        }
        match next.and_then(|next| self.entries.get(next)) {
            Some(entry) => entry.previous = previous,
            None => self.last = previous,
        }
    }
}

impl<H: Host> Pended<H> {
    /// Completes the request. No lock may be held.
    pub(crate) fn complete(self, status: NTSTATUS) {
        self.request.complete(status, 0);
    }

    /// Completes the request with STATUS_CANCELLED, after undoing what it began. No lock may be held.
    pub(crate) fn cancel(self) {
        if let Some(connector) = &self.connector {
            connector.abandon(self.event);
        }
        self.request.complete(STATUS_CANCELLED, 0);
    }

    /// Completes the request with STATUS_SUCCESS.
    pub(crate) fn succeed(self) {
        self.complete(STATUS_SUCCESS);
    }
}
