//! `cargo xtask bench`: what the device costs, beside references, and how many instructions.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use build::command::{cargo, run, step};
use build::{dist, paths};
use serde_json::{Value, json};

use crate::instructions;

/// The benchmarks' program, built: with the driver as it ships.
pub fn build() -> Result<PathBuf> {
    let root = paths::root();
    let build = ["build", "--profile", "measured", "--package", "softndk-bench"];
    step("building the benchmarks", || run(cargo(&root).args(build)))?;
    let program = root.join("target/measured/softndk-bench");
    dist::has_no_marks(&program)?;
    Ok(program)
}

/// What is measured, and how it is told.
#[derive(clap::Args)]
pub struct Wanted {
    /// Print JSON instead of the table
    #[arg(long)]
    pub json: bool,
    /// Only the groups whose names contain this: messages, write, write-captured, wake, threads, queue-pairs, tokens; with --wire: idle, connections, writes, round-trips, processes, shared
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Measure two devices connected by TCP, beside plain TCP, and write target/report/wire.json
    #[arg(long)]
    wire: bool,
    /// Measure TCP over the adapter under Wine, beside VXLAN of Linux, and RDMA, beside TCP; write target/report/cable.json
    #[arg(long, conflicts_with_all = ["wire", "only"])]
    pub cable: bool,
    /// Draw latency and bandwidth by size, and messages by connections, beside their references, into this file instead, as SVG
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "only", "wire", "cable", "check"])]
    plot: Option<PathBuf>,
    /// Fail if a target is missed
    #[arg(long)]
    pub check: bool,
}

/// Measures, prints a table or JSON, and writes target/report/bench.json.
pub fn bench(wanted: &Wanted) -> Result<()> {
    let program = build()?;
    if let Some(file) = &wanted.plot {
        run(Command::new(&program).arg("plot").arg(file))?;
        println!("drawing: {}", file.display());
        return Ok(());
    }
    let name = if wanted.wire { "wire.json" } else { "bench.json" };
    let path = paths::root().join("target/report").join(name);
    fs::create_dir_all(path.parent().context("a report without a folder")?)?;
    let mut command = Command::new(&program);
    // Its progress goes to the terminal, its table is passed on below.
    command.args(["--only", &wanted.only, "--out"]).arg(&path).stderr(Stdio::inherit());
    command
        .args([(wanted.wire, "--wire"), (wanted.check, "--check")].iter().filter(|given| given.0).map(|given| given.1));
    let output = command.output().context("the benchmarks do not start")?;
    let table = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        print!("{table}");
        bail!("the benchmarks ended with {}", output.status);
    }
    let figures: Value = serde_json::from_str(&fs::read_to_string(&path)?)?;
    // Who waits for the host's TCP is not counted in instructions.
    let counts = if wanted.wire { None } else { Some(instructions::count(&program)?) };
    let report = match &counts {
        Some(counts) => json!({ "figures": figures, "instructions": counts }),
        None => json!({ "figures": figures }),
    };
    let text = serde_json::to_string_pretty(&report)? + "\n";
    fs::write(&path, &text)?;
    if wanted.json {
        print!("{text}");
    } else {
        let counted = counts.map(|counts| instructions::table(&counts) + "\n").unwrap_or_default();
        println!("{table}\n{counted}report: {}", path.display());
    }
    Ok(())
}
