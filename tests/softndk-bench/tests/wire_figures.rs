//! The figures of the wire.

use std::path::Path;

use indicatif::ProgressBar;
use softndk_bench::{idle, plot, two_processes, wire};

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
    assert_eq!(figures.len(), 38);
    assert_eq!(figures.iter().filter(|figure| figure.target.is_some()).count(), 10);
    for figure in &figures {
        let values = [figure.value, figure.reference_value, figure.ratio];
        // Linux may account a thread's time after the round, so one of two rounds may have taken none.
        let may_be_none = figure.name.contains("processors") && figure.name.ends_with("p10");
        assert!(values.iter().all(|value| *value > 0.0 || may_be_none && *value == 0.0), "{figure:?}");
        assert!(values.iter().all(|value| value.is_finite()), "{figure:?}");
    }
}

#[test]
fn the_drawing_has_each_line() {
    let program = Path::new(env!("CARGO_BIN_EXE_softndk-bench"));
    let drawing = plot::svg(&ProgressBar::hidden(), program, 1, &[1, 10]).expect("a drawing");
    for (text, times) in [
        ("shared memory, polled", 2),
        ("shared memory, armed", 1),
        ("over TCP, armed", 2),
        ("blocking TCP", 1),
        ("in one process", 1),
        ("memcpy", 1),
        ("queue pairs of a process", 1),
        ("as many rings", 1),
        ("1 MiB", 2),
    ] {
        assert_eq!(drawing.matches(&format!("\n{text}\n")).count(), times, "{text}");
    }
}
