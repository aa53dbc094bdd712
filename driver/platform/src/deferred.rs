//! A deferred call that belongs to an object: coalescing, never twice at once, keeping the object alive until it has run.
#![expect(unsafe_code, reason = "kernel DPCs live at fixed addresses and carry their object by pointer")]

use core::{cell::UnsafeCell, ffi::c_void};

use crate::{
    Arc, Dispatch, Platform,
    atomic::{AtomicU8, Ordering},
};

/// Nothing to do, nobody running.
const IDLE: u8 = 0;
/// The DPC is queued.
const QUEUED: u8 = 1;
/// `run` is executing.
const RUNNING: u8 = 2;
/// `run` is executing and was asked for again.
const AGAIN: u8 = 3;

/// An object with a deferred call.
pub trait RunDeferred<P: Platform>: Send + Sync + Sized + 'static {
    /// The deferred call inside `self`.
    fn deferred(&self) -> &Deferred<P>;

    /// Does what is due. Never runs twice at once for one object; runs again, later, if it was scheduled meanwhile. It must
    /// be bounded: what is left over is for another `schedule`. DISPATCH_LEVEL.
    fn run(this: &Arc<Self, P>, dispatch: &Dispatch<'_>);
}

/// The state of an object's deferred call. While it is queued or running it holds a reference to the object.
pub struct Deferred<P: Platform> {
    state: AtomicU8,
    dpc: UnsafeCell<P::Dpc>,
}

// SAFETY: the DPC is touched only by the platform's calls, which are safe from any thread; the rest is atomic.
unsafe impl<P: Platform> Sync for Deferred<P> {}

impl<P: Platform> Default for Deferred<P> {
    fn default() -> Self {
        Self { state: AtomicU8::new(IDLE), dpc: UnsafeCell::new(P::new_dpc()) }
    }
}

impl<P: Platform> Deferred<P> {
    /// Prepares the call. Once, right after the object was made, before anything can schedule it.
    pub fn initialize<T: RunDeferred<P>>(object: &Arc<T, P>) {
        let context = Arc::as_ptr(object).cast_mut().cast();
        // SAFETY: the object does not move inside its Arc; by contract this happens once, before any schedule.
        unsafe { P::initialize_dpc(object.deferred().dpc.get(), dpc_routine::<T, P>, context) };
    }

    /// Has `T::run` called soon, at `DISPATCH_LEVEL`. Callable with locks held, at any IRQL <= DISPATCH.
    pub fn schedule<T: RunDeferred<P>>(object: &Arc<T, P>) {
        if object.deferred().request() {
            queue(object.clone());
        }
    }

    /// As [`Deferred::schedule`], and gives the reference up. If it is the last, the object ends after the run, not here.
    pub fn schedule_and_release<T: RunDeferred<P>>(mut object: Arc<T, P>) {
        while !object.deferred().request() {
            // A run holds a reference until it is over: if this one is the last, there is none any more.
            match Arc::release(object) {
                Ok(()) => return,
                Err(last) => object = last,
            }
        }
        queue(object);
    }

    /// Asks for a run. True: it was idle, is now in the state QUEUED, and the caller has to queue it.
    ///
    /// The state is written even if it stays the same: only a write that the coming run reads orders what the caller did
    /// before with that run. With a mere load here, and a store at the start of the run, both could miss the other's.
    fn request(&self) -> bool {
        let next = |state| {
            Some(match state {
                IDLE => QUEUED,
                RUNNING => AGAIN,
                asked => asked,
            })
        };
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(IDLE)
    }

    /// Ends a run. True: it was asked for again, is now in the state QUEUED, and the caller has to queue it.
    fn finish(&self) -> bool {
        let next = |state| Some(if state == AGAIN { QUEUED } else { IDLE });
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(AGAIN)
    }
}

/// Queues the DPC of an object in state QUEUED; the reference goes with it.
fn queue<T: RunDeferred<P>, P: Platform>(object: Arc<T, P>) {
    let dpc = object.deferred().dpc.get();
    let _kept_by_dpc = Arc::into_raw(object);
    // SAFETY: initialised by contract of `initialize`; the reference just leaked keeps the DPC and its object until
    // dpc_routine takes it back. The state QUEUED is entered once a run, so the DPC is not in the queue already.
    unsafe { P::queue_dpc(dpc) };
}

/// The DPC of an object: `context` is the object, with the reference that `queue` left.
unsafe extern "C" fn dpc_routine<T: RunDeferred<P>, P: Platform>(context: *mut c_void) {
    // SAFETY: `queue` leaked exactly one reference for this run.
    let object = unsafe { Arc::<T, P>::from_raw(context.cast_const().cast()) };
    // Reads the last request, see there.
    object.deferred().state.swap(RUNNING, Ordering::AcqRel);
    // SAFETY: kernels call DPC routines at this level (Platform::queue_dpc).
    let dispatch = unsafe { Dispatch::assume::<P>() };
    T::run(&object, &dispatch);
    if object.deferred().finish() {
        queue(object);
    }
}
