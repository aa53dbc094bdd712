//! Every case with two ends once more, each end on a device of its own: between them is TCP of the simulated network, in segments and
//! with delays that a generator chooses.

#[macro_use]
mod common;

use common::{PATIENCE, named, passed};
use conformance::{Transport, client::Path, play_on_two_devices, sim::Simulated};

fn boot() -> (Box<dyn Transport>, Box<dyn Transport>) {
    let [here, there] = Simulated::boot_two_devices();
    (Box::new(here), Box::new(there))
}

fn run(name: &str, path: Path) {
    let case = named(name);
    passed(case, play_on_two_devices(case, boot, path, PATIENCE));
}

conformance::for_each_case!(tests);
