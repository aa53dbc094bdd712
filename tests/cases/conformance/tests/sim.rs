//! Every case on the simulated kernel, each as a test of its own with a kernel of its own, which must be clean at the end.

#[macro_use]
mod common;

use common::{PATIENCE, named, passed};
use conformance::{CASES, Skipped, client::Path, sim::Simulated};

fn run(name: &str, path: Path) {
    let case = named(name);
    let notes = passed(case, conformance::run(case, Box::new(Simulated::boot()), path, PATIENCE));
    notes.iter().flatten().for_each(|note| println!("{note}"));
}

conformance::for_each_case!(tests);

/// As a softndk.sys that was built without it does. The negative control is every other run.
// Shows T85.
#[test]
fn the_test_consumer_is_refused_where_there_is_none() {
    let cases: Vec<_> =
        CASES.iter().filter(|case| case.name.starts_with("smb_direct::") || case.name.starts_with("perf::")).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let result = conformance::run(case, Box::new(Simulated::boot_with(false)), Path::Plain, PATIENCE);
        assert!(result.is_err_and(|error| error.is::<Skipped>()), "{}", case.name);
    }
}
