//! What passed and what failed, over every kind of check.

use std::fmt;

use anyhow::Result;
use serde_json::Value;

use crate::passed_tests::Passed;

/// Counts checks; a failure is printed at once and the rest goes on.
#[derive(Default)]
pub struct Tally {
    passed: u64,
    failed: u64,
    /// A line for each check that failed, if its name is known.
    failures: Vec<String>,
    /// By name, what has passed.
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
                self.name_failure(what, &format!("{error:#}"));
            }
        }
    }

    /// Checks that something else counted.
    pub fn add(&mut self, passed: u64, failed: u64) {
        self.passed += passed;
        self.failed += failed;
    }

    /// The cases of a report of the harness; how many passed and how many failed.
    pub fn cases(&mut self, front_end: &str, report: &Value) -> (u64, u64) {
        let count = |what: &str| report[what].as_u64().unwrap_or(0);
        let (passed, failed) = (count("passed"), count("failed"));
        self.add(passed, failed);
        for case in report["cases"].as_array().into_iter().flatten().filter(|case| case["result"] == "failed") {
            let text = |what: &str| case[what].as_str().unwrap_or_default();
            self.name_failure(&format!("{front_end} {}", text("name")), text("failure"));
        }
        (passed, failed)
    }

    /// Names a check that failed, with the first line of the reason.
    pub fn name_failure(&mut self, what: &str, why: &str) {
        self.failures.push(format!("FAIL {what}: {}", why.lines().next().unwrap_or_default()));
    }

    /// What failed, to be read at the end of a run that printed thousands of lines.
    pub fn failures(&self) -> String {
        self.failures.iter().map(|failure| format!("{failure}\n")).collect()
    }

    /// Takes over the checks of another.
    pub fn append(&mut self, other: Self) {
        self.add(other.passed, other.failed);
        self.failures.extend(other.failures);
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
        other.check("another", Err(anyhow::anyhow!("planted\nand more")));
        other.check("a third", Ok(()));
        tally.append(other);
        let report = serde_json::json!({ "passed": 3, "failed": 1, "cases": [{ "name": "a::b (rings)", "result": "passed" },
            { "name": "a::c (plain)", "result": "failed", "failure": "it is over" }] });
        assert_eq!(tally.cases("nd1", &report), (3, 1));
        assert!(!tally.is_success());
        assert_eq!(tally.to_string(), "10 passed, 2 failed");
        assert_eq!(tally.failures(), "FAIL another: planted\nFAIL nd1 a::c (plain): it is over\n");
        assert!(tally.names.has_stage("a third") && !tally.names.has_stage("another"));
    }
}
