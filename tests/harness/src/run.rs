//! Running cases.

use std::time::{Duration, Instant};

use anyhow::bail;
use conformance::{CASES, Case, client::Path};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    front_end::FrontEnd,
    report::{Outcome, Report},
};

/// Runs the cases that `wanted` names, or all, each on a front end of its own.
pub(crate) fn run(front_end: FrontEnd, wanted: &[String], patience: Duration) -> anyhow::Result<Report> {
    let cases = select(wanted)?;
    // Drawn on standard error, and only if that is a terminal.
    let progress = ProgressBar::new(cases.len() as u64);
    progress.set_style(ProgressStyle::with_template("{pos}/{len} {elapsed} {msg}")?);
    progress.enable_steady_tick(Duration::from_millis(200));
    let name = front_end.transport()?.front_end();
    let mut outcomes = Vec::with_capacity(cases.len());
    for case in cases {
        progress.set_message(case.name);
        let started = Instant::now();
        let result = conformance::run(case, front_end.transport()?, Path::Plain, patience);
        outcomes.push(Outcome::new(case, started.elapsed(), result));
        progress.inc(1);
    }
    progress.finish_and_clear();
    Ok(Report::new(name, outcomes))
}

fn select(wanted: &[String]) -> anyhow::Result<Vec<&'static Case>> {
    if wanted.is_empty() {
        return Ok(CASES.iter().collect());
    }
    // Groups are modules, but a dash is easier to type: `smb-direct`.
    let wanted: Vec<String> = wanted.iter().map(|name| name.replace('-', "_")).collect();
    for name in &wanted {
        if !CASES.iter().any(|case| case.name.starts_with(name.as_str())) {
            bail!("no case is called {name:?}, or begins so; `ndharness list` prints them all");
        }
    }
    Ok(CASES.iter().filter(|case| wanted.iter().any(|name| case.name.starts_with(name.as_str()))).collect())
}
