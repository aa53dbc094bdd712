//! The programs of tests that cargo builds. One more runs at a time than there are processors: most of them wait more than they compute.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use anyhow::{Context, Result, ensure};
use build::command::{cargo, line, step};
use build::paths;
use serde::Deserialize;

use crate::passed_tests::Program;
use crate::tally::{Tally, counted};

/// What is run, and where its tests are.
struct Job {
    program: Program,
    command: Command,
}

/// What cargo says of something that it has built.
#[derive(Deserialize)]
struct Artifact {
    manifest_path: PathBuf,
    profile: Profile,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Tests of some packages of a workspace.
pub struct Tests<'a> {
    /// The folder of the workspace.
    pub workspace: &'a Path,
    /// Which packages, as arguments to cargo.
    pub packages: &'a [&'a str],
    /// Variables that the programs get.
    pub environment: &'a [(&'static str, String)],
}

/// Builds tests, runs and counts them, and notes the names of those that passed. An error is one that no test counts, as when one does not
/// build.
pub fn run(tests: &Tests<'_>, tally: &mut Tally) -> Result<()> {
    let mut build = cargo(tests.workspace);
    build.arg("test").args(tests.packages).args(["--no-run", "--message-format=json-render-diagnostics"]);
    build.stderr(Stdio::inherit());
    let what = format!("building the tests: {}", tests.packages.join(" "));
    let built = step(&what, || build.output().context("cannot start cargo"))?;
    ensure!(built.status.success(), "{} ended with {}", line(&build), built.status);
    let built = String::from_utf8(built.stdout)?;
    let mut jobs = built.lines().filter_map(|line| job(line).transpose()).collect::<Result<VecDeque<_>>>()?;
    ensure!(!jobs.is_empty(), "{} has built no tests", line(&build));
    jobs.iter_mut().for_each(|job| {
        job.command.envs(tests.environment.iter().map(|(name, value)| (*name, value)));
    });
    let jobs = Mutex::new(jobs);
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (sender, ended) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..=thread::available_parallelism().map_or(1, usize::from) {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(mut job) = next() {
                    eprintln!("running {}", line(&job.command));
                    let output = job.command.output();
                    if sender.send((job, output)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        ended.iter().try_for_each(|(job, output)| judge(&job, &output?, tally))
    })
}

/// The program of tests that this line of cargo is about, if it is about one.
fn job(said: &str) -> Result<Option<Job>> {
    // Of other messages, other things.
    let Ok(Artifact { manifest_path, profile: Profile { test: true }, executable: Some(executable) }) =
        serde_json::from_str(said)
    else {
        return Ok(None);
    };
    let folder = manifest_path.parent().context("a manifest without a folder")?;
    let program = Program::new(folder.canonicalize()?.strip_prefix(paths::root().canonicalize()?)?, &executable)?;
    let mut command = Command::new(executable);
    // As cargo does. trybuild reads the folder.
    command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
    Ok(Some(Job { program, command }))
}

/// Prints what it said, and counts. An error: it failed, but no test of it.
fn judge(job: &Job, output: &Output, tally: &mut Tally) -> Result<()> {
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("     Running {}", line(&job.command));
    print!("{said}");
    eprint!("{errors}");
    let mut failures = 0;
    for line in said.lines() {
        tally.names.line(&job.program, line);
        if let Some(name) = line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED")) {
            tally.name_failure(name, &job.program.to_string());
        }
        if let Some((passed, failed)) = counted(line) {
            tally.add(passed, failed);
            failures += failed;
        }
    }
    ensure!(output.status.success() || failures > 0, "{} ended with {}", line(&job.command), output.status);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(executable: &str, test: bool) -> String {
        let manifest = paths::root().join("driver/soft-rdma/Cargo.toml");
        let [manifest, executable] = [manifest, executable.into()].map(|path: PathBuf| path.display().to_string());
        serde_json::json!({ "reason": "compiler-artifact", "manifest_path": manifest, "profile": { "test": test },
            "executable": executable })
        .to_string()
    }

    #[test]
    fn what_cargo_has_built_for_tests_is_run_in_its_folder() {
        let job = job(&said("/t/debug/deps/flush-0123abcd", true)).unwrap().unwrap();
        assert_eq!(job.command.get_current_dir(), Some(&*paths::root().join("driver/soft-rdma")));
        let mut tally = Tally::default();
        tally.names.line(&job.program, "test kept ... ok");
        assert!(tally.names.has_test("driver/soft-rdma/tests/flush.rs", "kept"));
        for other in [said("/t/debug/xtask", false), r#"{"reason":"build-finished"}"#.to_owned(), "no JSON".to_owned()]
        {
            assert!(super::job(&other).unwrap().is_none(), "{other}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_fails_is_counted_or_an_error() {
        let judged = |script: &str, tally: &mut Tally| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            let output = command.output().unwrap();
            let program = Program::new(Path::new("driver/soft-rdma"), Path::new("flush-0123abcd")).unwrap();
            judge(&Job { program, command }, &output, tally)
        };
        let mut tally = Tally::default();
        let result = "test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out";
        assert!(judged(&format!("echo 'test a::b ... FAILED\n{result}'; exit 101"), &mut tally).is_ok());
        assert_eq!(tally.to_string(), "1 passed, 1 failed");
        assert_eq!(tally.failures(), "FAIL a::b: flush of driver/soft-rdma\n");
        assert!(judged("exit 101", &mut tally).is_err());
    }
}
