//! The figures of the wire.

use std::path::Path;

use indicatif::ProgressBar;
use softndk_bench::{idle, two_processes, wire};

/// Every figure is there, beside its reference; what they are is for `cargo xtask bench --wire`.
#[test]
fn every_figure_is_there() {
    let bar = ProgressBar::hidden();
    let program = Path::new(env!("CARGO_BIN_EXE_softndk-bench"));
    let groups = [
        idle::idle(&bar, program, 2, 50),
        idle::connections(&bar, program, 2, 50, 10),
        two_processes::writes(&bar, program, 2),
        wire::round_trips(&bar, 2),
        two_processes::shared(&bar, program, 2),
    ];
    let figures: Vec<_> = groups.into_iter().flat_map(|group| group.expect("a group")).collect();
    assert_eq!(figures.len(), 36);
    assert_eq!(figures.iter().filter(|figure| figure.target.is_some()).count(), 10);
    for figure in &figures {
        let values = [figure.value, figure.reference_value, figure.ratio];
        assert!(values.iter().all(|value| value.is_finite() && *value > 0.0), "{figure:?}");
    }
}
