//! What passed and what failed, over every kind of check.

use std::fmt;

use anyhow::Result;

use crate::passed_tests::Passed;

/// Counts checks; a failure is printed at once and the rest goes on.
#[derive(Default)]
pub struct Tally {
    passed: u64,
    failed: u64,
    /// By name, what has one.
    pub names: Passed,
}

impl Tally {
    /// One check.
    pub fn check(&mut self, what: &str, result: Result<()>) {
        match result {
            Ok(()) => {
                eprintln!("pass {what}");
                self.add(1, 0);
                self.names.stage(what);
            }
            Err(error) => {
                eprintln!("FAIL {what}: {error:#}");
                self.add(0, 1);
            }
        }
    }

    /// Checks that something else counted.
    pub fn add(&mut self, passed: u64, failed: u64) {
        self.passed += passed;
        self.failed += failed;
    }

    /// Takes over the checks of another.
    pub fn append(&mut self, other: Self) {
        self.add(other.passed, other.failed);
        self.names.append(other.names);
    }

    /// True if there were checks and none failed.
    pub fn is_success(&self) -> bool {
        self.passed > 0 && self.failed == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

/// Passed and failed tests according to one line of `cargo test`, if it is a line that counts.
pub(crate) fn counted(line: &str) -> Option<(u64, u64)> {
    let counts = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let number = |what: &str| {
        let count = counts.split("; ").find_map(|count| count.strip_suffix(what))?;
        count.trim().parse::<u64>().ok()
    };
    Some((number("passed")?, number("failed")?))
}

#[cfg(test)]
mod tests {
    use super::{Tally, counted};

    #[test]
    fn cargo_counts_its_tests() {
        let line = "test result: FAILED. 11 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.1s";
        assert_eq!(counted(line), Some((11, 2)));
        assert_eq!(counted("test pe::tests::other_code_is_real ... ok"), None);
    }

    #[test]
    fn one_failure_is_enough_and_no_check_is_no_success() {
        let mut tally = Tally::default();
        assert!(!tally.is_success());
        tally.check("a thing", Ok(()));
        tally.add(5, 0);
        assert!(tally.is_success());
        let mut other = Tally::default();
        other.check("another", Err(anyhow::anyhow!("planted")));
        other.check("a third", Ok(()));
        tally.append(other);
        assert!(!tally.is_success());
        assert_eq!(tally.to_string(), "7 passed, 1 failed");
        assert!(tally.names.has_stage("a third") && !tally.names.has_stage("another"));
    }
}
