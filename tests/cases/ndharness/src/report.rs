//! What a run found, for people and for programs.

use std::{fmt, process::ExitCode, time::Duration};

use conformance::{CASES, COUNTS_CALLS, Skipped, nd::Version};
use serde::Serialize;

use crate::{
    any_provider::Findings,
    front_end::FrontEnd,
    returns::{self, Row},
};

/// A whole run.
#[derive(Serialize)]
pub(crate) struct Report {
    /// What the cases ran on.
    front_end: String,
    /// How many cases passed.
    passed: usize,
    /// How many did not.
    failed: usize,
    /// How many could not be tried.
    skipped: usize,
    /// Wall-clock time of all cases, in seconds.
    seconds: f64,
    /// In the order they ran.
    cases: Vec<Outcome>,
    /// Documented return values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    returns: Vec<Row>,
    /// About a provider that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<Findings>,
}

/// One case.
#[derive(Serialize)]
pub(crate) struct Outcome {
    name: String,
    shows: &'static str,
    result: Verdict,
    seconds: f64,
    /// Why it failed, the error and what led to it; or why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<String>,
    /// What it has to say when it passed: figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Passed,
    Failed,
    Skipped,
}

impl Outcome {
    pub(crate) fn new(
        name: String,
        shows: &'static str,
        duration: Duration,
        result: anyhow::Result<Vec<String>>,
    ) -> Self {
        let (notes, result) = match result {
            Ok(notes) => (notes, Ok(())),
            Err(error) => (Vec::new(), Err(error)),
        };
        Self {
            notes,
            name,
            shows,
            result: match &result {
                Ok(()) => Verdict::Passed,
                Err(error) if error.is::<Skipped>() => Verdict::Skipped,
                Err(_) => Verdict::Failed,
            },
            seconds: duration.as_secs_f64(),
            failure: result.err().map(|error| format!("{error:#}")),
        }
    }
}

#[cfg(windows)]
impl Outcome {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn shows(&self) -> &'static str {
        self.shows
    }

    pub(crate) fn has_passed(&self) -> bool {
        self.result == Verdict::Passed
    }
}

impl Report {
    pub(crate) fn new(front_end: String, cases: Vec<Outcome>) -> Self {
        let count = |verdict| cases.iter().filter(|case| case.result == verdict).count();
        Self {
            front_end,
            passed: count(Verdict::Passed),
            failed: count(Verdict::Failed),
            skipped: count(Verdict::Skipped),
            seconds: cases.iter().map(|case| case.seconds).sum(),
            cases,
            returns: Vec::new(),
            provider: None,
        }
    }

    /// Prints it. The exit status tells whether a case failed.
    pub(crate) fn print(&self, json: bool) -> anyhow::Result<ExitCode> {
        if json {
            println!("{}", serde_json::to_string_pretty(self)?);
        } else {
            print!("{self}");
        }
        Ok(if self.failed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
    }

    /// Adds what was seen of the documented return values. Each that is missing counts as failed.
    #[cfg(windows)]
    pub(crate) fn with_returns(self, returns: Vec<Row>) -> Self {
        Self { failed: self.failed + returns::missing(&returns), returns, ..self }
    }

    /// Adds what was found out about a provider that was named.
    #[cfg(windows)]
    pub(crate) fn with_findings(self, findings: Findings) -> Self {
        Self { provider: Some(findings), ..self }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.cases.iter().map(|case| case.name.len()).max().unwrap_or_default().max(4);
        writeln!(f, "front end: {}\n", self.front_end)?;
        writeln!(f, "{:width$}  result        ms  shows", "case")?;
        for case in &self.cases {
            let result = match case.result {
                Verdict::Passed => "pass",
                Verdict::Failed => "FAIL",
                Verdict::Skipped => "skip",
            };
            writeln!(f, "{:width$}  {result}  {:>10.1}  {}", case.name, case.seconds * 1000.0, case.shows)?;
            if let Some(failure) = &case.failure {
                writeln!(f, "{:width$}        {}", "", failure.replace('\n', "\n        "))?;
            }
            for note in &case.notes {
                writeln!(f, "{:width$}        {note}", "")?;
            }
        }
        if !self.returns.is_empty() {
            returns::write(&self.returns, f)?;
        }
        if let Some(findings) = &self.provider {
            write!(f, "{findings}")?;
        }
        writeln!(f, "\n{} passed, {} failed, {} skipped, {:.1} s", self.passed, self.failed, self.skipped, self.seconds)
    }
}

/// Prints the table of cases; if the machine is `busy`, without those that need it for themselves.
pub(crate) fn list(front_end: FrontEnd, busy: bool) {
    let cases = cases(front_end, busy);
    let width = cases.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    for (name, shows) in cases {
        println!("{name:width$}  {shows}");
    }
}

/// What they are called, and what they show.
fn cases(front_end: FrontEnd, busy: bool) -> Vec<(&'static str, &'static str)> {
    let of = |version: Version| version.cases().map(|case| (case.name, case.shows)).collect();
    let mut cases: Vec<_> = match front_end {
        FrontEnd::Sim | FrontEnd::Ioctl => CASES.iter().map(|case| (case.name, case.shows)).collect(),
        FrontEnd::Nd1 => of(Version::V1),
        FrontEnd::Nd2 => of(Version::V2),
    };
    cases.retain(|(name, _)| !(busy && COUNTS_CALLS.contains(name)));
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(duration: Duration, result: anyhow::Result<Vec<String>>) -> Outcome {
        Outcome::new("group::one".to_owned(), "a thing", duration, result)
    }

    fn report() -> Report {
        let outcomes = vec![
            outcome(Duration::from_millis(5), Ok(vec!["7 things".to_owned()])),
            outcome(Duration::from_millis(7), Err(anyhow::anyhow!("cause").context("what failed"))),
            outcome(Duration::from_millis(9), Err(Skipped("not here").into())),
        ];
        Report::new("a front end".to_owned(), outcomes)
    }

    #[test]
    fn the_table_tells_both_results_and_the_cause() {
        let table = report().to_string();
        assert!(table.starts_with("front end: a front end\n"), "{table}");
        assert!(table.contains("group::one  pass         5.0  a thing"), "{table}");
        assert!(table.contains("group::one  FAIL         7.0  a thing"), "{table}");
        assert!(table.contains("7 things\n"), "{table}");
        assert!(table.contains("what failed: cause"), "{table}");
        assert!(table.contains("group::one  skip         9.0  a thing"), "{table}");
        assert!(table.ends_with("1 passed, 1 failed, 1 skipped, 0.0 s\n"), "{table}");
    }

    #[test]
    fn a_busy_machine_plays_no_case_that_counts_calls() {
        for front_end in [FrontEnd::Ioctl, FrontEnd::Nd2] {
            let (all, busy) = (cases(front_end, false), cases(front_end, true));
            let left_out: Vec<_> = all.iter().filter(|case| !busy.contains(case)).map(|(name, _)| *name).collect();
            assert_eq!(left_out.len(), COUNTS_CALLS.len(), "{left_out:?}");
            assert!(left_out.iter().all(|name| COUNTS_CALLS.contains(name)), "{left_out:?}");
        }
    }

    #[test]
    fn json_says_the_same() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["front_end"], "a front end");
        assert_eq!((&json["passed"], &json["failed"], &json["skipped"]), (&1.into(), &1.into(), &1.into()));
        assert_eq!((&json["cases"][0]["result"], &json["cases"][1]["result"]), (&"passed".into(), &"failed".into()));
        assert_eq!(json["cases"][1]["failure"], "what failed: cause");
        assert!(json["cases"][0].get("failure").is_none());
        assert_eq!(json["cases"][0]["notes"][0], "7 things");
        assert!(json["cases"][1].get("notes").is_none());
    }
}
