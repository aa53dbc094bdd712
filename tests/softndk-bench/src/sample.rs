//! Measuring in turns.

use std::{
    sync::OnceLock,
    time::{Duration, Instant},
};

use core_affinity::CoreId;
use indicatif::ProgressBar;

/// What a series of rounds came to, in nanoseconds of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The tenth percentile. Whatever else runs on the machine only ever adds to a round, so the fast rounds are the ones
    /// that show the code; the very fastest may be luck.
    pub typical: f64,
    /// The median.
    pub median: f64,
    /// The smallest.
    pub best: f64,
}

impl Cost {
    pub(crate) fn of(mut rounds: Vec<f64>) -> Self {
        rounds.sort_by(f64::total_cmp);
        let at = |share: usize| rounds.get(rounds.len() * share / 100).copied().unwrap_or(f64::NAN);
        Self { typical: at(10), median: at(50), best: at(0) }
    }
}

/// One of the things that are compared: does `operations` operations, and says how long they took.
pub type Round<'a> = Box<dyn FnMut(usize) -> Duration + 'a>;

/// Times something that runs on this thread.
pub fn timed<'a>(mut work: impl FnMut(usize) -> u64 + 'a) -> Round<'a> {
    Box::new(move |operations| {
        let start = Instant::now();
        std::hint::black_box(work(operations));
        start.elapsed()
    })
}

/// Runs each of `contenders` once a round, in turns, after one round that does not count.
pub fn compare(bar: &ProgressBar, rounds: usize, contenders: &mut [(usize, Round<'_>)]) -> Vec<Cost> {
    let mut results = vec![Vec::with_capacity(rounds); contenders.len()];
    for round in 0..=rounds {
        for ((operations, work), results) in contenders.iter_mut().zip(&mut results) {
            let time = work(*operations);
            if round > 0 {
                results.push(time.as_secs_f64() * 1e9 / *operations as f64);
            }
        }
        bar.tick();
    }
    results.into_iter().map(Cost::of).collect()
}

/// Spins, and gives the time slice up if nothing comes for long: the other side may have no processor.
#[derive(Debug, Default)]
pub struct Patience(u32);

impl Patience {
    /// Notes whether the last look found something.
    #[inline]
    pub fn found(&mut self, something: bool) {
        self.0 = if something { 0 } else { self.0.wrapping_add(1) };
        if self.0 > 0 {
            if self.0.is_multiple_of(1000) { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }
}

/// Keeps this thread on one processor; false if there is no such processor.
pub fn pin(processor: usize) -> bool {
    // Asked once: a thread that is pinned, and those that it starts, are told of their own processor only.
    static IDS: OnceLock<Vec<CoreId>> = OnceLock::new();
    let ids = IDS.get_or_init(|| core_affinity::get_core_ids().unwrap_or_default());
    ids.get(processor).is_some_and(|&id| core_affinity::set_for_current(id))
}
