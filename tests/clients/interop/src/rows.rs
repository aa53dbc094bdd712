//! What was tried, and what came of it: a line of JSON for each step, as soon as it is done.

use std::time::Instant;

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
struct Row<'a> {
    side: &'a str,
    step: String,
    outcome: Outcome,
    /// What was seen, or why not.
    detail: String,
    seconds: f64,
}

/// Where they go.
pub(crate) struct Rows {
    side: String,
    failed: bool,
}

impl Rows {
    /// Those of a side, by its name.
    pub(crate) fn of(side: String) -> Self {
        Self { side, failed: false }
    }

    /// Does a step. What it returns is the detail.
    pub(crate) fn add(&mut self, step: impl Into<String>, work: impl FnOnce() -> Result<String>) {
        let start = Instant::now();
        let (outcome, detail) = match work() {
            Ok(detail) => (Outcome::Passed, detail),
            Err(error) => (Outcome::Failed, format!("{error:#}")),
        };
        self.failed |= outcome == Outcome::Failed;
        self.say(step.into(), outcome, detail, start.elapsed().as_secs_f64());
    }

    /// A step that cannot be done.
    pub(crate) fn skip(&self, step: impl Into<String>, why: String) {
        self.say(step.into(), Outcome::Skipped, why, 0.0);
    }

    /// True if none failed.
    pub(crate) fn is_success(&self) -> bool {
        !self.failed
    }

    fn say(&self, step: String, outcome: Outcome, detail: String, seconds: f64) {
        let row = Row { side: &self.side, step, outcome, detail, seconds };
        println!("{}", serde_json::json!(row));
    }
}
