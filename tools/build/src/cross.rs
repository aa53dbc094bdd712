//! Builds the real `softndk.sys` on Linux, through tools/cross.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::command::{cargo, run};
use crate::wdk_root::LLVM;
use crate::{TARGET_DRIVER, rust_src};
use crate::{paths, wdk_build, wdk_root};

/// mingw-w64's headers under clang's msvc triple: they want __GNUC__, and clang's own SIMD headers are left out because bindgen
/// cannot lay out the AMX types.
const MINGW: &str = "-D__GNUC__=4 -D__GNUC_MINOR__=2 -D__IMMINTRIN_H -D__X86INTRIN_H";

/// Builds the driver with these cargo features and returns the binary.
pub fn build(features: &str) -> Result<PathBuf> {
    run(command("build")?.args(["--release", "--features", features]))?;
    Ok(built(&paths::cross().join("target")))
}

/// The driver in a folder where cargo builds.
pub fn built(target: &Path) -> PathBuf {
    target.join(TARGET_DRIVER).join("release/softndk.dll")
}

/// A cargo that understands tools/cross; `subcommand` is given before the standard library's options.
pub fn command(subcommand: &str) -> Result<Command> {
    over(&wdk_root::prepare()?, MINGW, subcommand)
}

/// The same, over the headers of a WDK content root, with what they ask of clang.
pub fn over(root: &Path, headers: &str, subcommand: &str) -> Result<Command> {
    wdk_build::prepare()?;
    let mut command = cargo(&paths::cross());
    command.arg(subcommand);
    rust_src::find(TARGET_DRIVER)?.apply(&mut command, "core,alloc,compiler_builtins");
    // No header of the host may be seen.
    let headers = format!("{headers} -nostdlibinc");
    command
        .env("WDKContentRoot", root)
        // Files with a hash of the features in their names. Without it the driver and the driver of tests have one name, and each build
        // links what the other replaced.
        .env("__CARGO_DEFAULT_LIB_METADATA", "softndk")
        .env("LIBCLANG_PATH", format!("{LLVM}/lib"))
        .env("BINDGEN_EXTRA_CLANG_ARGS_x86_64_pc_windows_msvc", format!("{headers} -resource-dir={LLVM}/lib/clang/19"))
        .env("CC_x86_64_pc_windows_msvc", format!("{LLVM}/bin/clang"))
        .env("AR_x86_64_pc_windows_msvc", format!("{LLVM}/bin/llvm-lib"))
        .env("CFLAGS_x86_64_pc_windows_msvc", format!("{headers} -w -fms-compatibility -fms-extensions"));
    Ok(command)
}
