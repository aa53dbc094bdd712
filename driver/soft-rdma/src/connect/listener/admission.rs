//! The backlog of a listener: connection requests that the consumer has neither accepted nor rejected.

use core::sync::atomic::Ordering;

use platform::{Arc, Platform};

use super::Listener;
use crate::{connect::ports::Endpoint, limits};

impl<P: Platform> Listener<P> {
    /// Admits a connection request; `None` while the listener is paused or closing, or its backlog is full.
    pub(crate) fn admit(this: &Arc<Self, P>) -> Option<Admission<P>> {
        let state = this.state.lock();
        let endpoint = if state.paused || state.closing { None } else { state.endpoint.clone() };
        drop(state);
        let below_limit = |backlog: u32| if backlog < limits::BACKLOG { backlog.checked_add(1) } else { None };
        let endpoint = endpoint?;
        this.backlog.fetch_update(Ordering::Relaxed, Ordering::Relaxed, below_limit).ok()?;
        Some(Admission { endpoint, backlog_slot: BacklogSlot(this.clone()) })
    }
}

/// An admitted connection request.
pub(crate) struct Admission<P: Platform> {
    /// The listener's endpoint, for the connector.
    pub(crate) endpoint: Arc<Endpoint<P>, P>,
    pub(crate) backlog_slot: BacklogSlot<P>,
}

/// A slot in a listener's backlog, until dropped.
pub(crate) struct BacklogSlot<P: Platform>(Arc<Listener<P>, P>);

impl<P: Platform> Drop for BacklogSlot<P> {
    fn drop(&mut self) {
        self.0.backlog.fetch_sub(1, Ordering::Relaxed);
    }
}
