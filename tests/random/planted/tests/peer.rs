//! A planted bug is found by what the fuzz target of hostile peers does; without it that passes.

use std::{fs, path::Path};

use peer::{Finding, bytes, hostile};
use platform::planted::{Bug, plant};

/// Runs that are drawn, and their bytes.
const RUNS: u64 = 300;
const LENGTH: usize = 120;

// Shows T34.
#[test]
fn a_write_over_the_end_of_a_region_is_found() {
    // An input of the fuzzer that is checked in: its last frame writes over the end by a byte.
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/receive/end-of-region");
    let script = hostile::decode(&fs::read(input).expect("the input"));
    let clean = hostile::run(&script);
    assert!(clean.is_ok_and(|outcomes| outcomes.keys().any(|outcome| outcome.starts_with("TAGGED_BOUNDS"))));
    plant(Some(Bug::OffByOne));
    let found = hostile::run(&script);
    let drawn = (0..RUNS).find_map(|seed| {
        let found = hostile::run(&hostile::decode(&bytes(seed, LENGTH)));
        found.err().map(|finding| (seed, finding))
    });
    plant(None);
    let Err(Finding(what)) = found else { panic!("it is not found") };
    assert!(what.contains("byte 0x8000 of the memory"), "{what}");
    let Some((seed, Finding(_))) = drawn else { panic!("{RUNS} runs find nothing") };
    println!(
        "{:?} is found by the fuzz target of hostile peers, on its input and in run {seed}: {what}",
        Bug::OffByOne
    );
}
