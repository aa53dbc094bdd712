//! What was tried, and what came of it.

use std::{fmt, time::Instant};

use anyhow::Result;
use serde::Serialize;

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// One step.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) step: String,
    pub(crate) outcome: Outcome,
    /// What was seen, or why not.
    pub(crate) detail: String,
    pub(crate) seconds: f64,
}

impl Row {
    /// Does a step. What it returns is the detail.
    pub(crate) fn of(step: impl Into<String>, work: impl FnOnce() -> Result<String>) -> Self {
        let start = Instant::now();
        let (outcome, detail) = match work() {
            Ok(detail) => (Outcome::Passed, detail),
            Err(error) => (Outcome::Failed, format!("{error:#}")),
        };
        Self { step: step.into(), outcome, detail, seconds: start.elapsed().as_secs_f64() }
    }

    /// A step that cannot be done.
    pub(crate) fn skipped(step: impl Into<String>, why: String) -> Self {
        Self { step: step.into(), outcome: Outcome::Skipped, detail: why, seconds: 0.0 }
    }
}

/// All steps.
#[derive(Default, Serialize)]
pub(crate) struct Table {
    passed: usize,
    failed: usize,
    skipped: usize,
    steps: Vec<Row>,
}

impl Table {
    /// Adds a row, and says so on standard error: the last ones take a while.
    pub(crate) fn add(&mut self, row: Row) {
        eprintln!("{row}");
        let count = match row.outcome {
            Outcome::Passed => &mut self.passed,
            Outcome::Failed => &mut self.failed,
            Outcome::Skipped => &mut self.skipped,
        };
        *count += 1;
        self.steps.push(row);
    }

    /// True if there were steps and none failed.
    pub(crate) fn is_success(&self) -> bool {
        self.passed > 0 && self.failed == 0
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = match self.outcome {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Skipped => "skipped",
        };
        write!(f, "{outcome:8}{:6.2} s  {:56}{}", self.seconds, self.step, self.detail)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.steps {
            writeln!(f, "{row}")?;
        }
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}
