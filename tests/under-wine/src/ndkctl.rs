//! The test of `ndkctl`: what it shows while `ndharness perf` runs agrees with what the harness says it has moved.

use std::process::Output;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use build::command;
use serde_json::Value;

use crate::kernel_perf;
use crate::run;
use crate::session::{self, Session};
use crate::two_processes::Harness;

const LIMIT: Duration = Duration::from_secs(300);

/// What the harness has open while it measures: two connections with itself.
const QUEUE_PAIRS: u64 = 4;

/// Looks on while the harness measures; also where there is no driver, and beside other traffic, for which the comparison has to fail. Then
/// it has RDMA turned off and on.
pub(crate) fn agrees() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    let absent = ndkctl(&session, &["status"])?;
    let told = String::from_utf8_lossy(&absent.stdout).contains("STATUS_");
    ensure!(absent.status.code() == Some(1) && told, "without a driver: {absent:?}");
    let refused = ndkctl(&session, &["objects"])?;
    let told = String::from_utf8_lossy(&refused.stderr).contains("STATUS_");
    ensure!(refused.status.code() == Some(2) && told, "objects without a driver: {refused:?}");
    // Wine has nothing that could be traced.
    let trace = command::outcome(session.program("ndkctl.exe").args(["trace", "--seconds", "1"]), LIMIT)?;
    let told = String::from_utf8_lossy(&trace.stderr).contains("there is no ETW under Wine");
    ensure!(trace.status.code() == Some(2) && told && trace.stdout.is_empty(), "a trace under Wine: {trace:?}");

    session.load()?;
    let idle = shown(&session, &["status"])?;
    let nothing = ["files", "objects", "active_connections", "pinned_bytes"].map(|count| idle[count].as_u64());
    ensure!(nothing == [Some(0); 4] && idle["rdma_enabled"] == true, "of an idle driver: {idle}");
    let limits = shown(&session, &["adapters"])?;
    let adapter = &limits["adapters"][0];
    ensure!(adapter["net_luid"] == idle["net_luid"] && adapter["addresses"] == idle["addresses"], "{idle}\n{limits}");

    let cable = shown(&session, &["cable"])?;
    ensure!(cable.get("cable").is_some_and(Value::is_null), "of an adapter without a cable: {cable}");

    let before = shown(&session, &["stats"])?;
    let watch = Harness::spawn(session.program("ndkctl.exe"), &["stats", "--watch", "--json"])?;
    let harness = Harness::start(&session, &["perf", "--sizes", "64,1MiB", "--json"])?;
    let mut intervals = Vec::new();
    while !intervals.last().is_some_and(|interval: &Value| interval["per_second"]["out_octets"].as_f64() > Some(0.0)) {
        intervals.push(interval(&watch)?);
    }
    let during = shown(&session, &["status"])?;
    let objects = shown(&session, &["objects"])?;
    let connections = shown(&session, &["connections"])?;
    busy(&during, &objects, &connections).with_context(|| format!("{during}\n{objects}\n{connections}"))?;
    let (status, text) = harness.end()?;
    ensure!(status.success(), "ndharness perf ended with {status}:\n{text}");
    let report: Value = serde_json::from_str(&text).context("the report of ndharness perf")?;
    let moved = report["moved_bytes"].as_u64().context("the harness does not say what it has moved")?;
    let after = shown(&session, &["stats"])?;
    compare(&before, &after, moved)?;
    while intervals.last().is_none_or(|interval| interval["out_octets"] != after["out_octets"]) {
        intervals.push(interval(&watch)?);
    }
    drop(watch);
    let watched = rates(&intervals) + first(&intervals, &before)?;
    let difference = (watched - moved as f64).abs() / moved as f64;
    ensure!(difference < 0.001, "{watched} bytes by the rates of {} intervals, {moved} were moved", intervals.len());
    println!(
        "   {moved} bytes by ndharness, {} by ndkctl, {watched:.0} by its rates",
        octets(&after, "out_octets") - octets(&before, "out_octets")
    );

    // What another program moves is counted too: the comparison has to notice.
    let outcome = run::harness(&session, &["run", "send", "--path", "plain", "--json"], LIMIT)?;
    ensure!(outcome["failed"] == 0 && outcome["passed"] != 0, "{}", outcome["cases"]);
    let later = shown(&session, &["stats"])?;
    ensure!(compare(&before, &later, moved).is_err(), "the traffic of another program was not noticed: {later}");

    kernel_perf::is_refused(&session)?;
    switched(&session)?;
    let left = session.unload()?;
    ensure!(left.is_clean(), "left behind: {left}");
    Ok(())
}

/// Turns RDMA off and on, twice each, by the stand-in for PowerShell.
fn switched(session: &Session) -> Result<()> {
    for (command, on, changed) in
        [("enable", true, false), ("disable", false, true), ("disable", false, false), ("enable", true, true)]
    {
        let found = shown(session, &[command])?;
        ensure!(found["rdma_enabled"] == on && found["changed"] == changed, "ndkctl {command}: {found}");
        let status = shown(session, &["status"])?;
        ensure!(status["rdma_enabled"] == on, "after ndkctl {command}: {status}");
    }
    Ok(())
}

pub(crate) fn ndkctl(session: &Session, arguments: &[&str]) -> Result<Output> {
    session.program("ndkctl.exe").args(arguments).output().context("cannot start ndkctl")
}

/// What it shows, as JSON.
pub(crate) fn shown(session: &Session, arguments: &[&str]) -> Result<Value> {
    let output = ndkctl(session, &[arguments, &["--json"]].concat())?;
    ensure!(output.status.success(), "ndkctl {}: {output:?}\n{}", arguments.join(" "), session.log_tail());
    serde_json::from_slice(&output.stdout).with_context(|| format!("ndkctl {}: {output:?}", arguments.join(" ")))
}

/// The next interval that it prints.
fn interval(watch: &Harness) -> Result<Value> {
    watch.until(|line| serde_json::from_str(line).ok())
}

/// What the harness has open is shown, by each of the commands.
fn busy(status: &Value, objects: &Value, connections: &Value) -> Result<()> {
    ensure!(status["files"].as_u64() > Some(0), "no files");
    ensure!(status["active_connections"] == QUEUE_PAIRS, "not {QUEUE_PAIRS} sides");
    let of = |kind: &str| {
        let kinds = objects["objects"].as_array()?;
        kinds.iter().find(|found| found["kind"] == kind)?["alive"].as_u64()
    };
    ensure!(of("queue pairs") == Some(QUEUE_PAIRS), "not {QUEUE_PAIRS} queue pairs");
    let sides = connections["connections"].as_array().context("no connections")?;
    let established = sides.iter().filter(|side| side["state"] == "established" && side["process"].is_u64());
    ensure!(established.count() as u64 == QUEUE_PAIRS, "not {QUEUE_PAIRS} sides of a process");
    Ok(())
}

pub(crate) fn octets(stats: &Value, way: &str) -> u64 {
    stats[way].as_u64().unwrap_or(0)
}

/// Within one device, what goes out comes in.
fn compare(before: &Value, after: &Value, moved: u64) -> Result<()> {
    for way in ["out_octets", "in_octets"] {
        let counted = after[way].as_u64().zip(before[way].as_u64()).map(|(after, before)| after - before);
        ensure!(counted == Some(moved), "{way}: {counted:?}, ndharness has moved {moved}");
    }
    ensure!(moved > 0, "nothing was moved");
    Ok(())
}

/// Bytes by the rates of all intervals but the first.
fn rates(intervals: &[Value]) -> f64 {
    let seconds = |interval: &Value| interval["seconds"].as_f64().unwrap_or(0.0);
    let of = |pair: &[Value]| match pair {
        [before, interval] => {
            let rate = interval["per_second"]["out_octets"].as_f64().unwrap_or(0.0);
            rate * (seconds(interval) - seconds(before))
        }
        _ => 0.0,
    };
    intervals.windows(2).map(of).sum()
}

/// Bytes of the first interval.
fn first(intervals: &[Value], before: &Value) -> Result<f64> {
    let first = intervals.first().context("no interval was printed")?;
    Ok((octets(first, "out_octets") - octets(before, "out_octets")) as f64)
}
