//! [`Bell`]: callbacks wake the thread that runs a consumer.

use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_IO_TIMEOUT};
use platform::{Arc, Event, Passive, Platform, RunTimer, SpinLock, Timer};

use crate::no_memory;

/// The longest wait for a ring, in microseconds, where one end of a consumer waits for the other. Only a lost completion takes this long:
/// everything else ends earlier.
pub const SILENCE: u32 = 30_000_000;

/// Callbacks ring the bell, one thread waits for it. Rings while no thread waits are remembered as one ring.
pub struct Bell<P: Platform> {
    state: SpinLock<State<P>, P>,
    stopped: AtomicBool,
    timer: Timer<P>,
}

struct State<P: Platform> {
    rung: bool,
    /// The timer has expired before a ring.
    silent: bool,
    /// Set while a thread waits. Events of the platform stay signalled, so each wait has its own event.
    waiter: Option<Arc<Event<P>, P>>,
}

impl<P: Platform> Bell<P> {
    /// A new bell, not rung.
    pub fn new() -> Result<Arc<Self, P>, NTSTATUS> {
        let state = SpinLock::<_, P>::new(State { rung: false, silent: false, waiter: None });
        let bell = Self { state, stopped: AtomicBool::new(false), timer: Timer::default() };
        let bell = Arc::try_new(bell).map_err(no_memory)?;
        Timer::initialize(&bell);
        Ok(bell)
    }

    /// Wakes the waiter. IRQL <= DISPATCH, callable with locks held.
    pub fn ring(&self) {
        let mut state = self.state.lock();
        state.rung = true;
        let waiter = state.waiter.take();
        drop(state);
        if let Some(event) = waiter {
            event.set();
        }
    }

    /// Waits for a ring; a ring since the last wait counts. STATUS_IO_TIMEOUT: no ring within `limit` microseconds.
    pub fn wait(this: &Arc<Self, P>, limit: Option<u32>, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        let event = Event::new().map_err(no_memory)?;
        let mut state = this.state.lock();
        if !core::mem::take(&mut state.rung) {
            state.waiter = Some(event.clone());
            drop(state);
            if let Some(limit) = limit {
                Timer::start(this, limit);
            }
            event.wait(passive);
            Timer::cancel(this);
            state = this.state.lock();
            state.rung = false;
        }
        if core::mem::take(&mut state.silent) { Err(STATUS_IO_TIMEOUT) } else { Ok(()) }
    }

    /// Sets `stopped` and rings: the waiter then ends its run. IRQL <= DISPATCH.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.ring();
    }

    /// Whether [`Self::stop`] was called.
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

impl<P: Platform> RunTimer<P> for Bell<P> {
    fn timer(&self) -> &Timer<P> {
        &self.timer
    }

    fn expired(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        // Without a waiter the bell was rung just before: no timeout.
        state.silent |= state.waiter.is_some();
        drop(state);
        this.ring();
    }
}
