//! What the tests of all cases share.

use std::time::Duration;

use conformance::{CASES, Case, Skipped};

/// How long to wait for anything that should happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// The case of that name.
pub(crate) fn named(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name == name).expect("a case of the table")
}

/// What came of a case; nothing if it says that it is skipped.
///
/// # Panics
/// It failed.
pub(crate) fn passed<T>(case: &Case, result: anyhow::Result<T>) -> Option<T> {
    match result {
        Ok(found) => Some(found),
        Err(error) if error.is::<Skipped>() => {
            println!("{error}");
            None
        }
        Err(error) => panic!("{}: {error:#}", case.shows),
    }
}

/// A test of each case on each path, which calls `run` of the crate.
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
