//! What was tried, and what came of it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What came of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

/// One step, as `tests/clients/interop` prints it.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Row {
    /// Who was at our end.
    side: String,
    step: String,
    outcome: Outcome,
    /// What was seen, or why not.
    detail: String,
    seconds: f64,
}

impl Row {
    /// The row that a line is.
    pub(super) fn parse(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }

    /// A step of this program's.
    pub(super) fn of(side: &str, step: &str, result: anyhow::Result<String>) -> Self {
        let (outcome, detail) = match result {
            Ok(detail) => (Outcome::Passed, detail),
            Err(error) => (Outcome::Failed, format!("{error:#}")),
        };
        Self { side: side.to_owned(), step: step.to_owned(), outcome, detail, seconds: 0.0 }
    }

    pub(super) fn step(&self) -> &str {
        &self.step
    }

    pub(super) fn is_failure(&self) -> bool {
        self.outcome == Outcome::Failed
    }
}

/// All steps.
#[derive(Default, Serialize)]
pub(super) struct Table {
    passed: usize,
    failed: usize,
    skipped: usize,
    steps: Vec<Row>,
}

impl Table {
    /// Adds a row, and says so on standard error: all of them take a while.
    pub(super) fn add(&mut self, row: Row) {
        eprintln!("{row}");
        let count = match row.outcome {
            Outcome::Passed => &mut self.passed,
            Outcome::Failed => &mut self.failed,
            Outcome::Skipped => &mut self.skipped,
        };
        *count += 1;
        self.steps.push(row);
    }

    /// True if nothing was tried.
    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// True if there were steps and none failed.
    pub(super) fn is_success(&self) -> bool {
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
        let Self { side, step, detail, seconds, .. } = self;
        write!(f, "{outcome:8}{seconds:6.2} s  {side:22}{step:56}{detail}")
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

#[cfg(test)]
mod tests {
    use super::{Row, Table};

    #[test]
    fn a_row_is_counted_and_anything_else_is_no_row() {
        let line =
            |outcome: &str| format!(r#"{{"side":"us","step":"a","outcome":"{outcome}","detail":"b","seconds":1.5}}"#);
        let mut table = Table::default();
        assert!(!table.is_success());
        table.add(Row::parse(&line("passed")).expect("a row"));
        assert!(table.is_success());
        table.add(Row::parse(&line("failed")).expect("a row"));
        assert!(!table.is_success());
        assert!(Row::parse("siw-peer: the peer did not come up").is_none());
        assert!(Row::parse(&line("else")).is_none());
    }
}
