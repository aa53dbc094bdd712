//! Connections of other machines that have not asked for anything yet: each takes memory before anybody here has a say.

use platform::{Arc, Deferred, Platform, Weak};

use super::Listener;
use crate::connect::seats::Seat;

/// Such a connection, of a listener; or one that is awaited.
pub(crate) struct Unasked<P: Platform> {
    listener: Weak<Listener<P>, P>,
    seat: Option<Seat<P>>,
}

impl<P: Platform> Unasked<P> {
    pub(super) fn new(listener: &Arc<Listener<P>, P>) -> Self {
        Self { listener: Arc::downgrade(listener), seat: None }
    }

    /// The listener, if it is still there.
    pub(crate) fn listener(&self) -> Option<Arc<Listener<P>, P>> {
        self.listener.upgrade()
    }

    /// It has come, and gets a seat that it keeps until it asks, or is closed.
    pub(crate) fn sit(&mut self, seat: Option<Seat<P>>) {
        self.seat = seat;
    }
}

impl<P: Platform> Drop for Unasked<P> {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else { return };
        drop(seat);
        // The next may have waited for the seat, or for the memory.
        if let Some(listener) = self.listener() {
            Deferred::schedule_and_release(listener);
        }
    }
}
