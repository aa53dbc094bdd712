//! Random operations against the reference model.
//!
//! `SOFTNDK_SEED` repeats one case: a failure says which. `SOFTNDK_FULL=1`, which `cargo xtask test --full` sets, does ten
//! times as much.

mod strategy;

use std::{cell::RefCell, env};

use model::{Mistake, Operation, Outcomes, Report};
use proptest::{
    collection::vec,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner},
};

/// Operations of one case, as they are drawn; some of them are several.
const LENGTH: usize = 250;
/// In CI.
const OPERATIONS: u64 = 100_000;

/// Ways that calls, requests and callbacks end which that many reach.
const OUTCOMES: usize = 100;

/// One case from a seed, of the operations as of the schedule. A failure is reduced to the fewest operations that show it.
fn case(seed: u64, play: impl Fn(&[Operation]) -> Result<Report, model::Mismatch>) -> Result<Report, String> {
    let config = Config { cases: 1, failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() };
    let bytes = (seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
    let random = TestRng::from_seed(RngAlgorithm::XorShift, &[bytes, bytes].concat());
    let mut runner = TestRunner::new_with_rng(config, random);
    let performed = RefCell::new(Report::default());
    let outcome = runner.run(&vec(strategy::operation(), 1..LENGTH), |operations| match play(&operations) {
        Ok(report) => {
            performed.replace(report);
            Ok(())
        }
        Err(mismatch) => Err(TestCaseError::fail(mismatch.0)),
    });
    outcome.map(|()| performed.take()).map_err(|error| format!("SOFTNDK_SEED={seed}\n{error}"))
}

// Shows S217, S1717.
#[test]
fn provider_equals_the_model() {
    // A seed that is named is played alone; else as many as it takes.
    let seeds = simkernel::seeds(u64::MAX / 10);
    let wanted = if env::var("SOFTNDK_FULL").is_ok_and(|full| full == "1") { 10 * OPERATIONS } else { OPERATIONS };
    let (mut performed, mut sessions) = (0, 0);
    let mut outcomes = Outcomes::new();
    for seed in seeds {
        let report =
            case(seed, |operations| model::run(seed, operations)).unwrap_or_else(|failure| panic!("{failure}"));
        report.outcomes.into_iter().for_each(|(outcome, count)| *outcomes.entry(outcome).or_default() += count);
        (performed, sessions) = (performed + report.operations, sessions + 1);
        if performed >= wanted {
            break;
        }
    }
    for ((call, status), count) in &outcomes {
        println!("{count:8} times {call}: {status}");
    }
    println!("{performed} operations in {sessions} sessions");
    // It says something only if the operations reach what there is. A seed that is named need not.
    let reached = outcomes.len();
    assert!(performed < wanted || reached >= OUTCOMES, "only {reached} outcomes: {outcomes:?}");
}

/// The comparison finds a model that is wrong, soon, and reduces what shows it to a few operations.
#[test]
fn a_wrong_model_is_found() {
    for mistake in
        [Mistake::RegionsEndEarly, Mistake::ArmsForget, Mistake::FlushKeepsReceives, Mistake::RulesForgetAfter]
    {
        let play = |seed| case(seed, |operations| model::run_mistaken(seed, mistake, operations));
        let failure = (0..20).find_map(|seed| play(seed).err());
        let failure = failure.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        let operations = failure.matches("Operation").count();
        println!("{mistake:?} is found: {failure}");
        assert!(failure.contains("SOFTNDK_SEED=") && operations < 10, "{failure}");
    }
}
