//! Holding all processors: nothing deferred runs until they are let go.
#![expect(unsafe_code, reason = "queues DPCs of its own")]

use std::{
    cell::UnsafeCell,
    ffi::c_void,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use platform::Platform;
use simkernel::{Dpc, PROCESSOR_COUNT, SimKernel, pause};

#[derive(Default)]
struct State {
    running: AtomicUsize,
    released: AtomicBool,
}

/// While it lives, DPCs are queued but do not run.
pub(crate) struct HeldProcessors(&'static State);

impl HeldProcessors {
    pub(crate) fn new() -> Self {
        let state: &'static State = Box::leak(Box::default());
        for _ in 0..PROCESSOR_COUNT {
            let dpc: &'static UnsafeCell<Dpc> = Box::leak(Box::new(UnsafeCell::new(SimKernel::new_dpc())));
            let context = std::ptr::from_ref(state).cast_mut().cast();
            // SAFETY: a fresh DPC that lives for ever.
            unsafe { SimKernel::initialize_dpc(dpc.get(), hold, context) };
            // SAFETY: initialised, and it lives for ever.
            unsafe { SimKernel::queue_dpc(dpc.get()) };
        }
        while state.running.load(Ordering::SeqCst) < PROCESSOR_COUNT {
            pause();
        }
        Self(state)
    }
}

impl Drop for HeldProcessors {
    fn drop(&mut self) {
        self.0.released.store(true, Ordering::SeqCst);
    }
}

unsafe extern "C" fn hold(context: *mut c_void) {
    // SAFETY: the state lives for ever.
    let state = unsafe { &*context.cast::<State>() };
    state.running.fetch_add(1, Ordering::SeqCst);
    while !state.released.load(Ordering::SeqCst) {
        pause();
    }
}
