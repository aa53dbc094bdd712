//! The device against Linux siw, which a user-mode Linux runs in a network namespace: `docs/interop.md`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use crate::command::{cargo, run};
use crate::paths;

/// Where the peer is: the script that boots it and runs a command against it.
const VARIABLE: &str = "SOFTNDK_SIW_PEER";
/// What the script ends with where the peer cannot run.
const CANNOT_RUN: i32 = 77;

/// Boots the peer once and tries everything; a machine that cannot do that is told why, and it is no failure.
pub(crate) fn interop(json: bool) -> Result<ExitCode> {
    let script = env::var_os(VARIABLE)
        .map_or_else(|| paths::root().join("../shared/siw-peer/run.sh"), |path| Path::new(&path).to_path_buf());
    if !script.is_file() {
        let why = format!("there is no peer; {VARIABLE} names the script that boots one, see docs/interop.md");
        return Ok(skipped(&why, json));
    }
    run(cargo(&paths::root()).args(["build", "--package", "interop"]))?;
    let directory = directory()?;
    let mut command = Command::new(script);
    command.arg(paths::root().join("tests/interop/guest.sh"));
    command.arg(paths::root().join("target/debug/interop")).arg("suite").arg("--directory").arg(directory);
    if json {
        command.arg("--json");
    }
    let output = command.stderr(Stdio::inherit()).output().context("cannot start the peer's script")?;
    let said = String::from_utf8_lossy(&output.stdout);
    if output.status.code() == Some(CANNOT_RUN) {
        return Ok(skipped(said.trim(), json));
    }
    print!("{said}");
    Ok(if output.status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn skipped(why: &str, json: bool) -> ExitCode {
    if json {
        println!("{:#}", serde_json::json!({ "skipped": why }));
    } else {
        println!("skipped: {why}");
    }
    ExitCode::SUCCESS
}

/// Where the capture goes.
fn directory() -> Result<PathBuf> {
    let directory = paths::root().join("target/interop");
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    Ok(directory)
}
