//! Running cases.

use std::time::{Duration, Instant};

use anyhow::bail;
use conformance::{CASES, Case, client};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    front_end::{FrontEnd, Path},
    report::{Outcome, Report},
};

/// Runs the cases that `wanted` names, or all, each on a front end of its own; on `path`, or on both.
pub(crate) fn run(
    front_end: FrontEnd,
    path: Option<Path>,
    wanted: &[String],
    patience: Duration,
) -> anyhow::Result<Report> {
    let name = front_end.transport()?.front_end();
    each(name, path, wanted, |case, path| conformance::run(case, front_end.transport()?, path, patience))
}

/// Plays the cases that `wanted` names, or all, on `path`, or on both. It gives what a case noted.
pub(crate) fn each(
    front_end: String,
    path: Option<Path>,
    wanted: &[String],
    play: impl Fn(&Case, client::Path) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<Report> {
    let cases = select(CASES.iter(), |case: &Case| case.name, wanted)?;
    let paths = Path::chosen(path);
    let progress = progress(cases.len() * paths.len())?;
    let mut outcomes = Vec::new();
    for path in paths {
        for case in &cases {
            let name = format!("{} ({})", case.name, path.name());
            show(&progress, &name);
            let started = Instant::now();
            let result = play(case, path.of_client());
            outcomes.push(Outcome::new(name, case.shows, started.elapsed(), result));
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(Report::new(front_end, outcomes))
}

/// A progress bar over so many cases; drawn on standard error, and only if that is a terminal.
pub(crate) fn progress(cases: usize) -> anyhow::Result<ProgressBar> {
    let progress = ProgressBar::new(cases as u64);
    progress.set_style(ProgressStyle::with_template("{pos}/{len} {elapsed} {msg}")?);
    progress.enable_steady_tick(Duration::from_millis(200));
    Ok(progress)
}

/// Says which case runs: on the bar, or, where that is not drawn, in a line on standard error, so that whoever waits sees life.
pub(crate) fn show(progress: &ProgressBar, case: &str) {
    if progress.is_hidden() {
        eprintln!("running {case}");
    } else {
        progress.set_message(case.to_owned());
    }
}

/// Those of `all` that `wanted` names, or all.
pub(crate) fn select<C>(
    all: impl Iterator<Item = &'static C> + Clone,
    name_of: fn(&C) -> &'static str,
    wanted: &[String],
) -> anyhow::Result<Vec<&'static C>> {
    if wanted.is_empty() {
        return Ok(all.collect());
    }
    // Groups are modules, but a dash is easier to type: `smb-direct`.
    let wanted: Vec<String> = wanted.iter().map(|name| name.replace('-', "_")).collect();
    for name in &wanted {
        if !all.clone().any(|case| name_of(case).starts_with(name.as_str())) {
            bail!("no case is called {name:?}, or begins so; `ndharness list` prints them all");
        }
    }
    Ok(all.filter(|case| wanted.iter().any(|name| name_of(case).starts_with(name.as_str()))).collect())
}
