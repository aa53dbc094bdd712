//! A short soak on the simulated kernel: some rounds of it, which have to reach what there is.

use std::time::{Duration, Instant};

use conformance::soak::{Record, simulated};

/// Rounds that are played.
const ROUNDS: u64 = 12;
/// Longer than they take.
const LIMIT: Duration = Duration::from_secs(600);

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
