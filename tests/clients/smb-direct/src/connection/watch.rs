//! The timer of a connection: of the negotiation (MS-SMBD 3.1.6.1), later of keepalives (MS-SMBD 3.1.6.2).

use ndk_abi::status::{NTSTATUS, STATUS_IO_TIMEOUT};
use platform::{Arc, RunTimer, Timer, Weak};

use super::{Connection, Keepalive, Phase};
use crate::report::{Failure, Step};
use crate::{BackRef, Kernel, PlatformOf, Ref, lock, shared};

/// An object of its own: a started timer keeps its object for minutes, and must not keep the connection.
pub(super) struct Watch<K: Kernel> {
    timer: Timer<PlatformOf<K>>,
    connection: BackRef<Connection<K>, K>,
}

impl<K: Kernel> Watch<K> {
    pub(super) fn new() -> Result<Ref<Self, K>, NTSTATUS> {
        let watch = shared::<_, K>(Self { timer: Timer::default(), connection: lock::<_, K>(None) })?;
        Timer::initialize(&watch);
        Ok(watch)
    }

    /// Sets the connection of the timer.
    pub(super) fn serve(&self, connection: &Ref<Connection<K>, K>) {
        *self.connection.lock() = Some(Arc::downgrade(connection));
    }

    /// Restarts the timer. The caller holds the lock of the connection's state.
    pub(super) fn start(this: &Ref<Self, K>, microseconds: u32) {
        Timer::cancel(this);
        Timer::start(this, microseconds);
    }

    /// Stops the timer; the connection is being dropped.
    pub(super) fn stop(this: &Ref<Self, K>) {
        Timer::cancel(this);
    }
}

impl<K: Kernel> RunTimer<PlatformOf<K>> for Watch<K> {
    fn timer(&self) -> &Timer<PlatformOf<K>> {
        &self.timer
    }

    fn expired(this: &Ref<Self, K>) {
        let connection = this.connection.lock().as_ref().and_then(Weak::upgrade);
        if let Some(connection) = connection {
            Connection::time_is_over(&connection);
        }
    }
}

impl<K: Kernel> Connection<K> {
    fn time_is_over(this: &Ref<Self, K>) {
        let mut state = this.state.lock();
        // A message may have restarted the timer just before.
        if !this.watch.timer.has_expired() {
            return;
        }
        let step = match state.phase {
            Phase::Over => return,
            Phase::Active | Phase::Passive => Step::Negotiate,
            Phase::Established if state.keepalive == Keepalive::None => {
                state.keepalive = Keepalive::Pending;
                Watch::start(&this.watch, this.settings.keepalive_answer);
                return Self::pump(this, &mut state);
            }
            Phase::Established => Step::Transport,
        };
        state.fail(Failure { step, status: STATUS_IO_TIMEOUT });
        this.bell.ring();
    }
}

impl<K: Kernel> Drop for Connection<K> {
    fn drop(&mut self) {
        Watch::stop(&self.watch);
    }
}
