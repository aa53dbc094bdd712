//! How callbacks wake the thread that runs a scenario.

use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::status::{NTSTATUS, STATUS_IO_TIMEOUT};
use platform::{Arc, Event, Passive, Platform, RunTimer, SpinLock, Timer};

use crate::no_memory;

/// How long nothing at all may happen between two ends of ours, in microseconds. Long before that a completion was lost: everything else
/// ends by itself.
pub(crate) const SILENCE: u32 = 30_000_000;

/// Rung by callbacks, waited for by one thread. Rings that nobody waits for are remembered, as one.
pub(crate) struct Bell<P: Platform> {
    state: SpinLock<State<P>, P>,
    stopped: AtomicBool,
    timer: Timer<P>,
}

struct State<P: Platform> {
    rung: bool,
    /// The wait was too long.
    silent: bool,
    /// Set while somebody waits. Events of the platform stay signalled, so each wait has its own.
    waiter: Option<Arc<Event<P>, P>>,
}

impl<P: Platform> Bell<P> {
    pub(crate) fn new() -> Result<Arc<Self, P>, NTSTATUS> {
        let state = SpinLock::<_, P>::new(State { rung: false, silent: false, waiter: None });
        let bell = Self { state, stopped: AtomicBool::new(false), timer: Timer::default() };
        let bell = Arc::try_new(bell).map_err(no_memory)?;
        Timer::initialize(&bell);
        Ok(bell)
    }

    /// Wakes the waiter. IRQL <= DISPATCH, callable with locks held.
    pub(crate) fn ring(&self) {
        let mut state = self.state.lock();
        state.rung = true;
        let waiter = state.waiter.take();
        drop(state);
        if let Some(event) = waiter {
            event.set();
        }
    }

    /// Waits for a ring since the last wait. STATUS_IO_TIMEOUT: there was none for `limit` microseconds, if there is a limit.
    pub(crate) fn wait(this: &Arc<Self, P>, limit: Option<u32>, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
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

    /// Asks the waiter to give up. IRQL <= DISPATCH.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        self.ring();
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

impl<P: Platform> RunTimer<P> for Bell<P> {
    fn timer(&self) -> &Timer<P> {
        &self.timer
    }

    fn expired(this: &Arc<Self, P>) {
        let mut state = this.state.lock();
        // Not if it was rung just before.
        state.silent |= state.waiter.is_some();
        drop(state);
        this.ring();
    }
}
