//! The places of the initiator queue, and the slots of its sends' buffers.
//!
//! Requests complete in the order of their posts. So a completion ends all earlier requests too, also silent ones, and frees their places.

use platform::{OutOfMemory, Platform, Slice};

/// What a request was posted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Send,
    Register,
    Invalidate,
    Read,
    Write,
}

impl Purpose {
    const ALL: [Self; 5] = [Self::Send, Self::Register, Self::Invalidate, Self::Read, Self::Write];
}

/// A completion, decoded from its context.
#[derive(Clone, Copy)]
pub(crate) struct Completed {
    pub(crate) purpose: Purpose,
    /// The id that was passed to [`Initiator::take`].
    pub(crate) id: u32,
}

pub(crate) struct Initiator<P: Platform> {
    places: Slice<Place, P>,
    /// Requests ever posted, and requests ever known to have ended.
    posted: u64,
    retired: u64,
    /// Sends ever posted, and sends ever known to have ended.
    sends_posted: u64,
    sends_retired: u64,
    send_slots: u64,
    /// Outstanding requests that are signalled: they complete even if they succeed.
    signalled: u64,
}

/// The request in a place.
#[derive(Clone, Copy, Default)]
struct Place {
    is_send: bool,
    /// The request completes even if it succeeds.
    is_signalled: bool,
}

impl<P: Platform> Initiator<P> {
    pub(crate) fn new(depth: u32, send_slots: u32) -> Result<Self, OutOfMemory> {
        Ok(Self {
            places: Slice::filled(depth as usize, Place::default())?,
            posted: 0,
            retired: 0,
            sends_posted: 0,
            sends_retired: 0,
            send_slots: send_slots.into(),
            signalled: 0,
        })
    }

    /// Whether no request is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.posted == self.retired
    }

    pub(crate) fn has_room(&self) -> bool {
        self.posted.wrapping_sub(self.retired) < self.places.len() as u64
    }

    pub(crate) fn has_room_for_send(&self) -> bool {
        self.has_room() && self.sends_posted.wrapping_sub(self.sends_retired) < self.send_slots
    }

    /// Takes a place for a request: returns the context for the post, and the slot of the buffer of a send. There must be room.
    pub(crate) fn take(&mut self, purpose: Purpose, id: u32) -> (u64, u32) {
        let is_send = purpose == Purpose::Send;
        let length = self.places.len() as u64;
        if let Some(place) = self.places.get_mut(self.posted.checked_rem(length).unwrap_or(0) as usize) {
            *place = Place { is_send, is_signalled: false };
        }
        // 32 bits of the number are enough to tell the requests of a queue apart.
        let number = self.posted & u64::from(u32::MAX);
        let context = (purpose as u64) << 56 | u64::from(id & 0xFF_FFFF) << 32 | number;
        self.posted = self.posted.wrapping_add(1);
        let slot = self.sends_posted.checked_rem(self.send_slots).unwrap_or(0) as u32;
        if is_send {
            self.sends_posted = self.sends_posted.wrapping_add(1);
        }
        (context, slot)
    }

    /// Called when the request with this context was posted as signalled.
    pub(crate) fn signalled(&mut self, context: u64) {
        let ahead = (context as u32).wrapping_sub(self.retired as u32);
        let number = self.retired.wrapping_add(ahead.into());
        let length = self.places.len() as u64;
        if let Some(place) = self.places.get_mut(number.checked_rem(length).unwrap_or(0) as usize) {
            place.is_signalled = true;
            self.signalled = self.signalled.saturating_add(1);
        }
    }

    /// Whether all signalled requests have completed.
    pub(crate) fn is_drained(&self) -> bool {
        self.signalled == 0
    }

    /// Frees the places of a completed request and of all earlier requests. `None`: there is no such request, or an earlier signalled
    /// request has not completed.
    pub(crate) fn retire(&mut self, context: u64) -> Option<Completed> {
        let purpose = *Purpose::ALL.get((context >> 56) as usize)?;
        let ahead = (context as u32).wrapping_sub(self.retired as u32);
        if u64::from(ahead) >= self.posted.wrapping_sub(self.retired) {
            return None;
        }
        for left in (0..=ahead).rev() {
            let place = *self.places.get(self.retired.checked_rem(self.places.len() as u64)? as usize)?;
            self.retired = self.retired.wrapping_add(1);
            if place.is_send {
                self.sends_retired = self.sends_retired.wrapping_add(1);
            }
            if place.is_signalled {
                self.signalled = self.signalled.saturating_sub(1);
                if left > 0 {
                    return None;
                }
            }
        }
        Some(Completed { purpose, id: (context >> 32) as u32 & 0xFF_FFFF })
    }
}
