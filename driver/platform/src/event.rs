//! A one-shot event at a fixed address.
#![expect(unsafe_code, reason = "kernel events live at fixed addresses and are used by pointer")]

use core::cell::UnsafeCell;

use crate::{Arc, OutOfMemory, Passive, Platform};

/// A notification event: once signalled it stays signalled.
pub struct Event<P: Platform>(UnsafeCell<P::Event>);

// SAFETY: P::Event is Sync and used only through the platform's calls, which are safe from any thread.
unsafe impl<P: Platform> Sync for Event<P> {}

impl<P: Platform> Event<P> {
    /// A new event, not signalled, in memory that does not move.
    #[track_caller]
    pub fn new() -> Result<Arc<Self, P>, OutOfMemory> {
        let event = Arc::try_new(Self(UnsafeCell::new(P::new_event())))?;
        // SAFETY: the event is in the Arc's memory, where it stays until it is freed; no other thread has seen it yet.
        unsafe { P::initialize_event(event.0.get()) };
        Ok(event)
    }

    /// Signals the event. IRQL <= DISPATCH.
    pub fn set(&self) {
        // SAFETY: initialised in `new`; `self` keeps it valid during the call.
        unsafe { P::set_event(self.0.get()) };
    }

    /// Waits until the event is signalled.
    pub fn wait(&self, passive: &Passive<'_>) {
        // SAFETY: initialised in `new`; `self` keeps it valid during the wait.
        unsafe { P::wait_event(self.0.get(), passive) };
    }
}
