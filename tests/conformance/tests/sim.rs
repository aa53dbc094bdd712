//! Every case on the simulated kernel, each as a test of its own with a kernel of its own, which must be clean at the end.

use std::time::Duration;

use conformance::{CASES, Skipped, sim::Simulated};

const PATIENCE: Duration = Duration::from_secs(10);

fn run(name: &str) {
    let case = CASES.iter().find(|case| case.name == name).expect("a case of the table");
    match conformance::run(case, Box::new(Simulated::boot()), PATIENCE) {
        Ok(()) => {}
        Err(error) if error.is::<Skipped>() => println!("{error}"),
        Err(error) => panic!("{}: {error:#}", case.shows),
    }
}

macro_rules! tests {
    ($($group:ident { $($case:ident: $shows:literal,)* })*) => {
        $(mod $group {
            $(#[test]
            fn $case() {
                super::run(concat!(stringify!($group), "::", stringify!($case)));
            })*
        })*
    };
}
conformance::for_each_case!(tests);
