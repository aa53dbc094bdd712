//! A soak finds planted bugs, and puts each into its column.

use std::time::{Duration, Instant};

use conformance::soak::{Figures, Record, simulated};
use platform::planted::{Bug, plant};

/// Rounds without a bug.
const CLEAN: u64 = 10;
/// Rounds in which a bug has to show.
const MOST: u64 = 100;

fn soaked(bug: Option<Bug>) -> Figures {
    plant(bug);
    let record = Record::default();
    let end = Instant::now() + Duration::from_secs(300);
    for seed in 1..=if bug.is_some() { MOST } else { CLEAN } {
        simulated(seed, end, Duration::from_secs(if bug.is_some() { 2 } else { 30 }), &record);
        if !record.figures().is_clean() {
            break;
        }
    }
    plant(None);
    record.figures()
}

// Shows S1208.
#[test]
fn a_soak_finds_bugs() {
    let clean = soaked(None);
    assert!(clean.is_clean(), "{clean:#?}");
    for bug in [Bug::LostWakeUp, Bug::OutOfOrder] {
        let figures = soaked(Some(bug));
        let column = if bug == Bug::LostWakeUp { figures.lost } else { figures.wrong };
        assert!(column > 0, "{bug:?}: {figures:#?}");
        println!("{bug:?} is found: {:?}", figures.findings.first());
    }
}
