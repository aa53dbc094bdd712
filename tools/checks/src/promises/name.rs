//! What shows that a promise is kept.

use std::fmt;

use crate::passed_tests::Passed;

/// Something that a run of `cargo xtask test` passes by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// A test of cargo.
    Test { file: String, function: String },
    /// A case of `ndharness`, on one of these front ends.
    Case { front_ends: &'static [&'static str], case: String },
    /// A check of `cargo xtask test` itself.
    Stage(String),
}

impl Name {
    pub(super) fn has_passed(&self, passed: &Passed) -> bool {
        match self {
            Self::Test { file, function } => passed.has_test(file, function),
            Self::Case { front_ends, case } => front_ends.iter().any(|front_end| passed.has_case(front_end, case)),
            Self::Stage(what) => passed.has_stage(what),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test { file, function } => write!(f, "{file}: {function}"),
            Self::Case { front_ends, case } => write!(f, "{} {case}", front_ends.join(" or ")),
            Self::Stage(what) => write!(f, "stage: {what}"),
        }
    }
}
