//! A short soak on the simulated kernel: some rounds of it, which have to reach what there is.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use conformance::{
    Transport as _,
    sim::Simulated,
    soak::{Figures, Record, Trouble, Until, lives, simulated},
};
use fastrand::Rng;

/// Rounds that are played.
const ROUNDS: u64 = 12;
/// Longer than they take.
const LIMIT: Duration = Duration::from_secs(600);

// Shows S1208.
#[test]
fn random_lives_lose_and_leave_nothing() {
    let record = Record::default();
    let end = Instant::now() + LIMIT;
    (1..=ROUNDS).for_each(|seed| simulated(seed, end, Duration::from_secs(30), &record));
    let figures = record.figures();
    println!("{figures:#?}");
    assert!(figures.is_clean(), "{figures:#?}");
    assert_eq!(figures.posted, figures.completed + figures.forgone, "{figures:#?}");
    let reached =
        [figures.connects, figures.completed, figures.resizes, figures.kills, figures.faults, figures.disturbed];
    assert!(reached.iter().all(|count| *count > 0), "{figures:#?}");
}

/// Lives beneath which files lose all they have, time and again, at any moment. `trouble`: what the consumers expect.
fn removed(seed: u64, trouble: Trouble) -> Figures {
    /// Milliseconds between two removals, at most.
    const MOST: u64 = 30;
    const LIVES: u64 = 150;
    println!("seed {seed}");
    let (device, record, is_over) = (Simulated::boot(), Record::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Rng::with_seed(seed);
            while !is_over.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_micros(random.u64(..MOST * 1000)));
                device.clean_up_files();
            }
        });
        let until = Until { end: Instant::now() + LIMIT, lives: LIVES, patience: Duration::from_secs(30) };
        lives(&device, None, (seed, 2), trouble, until, &record);
        is_over.store(true, Ordering::Relaxed);
    });
    let left = Box::new(device).close();
    assert!(left.is_empty(), "{left:?}");
    record.figures()
}

// Shows S1208.
#[test]
fn what_ends_with_the_adapter_is_not_wrong() {
    for seed in [1, 2] {
        let figures = removed(seed, Trouble::Removal);
        assert!(figures.is_clean() && figures.disturbed > 0 && figures.connects > 0, "{figures:#?}");
    }
}

#[test]
fn what_ends_without_a_reason_is_wrong() {
    let figures = removed(1, Trouble::Nothing);
    assert!(figures.wrong > 0, "{figures:#?}");
}
