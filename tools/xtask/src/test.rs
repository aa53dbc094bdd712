//! `cargo xtask test`: every test there is.

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use build::command::{cargo, run, step, times};
use build::{cross, dist, inf, paths, setup};
use checks::tally::Tally;
use checks::test_programs::{self, Tests};
use checks::{bench, instructions, promises};
use under_wine::wine_tests::{self, Progress};

const FULL: &str = "SOFTNDK_FULL";
const SEEDS_FROM: &str = "SOFTNDK_SEEDS_FROM";

/// The first seed of a run that tries what no other has: after the time, unless one is asked for.
fn first_seed() -> String {
    let first = env::var(SEEDS_FROM).unwrap_or_else(|_| {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        seconds.saturating_mul(1_000_000).to_string()
    });
    println!("-- {SEEDS_FROM}={first}: from here on");
    first
}

/// Sets up, runs everything, and prints the count as the last line; `full` is ten times the random work.
///
/// The tests under Wine mostly wait, and those of the workspace mostly compute: both run at the same time. The thread that is done with the latter
/// helps with the former; the [`BUILDS`] are for both.
pub(crate) fn test(full: bool) -> Result<ExitCode> {
    setup::setup()?;
    let root = paths::root();
    let mut tally = Tally::default();
    let (progress, next_build) = (Progress::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let windows = scope.spawn(|| {
            let mut tally = on_wine(&progress, full);
            build(&next_build, &mut tally);
            tally
        });
        on_linux(&root, full, &mut tally);
        build(&next_build, &mut tally);
        tally.append(progress.help(full));
        let windows = windows.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        tally.append(windows);
    });
    let kept = promises::kept(&root, &tally.names);
    tally.check("all that the documents name as tests has passed", kept);
    print!("{}{}", times(), tally.failures());
    println!("{tally}");
    Ok(if tally.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The driver and what runs with it: builds it, and tests it under Wine.
fn on_wine(progress: &Progress, full: bool) -> Tally {
    let mut tally = Tally::default();
    let built = dist::build();
    let is_built = built.is_ok();
    // Shows S1307, T85.
    tally.check("the driver, the harness and the stand-ins build", built);
    if is_built {
        wine_tests::run(progress, full, &mut tally);
    }
    tally
}

/// The tests that Linux can judge without Wine.
fn on_linux(root: &Path, full: bool, tally: &mut Tally) {
    let variables = if full { vec![(FULL, "1".to_owned()), (SEEDS_FROM, first_seed())] } else { Vec::new() };
    let workspace = Tests { workspace: root, packages: &["--workspace"], environment: &variables };
    let tests = step("testing the workspace", || test_programs::run(&workspace, tally));
    tally.check("the workspace's tests build and run", tests);
    let models = Tests { workspace: &loom(), packages: &["--workspace"], environment: &[] };
    let models = step("exploring the models", || test_programs::run(&models, tally));
    tally.check("the models build and run", models);
    formatting(root, tally);
    // Shows S1401.
    tally.check("inf/softndk.inx keeps the rules", inf::lint());
}

/// The workspace of the models, whose own configuration says what makes the driver's atomics loom's.
fn loom() -> PathBuf {
    paths::root().join("tests/random/loom-models")
}

fn formatting(root: &Path, tally: &mut Tally) {
    for folder in [".", "tools/cross", "tests/kernels/wine", "tests/random/loom-models"] {
        let result = run(cargo(&root.join(folder)).args(["fmt", "--check"]));
        tally.check(&format!("formatting of {folder}"), result);
    }
}

/// What is built to be judged, not to be run under Wine; those that take longest come first. Each has a folder for what cargo builds that no other
/// uses at the same time, but for the last: it waits for the first.
const BUILDS: [fn(&mut Tally); 7] =
    [lint_workspace, count_instructions, lint_programs_for_windows, lint_models, lint_driver, lint_stand_ins, document];

/// Takes one of [`BUILDS`] after the other, as other threads do, until none is left.
fn build(next: &AtomicUsize, tally: &mut Tally) {
    while let Some(build) = BUILDS.get(next.fetch_add(1, Ordering::Relaxed)) {
        build(tally);
    }
}

fn count_instructions(tally: &mut Tally) {
    let counted = step("counting instructions", || instructions::check(&bench::build()?));
    tally.check("posts and polls keep their budget of instructions", counted);
}

const DENY: [&str; 3] = ["--", "-D", "warnings"];

fn lint(what: &str, tally: &mut Tally, clippy: impl FnOnce() -> Result<()>) {
    let what = format!("clippy on {what}");
    tally.check(&what, step(&what, clippy));
}

fn lint_workspace(tally: &mut Tally) {
    let clippy = || run(cargo(&paths::root()).args(["clippy", "--workspace", "--all-targets"]).args(DENY));
    lint("the workspace", tally, clippy);
}

fn lint_models(tally: &mut Tally) {
    let clippy = || run(cargo(&loom()).args(["clippy", "--workspace", "--all-targets"]).args(DENY));
    lint("the models", tally, clippy);
}

fn lint_driver(tally: &mut Tally) {
    lint("the driver", tally, || run(cross::command("clippy")?.args(["--release", "--all-features"]).args(DENY)));
}

/// What only Windows runs of xtask and layouts is compiled nowhere else.
fn lint_programs_for_windows(tally: &mut Tally) {
    let programs = ["ndharness", "ndkctl", "softnd", "xtask", "layouts"].map(|package| ["--package", package]);
    lint("the programs for Windows", tally, || lint_for_windows(programs.as_flattened()));
}

fn lint_stand_ins(tally: &mut Tally) {
    lint("the stand-ins", tally, || lint_for_windows(&dist::STAND_INS));
}

fn lint_for_windows(packages: &[&str]) -> Result<()> {
    // For Windows this lint also reports initializers that are const.
    let allow = ["-A", "clippy::missing_const_for_thread_local"];
    run(dist::windows_cargo("clippy", packages)?.args(DENY).args(allow))
}

fn document(tally: &mut Tally) {
    let mut document = cargo(&paths::root());
    document.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings");
    tally.check("documentation", step("documentation", || run(&mut document)));
}
