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

/// One case from a seed: the operations performed. A failure is reduced to the fewest operations that show it.
fn case(seed: u64, play: impl Fn(&[Operation]) -> Result<Report, model::Mismatch>) -> Result<Report, String> {
    let config = Config { cases: 1, failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
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

#[test]
fn provider_equals_the_model() {
    let number = |name: &str| env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    if let Some(seed) = number("SOFTNDK_SEED") {
        case(seed, model::run).unwrap_or_else(|failure| panic!("{failure}"));
        return;
    }
    let wanted = if number("SOFTNDK_FULL") == Some(1) { 10 * OPERATIONS } else { OPERATIONS };
    let (mut performed, mut seed) = (0, 0);
    let mut outcomes = Outcomes::new();
    while performed < wanted {
        seed += 1;
        let report = case(seed, model::run).unwrap_or_else(|failure| panic!("{failure}"));
        performed += report.operations;
        report.outcomes.into_iter().for_each(|(outcome, count)| *outcomes.entry(outcome).or_default() += count);
    }
    for ((call, status), count) in &outcomes {
        println!("{count:8} times {call}: {status}");
    }
    println!("{performed} operations in {seed} sessions");
}

/// The comparison finds a model that is wrong, soon, and reduces what shows it to a few operations.
#[test]
fn a_wrong_model_is_found() {
    for mistake in [Mistake::RegionsEndEarly, Mistake::ArmsForget, Mistake::FlushKeepsReceives] {
        let play = |operations: &[Operation]| model::run_mistaken(mistake, operations);
        let failure = (1..=20).find_map(|seed| case(seed, play).err());
        let failure = failure.unwrap_or_else(|| panic!("{mistake:?} is not found"));
        let operations = failure.matches("Operation").count();
        println!("{mistake:?} is found: {failure}");
        assert!(failure.contains("SOFTNDK_SEED=") && operations < 10, "{failure}");
    }
}
