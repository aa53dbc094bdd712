//! Short runs of the fuzz targets, without the fuzzer. `SOFTNDK_SEED` repeats one, `SOFTNDK_FULL=1` makes them ten times as many.

use std::time::Duration;

use hostile::{Finding, Outcomes, Script, bytes, decode, ioctls, rings};
use simkernel::{seeds, watchdog};

/// Longer than one of them takes.
const LIMIT: Duration = Duration::from_secs(60);
/// Bytes that a script is made of.
const LENGTH: usize = 1024;

fn play<O: for<'a> arbitrary::Arbitrary<'a> + std::fmt::Debug>(
    count: u64,
    run: fn(&Script<O>) -> Result<Outcomes, Finding>,
) -> Outcomes {
    let mut all = Outcomes::new();
    let mut operations = 0;
    for seed in seeds(count) {
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
    all
}

#[test]
fn rings_that_are_not_as_they_should_be() {
    let outcomes = play(150, rings::run);
    assert!(outcomes.len() > 20);
}

#[test]
fn rings_that_change_as_the_machine_has_it() {
    play(20, rings::run_unscheduled);
}

#[test]
fn control_requests_that_are_not_as_they_should_be() {
    let outcomes = play(150, ioctls::run);
    assert!(outcomes.len() > 50);
}
