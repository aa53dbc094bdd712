//! How callbacks wake the thread that runs a scenario.

use core::sync::atomic::{AtomicBool, Ordering};

use ndk_abi::status::NTSTATUS;
use platform::{Arc, Event, Passive, Platform, SpinLock};

use crate::no_memory;

/// Rung by callbacks, waited for by one thread. Rings that nobody waits for are remembered, as one.
pub(crate) struct Bell<P: Platform> {
    state: SpinLock<State<P>, P>,
    stopped: AtomicBool,
}

struct State<P: Platform> {
    rung: bool,
    /// Set while somebody waits. Events of the platform stay signalled, so each wait has its own.
    waiter: Option<Arc<Event<P>, P>>,
}

impl<P: Platform> Bell<P> {
    pub(crate) fn new() -> Self {
        Self { state: SpinLock::<_, P>::new(State { rung: false, waiter: None }), stopped: AtomicBool::new(false) }
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

    /// Waits for a ring since the last wait.
    pub(crate) fn wait(&self, passive: &Passive<'_>) -> Result<(), NTSTATUS> {
        let event = Event::new().map_err(no_memory)?;
        let mut state = self.state.lock();
        if !core::mem::take(&mut state.rung) {
            state.waiter = Some(event.clone());
            drop(state);
            event.wait(passive);
            self.state.lock().rung = false;
        }
        Ok(())
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
