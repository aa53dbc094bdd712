//! `cargo xtask build`: everything that a run needs, in target/dist.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::command::{cargo, run, step};
use crate::imports::Provided;
use crate::pe::Module;
use crate::{TARGET_PROGRAMS, cross, paths, rust_src, wine};

/// Libraries of tests/wine, and the names of the modules they stand in for.
const STAND_INS: [(&str, &str); 4] = [
    ("ntoskrnl.dll", "ntoskrnl.exe"),
    ("ndis.dll", "ndis.sys"),
    ("wdfldr.dll", "wdfldr.sys"),
    ("bcryptprimitives.dll", "bcryptprimitives.dll"),
];

/// Builds softndk.sys, ndharness.exe and the stand-ins, and checks every import.
pub(crate) fn build() -> Result<()> {
    let dist = paths::dist();
    fs::create_dir_all(dist.join("wine"))?;
    let driver = step("building softndk.sys", cross::build)?;
    copy(&driver, &dist.join("softndk.sys"))?;
    // A target folder of its own: the variables that build-std needs would make cargo rebuild the host's crates.
    let programs = step("building ndharness.exe", || {
        windows_programs(&paths::root(), &["--package", "ndharness", "--target-dir", "target/windows"])
    })?;
    copy(&programs.join("ndharness.exe"), &dist.join("ndharness.exe"))?;
    let stand_ins = step("building the stand-ins", || {
        windows_programs(
            &paths::root(),
            &["--manifest-path", "tests/wine/Cargo.toml", "--target-dir", "target/wine/build"],
        )
    })?;
    for (library, module) in STAND_INS {
        copy(&stand_ins.join(library), &dist.join("wine").join(module))?;
    }
    copy(&stand_ins.join("loader.exe"), &dist.join("wine/loader.exe"))?;
    check_imports(&dist)
}

/// Builds for Windows with the arguments given, the last of which is the target folder; returns where it all went.
fn windows_programs(root: &Path, arguments: &[&str]) -> Result<PathBuf> {
    let mut command = cargo(root);
    command.args(["build", "--release", "--target", TARGET_PROGRAMS]).args(arguments);
    rust_src::find(TARGET_PROGRAMS)?.apply(&mut command, "std,panic_abort");
    // The kernel stand-in forwards what it does not have to the Wine that is installed.
    command.env("SOFTNDK_WINE_NTOSKRNL", wine::modules().join("ntoskrnl.exe"));
    run(&mut command)?;
    let target = arguments.last().context("no target folder given")?;
    Ok(root.join(target).join(TARGET_PROGRAMS).join("release"))
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
    if !problems.is_empty() {
        bail!("imports that would fail under Wine:\n  {}", problems.join("\n  "));
    }
    Ok(())
}
