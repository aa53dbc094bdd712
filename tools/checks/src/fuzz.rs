//! `cargo xtask fuzz`: builds a target of `tests/random/fuzz` as cargo-fuzz does, but with the stable compiler, and runs it.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use build::command::{cargo, run, step};
use build::paths;

/// NDK calls, control requests, rings, and a peer's MPA frames and FPDUs made of bytes.
const TARGETS: [&str; 7] = ["ndk_calls", "ioctls", "rings", "mpa", "receive", "vxlan", "fault_rules"];
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

/// Fuzzes one target, or all one after the other, each for `seconds`: from the inputs that are checked in and from what earlier runs
/// found (`target/fuzz/corpus`).
pub fn fuzz(target: Option<&str>, seconds: u64) -> Result<()> {
    let Some(target) = target else {
        let failed: Vec<_> = TARGETS.into_iter().filter_map(|target| fuzz_one(target, seconds).err()).collect();
        failed.iter().for_each(|error| eprintln!("{error:#}"));
        ensure!(failed.is_empty(), "{} of {} targets failed", failed.len(), TARGETS.len());
        return Ok(());
    };
    fuzz_one(target, seconds)
}

fn fuzz_one(target: &str, seconds: u64) -> Result<()> {
    let root = paths::root();
    let output = root.join("target/fuzz");
    let seeds = root.join("tests/random/fuzz/corpus").join(target);
    let (corpus, artifacts) = (output.join("corpus").join(target), output.join("artifacts"));
    ensure!(seeds.is_dir(), "there is no fuzz target {target}: tests/random/fuzz/corpus has no such folder");
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let mut build = cargo(&root.join("tests/random/fuzz"));
    build.args(["build", "--release", "--locked", "--target", HOST, "--bin", target]);
    // The sanitizer's flag is one of the nightly compiler's.
    build.env("RUSTFLAGS", FLAGS).env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", &output);
    step(&format!("building the fuzz target {target}"), || run(&mut build))?;

    let mut command = Command::new(output.join(HOST).join("release").join(target));
    command.arg(corpus).arg(seeds);
    command.arg(format!("-max_total_time={seconds}"));
    // The simulated kernel counts what the driver leaks, and keeps tables of its own. Long inputs from the start: short
    // ones are a call or two.
    command.args(["-detect_leaks=0", "-len_control=0"]).arg(format!("-max_len={LONGEST}"));
    command.arg(format!("-timeout={SLOWEST}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    let found = step(&format!("fuzzing {target}"), || run(&mut command));
    if found.is_err() {
        eprintln!("inputs that fail are in target/fuzz/artifacts; `target/fuzz/{HOST}/release/{target} FILE` runs one");
    }
    found
}
