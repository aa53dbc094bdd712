//! Timers: each wrong use is caught.
#![expect(unsafe_code, reason = "raw timers")]

use std::{alloc::Layout, ffi::c_void, ptr::null_mut, time::Duration};

use platform::Platform;
use simkernel::{Breach, Session, SimKernel, Timer, at_irql, boot};

unsafe extern "C" fn nothing(_: *mut c_void) {}

/// A timer in pool memory, initialised.
fn timer() -> *mut Timer {
    let timer: *mut Timer = SimKernel::allocate(Layout::new::<Timer>()).expect("memory").cast().as_ptr();
    // SAFETY: room for one.
    unsafe { timer.write(SimKernel::new_timer()) };
    // SAFETY: new, and it stays there.
    unsafe { SimKernel::initialize_timer(timer, nothing, null_mut()) };
    timer
}

fn set(timer: *mut Timer, microseconds: u32) {
    // SAFETY: as the platform documents, or what the simulated kernel catches.
    unsafe { SimKernel::set_timer(timer, microseconds) };
}

fn cancel(timer: *mut Timer) -> bool {
    // SAFETY: initialised.
    unsafe { SimKernel::cancel_timer(timer) }
}

fn free(timer: *mut Timer) {
    let memory = std::ptr::NonNull::new(timer.cast()).expect("not null");
    // SAFETY: allocated above.
    unsafe { SimKernel::free(memory, Layout::new::<Timer>()) };
}

fn held() -> Session {
    let kernel = boot();
    kernel.hold_clock();
    kernel
}

#[test]
fn cancel_tells_whether_it_was_set() {
    let kernel = held();
    let timer = timer();
    assert!(!cancel(timer));
    set(timer, 5);
    assert!(cancel(timer));
    set(timer, 5);
    kernel.advance(Duration::from_micros(5));
    assert!(!cancel(timer));
    kernel.flush_dpcs();
    free(timer);
}

#[test]
fn memory_freed_with_a_set_timer_is_noted() {
    let kernel = held();
    let timer = timer();
    set(timer, 5);
    free(timer);
    kernel.advance(Duration::from_secs(1));
    assert!(kernel.finish().broke(|breach| matches!(breach, Breach::FreedSetTimer(_))));
}

#[test]
fn a_timer_set_twice_is_noted() {
    let kernel = held();
    let timer = timer();
    set(timer, 5);
    set(timer, 5);
    assert!(cancel(timer));
    free(timer);
    assert!(kernel.finish().broke(|breach| matches!(breach, Breach::SetTwice(_))));
}

#[test]
fn a_timer_left_set_is_not_clean() {
    let kernel = held();
    let timer = timer();
    set(timer, 5);
    let ledger = kernel.ledger();
    assert_eq!((ledger.set_timers, ledger.is_clean()), (1, false));
    assert!(cancel(timer));
    free(timer);
}

#[test]
fn timers_are_not_set_above_dispatch_level() {
    let kernel = held();
    let timer = timer();
    at_irql(platform::DISPATCH_LEVEL + 1, || set(timer, 5));
    assert!(cancel(timer));
    free(timer);
    assert!(kernel.finish().broke(|breach| matches!(breach, Breach::IrqlTooHigh { .. })));
}
