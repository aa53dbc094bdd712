//! A queue of receives: a queue pair's own, or a shared receive queue's.

use platform::{Platform, Slice};

use crate::{
    Error, Sge, limits,
    qp::request::{CurrentReceive, Cursor, ReceiveRequest, SgeList, total},
    ring::Ring,
};

/// A queue of receives with their SGEs.
pub(crate) struct ReceiveQueue<P: Platform> {
    ring: Ring<ReceiveRequest, P>,
    sges: Slice<Sge, P>,
    sges_per_request: usize,
}

impl<P: Platform> ReceiveQueue<P> {
    pub(crate) fn new(depth: u32, sges_per_request: u32) -> Result<Self, Error> {
        let (depth, sges_per_request) = (depth as usize, sges_per_request as usize);
        let sges = depth.checked_mul(sges_per_request).ok_or(Error::InvalidParameter)?;
        let ring = Ring::new(depth, ReceiveRequest::default())?;
        Ok(Self { ring, sges: Slice::filled(sges, Sge::default())?, sges_per_request })
    }

    /// Bytes of the pool that a queue takes.
    pub(crate) fn pool_bytes(depth: u32, sges_per_request: u32) -> u64 {
        let sges = (depth as usize).saturating_mul(sges_per_request as usize);
        Ring::<ReceiveRequest, P>::pool_bytes(depth as usize).saturating_add(Slice::<Sge, P>::pool_bytes(sges))
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    #[inline]
    pub(crate) fn post(&mut self, context: usize, sges: &[Sge]) -> Result<(), Error> {
        if sges.len() > self.sges_per_request {
            return Err(Error::TooManySges);
        }
        if total(sges) > u64::from(limits::TRANSFER_LENGTH) {
            return Err(Error::BufferOverflow);
        }
        if self.ring.is_full() {
            return Err(Error::QueueFull);
        }
        let first = match sges {
            [] => Sge::default(),
            [sge] => *sge,
            [first, ..] => {
                self.places(self.ring.next_slot(), sges.len()).ok_or(Error::InternalError)?.copy_from_slice(sges);
                *first
            }
        };
        self.ring.push(ReceiveRequest { context, first, sges: sges.len() })
    }

    /// The SGEs of the request in `slot`.
    fn places(&mut self, slot: usize, sges: usize) -> Option<&mut [Sge]> {
        let first = slot.checked_mul(self.sges_per_request)?;
        self.sges.get_mut(first..first.checked_add(sges)?)
    }

    /// The oldest receives, up to the end of the slots. Receives that wrapped around to slot 0 are not among them.
    #[inline]
    pub(crate) fn run(&self) -> &[ReceiveRequest] {
        self.ring.run()
    }

    /// Removes the `count` oldest receives.
    pub(crate) fn discard(&mut self, count: usize) {
        self.ring.skip(count);
    }

    pub(crate) fn pop(&mut self) -> Option<CurrentReceive> {
        let (slot, &request) = self.ring.front()?;
        self.ring.skip(1);
        let sges = match request.sges {
            1 => core::slice::from_ref(&request.first),
            count => self.places(slot, count)?,
        };
        let list = SgeList::copy_of(sges).ok()?;
        Some(CurrentReceive { context: request.context, room: total(sges), sges: list, cursor: Cursor::default() })
    }

    /// Moves all receives to `larger`, which has room for them.
    pub(crate) fn move_to(&mut self, larger: &mut Self) -> Result<(), Error> {
        while let Some(receive) = self.pop() {
            larger.post(receive.context, receive.sges.as_slice())?;
        }
        Ok(())
    }

    pub(crate) fn sges_per_request(&self) -> u32 {
        u32::try_from(self.sges_per_request).unwrap_or(limits::SGES)
    }
}
