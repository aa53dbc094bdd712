//! Short runs of the fuzz targets, without the fuzzer. `SOFTNDK_SEED` repeats one, `SOFTNDK_FULL=1` makes them ten times as many.

use std::{fs, path::Path, time::Duration};

use hostile::{Finding, Outcomes, Script, bytes, decode, ioctls, rings};
use simkernel::{seeds, watchdog};

/// Longer than one of them takes.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes that a script is made of.
const LENGTH: usize = 1024;

/// Plays scripts, which have to reach `least_outcomes` different outcomes: otherwise they test too little.
fn play<O: for<'a> arbitrary::Arbitrary<'a> + std::fmt::Debug>(
    count: u64,
    least_outcomes: usize,
    run: fn(&Script<O>) -> Result<Outcomes, Finding>,
) {
    let mut all = Outcomes::new();
    let mut operations = 0;
    let seeds = seeds(count);
    let is_all = seeds.end - seeds.start >= count;
    for seed in seeds {
        let script = decode(&bytes(seed, LENGTH));
        operations += script.threads.iter().map(Vec::len).sum::<usize>();
        let outcomes = watchdog(LIMIT, || run(&script));
        let outcomes = outcomes.unwrap_or_else(|Finding(what)| panic!("SOFTNDK_SEED={seed}: {what}"));
        outcomes.into_iter().for_each(|(outcome, times)| *all.entry(outcome).or_default() += times);
    }
    for ((code, status), times) in &all {
        println!("{times:8} times {code:#x}: {status}");
    }
    println!("{operations} operations, {} outcomes", all.len());
    assert!(!is_all || all.len() >= least_outcomes, "only {} outcomes", all.len());
}

/// Plays the inputs from which the fuzzer starts.
fn play_inputs<O: for<'a> arbitrary::Arbitrary<'a> + std::fmt::Debug>(
    target: &str,
    run: fn(&Script<O>) -> Result<Outcomes, Finding>,
) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    for input in fs::read_dir(corpus).unwrap() {
        let path = input.unwrap().path();
        let script = decode(&fs::read(&path).unwrap());
        watchdog(LIMIT, || run(&script)).unwrap_or_else(|Finding(what)| panic!("{}: {what}", path.display()));
    }
}

#[test]
fn inputs_of_the_fuzzer() {
    play_inputs("rings", rings::run);
    play_inputs("ioctls", ioctls::run);
}

// Shows T21, T24.
#[test]
fn rings_that_are_not_as_they_should_be() {
    play(150, 60, rings::run);
}

// Shows T20.
#[test]
fn rings_that_change_as_the_machine_has_it() {
    play(40, 30, rings::run_unscheduled);
}

// Shows T7.
#[test]
fn control_requests_that_are_not_as_they_should_be() {
    play(150, 250, ioctls::run);
}
