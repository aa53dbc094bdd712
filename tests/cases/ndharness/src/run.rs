//! Running cases.

use std::time::{Duration, Instant};

use anyhow::{bail, ensure};
use clap::Args;
use conformance::{CASES, Case, client};
use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    front_end::{FrontEnd, Path},
    report::{Outcome, Report},
};

/// Runs the cases that are `wanted`, each on a front end of its own; on `path`, or on both.
pub(crate) fn run(
    front_end: FrontEnd,
    path: Option<Path>,
    wanted: &Selection,
    patience: Duration,
) -> anyhow::Result<Report> {
    let name = front_end.transport()?.front_end();
    each(name, path, wanted, |case, path| conformance::run(case, front_end.transport()?, path, patience))
}

/// Plays the cases that are `wanted`, on `path`, or on both. It gives what a case noted.
pub(crate) fn each(
    front_end: String,
    path: Option<Path>,
    wanted: &Selection,
    play: impl Fn(&Case, client::Path) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<Report> {
    let cases = wanted.of(CASES.iter(), |case: &Case| case.name)?;
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

/// Which cases to run.
#[derive(Args, Default)]
pub(crate) struct Selection {
    /// Cases to run, by name ("qp::one_byte") or by the beginning of it ("qp"). All of them if none is given.
    #[arg(value_name = "CASE")]
    cases: Vec<String>,
    /// Leave cases out, by name or by the beginning of it. Can be given several times.
    #[arg(long, value_name = "CASE")]
    skip: Vec<String>,
}

impl Selection {
    /// Whether no case is named.
    #[cfg(windows)]
    pub(crate) fn names_none(&self) -> bool {
        self.cases.is_empty()
    }

    /// Whether all cases are to run.
    #[cfg(windows)]
    pub(crate) fn is_all(&self) -> bool {
        self.names_none() && self.skip.is_empty()
    }

    /// The cases of `all` that are to run.
    pub(crate) fn of<C>(
        &self,
        all: impl Iterator<Item = &'static C> + Clone,
        name_of: fn(&C) -> &'static str,
    ) -> anyhow::Result<Vec<&'static C>> {
        // Groups are modules, but a dash is easier to type: `smb-direct`.
        let [cases, skip] =
            [&self.cases, &self.skip].map(|names| names.iter().map(|name| name.replace('-', "_")).collect::<Vec<_>>());
        for name in cases.iter().chain(&skip) {
            if !all.clone().any(|case| name_of(case).starts_with(name.as_str())) {
                bail!("no case is called {name:?}, or begins so; `ndharness list` prints them all");
            }
        }
        let is_one_of = |case: &C, names: &[String]| names.iter().any(|name| name_of(case).starts_with(name.as_str()));
        let is_wanted = |case: &&C| (cases.is_empty() || is_one_of(case, &cases)) && !is_one_of(case, &skip);
        let wanted = all.filter(is_wanted).collect::<Vec<_>>();
        ensure!(!wanted.is_empty(), "no case is left");
        Ok(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_those_that_are_named_and_not_left_out() {
        let of = |cases: &[&str], skip: &[&str]| {
            let [cases, skip] = [cases, skip].map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            let selection = Selection { cases, skip };
            selection
                .of(["qp::one", "qp::two_sges", "cq::one"].iter(), |name| name)
                .ok()
                .map(|names| names.into_iter().copied().collect::<String>())
        };
        assert_eq!(of(&[], &[]).unwrap(), "qp::oneqp::two_sgescq::one");
        assert_eq!(of(&["qp"], &["qp::two-sges"]).unwrap(), "qp::one");
        assert_eq!(of(&[], &["qp"]).unwrap(), "cq::one");
        for (cases, skip) in [(["srq"], ["qp"]), (["qp"], ["srq"]), (["qp"], ["qp"])] {
            assert!(of(&cases, &skip).is_none(), "{cases:?} without {skip:?}");
        }
    }
}
