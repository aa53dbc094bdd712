//! `ndharness ping` and `ndharness perf` between two processes: that the data is compared, and that there is each figure. How large they
//! are is not tested, but printed.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::computers::Computers;
use crate::perf::{has_latency, is_positive};
use crate::two::{Harness, serve};

/// Messages of a ping.
const COUNT: u64 = 20;
const COUNTED: &str = "20";

/// Each with a server of its own; then both once more, and the data is damaged.
pub(crate) fn run(computers: &Computers) -> Result<()> {
    let ping = report(computers, &["ping", "--count", COUNTED, "--interval", "0", "--size", "4KiB", "--json"])?;
    pinged(&ping).with_context(|| ping.to_string())?;
    let perf = report(computers, &["perf", "--sizes", "64,4KiB", "--json"])?;
    measured(&perf).with_context(|| perf.to_string())?;
    let said = damaged(computers, &["ping", "--count", COUNTED, "--interval", "0"], 1)?;
    ensure!(said.contains("message 1: byte 63 of 64 is "), "{said}");
    // A send of perf is a message of ping.
    for operation in ["read", "write"] {
        // Why it ends is on standard error; the server has seen nothing else that is wrong.
        damaged(computers, &["perf", "--sizes", "64", "--operation", operation], 2)?;
    }
    computers.are_idle_again()
}

/// What a command reports of a server, which reports success, too.
fn report(computers: &Computers, command: &[&str]) -> Result<Value> {
    let (server, client) = start(computers, command)?;
    let (status, text) = client.end()?;
    let (served, of_server) = server.end()?;
    ensure!(status.success() && served.success(), "{command:?}: {status}, {text}\nthe server: {served}\n{of_server}");
    serde_json::from_str(&text).with_context(|| text)
}

/// The negative control: the data at the peer is not that which is compared with. What is said of it.
fn damaged(computers: &Computers, command: &[&str], code: i32) -> Result<String> {
    let (server, client) = start(computers, &[command, &["--damage"]].concat())?;
    let (status, text) = client.end()?;
    let (served, of_server) = server.end()?;
    let noticed = status.code() == Some(code) && served.success();
    ensure!(noticed, "{command:?}: {status}, {text}\nthe server: {served}\n{of_server}");
    Ok(text)
}

fn start(computers: &Computers, command: &[&str]) -> Result<(Harness, Harness)> {
    let (server, address) = serve(computers.serving(), "rings")?;
    let (name, rest) = command.split_first().context("no command")?;
    let arguments = [&[*name, &address], rest].concat();
    let client = Harness::start_in(computers.connecting(), &arguments, computers.environment())?;
    Ok((server, client))
}

fn pinged(report: &Value) -> Result<()> {
    ensure!(report["answered"].as_u64() == Some(COUNT) && report["bytes"].as_u64() == Some(4096), "not all came back");
    let figures = &report["round_trip_us"];
    ensure!(has_latency(figures) && is_positive(&figures["mean"]), "no figures");
    println!("   ping, 4 KiB: {figures}");
    Ok(())
}

fn measured(report: &Value) -> Result<()> {
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
