//! Every case on the simulated kernel, each as a test of its own with a kernel of its own, which must be clean at the end.

use std::time::Duration;

use conformance::{CASES, Skipped, client::Path, sim::Simulated};

const PATIENCE: Duration = Duration::from_secs(10);

fn run(name: &str, path: Path) {
    let case = CASES.iter().find(|case| case.name == name).expect("a case of the table");
    match conformance::run(case, Box::new(Simulated::boot()), path, PATIENCE) {
        Ok(notes) => notes.iter().for_each(|note| println!("{note}")),
        Err(error) if error.is::<Skipped>() => println!("{error}"),
        Err(error) => panic!("{}: {error:#}", case.shows),
    }
}

macro_rules! tests {
    ($($group:ident { $($case:ident: $shows:literal,)* })*) => {
        $(mod $group {
            $(mod $case {
                use conformance::client::Path;

                const NAME: &str = concat!(stringify!($group), "::", stringify!($case));

                #[test]
                fn plain() {
                    crate::run(NAME, Path::Plain);
                }

                #[test]
                fn rings() {
                    crate::run(NAME, Path::Rings);
                }
            })*
        })*
    };
}
conformance::for_each_case!(tests);

/// What softndk.sys does unless the parameter `TestConsumer` of its adapter is 1: the negative control is every other run.
#[test]
fn the_test_consumer_is_refused_where_it_is_off() {
    let cases: Vec<_> = CASES.iter().filter(|case| case.name.starts_with("smb_direct::")).collect();
    assert!(!cases.is_empty());
    for case in cases {
        let result = conformance::run(case, Box::new(Simulated::boot_with(false)), Path::Plain, PATIENCE);
        assert!(result.is_err_and(|error| error.is::<Skipped>()), "{}", case.name);
    }
}
