//! Connections of other machines that have not asked for anything yet: there are not many of a listener, as each takes memory before
//! anybody here has a say, and they end with it, as each keeps the adapter, unless they were refused and are ending.

use platform::{Arc, Deferred, Platform, Weak};

use super::Listener;
use crate::{limits, wire::Wire};

/// Those of a listener.
pub(super) struct Seats<P: Platform>([Seat<P>; limits::UNASKED]);

enum Seat<P: Platform> {
    Free,
    /// For one that is being made.
    Taken,
    Of(Weak<Wire<P>, P>),
}

impl<P: Platform> Default for Seats<P> {
    fn default() -> Self {
        Self([const { Seat::Free }; limits::UNASKED])
    }
}

impl<P: Platform> Seats<P> {
    /// The number of one that was free.
    pub(super) fn take(&mut self) -> Option<usize> {
        let (number, seat) = self.0.iter_mut().enumerate().find(|(_, seat)| matches!(seat, Seat::Free))?;
        *seat = Seat::Taken;
        Some(number)
    }

    /// Ends the connections. No lock may be held.
    pub(super) fn clear(self) {
        for seat in self.0 {
            if let Seat::Of(wire) = seat
                && let Some(wire) = wire.upgrade()
            {
                Wire::close_unasked(&wire);
            }
        }
    }
}

/// The place of such a connection.
pub(crate) struct Unasked<P: Platform> {
    listener: Weak<Listener<P>, P>,
    seat: usize,
}

impl<P: Platform> Unasked<P> {
    pub(super) fn new(listener: &Arc<Listener<P>, P>, seat: usize) -> Self {
        Self { listener: Arc::downgrade(listener), seat }
    }

    /// The listener, if it is still there.
    pub(crate) fn listener(&self) -> Option<Arc<Listener<P>, P>> {
        self.listener.upgrade()
    }

    /// Tells the `listener` whose place it is. False: the listener is being closed, and does not end it.
    pub(crate) fn is_of(&self, wire: &Arc<Wire<P>, P>, listener: &Listener<P>) -> bool {
        let mut state = listener.state.lock();
        if let Some(seat) = state.seats.0.get_mut(self.seat) {
            *seat = Seat::Of(Arc::downgrade(wire));
        }
        !state.closing
    }
}

impl<P: Platform> Drop for Unasked<P> {
    fn drop(&mut self) {
        if let Some(listener) = self.listener() {
            let mut state = listener.state.lock();
            let before = state.seats.0.get_mut(self.seat).map(|seat| core::mem::replace(seat, Seat::Free));
            drop(state);
            drop(before);
            Deferred::schedule_and_release(listener);
        }
    }
}
