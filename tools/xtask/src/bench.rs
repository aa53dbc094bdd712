//! `cargo xtask bench`: what the device costs, beside references, and how many instructions.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::command::{cargo, run, step};
use crate::{instructions, paths};

/// The benchmarks' program, built.
pub(crate) fn build() -> Result<PathBuf> {
    let root = paths::root();
    let build = ["build", "--profile", "measured", "--package", "softndk-bench"];
    step("building the benchmarks", || run(cargo(&root).args(build)))?;
    Ok(root.join("target/measured/softndk-bench"))
}

/// Measures, prints a table or JSON, and writes target/report/bench.json.
pub(crate) fn bench(as_json: bool, only: &str) -> Result<()> {
    let program = build()?;
    let path = paths::root().join("target/report/bench.json");
    fs::create_dir_all(path.parent().context("a report without a folder")?)?;
    let mut command = Command::new(&program);
    // Its progress goes to the terminal, its table is passed on below.
    command.args(["--only", only, "--out"]).arg(&path).stderr(Stdio::inherit());
    let output = command.output().context("the benchmarks do not start")?;
    ensure!(output.status.success(), "the benchmarks ended with {}", output.status);
    let figures: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
    let counts = instructions::count(&program)?;
    let report = json!({ "figures": figures, "instructions": counts });
    let text = serde_json::to_string_pretty(&report)? + "\n";
    fs::write(&path, &text)?;
    if as_json {
        print!("{text}");
    } else {
        let table = String::from_utf8_lossy(&output.stdout);
        println!("{table}\n{}\nreport: {}", instructions::table(&counts), path.display());
    }
    Ok(())
}
