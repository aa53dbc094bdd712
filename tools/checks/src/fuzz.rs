//! `cargo xtask fuzz`: builds a target of `tests/random/fuzz` as cargo-fuzz does, but with the stable compiler, and runs it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use build::command::{cargo, run, step};
use build::paths;

/// NDK calls, control requests, rings, and a peer's MPA frames and FPDUs made of bytes; how many inputs a short run of each has.
const TARGETS: [(&str, u64); 5] =
    [("ndk_calls", 200), ("ioctls", 100), ("rings", 100), ("mpa", 20_000), ("receive", 150)];
/// What the fuzzer is built for; with a target named, build scripts and macros stay without the instrumentation.
const HOST: &str = "x86_64-unknown-linux-gnu";
/// Coverage for libFuzzer, and the address sanitizer: the flags that cargo-fuzz gives (its `src/project.rs`).
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0 -Zsanitizer=address -Ccodegen-units=1";
/// Seconds that one input takes at most; else it hangs.
const SLOWEST: u32 = 60;
/// Bytes of the longest input: more operations than one session plays.
const LONGEST: u32 = 1024;

/// When to stop.
#[derive(Clone, Copy)]
pub enum Limit {
    /// After this number of inputs.
    Runs(u64),
    /// After this number of seconds.
    Seconds(u64),
}

/// Fuzzes one target, or all one after the other, until `limit` for each: from the seeds that are checked in and from what earlier
/// runs found (`target/fuzz/corpus`).
pub fn fuzz(target: Option<&str>, limit: Limit) -> Result<()> {
    match target {
        Some(target) => fuzz_one(target, limit),
        None => TARGETS.iter().try_for_each(|(target, _)| fuzz_one(target, limit)),
    }
}

fn fuzz_one(target: &str, limit: Limit) -> Result<()> {
    let corpus = paths::root().join("target/fuzz/corpus").join(target);
    let found = fuzz_in(target, &corpus, limit, None);
    if found.is_err() {
        eprintln!("inputs that fail are in target/fuzz/artifacts; `target/fuzz/{HOST}/release/{target} FILE` runs one");
    }
    found
}

/// Short runs that are always the same ones: for `cargo xtask test --full`.
pub fn smoke() -> Result<()> {
    for (target, runs) in TARGETS {
        let corpus = paths::root().join("target/fuzz/smoke").join(target);
        if corpus.exists() {
            fs::remove_dir_all(&corpus).with_context(|| format!("cannot empty {}", corpus.display()))?;
        }
        fuzz_in(target, &corpus, Limit::Runs(runs), Some(1))?;
    }
    Ok(())
}

fn fuzz_in(target: &str, corpus: &Path, limit: Limit, seed: Option<u32>) -> Result<()> {
    let root = paths::root();
    let output = root.join("target/fuzz");
    let seeds = root.join("tests/random/fuzz/corpus").join(target);
    let artifacts = output.join("artifacts");
    ensure!(seeds.is_dir(), "there is no fuzz target {target}: tests/random/fuzz/corpus has no such folder");
    for folder in [corpus, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut build = cargo(&root.join("tests/random/fuzz"));
    build.args(["build", "--release", "--locked", "--target", HOST, "--bin", target]);
    // The sanitizer's flag is one of the nightly compiler's.
    build.env("RUSTFLAGS", FLAGS).env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", &output);
    step(&format!("building the fuzz target {target}"), || run(&mut build))?;

    let mut command = Command::new(output.join(HOST).join("release").join(target));
    command.arg(corpus).arg(seeds);
    command.arg(match limit {
        Limit::Runs(runs) => format!("-runs={runs}"),
        Limit::Seconds(seconds) => format!("-max_total_time={seconds}"),
    });
    // The simulated kernel counts what the driver leaks, and keeps tables of its own. Long inputs from the start: short
    // ones are a call or two.
    command.args(["-detect_leaks=0", "-len_control=0"]).arg(format!("-max_len={LONGEST}"));
    command.arg(format!("-timeout={SLOWEST}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args(seed.map(|seed| format!("-seed={seed}")));
    step(&format!("fuzzing {target}"), || run(&mut command))
}
