//! The completion routines of a stream's requests, and the references to the object that they own.
#![expect(unsafe_code, reason = "requests carry their object by pointer")]

use core::{ffi::c_void, ptr::null_mut, sync::atomic::Ordering};

use super::{RunStream, state::State};
use crate::{Arc, Completion, Platform, SENDS, SocketError, SocketRoutine};

/// The completion of a request of the object's stream. The completion owns a reference to the object.
pub(super) fn completion<T: RunStream<P>, P: Platform>(object: &Arc<T, P>, routine: SocketRoutine) -> Completion {
    Completion::new(routine, Arc::into_raw(object.clone()).cast_mut().cast())
}

/// Takes the object's reference back from the context of a request that has completed, and records the result by
/// `note`.
///
/// # Safety
/// `context` comes from a `completion` with this `T` and `P`, whose routine was called now, once.
unsafe fn ended<T: RunStream<P>, P: Platform, R>(
    context: *mut c_void,
    note: impl FnOnce(&mut State<P>) -> R,
) -> (Arc<T, P>, R) {
    // SAFETY: `completion` leaked exactly one reference for this routine.
    let object = unsafe { Arc::<T, P>::from_raw(context.cast_const().cast()) };
    let mut state = object.stream().state.lock();
    let noted = note(&mut state);
    let unneeded = state.exit();
    drop(state);
    drop(unneeded);
    (object, noted)
}

/// Records the result of a request by `note`, and calls `on_ready`.
///
/// # Safety
/// As for `ended`.
unsafe fn end<T: RunStream<P>, P: Platform>(context: *mut c_void, note: impl FnOnce(&mut State<P>)) {
    // SAFETY: the caller's contract.
    let (object, ()) = unsafe { ended::<T, P, _>(context, note) };
    T::on_ready(&object);
}

pub(super) unsafe fn start_routine<T: RunStream<P>, P: Platform>(
    context: *mut c_void,
    result: Result<usize, SocketError>,
) {
    // SAFETY: `connect` and `listen` made the completion.
    unsafe { end::<T, P>(context, |state| state.started(result)) };
}

pub(super) unsafe fn accept_routine<T: RunStream<P>, L: RunStream<P>, P: Platform>(
    context: *mut c_void,
    result: Result<usize, SocketError>,
) {
    // SAFETY: the object, which the reference in `context` keeps until `end` takes it.
    let object = unsafe { &*context.cast_const().cast::<T>() };
    let listener = object.stream().listener.swap(null_mut(), Ordering::Acquire);
    // SAFETY: `accept`, with the same `L`, leaked a reference for this routine.
    let listener = unsafe { Arc::<L, P>::from_raw(listener.cast_const().cast()) };
    let closed = listener.stream().state.lock().accepted();
    if closed {
        L::on_ready(&listener);
    }
    drop(listener);
    // SAFETY: `accept` made the completion.
    unsafe { end::<T, P>(context, |state| state.started(result)) };
}

/// The routines of the sends, by their numbers.
pub(super) fn send_routines<T: RunStream<P>, P: Platform>() -> [SocketRoutine; SENDS] {
    [send_routine::<T, P, 0>, send_routine::<T, P, 1>, send_routine::<T, P, 2>]
}

unsafe fn send_routine<T: RunStream<P>, P: Platform, const NUMBER: usize>(
    context: *mut c_void,
    result: Result<usize, SocketError>,
) {
    // SAFETY: `call` made the completion.
    let (object, is_waited_for) = unsafe { ended::<T, P, _>(context, |state| state.sent(NUMBER, result)) };
    // Not after each send: the engine has nothing to do if nothing waits for the send, as for a send that completes
    // before its call returns.
    if is_waited_for {
        T::on_ready(&object);
    }
}

pub(super) unsafe fn receive_routine<T: RunStream<P>, P: Platform>(
    context: *mut c_void,
    result: Result<usize, SocketError>,
) {
    // SAFETY: `call` made the completion.
    unsafe { end::<T, P>(context, |state| state.received(result)) };
}

pub(super) unsafe fn finish_routine<T: RunStream<P>, P: Platform>(
    context: *mut c_void,
    result: Result<usize, SocketError>,
) {
    // SAFETY: `call` made the completion.
    unsafe { end::<T, P>(context, |state| state.finished(result)) };
}

pub(super) unsafe fn close_routine<T: RunStream<P>, P: Platform>(context: *mut c_void, _: Result<usize, SocketError>) {
    // SAFETY: `call` made the completion.
    unsafe { end::<T, P>(context, State::closed) };
}
