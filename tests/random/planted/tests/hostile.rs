//! Bugs are found by what the fuzz targets of control requests and of rings do, in a few fixed runs; without them these pass.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hostile::{Finding, Outcomes, Script, bytes, decode, ioctls, rings};
use platform::planted::{Bug, plant};

/// Runs, with as many bytes as the fuzzer gives.
const RUNS: u64 = 60;
const LENGTH: usize = 1024;

/// What is planted is so for the whole process.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays the runs; the first that finds something.
fn play<O: for<'a> arbitrary::Arbitrary<'a> + std::fmt::Debug>(
    run: fn(&Script<O>) -> Result<Outcomes, Finding>,
) -> Option<(u64, Finding)> {
    (0..RUNS).find_map(|seed| run(&decode(&bytes(seed, LENGTH))).err().map(|finding| (seed, finding)))
}

// Shows T20.
#[test]
fn a_second_read_of_a_request_is_found() {
    let _turn = turn();
    assert_eq!(play(rings::run), None, "without the bug");
    plant(Some(Bug::HeadReadTwice));
    let found = play(rings::run);
    plant(None);
    let Some((seed, Finding(what))) = found else { panic!("{RUNS} runs find nothing") };
    assert!(what.contains("of the neighbours ends as"), "{what}");
    println!("{:?} is found by the fuzz target of rings, in run {seed}: {what}", Bug::HeadReadTwice);
}

/// It is the changes at the end of each read that find it.
#[test]
fn the_changes_find_it() {
    let _turn = turn();
    let mut script: Script<rings::Operation> = Script { seed: 0, threads: [vec![rings::Operation::Others], vec![]] };
    plant(Some(Bug::HeadReadTwice));
    let unchanged = rings::run(&script);
    script.threads[0].insert(0, rings::Operation::Change(1));
    let changed = rings::run(&script);
    plant(None);
    assert!(unchanged.is_ok() && changed.is_err(), "{unchanged:?}, {changed:?}");
}

// Shows T8.
#[test]
fn a_handle_of_another_file_that_is_taken_is_found() {
    let _turn = turn();
    assert_eq!(play(ioctls::run), None, "without the bug");
    plant(Some(Bug::AnyGeneration));
    let found = play(ioctls::run);
    plant(None);
    let Some((seed, Finding(what))) = found else { panic!("{RUNS} runs find nothing") };
    assert!(what.contains("takes a handle that is not one of its context"), "{what}");
    println!("{:?} is found by the fuzz target of control requests, in run {seed}: {what}", Bug::AnyGeneration);
}
