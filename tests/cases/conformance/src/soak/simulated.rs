//! Lives on the simulated kernel, in rounds: each boots it, on one machine or two, and looks at what is left at its end.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use simkernel::Session;

use super::{Record, Trouble, Until, lives};
use crate::{Bench, Transport as _, sim::Simulated};

/// How long a planted fault waits for its call.
const WAIT: Duration = Duration::from_millis(30);
/// A fault happens within this number of calls.
const SOON: u64 = 300;
/// Of each thread, in a round.
const LIVES: u64 = 8;

/// Plays a round, all of whose choices `seed` determines, but for when things happen. No life begins after `end`.
pub fn simulated(seed: u64, end: Instant, patience: Duration, record: &Record) {
    let mut random = Rng::with_seed(seed);
    let (two_devices, faulty, threads) = (random.bool(), random.bool(), random.u64(1..=3));
    let (here, there) = if two_devices {
        let [here, there] = Simulated::boot_two_devices();
        (here, Some(there))
    } else {
        (Simulated::boot(), None)
    };
    let trouble = if faulty { Trouble::Faults } else { Trouble::Nothing };
    let until = Until { end, lives: LIVES, patience };
    let before = record.figures().findings.len();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        if faulty {
            let (here, is_over, mut random) = (&here, &is_over, random.fork());
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    fail_once(here.session(), &mut random, is_over, record);
                }
            });
        }
        let there = there.as_ref().map(|there| there as &(dyn crate::Transport + Sync));
        lives(&here, there, (random.u64(..), threads), trouble, until, record);
        is_over.store(true, Ordering::Relaxed);
    });
    let left = [Some(&here), there.as_ref()]
        .into_iter()
        .flatten()
        .flat_map(|machine| Bench::new(machine, patience).left_behind());
    let left: Vec<_> = left.collect();
    let ledger = here.session().ledger();
    let complaints: Vec<_> =
        there.map(|there| Box::new(there).close()).into_iter().flatten().chain(Box::new(here).close()).collect();
    let mut figures = record.add();
    figures.violations += ledger.violations.len() as u64;
    figures.leaked += (left.len() + complaints.len()) as u64;
    for what in left.into_iter().chain(complaints) {
        figures.find(what);
    }
    for finding in figures.findings.iter_mut().skip(before) {
        finding.push_str(&format!(
            " (in the round with --seed {seed}: two devices {two_devices}, faults {faulty}, {threads} at a time)"
        ));
    }
}

/// Has one call of the kernel fail.
fn fail_once(session: &Session, random: &mut Rng, is_over: &AtomicBool, record: &Record) {
    let nth = random.u64(1..SOON);
    let fault = match random.u8(..4) {
        0 => session.fail_mapping(nth.div_ceil(10)),
        1 => session.fail_request(nth.div_ceil(4)),
        _ => session.fail_allocation(nth),
    };
    let planted = Instant::now();
    while !fault.happened() && !is_over.load(Ordering::Relaxed) && planted.elapsed() < WAIT {
        thread::sleep(Duration::from_micros(200));
    }
    if fault.happened() {
        record.add().faults += 1;
    }
}
