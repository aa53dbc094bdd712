//! Every case with two ends once more, each end on a device of its own: between them is TCP of the simulated network, in segments and
//! with delays that a generator chooses.

#[path = "common/apart.rs"]
mod apart;
#[macro_use]
mod common;

use common::PATIENCE;
use conformance::{client::Path, run_apart, sim::Simulated};

fn run(name: &str, path: Path) {
    apart::run(name, path, |case, path| {
        let [here, there] = Simulated::boot_apart();
        run_apart(case, Box::new(here), Box::new(there), path, PATIENCE)
    });
}

conformance::for_each_case!(tests);
