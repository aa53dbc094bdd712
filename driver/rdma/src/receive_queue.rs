//! Receives that wait: the same for a queue pair's own queue and for a shared one.

use platform::{Platform, Slice};

use crate::{
    Error, Sge, limits,
    request::{Cursor, Receive, ReceiveRequest, SgeList, total},
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
        Ok(Self { ring: Ring::new(depth)?, sges: Slice::filled(sges, Sge::default())?, sges_per_request })
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
        let slot = self.ring.next_slot().ok_or(Error::QueueFull)?;
        let first = slot.checked_mul(self.sges_per_request).ok_or(Error::InternalError)?;
        let end = first.checked_add(sges.len()).ok_or(Error::InternalError)?;
        let places = self.sges.get_mut(first..end).ok_or(Error::InternalError)?;
        // Mostly one: not worth the call of a copy.
        places.iter_mut().zip(sges).for_each(|(place, sge)| *place = *sge);
        self.ring.push(ReceiveRequest { context, sges: sges.len() }).map_err(|_| Error::QueueFull)
    }

    /// The oldest receives: the context and the first SGE of each, as far as their slots follow each other.
    #[inline]
    pub(crate) fn run(&self) -> impl Iterator<Item = (usize, Sge)> {
        let (slot, requests) = self.ring.run();
        let sges = slot.checked_mul(self.sges_per_request).and_then(|first| self.sges.get(first..));
        let sges = sges.unwrap_or_default().chunks(self.sges_per_request.max(1));
        requests.iter().zip(sges).map_while(|(request, sges)| {
            let request = request.as_ref()?;
            Some((request.context, sges.first().copied().filter(|_| request.sges > 0).unwrap_or_default()))
        })
    }

    /// Removes the `count` oldest.
    pub(crate) fn discard(&mut self, count: usize) {
        self.ring.skip(count);
    }

    pub(crate) fn pop(&mut self) -> Option<Receive> {
        let (slot, _) = self.ring.front()?;
        let request = self.ring.pop()?;
        let first = slot.checked_mul(self.sges_per_request)?;
        let sges = self.sges.get(first..first.checked_add(request.sges)?)?;
        let list = SgeList::copy_of(sges).ok()?;
        Some(Receive { context: request.context, room: total(sges), sges: list, cursor: Cursor::default() })
    }

    /// Moves what waits to `larger`, which has room for it.
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
