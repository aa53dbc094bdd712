//! Context tokens, and events.
#![expect(unsafe_code, reason = "tests unsafe claims, and how an event orders unsynchronised memory")]

use std::thread;

use hosted::Hosted;
use platform::{Arc, AsDispatch, Dispatch, Passive, Platform, SpinLockGuard};
use simkernel::{Breach, SimKernel, at_dispatch, at_irql, boot, passive};

type Event = platform::Event<SimKernel>;

#[test]
fn a_proof_of_context_stays_on_its_thread() {
    static_assertions::assert_not_impl_any!(Passive<'static>: Send, Sync, Clone, Copy);
    static_assertions::assert_not_impl_any!(Dispatch<'static>: Send, Sync, Clone, Copy);
    static_assertions::assert_not_impl_any!(SpinLockGuard<'static, u8, SimKernel>: Send);
}

#[test]
fn a_false_claim_is_noted() {
    let claims = |mint: fn()| {
        [0, 1, 2].map(|level| {
            let kernel = boot();
            at_irql(level, mint);
            !kernel.finish().broke(|breach| matches!(breach, Breach::FalseClaim { .. }))
        })
    };
    let passive = || {
        // SAFETY: at worst the claim is false, and the token goes at once.
        let _token = unsafe { Passive::assume::<SimKernel>() };
    };
    let dispatch = || {
        // SAFETY: as above.
        let _token = unsafe { Dispatch::assume::<SimKernel>() };
    };
    assert_eq!(claims(passive), [true, false, false]);
    assert_eq!(claims(dispatch), [false, false, true]);
}

/// Platforms that note nothing panic in debug builds.
#[test]
#[cfg(debug_assertions)]
fn debug_builds_check_the_claim() {
    let claims = |mint: fn()| std::panic::catch_unwind(mint).is_ok();
    assert!(claims(|| {
        // SAFETY: threads start there.
        let _token = unsafe { Passive::assume::<Hosted>() };
    }));
    assert!(!claims(|| {
        // SAFETY: the claim is false, and the token goes at once.
        let _token = unsafe { Dispatch::assume::<Hosted>() };
    }));
}

#[test]
fn a_guard_is_a_proof() {
    let _kernel = boot();
    let lock = platform::SpinLock::<_, SimKernel>::new(7);
    let guard = lock.lock();
    let _at_dispatch: Dispatch<'_> = guard.dispatch();
    assert_eq!(SimKernel::irql(), platform::DISPATCH_LEVEL);
}

#[test]
fn an_event_stays_signalled() {
    let _kernel = boot();
    let event = Event::new().unwrap();
    at_dispatch(|_| event.set());
    event.set();
    event.wait(&passive());
    event.wait(&passive());
}

#[test]
fn what_was_written_before_set_is_seen_after_wait() {
    let _kernel = boot();
    struct Message {
        event: Arc<Event, SimKernel>,
        value: std::cell::UnsafeCell<u64>,
    }
    // SAFETY: written before `set`, read after `wait`.
    unsafe impl Sync for Message {}
    // SAFETY: as above.
    unsafe impl Send for Message {}
    for round in 0..1_000 {
        let event = Event::new().unwrap();
        let message = Arc::<_, SimKernel>::try_new(Message { event, value: 0.into() }).unwrap();
        let sender = message.clone();
        let sender = thread::spawn(move || {
            // SAFETY: as above.
            unsafe { sender.value.get().write(round) };
            sender.event.set();
        });
        message.event.wait(&passive());
        // SAFETY: as above.
        let value = unsafe { message.value.get().read() };
        assert_eq!(value, round);
        sender.join().unwrap();
    }
}

#[test]
fn an_event_may_fail_to_be_made() {
    let kernel = boot();
    let _fault = kernel.fail_allocation(1);
    assert!(Event::new().is_err());
}
