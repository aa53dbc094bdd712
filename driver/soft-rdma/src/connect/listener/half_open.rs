//! Half-open connections: TCP has accepted the connection, and its MPA Request has not arrived. Each takes memory before the consumer can accept or
//! reject.

use platform::{Arc, Deferred, Platform, Weak};

use super::Listener;
use crate::connect::wire_table::WireSlot;

/// A half-open connection of a listener, or a listener's accept under way.
pub(crate) struct HalfOpen<P: Platform> {
    listener: Weak<Listener<P>, P>,
    slot: Option<WireSlot<P>>,
}

impl<P: Platform> HalfOpen<P> {
    pub(super) fn new(listener: &Arc<Listener<P>, P>) -> Self {
        Self { listener: Arc::downgrade(listener), slot: None }
    }

    /// The listener, unless it is gone.
    pub(crate) fn listener(&self) -> Option<Arc<Listener<P>, P>> {
        self.listener.upgrade()
    }

    /// TCP has accepted the connection. `slot` is kept until the MPA Request arrives, or the wire is dropped.
    pub(crate) fn enter(&mut self, slot: Option<WireSlot<P>>) {
        self.slot = slot;
    }
}

impl<P: Platform> Drop for HalfOpen<P> {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        drop(slot);
        // The listener may have been waiting for the slot, or for the memory, to accept the next connection.
        if let Some(listener) = self.listener() {
            Deferred::schedule_and_release(listener);
        }
    }
}
