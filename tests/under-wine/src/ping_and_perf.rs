//! `ndharness ping` and `ndharness perf` between two processes: that the data is compared, and that there is each figure. How large they
//! are is not tested, but printed.

use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use build::command::{outcome, said};
use serde_json::Value;

use crate::computers::Computers;
use crate::perf::{has_latency, is_positive};
use crate::two_processes::serve;

/// Messages of a ping.
const COUNT: u64 = 20;
const COUNTED: &str = "20";
/// For each command.
const LIMIT: Duration = Duration::from_secs(300);

/// Each with a server of its own; then both once more, and the data is damaged.
pub(crate) fn run(computers: &Computers) -> Result<()> {
    let ping = report(computers, &["ping", "--count", COUNTED, "--interval", "0", "--size", "4KiB", "--json"])?;
    pinged(&ping).with_context(|| ping.to_string())?;
    let perf = report(computers, &["perf", "--sizes", "64,4KiB", "--json"])?;
    check_perf(&perf).with_context(|| perf.to_string())?;
    damaged(computers, &["ping", "--count", COUNTED, "--interval", "0"], 1, "message 1")?;
    // A send of perf is a message of ping.
    for operation in ["read", "write"] {
        let perf = ["perf", "--sizes", "64", "--operation", operation];
        damaged(computers, &perf, 2, &format!("{operation} of 64 bytes"))?;
    }
    computers.are_idle_again()
}

/// What a command reports of a server.
fn report(computers: &Computers, command: &[&str]) -> Result<Value> {
    let output = play(computers, command)?;
    ensure!(output.status.success(), "{command:?}: {}", said(&output));
    serde_json::from_slice(&output.stdout).with_context(|| said(&output))
}

/// The negative control: the data at the peer is not that which is compared with. The client says so, of `what`; the server has seen
/// nothing else that is wrong.
fn damaged(computers: &Computers, command: &[&str], code: i32, what: &str) -> Result<()> {
    let output = play(computers, &[command, &["--damage"]].concat())?;
    let (ended, said) = (output.status.code() == Some(code), said(&output));
    ensure!(ended && said.contains(&format!("{what}: byte 63 of 64 is ")), "{command:?}: {said}");
    Ok(())
}

/// A command with a server of its own, which has to succeed.
fn play(computers: &Computers, command: &[&str]) -> Result<Output> {
    let (server, address) = serve(computers.serving(), "rings")?;
    let (name, rest) = command.split_first().context("no command")?;
    let mut client = computers.connecting().program("ndharness.exe");
    let output = outcome(client.args([name, &address[..]]).args(rest).envs(computers.environment()), LIMIT)?;
    let (served, of_server) = server.end()?;
    ensure!(served.success(), "{command:?}: {}\nthe server: {served}\n{of_server}", said(&output));
    Ok(output)
}

fn pinged(report: &Value) -> Result<()> {
    ensure!(report["answered"].as_u64() == Some(COUNT) && report["bytes"].as_u64() == Some(4096), "not all came back");
    let figures = &report["round_trip_us"];
    ensure!(has_latency(figures) && is_positive(&figures["mean"]), "no figures");
    println!("   ping, 4 KiB: {figures}");
    Ok(())
}

fn check_perf(report: &Value) -> Result<()> {
    let rows = report["figures"].as_array().context("no figures")?;
    let found: Vec<_> = rows.iter().map(|row| (row["operation"].as_str(), row["bytes"].as_u64())).collect();
    let asked = ["send", "read", "write"].map(|operation| [64, 4096].map(|bytes| (Some(operation), Some(bytes))));
    ensure!(found == asked.concat(), "figures of {found:?}");
    for row in rows {
        for carrier in ["rdma", "tcp"] {
            let figures = &row[carrier];
            let counted = ["samples", "operations"].iter().all(|count| figures[count].as_u64() > Some(0));
            ensure!(
                has_latency(&figures["latency_us"]) && is_positive(&figures["rate"]) && counted,
                "{carrier}: {row}"
            );
        }
        let ratios = ["latency_of_tcp", "rate_of_tcp"].map(|ratio| row[ratio].as_f64().unwrap_or_default());
        ensure!(ratios.iter().all(|ratio| *ratio > 0.0), "no ratios: {row}");
        let (operation, bytes) = (row["operation"].as_str().unwrap_or_default(), &row["bytes"]);
        println!(
            "   {operation} of {bytes} B: {:.2} times the latency of TCP, {:.2} times its rate",
            ratios[0], ratios[1]
        );
    }
    Ok(())
}
