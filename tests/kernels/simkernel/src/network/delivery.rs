//! Ends requests, on their caller's stack or by DPCs, and moves the network on.
#![expect(unsafe_code, reason = "routines of requests and DPCs are called with a context pointer")]

use std::{
    cell::Cell,
    ffi::c_void,
    ptr::{NonNull, null_mut},
    sync::OnceLock,
};

use super::{At, Request, lock, with};
use crate::{
    irql,
    processors::{self, Dpc},
    schedule,
};

thread_local! {
    static IN_ROUTINE: Cell<bool> = const { Cell::new(false) };
}

/// Whether the thread is in a request's routine.
pub(super) fn in_routine() -> bool {
    IN_ROUTINE.get()
}

/// Has all of them end: `inline` now and here, the others by DPCs.
pub(super) fn dispatch(ended: Vec<At<Request>>, inline: Option<At<Request>>) {
    for request in ended {
        if inline.is_some_and(|inline| inline.addr() == request.addr()) {
            end(request);
        } else {
            // SAFETY: initialised when the request began; it is valid until its routine is called, by that DPC.
            unsafe { processors::queue(NonNull::from(&request.get().dpc)) };
        }
    }
}

/// The DPC of a request that has ended.
pub(super) unsafe extern "C" fn deliver(context: *mut c_void) {
    // SAFETY: the request itself, which is valid until its routine is called.
    end(At(unsafe { NonNull::new_unchecked(context.cast()) }));
}

/// Calls the routine of a request that has ended.
fn end(request: At<Request>) {
    let mut locked = lock();
    let Some(net) = locked.as_mut() else { return };
    let fields = request.get();
    fields.under_way.set(false);
    let (done, result) = (fields.done.take(), fields.result.take());
    net.exit(request);
    let ended = net.take_ended();
    drop(locked);
    if !ended.is_empty() {
        dispatch(ended, None);
        // Another processor may call the close's routine before this one calls the request's.
        for _ in 0..schedule::choose(16) {
            schedule::occasion("complete", request.addr());
        }
    }
    wake();
    let (Some(done), Some(result)) = (done, result) else { return };
    let before = IN_ROUTINE.replace(true);
    // SAFETY: taken out above, so called once.
    irql::run_at(irql::current(), || unsafe { done.complete(result) });
    IN_ROUTINE.set(before);
}

/// Has the network move on, if there is something to do.
pub(super) fn wake() {
    static TICK: OnceLock<Dpc> = OnceLock::new();
    if !with(|net| net.has_work()) {
        return;
    }
    let tick = TICK.get_or_init(|| {
        let dpc = Dpc::default();
        dpc.initialize(move_on, null_mut());
        dpc
    });
    // SAFETY: it lives for ever.
    unsafe { processors::queue(NonNull::from(tick)) };
}

/// Some of what can happen happens.
unsafe extern "C" fn move_on(_: *mut c_void) {
    let ended = with(|net| {
        net.steps();
        net.take_ended()
    });
    dispatch(ended, None);
    wake();
}
