//! A one-shot timer that belongs to an object, and keeps it alive until it has expired or was taken back in time.
#![expect(unsafe_code, reason = "kernel timers live at fixed addresses and carry their object by pointer")]

use core::{cell::UnsafeCell, ffi::c_void};

use crate::{Arc, Platform, SpinLock};

/// An object with a timer.
pub trait RunTimer<P: Platform>: Send + Sync + Sized + 'static {
    /// The timer inside `self`.
    fn timer(&self) -> &Timer<P>;

    /// The time is over. Never runs twice at once for one object. DISPATCH_LEVEL.
    fn expired(this: &Arc<Self, P>);
}

/// What becomes of a timer's reference to its object is decided under a lock, together with the call to the kernel: setting,
/// taking back and expiring may all come at once.
enum State {
    /// Not set; no reference.
    Idle,
    /// Set, or expired with the routine not yet entered; a reference.
    Set,
    /// `expired` runs for the last start; a reference.
    Expired,
    /// The routine runs, or will run, for a start that was taken back or that another has followed; a reference. It sets the timer
    /// again, to so many microseconds.
    Ending(Option<u32>),
}

/// The state of an object's timer. While it is set or `expired` runs it holds one reference to the object.
///
/// Its lock is taken with any lock of the object held, and takes none itself.
pub struct Timer<P: Platform> {
    state: SpinLock<State, P>,
    timer: UnsafeCell<P::Timer>,
}

// SAFETY: the timer is touched only by the platform's calls, which are safe from any thread; the rest is locked.
unsafe impl<P: Platform> Sync for Timer<P> {}

impl<P: Platform> Default for Timer<P> {
    fn default() -> Self {
        Self { state: SpinLock::<_, P>::new(State::Idle), timer: UnsafeCell::new(P::new_timer()) }
    }
}

impl<P: Platform> Timer<P> {
    /// Prepares the timer. Once, right after the object was made, before anything can start it.
    pub fn initialize<T: RunTimer<P>>(object: &Arc<T, P>) {
        let context = Arc::as_ptr(object).cast_mut().cast();
        // SAFETY: the object does not move inside its Arc; by contract this happens once, before any start.
        unsafe { P::initialize_timer(object.timer().timer.get(), timer_routine::<T, P>, context) };
    }

    /// Has `T::expired` called once, in so many microseconds, unless the timer is set already. Callable with locks of the
    /// object held, at any IRQL <= DISPATCH.
    pub fn start<T: RunTimer<P>>(object: &Arc<T, P>, microseconds: u32) {
        let timer = object.timer();
        let mut state = timer.state.lock();
        match *state {
            State::Idle => {
                *state = State::Set;
                let _kept_by_timer = Arc::into_raw(object.clone());
                // SAFETY: initialised by contract of `initialize`; the reference just leaked keeps the timer and its object
                // until `cancel` or the routine takes it back. Idle: it is not set, and its routine was entered.
                unsafe { P::set_timer(timer.timer.get(), microseconds) };
            }
            State::Set => {}
            State::Expired | State::Ending(_) => *state = State::Ending(Some(microseconds)),
        }
    }

    /// Whether `T::expired`, which asks, was called for the last start: it was neither taken back nor followed by another in the
    /// meantime. The answer holds as long as a lock is held under which the object starts the timer and takes it back.
    pub fn has_expired(&self) -> bool {
        matches!(*self.state.lock(), State::Expired)
    }

    /// Takes a start back. `T::expired` is not called for it any more, unless it was entered already. Callable with locks of
    /// the object held, at any IRQL <= DISPATCH: the reference given up is not the last, as the caller has one.
    pub fn cancel<T: RunTimer<P>>(object: &Arc<T, P>) {
        let timer = object.timer();
        let mut state = timer.state.lock();
        match *state {
            State::Idle => {}
            // SAFETY: initialised, and kept by the reference that the timer has.
            State::Set if unsafe { P::cancel_timer(timer.timer.get()) } => {
                *state = State::Idle;
                drop(state);
                // SAFETY: `start` leaked it for the routine, which will not run.
                drop(unsafe { Arc::<T, P>::from_raw(Arc::as_ptr(object)) });
            }
            State::Set | State::Expired | State::Ending(_) => *state = State::Ending(None),
        }
    }
}

/// The routine of a timer: `context` is the object, with the reference that `start` left.
unsafe extern "C" fn timer_routine<T: RunTimer<P>, P: Platform>(context: *mut c_void) {
    // SAFETY: `start` leaked exactly one reference, and `cancel` did not take it back.
    let object = unsafe { Arc::<T, P>::from_raw(context.cast_const().cast()) };
    let timer = object.timer();
    let mut state = timer.state.lock();
    let expired = matches!(*state, State::Set);
    if expired {
        *state = State::Expired;
    }
    drop(state);
    if expired {
        T::expired(&object);
    }
    let mut state = timer.state.lock();
    if let State::Ending(Some(microseconds)) = *state {
        *state = State::Set;
        let _kept_by_timer = Arc::into_raw(object.clone());
        // SAFETY: as in `start`; this is the routine.
        unsafe { P::set_timer(timer.timer.get(), microseconds) };
    } else {
        *state = State::Idle;
    }
    drop(state);
}
