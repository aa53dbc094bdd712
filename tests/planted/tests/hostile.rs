//! A second read of memory that a user can change meanwhile is found by the fuzz target of rings, in a few fixed runs; without it
//! they pass.

use std::sync::{Mutex, MutexGuard, PoisonError};

use hostile::{Finding, Script, bytes, decode, rings};
use nd_ioctl::planted::{Bug, plant};

/// Runs, with as many bytes as the fuzzer gives.
const RUNS: u64 = 60;
const LENGTH: usize = 1024;

/// What is planted is so for the whole process.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Plays the runs; the first that finds something.
fn play() -> Option<(u64, Finding)> {
    (0..RUNS).find_map(|seed| {
        let script: Script<rings::Operation> = decode(&bytes(seed, LENGTH));
        rings::run(&script).err().map(|finding| (seed, finding))
    })
}

#[test]
fn a_second_read_of_a_request_is_found() {
    let _turn = turn();
    assert_eq!(play(), None, "without the bug");
    plant(Some(Bug::HeadReadTwice));
    let found = play();
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
