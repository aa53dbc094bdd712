//! [`Timer`]: a one-shot timer embedded in an object. While it is set or runs, it holds a reference to the object.
#![expect(unsafe_code, reason = "kernel timers live at fixed addresses and carry their object by pointer")]

use core::{cell::UnsafeCell, ffi::c_void};

use crate::{Arc, Platform, SpinLock};

/// An object with a timer.
pub trait RunTimer<P: Platform>: Send + Sync + Sized + 'static {
    /// The timer inside `self`.
    fn timer(&self) -> &Timer<P>;

    /// The timer has expired. The calls for one object are serialised. DISPATCH_LEVEL.
    fn expired(this: &Arc<Self, P>);
}

/// The state of a timer and of its reference to the object. Start, cancel and expiry may run at the same time on
/// several processors, so the timer's lock is held for each change of the state and the kernel call that belongs to it.
enum State {
    /// Not set; no reference.
    Idle,
    /// Set, or expired with the routine not yet entered; one reference.
    Set,
    /// `expired` runs for the last start; one reference.
    Expired,
    /// The routine runs, or will run, for a start that was cancelled or superseded; one reference. With a number, the
    /// routine sets the timer again at its end, to that number of microseconds.
    Ending(Option<u32>),
}

/// A timer inside an object. While it is set or `expired` runs it holds one reference to the object.
///
/// The object's locks may be held when the timer's lock is taken; no other lock is taken while it is held.
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
    /// Initialises the timer. Called once, right after the object was made, before any start.
    pub fn initialize<T: RunTimer<P>>(object: &Arc<T, P>) {
        let context = Arc::as_ptr(object).cast_mut().cast();
        // SAFETY: the object does not move inside its Arc; by contract this happens once, before any start.
        unsafe { P::initialize_timer(object.timer().timer.get(), timer_routine::<T, P>, context) };
    }

    /// Starts the timer: `T::expired` is called once, after `microseconds`. Does nothing if the timer is set already. If
    /// the routine still runs, or was cancelled too late and will run, the time counts from its end. Callable with locks
    /// of the object held, at any IRQL <= DISPATCH.
    pub fn start<T: RunTimer<P>>(object: &Arc<T, P>, microseconds: u32) {
        let timer = object.timer();
        let mut state = timer.state.lock();
        match *state {
            State::Idle => {
                *state = State::Set;
                let _kept_by_timer = Arc::into_raw(object.clone());
                // SAFETY: initialised by contract of `initialize`; the reference just leaked keeps the timer and its
                // object until `cancel` or the routine takes it back. In state Idle the timer is not set, and no
                // routine of an earlier start is still to be entered.
                unsafe { P::set_timer(timer.timer.get(), microseconds) };
            }
            State::Set => {}
            State::Expired | State::Ending(_) => *state = State::Ending(Some(microseconds)),
        }
    }

    /// Called by `T::expired`. True: the start that led to this expiry was neither cancelled nor followed by another
    /// start. The result holds while the caller holds the lock under which the object starts and cancels the timer.
    pub fn has_expired(&self) -> bool {
        matches!(*self.state.lock(), State::Expired)
    }

    /// Cancels a start: `T::expired` is not called for that start, unless it was entered already. Callable with locks
    /// of the object held, at any IRQL <= DISPATCH: the reference dropped here is not the last, as the caller has one.
    pub fn cancel<T: RunTimer<P>>(object: &Arc<T, P>) {
        let timer = object.timer();
        let mut state = timer.state.lock();
        match *state {
            State::Idle => {}
            // SAFETY: initialised, and kept by the timer's reference.
            State::Set if unsafe { P::cancel_timer(timer.timer.get()) } => {
                *state = State::Idle;
                drop(state);
                // SAFETY: `start`, or an earlier run of the routine, leaked this reference for the run that will not come.
                drop(unsafe { Arc::<T, P>::from_raw(Arc::as_ptr(object)) });
            }
            State::Set | State::Expired | State::Ending(_) => *state = State::Ending(None),
        }
    }
}

/// The routine of a timer: `context` is the object, with the reference that `start`, or an earlier run of the routine,
/// leaked.
unsafe extern "C" fn timer_routine<T: RunTimer<P>, P: Platform>(context: *mut c_void) {
    // SAFETY: exactly one reference was leaked for this run of the routine, and `cancel` did not take it back.
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
        // SAFETY: as in `start`; the routine was entered.
        unsafe { P::set_timer(timer.timer.get(), microseconds) };
    } else {
        *state = State::Idle;
    }
    drop(state);
}
