//! On the simulated kernel: `ndharness soak`, built for this system.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use build::command::{self, cargo, step};
use build::paths;

use super::Plan;
use super::figures::Figures;
use crate::two_processes::Harness;

/// How much later than it should it may end.
const LATE: Duration = Duration::from_secs(300);
/// Seconds to wait for anything that should happen before it is lost.
const PATIENCE: &str = "60";

/// The harness for this system, as its tests are built: the simulated kernel and what it runs are optimised there too.
pub(super) fn build() -> Result<PathBuf> {
    built_by(&["build", "--package", "ndharness"])
}

/// As [`build`], by the command that builds the tests of the workspace, which build the harness for its own test `command_line`. So after
/// `cargo xtask test` has built them there is nothing to build: alone the harness, and all below it, would be built anew with other features.
pub(super) fn build_with_tests() -> Result<PathBuf> {
    built_by(&["test", "--workspace", "--no-run"])
}

fn built_by(arguments: &[&str]) -> Result<PathBuf> {
    let root = paths::root();
    let mut command = cargo(&root);
    command.args(arguments).args(["--target-dir", "target"]);
    step("building ndharness for this system", || command::run(&mut command))?;
    Ok(root.join("target/debug/ndharness"))
}

/// One row, until it is time.
pub(super) fn run(plan: &Plan<'_>, harness: &Path) -> Result<Vec<(&'static str, Figures)>> {
    let seconds = plan.left().as_secs().max(1);
    let (seed, seconds_said) = (plan.seed.to_string(), seconds.to_string());
    let arguments = ["soak", "--front-end", "sim", "--json", "--seed", &seed, "--seconds", &seconds_said];
    let harness = Harness::spawn(Command::new(harness), &[&arguments[..], &["--patience", PATIENCE]].concat())?;
    // The simulated kernel ends its process where going on would be worse.
    let figures =
        harness.figures(false, Duration::from_secs(seconds) + LATE).unwrap_or_else(|error| Figures::wrong(&error));
    Ok(vec![("simulated kernel", figures)])
}
