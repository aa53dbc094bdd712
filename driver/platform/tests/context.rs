//! Context tokens, and events.
#![expect(unsafe_code, reason = "tests unsafe claims, and how an event orders unsynchronised memory")]

use std::thread;

use platform::{Arc, Dispatch, Passive, SpinLockGuard};
use simkernel::{SimKernel, at_dispatch, at_irql, boot, passive};

type Event = platform::Event<SimKernel>;

#[test]
fn a_proof_of_context_stays_on_its_thread() {
    static_assertions::assert_not_impl_any!(Passive<'static>: Send, Sync, Clone, Copy);
    static_assertions::assert_not_impl_any!(Dispatch<'static>: Send, Sync, Clone, Copy);
    static_assertions::assert_not_impl_any!(SpinLockGuard<'static, u8, SimKernel>: Send);
}

#[test]
#[cfg(debug_assertions)]
fn debug_builds_check_the_claim() {
    let _kernel = boot();
    let passive_at = |level| {
        std::panic::catch_unwind(|| {
            at_irql(level, || {
                // SAFETY: at worst the claim is false, and the token goes at once.
                let _token = unsafe { Passive::assume::<SimKernel>() };
            });
        })
    };
    let dispatch_at = |level| {
        std::panic::catch_unwind(|| {
            at_irql(level, || {
                // SAFETY: as above.
                let _token = unsafe { Dispatch::assume::<SimKernel>() };
            });
        })
    };
    assert_eq!([0, 1, 2].map(|level| passive_at(level).is_ok()), [true, false, false]);
    assert_eq!([0, 1, 2].map(|level| dispatch_at(level).is_ok()), [false, false, true]);
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
