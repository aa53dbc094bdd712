//! `cargo xtask run`, `wine` and `cycles`: the driver at work under Wine.

use std::net::IpAddr;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use build::command::{step, wait_while_it_tells};
use build::dist::TEST_DRIVER;
use build::{dist, paths, setup, wine};
use serde_json::{Value, json};

use crate::prefix;
use crate::report::StandInReport;
use crate::session::{self, Session};

/// For a case: the harness gives up on one long before.
pub(crate) const CASE_LIMIT: Duration = Duration::from_secs(120);

/// Sets up, builds, runs every case on the loaded driver, and those of the SMB Direct consumer on the driver of tests; prints tables and
/// writes target/report/run.json.
pub fn run() -> Result<()> {
    setup::setup()?;
    dist::build()?;
    dist::build_test_driver()?;
    let mut outcome = cases("ioctl")?;
    println!("{}", table(&outcome)?);
    let consumer = test_consumer_cases()?;
    println!("{}", table(&consumer)?);
    outcome["test_consumer"] = consumer;
    let path = paths::root().join("target/report/run.json");
    write_report(&path, &outcome)?;
    println!("report: {}", path.display());
    for played in [&outcome, &outcome["test_consumer"]] {
        ensure!(played["failed"] == 0, "{} cases failed", played["failed"]);
        ensure!(played["left_behind"]["clean"] == true, "the driver left something behind");
    }
    Ok(())
}

/// Runs every case of a front end on a freshly loaded driver; the harness's report and what was left behind, as run.json has it.
pub(crate) fn cases(front_end: &str) -> Result<Value> {
    let session = Session::start(&session::addresses(&[])?)?;
    let outcome = cases_on(session, prefix::DRIVER, &["run", "--front-end", front_end, "--json"])?;
    let refuses = |case: &Value| case["result"] == "skipped" || !is_of_test_consumer(case);
    ensure!(of(&outcome).all(refuses), "softndk.sys serves the test consumer, which it must not have");
    Ok(outcome)
}

/// Runs the cases of the test consumers on a freshly loaded driver of tests, which has it.
pub(crate) fn test_consumer_cases() -> Result<Value> {
    let session = Session::start_test(&session::addresses(&[])?)?;
    let outcome = cases_on(session, TEST_DRIVER, &["run", "--front-end", "ioctl", "smb-direct", "perf", "--json"])?;
    let plays = |case: &Value| case["result"] != "skipped" && is_of_test_consumer(case);
    ensure!(of(&outcome).all(plays) && of(&outcome).count() > 0, "it was not played: {}", outcome["cases"]);
    Ok(outcome)
}

fn of(outcome: &Value) -> impl Iterator<Item = &Value> {
    outcome["cases"].as_array().into_iter().flatten()
}

fn is_of_test_consumer(case: &Value) -> bool {
    ["smb_direct::", "perf::"].iter().any(|group| text(&case["name"]).starts_with(group))
}

fn cases_on(mut session: Session, driver: &str, arguments: &[&str]) -> Result<Value> {
    step(&format!("loading {driver}"), || session.load())?;
    let running = format!("ndharness {}", arguments.join(" "));
    let mut outcome = step(&running, || report_of(&session, arguments, CASE_LIMIT))?;
    let report = step(&format!("unloading {driver}"), || session.unload())?;
    let (passed, failed) = (&outcome["passed"], &outcome["failed"]);
    ensure!(passed.is_u64() && failed.is_u64(), "the harness's report counts nothing");
    outcome["loaded_by"] = json!(format!("the service control manager, under Wine {}", wine::version()?));
    outcome["left_behind"] = json!({
        "clean": report.is_clean(),
        "pool_bytes": report.pool_bytes,
        "pool_allocations": report.pool_allocations,
        "objects": report.objects,
        "irql_violations": report.irql_violations,
        "details": report.details,
    });
    Ok(outcome)
}

/// Runs the harness on the loaded driver and returns the JSON it prints. A failed case is not an error here. `limit`: for each case, or
/// for all that it does if that has no cases.
pub(crate) fn harness(session: &Session, arguments: &[&str], limit: Duration) -> Result<Value> {
    report_of(session, &[arguments, &["--front-end", "ioctl"]].concat(), limit)
}

/// The same for a command of the harness that takes no front end.
pub(crate) fn report_of(session: &Session, arguments: &[&str], limit: Duration) -> Result<Value> {
    let mut command = session.program(r"C:\softndk\ndharness.exe");
    let mut child = command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().context("the harness has no output")?;
    let errors = child.stderr.take().context("the harness has no error output")?;
    let reader = std::thread::spawn(move || std::io::read_to_string(&mut output));
    let status = wait_while_it_tells(&mut child, errors, limit).with_context(|| session.log_tail())?;
    let text = reader.join().map_err(|_| anyhow::anyhow!("reading the harness's output failed"))??;
    serde_json::from_str(&text)
        .with_context(|| format!("the harness ended with {status} and no report:\n{text}\n{}", session.log_tail()))
}

/// Any Windows program beside the loaded driver. Its exit status, unless that is 0 and the driver left something.
pub fn program(program: &str, arguments: &[String], addresses: &[IpAddr]) -> Result<ExitCode> {
    dist::build()?;
    let mut session = Session::start(&session::addresses(addresses)?)?;
    session.load()?;
    // Files that it is told to write go where the user means.
    let status = session.program(program).args(arguments).current_dir(env::current_dir()?).status()?;
    let report = session.unload()?;
    if !report.is_clean() {
        eprintln!("left behind by the driver: {report}");
    }
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Ok(ExitCode::from(if code == 0 && !report.is_clean() { 1 } else { code }))
}

/// Loads, runs one case and unloads, `count` times; prints the totals of what was left behind.
pub fn cycles(count: u32) -> Result<()> {
    dist::build()?;
    let mut session = Session::start(&session::addresses(&[])?)?;
    let case = first_case(&session)?;
    let (start, mut clean, mut totals) = (Instant::now(), true, StandInReport::default());
    for cycle in 1..=count {
        session.load().with_context(|| format!("cycle {cycle}"))?;
        let outcome = harness(&session, &["run", &case, "--json"], CASE_LIMIT)?;
        let report = session.unload().with_context(|| format!("cycle {cycle}"))?;
        clean &= report.is_clean();
        totals += report;
        if outcome["failed"] != 0 || outcome["passed"] == 0 {
            bail!("cycle {cycle}: {case} failed: {}", outcome["cases"]);
        }
        if cycle % 10 == 0 {
            eprintln!("   {cycle} cycles, {:.0} s", start.elapsed().as_secs_f64());
        }
    }
    println!("{count} cycles of load, {case}, unload: left behind {totals}");
    ensure!(clean, "the driver left something behind");
    Ok(())
}

/// The name of the first case that moves data.
fn first_case(session: &Session) -> Result<String> {
    let output = session.program(r"C:\softndk\ndharness.exe").arg("list").output()?;
    let text = String::from_utf8(output.stdout)?;
    let names = text.lines().filter_map(|line| line.split_whitespace().next()).collect::<Vec<_>>();
    let name = names.iter().find(|name| name.starts_with("qp")).or(names.first());
    Ok((*name.context("the harness lists no case")?).to_owned())
}

fn write_report(path: &std::path::Path, outcome: &Value) -> Result<()> {
    let folder = path.parent().context("a report without a folder")?;
    fs::create_dir_all(folder)?;
    fs::write(path, serde_json::to_string_pretty(outcome)? + "\n")?;
    Ok(())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The same facts for people.
pub(crate) fn table(outcome: &Value) -> Result<String> {
    let cases = outcome["cases"].as_array().context("the harness's report lists no cases")?;
    let mut lines = vec![
        format!("front end: {}, loaded by {}", text(&outcome["front_end"]), text(&outcome["loaded_by"])),
        String::new(),
    ];
    let width = cases.iter().filter_map(|case| case["name"].as_str()).map(str::len).max().unwrap_or_default();
    for case in cases {
        let milliseconds = case["seconds"].as_f64().unwrap_or_default() * 1000.0;
        let (name, result, shows) = (text(&case["name"]), text(&case["result"]), text(&case["shows"]));
        lines.push(format!("{name:width$}  {result:6}  {milliseconds:>8.1} ms  {shows}"));
        if let Some(failure) = case["failure"].as_str() {
            lines.push(format!("{:width$}    {}", "", failure.replace('\n', "\n    ")));
        }
        for note in case["notes"].as_array().into_iter().flatten() {
            lines.push(format!("{:width$}    {}", "", text(note)));
        }
    }
    for row in outcome["returns"].as_array().into_iter().flatten() {
        let (value, code, method) = (text(&row["value"]), text(&row["code"]), text(&row["method"]));
        lines.push(format!("{value:26} {code}  {method:43} {}", text(&row["shown"])));
    }
    let left = &outcome["left_behind"];
    lines.push(String::new());
    lines.push(format!("{} passed, {} failed, {} skipped", outcome["passed"], outcome["failed"], outcome["skipped"]));
    lines.push(format!(
        "left behind at unload: {} bytes of pool in {} allocations, {} objects; {} IRQL violations",
        left["pool_bytes"], left["pool_allocations"], left["objects"], left["irql_violations"]
    ));
    Ok(lines.join("\n"))
}
