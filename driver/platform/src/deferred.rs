//! [`Deferred`]: a deferred call embedded in an object. Requests for a run coalesce, runs are serialised, and a queued
//! or running call holds a reference to the object.
#![expect(unsafe_code, reason = "kernel DPCs live at fixed addresses and carry their object by pointer")]

use core::{cell::UnsafeCell, ffi::c_void};

use crate::{
    Arc, Dispatch, Platform,
    atomic::{AtomicU8, Ordering},
};

/// Not queued, not running.
const IDLE: u8 = 0;
/// The DPC is queued.
const QUEUED: u8 = 1;
/// `run` is executing.
const RUNNING: u8 = 2;
/// `run` is executing, and another run was requested.
const AGAIN: u8 = 3;

/// An object with a deferred call.
pub trait RunDeferred<P: Platform>: Send + Sync + Sized + 'static {
    /// The deferred call inside `self`.
    fn deferred(&self) -> &Deferred<P>;

    /// Carries out the object's work. Runs for one object are serialised; a schedule during a run leads to another run.
    /// Each run must be bounded, and schedules another one for the work that is left. DISPATCH_LEVEL.
    fn run(this: &Arc<Self, P>, dispatch: &Dispatch<'_>);
}

/// A deferred call inside an object. While it is queued or running it holds a reference to the object.
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
    /// Initialises the call. Called once, right after the object was made, before any schedule.
    pub fn initialize<T: RunDeferred<P>>(object: &Arc<T, P>) {
        let context = Arc::as_ptr(object).cast_mut().cast();
        // SAFETY: the object does not move inside its Arc; by contract this happens once, before any schedule.
        unsafe { P::initialize_dpc(object.deferred().dpc.get(), dpc_routine::<T, P>, context) };
    }

    /// Schedules `T::run`, at `DISPATCH_LEVEL`. Callable with locks held, at any IRQL <= DISPATCH.
    pub fn schedule<T: RunDeferred<P>>(object: &Arc<T, P>) {
        if object.deferred().request() {
            queue(object.clone());
        }
    }

    /// As [`Deferred::schedule`], and drops the caller's reference. If it is the last one, the object is dropped after
    /// the run, not in this call.
    pub fn schedule_and_release<T: RunDeferred<P>>(mut object: Arc<T, P>) {
        while !object.deferred().request() {
            // A queued or executing run holds a reference. If the caller's is the last one, that run is over: request
            // again.
            match Arc::release(object) {
                Ok(()) => return,
                Err(last) => object = last,
            }
        }
        queue(object);
    }

    /// Requests a run. True: the state was IDLE and is QUEUED now, and the caller has to queue the DPC.
    ///
    /// Writes the state even if it does not change: the next run reads this write, so it sees everything that the
    /// caller wrote before. With a load here and a store at the start of the run, the caller could miss the new state
    /// and the run could miss the caller's writes.
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

    /// Ends a run. True: another run was requested, the state is QUEUED now, and the caller has to queue the DPC.
    fn finish(&self) -> bool {
        let next = |state| Some(if state == AGAIN { QUEUED } else { IDLE });
        self.state.fetch_update(Ordering::AcqRel, Ordering::Acquire, next) == Ok(AGAIN)
    }
}

/// Queues the DPC of an object in state QUEUED. The DPC owns the reference until it runs.
fn queue<T: RunDeferred<P>, P: Platform>(object: Arc<T, P>) {
    let dpc = object.deferred().dpc.get();
    let _kept_by_dpc = Arc::into_raw(object);
    // SAFETY: initialised by contract of `initialize`; the reference just leaked keeps the DPC and its object until
    // dpc_routine takes it back. Each run enters the state QUEUED once, so the DPC is not in the queue already.
    unsafe { P::queue_dpc(dpc) };
}

/// The DPC of an object: `context` is the object, with the reference that `queue` leaked.
unsafe extern "C" fn dpc_routine<T: RunDeferred<P>, P: Platform>(context: *mut c_void) {
    // SAFETY: `queue` leaked exactly one reference for this run.
    let object = unsafe { Arc::<T, P>::from_raw(context.cast_const().cast()) };
    // The swap reads the write of the last `request`, see there.
    object.deferred().state.swap(RUNNING, Ordering::AcqRel);
    // SAFETY: kernels call DPC routines at this level (Platform::queue_dpc).
    let dispatch = unsafe { Dispatch::assume::<P>() };
    T::run(&object, &dispatch);
    if object.deferred().finish() {
        queue(object);
    }
}
