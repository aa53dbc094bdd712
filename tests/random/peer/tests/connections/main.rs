//! A device and its connections with peers that are not this device. One program, as each test program compiles the provider.

mod captures;
mod confirmations;
mod ends;
mod faults;
mod fuzzed;
mod hostile;
mod listening;
mod mpa;
mod refusals;
mod rules;

use peer::establish::{By, Scene};
use simkernel::{Session, boot_seeded, seeds};

/// Plays a test with connections begun by either side, each by `count` schedules.
fn play(count: u64, what: impl Fn(&Session, &Scene)) {
    for seed in seeds(count) {
        for by in By::ALL {
            let kernel = boot_seeded(seed);
            kernel.hold_clock();
            let scene = Scene::new(by, seed % 2 == 0);
            what(&kernel, &scene);
        }
    }
}

/// Lets other threads and deferred calls run for a while.
fn pauses() {
    (0..300).for_each(|_| simkernel::pause());
}
