//! `cargo xtask build`: everything that a run needs, and the library for consumers written in C, in target/dist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::{cargo, run, step};
use crate::imports::Provided;
use crate::pe::Module;
use crate::{TARGET_PROGRAMS, cross, facts, inf, nd_cpp, paths, rust_src, wine};

/// The stand-ins for the kernel, NDIS, Winsock Kernel and KMDF, as arguments to cargo at the root of the tree.
pub const STAND_INS: [&str; 2] = ["--manifest-path", "tests/kernels/wine/Cargo.toml"];

/// The driver of tests, which has the SMB Direct style consumer, and faults that are planted for negative controls; in target/dist/wine.
pub const TEST_DRIVER: &str = "softndk-test.sys";

/// Apart from the host's: the variables that build-std needs would make cargo build the host's crates again and again.
const WINDOWS: &str = "target/windows";

/// What tests/kernels/wine builds, and the names it goes by in target/dist/wine.
const STAND_IN_FILES: [(&str, &str); 11] = [
    ("ntoskrnl.dll", "ntoskrnl.exe"),
    ("ndis.dll", "ndis.sys"),
    ("netio.dll", "netio.sys"),
    ("wdfldr.dll", "wdfldr.sys"),
    ("bcryptprimitives.dll", "bcryptprimitives.dll"),
    ("loader.exe", "loader.exe"),
    ("ordinary.exe", "ordinary.exe"),
    ("powershell.exe", "powershell.exe"),
    ("selftest.exe", "selftest.exe"),
    ("selftest_driver.dll", "selftest.sys"),
    ("consumer_driver.dll", "consumer.sys"),
];

/// Builds softndk.sys, softnd.dll, ndharness.exe, ndkctl.exe, the stand-ins and libsoftndk_sim.so, and checks every import.
pub fn build() -> Result<()> {
    let dist = paths::dist();
    fs::create_dir_all(dist.join("wine"))?;
    let driver = step("building softndk.sys", || cross::build(""))?;
    copy(&driver, &dist.join("softndk.sys"))?;
    // By one cargo, as docs/install.md has it: what two of them need is built once, with the features of all.
    let packages = ["ndharness", "ndkctl", "softnd", "deviating"].map(|package| ["--package", package]);
    let built = step("building ndharness.exe, ndkctl.exe and softnd.dll", || windows_build(packages.as_flattened()))?;
    for file in ["ndharness.exe", "ndkctl.exe", "softnd.dll"] {
        copy(&built.join(file), &dist.join(file))?;
    }
    // An example for tests.
    copy(&built.join("deviating.dll"), &dist.join("wine/deviating.dll"))?;
    step("building nd-cpp.exe", || nd_cpp::build(&dist.join("wine/nd-cpp.exe")))?;
    let stand_ins = step("building the stand-ins", || windows_build(&STAND_INS))?;
    for (built, name) in STAND_IN_FILES {
        copy(&stand_ins.join(built), &dist.join("wine").join(name))?;
    }
    step("building libsoftndk_sim.so", build_sim)?;
    let host = paths::root().join("target/release");
    copy(&host.join("libsoftndk_sim.so"), &dist.join("libsoftndk_sim.so"))?;
    copy(&paths::root().join("tests/clients/softndk-sim/include/softndk_sim.h"), &dist.join("softndk_sim.h"))?;
    for shipped in ["softndk.sys", "softnd.dll", "ndharness.exe", "libsoftndk_sim.so"] {
        has_no_marks(&dist.join(shipped))?;
    }
    check_imports(&dist)
}

/// What leaves a mark in a binary, and is not shipped: planted bugs (`driver/platform/src/planted.rs`), and memory that
/// changes once it is read (`driver/nd-rings/src/changing.rs`); the test consumer (`driver/softndk/src/test_consumer.rs`).
const MARKS: [&str; 2] = ["SoftNDK with planted bugs", TEST_CONSUMER];
const TEST_CONSUMER: &str = "SoftNDK test consumer";

/// Fails if `binary` has what only tests may have.
pub fn has_no_marks(binary: &Path) -> Result<()> {
    for mark in MARKS {
        ensure!(!is_marked(binary, mark)?, "{} has what only tests may have: {mark}", binary.display());
    }
    Ok(())
}

fn is_marked(binary: &Path, mark: &str) -> Result<bool> {
    let bytes = fs::read(binary).with_context(|| format!("cannot read {}", binary.display()))?;
    Ok(bytes.windows(mark.len()).any(|part| part == mark.as_bytes()))
}

/// Builds the simulated kernel with the provider, for the host.
fn build_sim() -> Result<()> {
    let mut command = cargo(&paths::root());
    run(command.args(["build", "--release", "--package", "softndk-sim", "--lib", "--target-dir", "target"]))
}

/// Builds the driver of tests: with the test consumer, whose mark it has to have, and with faults that are planted when it is told.
pub fn build_test_driver() -> Result<()> {
    let driver = step("building the driver of tests", || cross::build("planted-faults,test-consumer"))?;
    ensure!(is_marked(&driver, TEST_CONSUMER)?, "the driver of tests has no mark: {TEST_CONSUMER}");
    copy(&driver, &paths::dist().join("wine").join(TEST_DRIVER))
}

/// Builds what these arguments of cargo name, and returns the folder where the binaries lie.
fn windows_build(packages: &[&str]) -> Result<PathBuf> {
    run(&mut windows_cargo("build", packages)?)?;
    Ok(paths::root().join(WINDOWS).join(TARGET_PROGRAMS).join("release"))
}

/// A cargo that does something for Windows with what the arguments `packages` name.
pub fn windows_cargo(subcommand: &str, packages: &[&str]) -> Result<Command> {
    let mut command = cargo(&paths::root());
    command.args([subcommand, "--release", "--target", TARGET_PROGRAMS, "--target-dir", WINDOWS]);
    // With the panic strategy of the stand-ins everywhere, one standard library serves all.
    command.args(packages).env("CARGO_PROFILE_RELEASE_PANIC", "abort");
    rust_src::find(TARGET_PROGRAMS)?.apply(&mut command, "std,panic_abort");
    // The kernel stand-in forwards what it does not have to the Wine that is installed.
    command.env("SOFTNDK_WINE_NTOSKRNL", wine::modules().join("ntoskrnl.exe"));
    Ok(command)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

fn check_imports(dist: &Path) -> Result<()> {
    let provided = Provided::read(&dist.join("wine"), &wine::modules())?;
    let mut problems = provided.problems_of_stand_ins()?;
    let driver = Module::read(&dist.join("softndk.sys"))?;
    problems.extend(provided.problems_of_driver(&driver)?.into_iter().map(|problem| format!("softndk.sys: {problem}")));
    ensure!(problems.is_empty(), "imports that would fail under Wine:\n  {}", problems.join("\n  "));
    let problems = facts::problems_of_imports(&driver, inf::oldest_windows()?)?;
    ensure!(problems.is_empty(), "imports that would fail on Windows:\n  {}", problems.join("\n  "));
    Ok(())
}
