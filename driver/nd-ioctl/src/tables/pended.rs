//! The pended requests of a provider context, in order of issue. The requests of one object, or of one file, are found in constant time.
//!
//! The thread that takes a request out of the table completes the request, with no lock held. Once the cancel routine of a request has
//! begun, only that routine can take the request ([`PendedRequests::cancelled`]).

use core::ops::Range;
use core::sync::atomic::Ordering;

use ndk_abi::status::{NTSTATUS, STATUS_CANCELLED, STATUS_INSUFFICIENT_RESOURCES, STATUS_SUCCESS};
use platform::{Arc, Charge, OutOfMemory, PoolQuota, SpinLock};

use crate::device_state::DeviceState;
use crate::tables::lines::{Lined, LinedSlab, Lines};
use crate::tables::sent::{FileState, Sent, Waiting};
use crate::{Host, Ref, Request, shared};

/// The most pended requests of a provider context, besides the places that each connector adds. Also the most requests that wait for one
/// object: one run of a deferred call may complete all of them.
const PLACES: u32 = 1024;
/// Places that each connector adds: for its operation, and for a request that awaits the end of the connection. So a program reaches the
/// limit of connectors before that of requests.
const PLACES_OF_CONNECTOR: u32 = 2;
/// The most connectors of a provider context: as many as the adapter has.
const CONNECTORS: u32 = 65_536;
const CHUNK: u32 = 32;
const CHUNKS: usize = 4_128;
const _: () = assert!(CHUNK as usize * CHUNKS == (PLACES + CONNECTORS * PLACES_OF_CONNECTOR) as usize);

/// The event that a pended request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A completion queue has a completion, or fails.
    Completion,
    /// A completion queue with a ring has a solicited completion, or fails.
    Solicited,
    /// A completion queue fails.
    CqError,
    /// A shared receive queue has fewer receives than its threshold, or fails.
    SrqLow,
    /// A listener has a connection request for the connector.
    ConnectionRequest,
    /// NdkConnect, NdkCompleteConnect or NdkAccept ends.
    Setup,
    /// NdkDisconnect ends.
    Disconnect,
    /// The connection ends.
    Disconnected,
}

impl Event {
    /// The number of the line, among its object's, of the requests that wait for this event.
    const fn line(self) -> usize {
        match self {
            Self::Completion | Self::SrqLow | Self::ConnectionRequest | Self::Setup => 0,
            Self::Solicited | Self::Disconnect => 1,
            Self::CqError | Self::Disconnected => 2,
        }
    }
}

/// The line of GET_CONNECTION_REQUESTs for a connector, which were sent to a listener.
const WANTED: usize = 3;
/// The lines of requests that were sent to the object.
const SENT: Range<usize> = 0..WANTED;
/// All lines of an object.
const ANY: Range<usize> = 0..WANTED + 1;

/// An object whose state a pended request changes: a connector. If the request is cancelled, the change is undone.
pub(crate) trait Abandon<H: Host> {
    /// The requests that wait for the object. Called with the table's lock held.
    fn waiting(&self) -> &Waiting<H>;

    /// Undoes the change of a request for this event.
    fn abandon(&self, event: Event);
}

/// A pended request.
pub(crate) struct Pended<H: Host, C> {
    request: H::Request,
    /// The file that the request came by.
    by: Ref<FileState<H>, H>,
    /// The requests that wait for the object that this one was sent to.
    waiting: Waiting<H>,
    event: Event,
    /// The connector that the request wants to change.
    pub(crate) connector: Option<Ref<C, H>>,
}

impl<H: Host, C: Abandon<H>> Lined<H::Platform> for Pended<H, C> {
    fn line(&self, place: usize) -> Option<(Waiting<H>, usize)> {
        match place {
            1 => Some((self.by.waiting.clone(), 0)),
            2 => Some((self.waiting.clone(), self.event.line())),
            _ => match (self.event, &self.connector) {
                (Event::ConnectionRequest, Some(connector)) => Some((connector.waiting().clone(), WANTED)),
                _ => None,
            },
        }
    }
}

struct Table<H: Host, C> {
    /// A request whose cancel routine has begun leaves its lines when a search finds it there.
    entries: LinedSlab<Pended<H, C>, H::Platform, CHUNK, CHUNKS>,
    connectors: u32,
    /// The requests in the table.
    used: u32,
}

/// The table of one provider context. `C`: the type of its connectors.
pub(crate) struct PendedRequests<H: Host, C> {
    table: SpinLock<Table<H, C>, H::Platform>,
    /// All pended requests.
    all: Waiting<H>,
    device: Ref<DeviceState<H>, H>,
    _charge: Charge<H::Platform>,
}

impl<H: Host, C: Abandon<H>> PendedRequests<H, C> {
    pub(crate) fn new(
        device: Ref<DeviceState<H>, H>,
        quota: &PoolQuota<H::Platform>,
    ) -> Result<Ref<Self, H>, NTSTATUS> {
        let charge = quota.charge(Arc::<Self, H::Platform>::POOL_BYTES);
        let charge = charge.map_err(|OutOfMemory| STATUS_INSUFFICIENT_RESOURCES)?;
        let all = Lines::new(quota)?;
        let entries = LinedSlab::new(quota.no_charge(), all.clone());
        let table = Table { entries, connectors: 0, used: 0 };
        shared(Self { table: SpinLock::<_, H::Platform>::new(table), all, device, _charge: charge })
    }

    /// Adds the places of a new connector. STATUS_INSUFFICIENT_RESOURCES: the context has too many connectors.
    pub(crate) fn add_connector(&self) -> Result<(), NTSTATUS> {
        let mut table = self.table.lock();
        table.connectors = Some(table.connectors.wrapping_add(1))
            .filter(|&connectors| connectors <= CONNECTORS)
            .ok_or(STATUS_INSUFFICIENT_RESOURCES)?;
        Ok(())
    }

    /// Removes the places of a connector, whose requests have ended.
    pub(crate) fn remove_connector(&self) {
        let mut table = self.table.lock();
        table.connectors = table.connectors.saturating_sub(1);
    }

    /// Pends a request; another thread may complete it before this returns. `Err`: the request was not pended and is completed, and the
    /// dispatch routine returns the status.
    pub(crate) fn insert(
        &self,
        sent: Sent<H>,
        waiting: &Waiting<H>,
        event: Event,
        connector: Option<Ref<C, H>>,
    ) -> Result<u64, NTSTATUS> {
        let Sent { request, by } = sent;
        let pended = Pended { request, by, waiting: waiting.clone(), event, connector };
        let mut table = self.table.lock();
        let id = match table.reserve(waiting, event) {
            Ok(id) => id,
            Err(status) => {
                drop(table);
                return Err(pended.request.complete(status, 0));
            }
        };
        table.entries.fill(id, pended);
        self.device.pended.fetch_add(1, Ordering::Relaxed);
        // The cleanup of the file sets `is_closing` before it searches this table, so it finds the request or is seen here.
        let pend = |pended: &mut Pended<H, C>| !pended.by.is_closing() && pended.request.pend(id);
        if table.entries.standing(id).is_none_or(pend) {
            return Ok(id);
        }
        let pended = table.remove(id);
        drop(table);
        if let Some(pended) = pended {
            self.count_out();
            pended.request.complete(STATUS_CANCELLED, 0);
        }
        Err(STATUS_CANCELLED)
    }

    /// Takes a request by its identifier, to complete it. `None`: the request is completed, or its cancel routine has begun.
    pub(crate) fn take(&self, id: u64) -> Option<Pended<H, C>> {
        let taken = self.table.lock().take(id)?;
        self.count_out();
        Some(taken)
    }

    /// Takes the oldest of an object's requests for one of these events, if it was issued before `end`.
    pub(crate) fn take_first(&self, waiting: &Waiting<H>, events: &[Event], end: u64) -> Option<Pended<H, C>> {
        self.take_first_of(waiting, || events.iter().map(|event| event.line()), end)
    }

    /// The number that the next request gets: the `end` for all requests issued so far.
    pub(crate) fn end(&self) -> u64 {
        self.table.lock().entries.next_number()
    }

    /// Takes each of an object's requests for one of these events that was issued before `end`, in order of issue, and passes it to `each`.
    pub(crate) fn take_until(
        &self,
        waiting: &Waiting<H>,
        events: &[Event],
        end: u64,
        mut each: impl FnMut(Pended<H, C>),
    ) {
        while let Some(pended) = self.take_first(waiting, events, end) {
            each(pended);
        }
    }

    /// Takes each request that waits for an object, or came by a file, and was issued before this call, in order of issue, and passes it to
    /// `each`.
    pub(crate) fn take_all(&self, waiting: &Waiting<H>, each: impl FnMut(Pended<H, C>)) {
        self.take_all_of(waiting, ANY, each);
    }

    /// Cancels each request that [`PendedRequests::take_all`] takes, in order of issue.
    pub(crate) fn cancel(&self, waiting: &Waiting<H>) {
        self.take_all(waiting, Pended::cancel);
    }

    /// Cancels each request that was sent to an object, in order of issue; not a GET_CONNECTION_REQUEST for a connector, which was sent to
    /// its listener.
    pub(crate) fn cancel_io(&self, waiting: &Waiting<H>) {
        self.take_all_of(waiting, SENT, Pended::cancel);
    }

    /// Cancels all requests of the context, in order of issue.
    pub(crate) fn cancel_all(&self) {
        self.cancel(&self.all);
    }

    /// Whether a request of an object waits for this event.
    pub(crate) fn any(&self, waiting: &Waiting<H>, event: Event) -> bool {
        !self.table.lock().entries.is_empty(waiting, event.line())
    }

    fn take_all_of(&self, waiting: &Waiting<H>, lines: Range<usize>, mut each: impl FnMut(Pended<H, C>)) {
        let end = self.end();
        while let Some(pended) = self.take_first_of(waiting, || lines.clone(), end) {
            each(pended);
        }
    }

    fn take_first_of<L: Iterator<Item = usize>>(
        &self,
        waiting: &Waiting<H>,
        lines: impl Fn() -> L,
        end: u64,
    ) -> Option<Pended<H, C>> {
        let mut table = self.table.lock();
        // A request that `take` could not take has left its lines, so the loop ends. Its cancel routine waits for this lock, on another
        // processor.
        while let Some(id) = table.entries.first(waiting, lines(), end) {
            if let Some(taken) = table.take(id) {
                drop(table);
                self.count_out();
                return Some(taken);
            }
        }
        None
    }

    /// Takes a request. Called by its cancel routine.
    pub(crate) fn cancelled(&self, id: u64) -> Option<Pended<H, C>> {
        let taken = self.table.lock().remove(id)?;
        self.count_out();
        Some(taken)
    }

    fn count_out(&self) {
        self.device.pended.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<H: Host, C: Abandon<H>> Table<H, C> {
    fn reserve(&mut self, waiting: &Waiting<H>, event: Event) -> Result<u64, NTSTATUS> {
        let places = self.connectors.saturating_mul(PLACES_OF_CONNECTOR).saturating_add(PLACES);
        // GET_CONNECTION_REQUESTs of one object are not limited: a connection request completes only one of them.
        let too_many = event != Event::ConnectionRequest && waiting.count() >= PLACES;
        if too_many || self.used >= places {
            return Err(STATUS_INSUFFICIENT_RESOURCES);
        }
        let id = self.entries.reserve()?;
        self.used = self.used.saturating_add(1);
        Ok(id)
    }

    fn take(&mut self, id: u64) -> Option<Pended<H, C>> {
        if self.entries.standing(id)?.request.unpend() {
            return self.remove(id);
        }
        // The cancel routine has begun and will take the request from the slab; searches no longer find it.
        self.entries.leave(id);
        None
    }

    fn remove(&mut self, id: u64) -> Option<Pended<H, C>> {
        let pended = self.entries.remove(id)?;
        self.used = self.used.saturating_sub(1);
        Some(pended)
    }
}

impl<H: Host, C: Abandon<H>> Pended<H, C> {
    /// Completes the request. No lock may be held.
    pub(crate) fn complete(self, status: NTSTATUS) {
        let Self { request, by, .. } = self;
        // Before the completion: a completed request does not keep the file, whose charge covers the `FileState` too.
        drop(by);
        request.complete(status, 0);
    }

    /// Undoes the request's change, then completes the request with STATUS_CANCELLED. No lock may be held.
    pub(crate) fn cancel(self) {
        if let Some(connector) = &self.connector {
            connector.abandon(self.event);
        }
        self.complete(STATUS_CANCELLED);
    }

    /// Completes the request with STATUS_SUCCESS.
    pub(crate) fn succeed(self) {
        self.complete(STATUS_SUCCESS);
    }
}
