//! Planted failures, one for each call site: none is left out, none comes twice, and what is wrong after one is caught.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use platform::{Arc, Deferred, Dispatch, OutOfMemory, RunDeferred, Slice};
use simkernel::{Pages, Session, SimKernel, boot, boot_seeded, each_fault, passive, pause};

type Event = platform::Event<SimKernel>;

const LIMIT: Duration = Duration::from_secs(20);

fn memory(bytes: usize) -> Result<Slice<u8, SimKernel>, OutOfMemory> {
    Slice::filled(bytes, 1)
}

/// Four sites: the loop is one, the two calls of the helper are two.
fn four_sites() -> Result<(), OutOfMemory> {
    for _ in 0..5 {
        let _one = memory(1)?;
    }
    let _two = memory(2)?;
    let _three = memory(3)?;
    let _four = Arc::<_, SimKernel>::try_new(4)?;
    Ok(())
}

#[test]
fn each_allocation_fails_in_turn() {
    let scenario = || memory(10).and_then(|_outer| memory(20)).map(drop);
    for nth in 1..=3 {
        let kernel = boot();
        let fault = kernel.fail_allocation(nth);
        assert_eq!((scenario().is_err(), fault.happened()), (nth < 3, nth < 3));
    }
}

#[test]
fn each_site_fails_once() {
    let mut outcomes = Vec::new();
    let faults = each_fault(boot, LIMIT, |_| four_sites(), |site, outcome| outcomes.push((site.cloned(), outcome)));
    assert_eq!((faults.failed.len(), faults.missed.len()), (4, 0), "{faults}");
    let (first, rest) = outcomes.split_first().unwrap();
    assert_eq!(*first, (None, Ok(())), "the first run is undisturbed");
    assert!(rest.iter().all(|(site, outcome)| site.is_some() && *outcome == Err(OutOfMemory)));
    let text = faults.failed[0].to_string();
    let own = ["in memory (faults.rs:", "in four_sites (faults.rs:"];
    assert!(text.starts_with("allocation") && own.iter().all(|frame| text.contains(frame)), "{text}");
    // Of the simulated kernel, and of the platform's containers.
    assert!(!["pool.rs", "slice.rs"].iter().any(|file| text.contains(file)), "{text}");
}

/// A failure has another path taken, which may fail too.
#[test]
fn sites_behind_a_failure_are_found() {
    let fallback = || memory(100).or_else(|_| memory(1)).is_ok();
    let mut failures = 0;
    let faults = each_fault(boot, LIMIT, |_| fallback(), |_, survived| failures += usize::from(!survived));
    assert_eq!((faults.failed.len(), faults.missed.len()), (2, 0), "{faults}");
    assert_eq!(failures, 1, "the second fails after the first");
}

struct Later {
    deferred: Deferred<SimKernel>,
    done: Arc<Event, SimKernel>,
    allocated: std::sync::atomic::AtomicU8,
}

impl RunDeferred<SimKernel> for Later {
    fn deferred(&self) -> &Deferred<SimKernel> {
        &self.deferred
    }

    fn run(this: &Arc<Self, SimKernel>, _: &Dispatch<'_>) {
        this.allocated.store(1 + u8::from(memory(10).is_ok()), std::sync::atomic::Ordering::SeqCst);
        this.done.set();
    }
}

/// Sites in deferred calls, and mappings.
#[test]
fn all_kinds_of_sites_are_found() {
    let scenario = |_: &Session| {
        let pages = Pages::new(1);
        let mdl = pages.mdl(0, 100, 0);
        #[expect(unsafe_code, reason = "maps an MDL")]
        // SAFETY: a live MDL.
        let mapped = unsafe { <SimKernel as platform::Platform>::mdl_system_address(mdl.as_ptr().cast()) };
        if mapped.is_none() {
            return "mapping";
        }
        let Ok(done) = Event::new() else { return "event" };
        let later = Later { deferred: Deferred::default(), done: done.clone(), allocated: 0.into() };
        let Ok(later) = Arc::<_, SimKernel>::try_new(later) else { return "object" };
        Deferred::initialize(&later);
        Deferred::schedule(&later);
        done.wait(&passive());
        let allocated = later.allocated.load(std::sync::atomic::Ordering::SeqCst);
        if allocated == 1 { "deferred" } else { "none" }
    };
    for boot in [boot, || boot_seeded(3)] {
        let mut outcomes = Vec::new();
        let faults = each_fault(boot, LIMIT, scenario, |_, outcome| outcomes.push(outcome));
        assert_eq!(faults.failed.len(), 4, "{faults}");
        assert_eq!(outcomes, ["none", "mapping", "event", "object", "deferred"]);
    }
}

fn panic_of(limit: Duration, scenario: impl FnMut(&Session)) -> String {
    let outcome = catch_unwind(AssertUnwindSafe(|| each_fault(boot, limit, scenario, |_, ()| ())));
    let panic = outcome.expect_err("not caught");
    panic.downcast::<String>().map_or_else(|panic| panic.downcast::<&str>().unwrap().to_string(), |text| *text)
}

#[test]
fn a_leak_after_a_failure_is_caught() {
    let message = panic_of(LIMIT, |_| {
        let first = memory(77).ok();
        if memory(2).is_err() {
            std::mem::forget(first);
        }
    });
    assert!(message.contains("not clean") && message.contains("1 of 77 bytes from"), "{message}");
    assert!(message.contains("tests/faults.rs"), "the place is named: {message}");
}

#[test]
fn a_hang_after_a_failure_is_caught() {
    let mut hangs = false;
    let message = panic_of(Duration::from_secs(2), |_| {
        let event = Event::new().ok();
        if let (Some(event), Err(_)) = (event, memory(2)) {
            hangs = true;
            event.wait(&passive());
        }
    });
    assert!(hangs && message.contains("stalled"), "{message}");
}

#[test]
fn a_hang_in_a_seeded_session_is_caught() {
    let outcome = catch_unwind(|| {
        let scenario = |_: &Session| {
            while memory(2).is_err() {
                // Waits for what nobody does.
                let event = Event::new().unwrap();
                event.wait(&passive());
            }
            pause();
        };
        each_fault(|| boot_seeded(1), LIMIT, scenario, |_, ()| ())
    });
    let message = *outcome.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("nobody can go on"), "{message}");
}

#[test]
fn a_panic_after_a_failure_is_not_swallowed() {
    let message = panic_of(LIMIT, |_| drop(memory(2).expect("there is always memory")));
    assert!(message.contains("there is always memory"), "{message}");
}
