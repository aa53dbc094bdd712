//! The generator behind a schedule.

use std::{env, ops::Range};

/// SplitMix64 (Steele, Lea, Flood 2014). Of our own, so that a seed means the same schedule whatever version of a crate is in.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// The seeds for a test to try: `count` of them, ten times as many if `SOFTNDK_FULL` is 1, from 0 on or from where `SOFTNDK_SEEDS_FROM`
/// says; or the one that `SOFTNDK_SEED` names, to replay it.
///
/// # Panics
/// If one of these is no number.
pub fn seeds(count: u64) -> Range<u64> {
    if let Some(seed) = number("SOFTNDK_SEED") {
        return seed..seed.saturating_add(1);
    }
    let full = env::var("SOFTNDK_FULL").is_ok_and(|full| full == "1");
    let first = number("SOFTNDK_SEEDS_FROM").unwrap_or(0);
    first..first.saturating_add(if full { count.saturating_mul(10) } else { count })
}

/// A variable of the environment, if it is set.
fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
}
