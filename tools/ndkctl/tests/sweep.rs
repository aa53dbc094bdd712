//! `ndkctl faults sweep` of a consumer in C: it finds what a careless one does, and nothing in a careful one.
#![cfg(target_os = "linux")]
#![allow(clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
// With it cargo builds libsoftndk_sim.so before the test runs.
use softndk_sim as _;

/// Compiles the consumer, for one test.
fn compile(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clients/softndk-sim");
    let test = env::current_exe().expect("the path of the test");
    let library = test.parent().expect("a folder");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut gcc = Command::new("gcc");
    gcc.current_dir(folder).args(["-std=gnu11", "-O1", "-pthread", "-Ic", "-Iinclude"]);
    gcc.args(["c/careless.c", "c/consumer.c"]).arg("-o").arg(&program);
    gcc.arg("-L").arg(library).arg("-lsoftndk_sim").arg(format!("-Wl,-rpath,{}", library.display()));
    let output = gcc.output().expect("gcc: see `cargo xtask setup`");
    assert!(output.status.success(), "gcc: {}", String::from_utf8_lossy(&output.stderr));
    program
}

/// How a sweep of the consumer ends, and for each rule how the consumer has. `limit`: the seconds after which a run counts as hung, far more than any
/// other takes.
fn sweep(argument: &str, limit: &str) -> (Option<i32>, Vec<(String, String)>, String) {
    let mut ndkctl = Command::new(env!("CARGO_BIN_EXE_ndkctl"));
    ndkctl.args(["--json", "faults", "sweep", "--limit", limit, "--"]).arg(compile(argument)).arg(argument);
    // Cargo's search path comes before the program's own.
    let output = ndkctl.env_remove("LD_LIBRARY_PATH").output().expect("ndkctl");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let runs = found["runs"].as_array().into_iter().flatten();
    let runs = runs.map(|run| (text(&run["rule"]), text(&run["ended"]["how"]))).collect();
    (output.status.code(), runs, said)
}

// Shows S1709.
#[test]
fn a_sweep_finds_each_carelessness() {
    let (code, runs, said) = sweep("careless", "5");
    assert_eq!(code, Some(1), "{said}");
    assert!(runs.len() > 20, "{runs:?}");
    for (rule, how) in &runs {
        let words: Vec<_> = rule.split(' ').collect();
        let expected = match (words.get(1).copied(), words.last().copied()) {
            (_, Some("disconnect")) => "hung",
            (Some("listen" | "connect" | "accept"), _) => "crashed",
            (Some("send" | "read" | "write" | "complete"), _) => "succeeded",
            _ => "failed",
        };
        assert_eq!(how, expected, "{rule}: {runs:?}\n{said}");
    }
}

// Shows S1709.
#[test]
fn a_sweep_finds_nothing_in_a_careful_consumer() {
    let (code, runs, said) = sweep("careful", "60");
    assert_eq!(code, Some(0), "{runs:?}\n{said}");
    assert!(runs.len() > 20 && runs.iter().all(|(_, how)| how == "failed"), "{runs:?}\n{said}");
}
