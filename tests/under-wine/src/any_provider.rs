//! `ndharness run --provider`: softnd.dll as if it were a stranger's, and a provider that deviates on purpose. Without the driver.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use build::command::{outcome, said, step};
use checks::tally::Tally;
use serde_json::Value;

use crate::run::CASE_LIMIT;
use crate::session::{self, Session};
use crate::two_processes::Harness;

/// For the cases of one deviation, or those with a peer.
const LIMIT: Duration = Duration::from_secs(300);

const DLL: &str = "softnd.dll";
/// Its classes.
const V2: &str = "{3d1c7a52-9b0e-4c6f-8a47-2f6b5e90d1c3}";
const V1: &str = "{a86f04b9-5d32-4e17-b3c8-71e40c29f65a}";

/// The checks that run every case, their front ends and classes. Names are written out, so that tags can stand at them.
const CASES: [(&str, &str, &str); 2] = [
    // Shows S1731, S1732.
    ("softnd.dll passes as any provider of version 2", "nd2", V2),
    // Shows S1731, S1732.
    ("softnd.dll passes as any provider of version 1", "nd1", V1),
];

/// The provider that deviates as the environment's DEVIATION says, and its class (`tests/cases/deviating`).
const DEVIATING: [&str; 2] = ["deviating.dll", "5f0c94d7-1e3b-4a86-b2f7-96d803ac41e5"];

/// Each deviation, and a case that has to find it, by what it says.
const DEVIATIONS: [(&str, &str, &str); 7] = [
    (AT_ONCE, "requests::each_pends", "no packet of Register"),
    ("private-data", "connector::private_data", "too much private data to connect"),
    ("refused", "connector::refused_connects", "nobody listens: STATUS_HOST_UNREACHABLE"),
    ("bytes", "queue_pair::send", "1 bytes received, 0 were sent"),
    ("flushed-receive", "disconnect::receives", "expected kind 0, context 0x0, STATUS_CANCELLED"),
    ("order", "completion_queue::order", "expected"),
    ("sges", "adapter::limits", "a queue pair with too much of receive SGEs"),
];

/// The documentation allows this one, so only cases fail that wait for a packet, as programs do.
const AT_ONCE: &str = "at-once";

/// Groups of both versions, for a run that is not full.
const GROUPS: [&str; 3] = ["adapter", "connector", "completion_queue"];

/// Every test of it; all cases if `full`.
pub(crate) fn run(full: bool, tally: &mut Tally) {
    for (name, front_end, class) in CASES {
        let passed = step(name, || passes(front_end, class, full));
        tally.check(name, passed);
    }
    // Shows S1733.
    tally.check("each deviation of deviating.dll is found, and none where it does not deviate", deviations());
    // Shows S1734.
    tally.check("two processes with a provider that was named play the cases with two roles", with_peer(full));
    // Shows S1731.
    tally.check("a provider that is not there, or whose class is not known, is refused", refusals());
}

/// The report of a run on a provider that is named by its DLL and class.
fn report(session: &Session, front_end: &str, dll: &str, class: &str, more: &[&str], deviation: &str) -> Result<Value> {
    let mut command = session.program("ndharness.exe");
    command.args(["run", "--json", "--front-end", front_end, "--provider", dll, "--class", class]).args(more);
    if !deviation.is_empty() {
        command.env("DEVIATION", deviation);
    }
    let output = outcome(&mut command, LIMIT.max(CASE_LIMIT))?;
    serde_json::from_slice(&output.stdout).with_context(|| format!("no report: {}", said(&output)))
}

fn passes(front_end: &str, class: &str, full: bool) -> Result<()> {
    let session = Session::start(&session::addresses(&[])?)?;
    let cases = if full { &[][..] } else { &GROUPS };
    let report = report(&session, front_end, DLL, class, cases, "")?;
    let provider = &report["provider"];
    let count = |of: &str| provider[of].as_array().map_or(0, Vec::len);
    let counts = ["limits", "statuses", "requests", "orders", "left_out"].map(count);
    let fewest = if full { [4; 5] } else { [4, 4, 4, 1, 0] };
    println!("{front_end} as any provider: {} passed, {} failed, {counts:?}", report["passed"], report["failed"]);
    ensure!(report["failed"] == 0 && report["skipped"] == 0, "{report:#}");
    let least = if full { 50 } else { 10 };
    ensure!(
        report["passed"].as_u64() > Some(least) && counts.iter().zip(fewest).all(|(count, fewest)| *count >= fewest),
        "{report:#}"
    );
    let named = (provider["library"] == DLL, provider["class"] == class, provider["interfaces"] == front_end);
    ensure!(named == (true, true, true), "{provider:#}");
    // softnd.dll's requests pend.
    let at_once = |of: &Value| of["over_at_once"] != 0 && !text(of, "method").ends_with("::CompleteConnect");
    let at_once: Vec<_> = provider["requests"].as_array().into_iter().flatten().filter(|of| at_once(of)).collect();
    ensure!(at_once.is_empty(), "{at_once:?}");
    Ok(())
}

fn text<'v>(of: &'v Value, what: &str) -> &'v str {
    of[what].as_str().unwrap_or_default()
}

fn deviations() -> Result<()> {
    let session = Session::start(&session::addresses(&[])?)?;
    let [dll, class] = DEVIATING;
    let failures = |deviation, cases: &[&str]| -> Result<Vec<(String, String)>> {
        let report = report(&session, "nd2", dll, class, cases, deviation)?;
        let cases = report["cases"].as_array().into_iter().flatten();
        let failed = cases.filter(|case| case["result"] == "failed");
        Ok(failed.map(|case| (text(case, "name").to_owned(), text(case, "failure").to_owned())).collect())
    };
    let all = DEVIATIONS.map(|(_, case, _)| case);
    let none = failures("", &all)?;
    ensure!(none.is_empty(), "without a deviation: {none:?}");
    for (deviation, case, says) in DEVIATIONS {
        let found = failures(deviation, &[case])?;
        let is_found = found.iter().any(|(name, failure)| name == case && failure.contains(says));
        ensure!(is_found, "{deviation} is not found by {case}, {says:?}: {found:#?}");
        let waits = found.iter().all(|(_, failure)| failure.contains("no packet of"));
        ensure!(deviation != AT_ONCE || waits, "what may be over at once is refused: {found:#?}");
    }
    Ok(())
}

fn with_peer(full: bool) -> Result<()> {
    let session = Session::start(&session::addresses(&[])?)?;
    let server = Harness::start(&session, &["serve", "--provider", DLL, "--class", V2])?;
    let at = server.until(|line| line.strip_prefix("serving at ").map(str::to_owned))?;
    let cases = if full { &[][..] } else { &["messages"] };
    let report = report(&session, "nd2", DLL, V2, &[&["--peer", &at], cases].concat(), "")?;
    println!("with a peer: {} passed, {} failed", report["passed"], report["failed"]);
    let least = if full { 50 } else { 5 };
    ensure!(report["failed"] == 0 && report["passed"].as_u64() > Some(least), "{report:#}");
    let (status, text) = server.end()?;
    ensure!(status.success(), "the server ended with {status}:\n{text}");
    Ok(())
}

fn refusals() -> Result<()> {
    let session = Session::start(&session::addresses(&[])?)?;
    let nobody = "{00000000-0000-0000-0000-000000000001}";
    for (arguments, why) in [
        (&["--provider", "nothing.dll", "--class", V2][..], "there is no "),
        (&["--provider", DLL], "the Winsock catalog has no entry of this DLL"),
        (&["--provider", DLL, "--class", nobody], "DllGetClassObject"),
        (&["--provider", nobody], "the Winsock catalog has no entry {00000000-0000-0000-0000-000000000001}"),
        (&["--provider", DLL, "--class", V2, "--address", "192.0.2.77"], "the provider has no such address"),
    ] {
        let mut command = session.program("ndharness.exe");
        let output = outcome(command.args(["run", "--front-end", "nd2"]).args(arguments), LIMIT)?;
        let text = said(&output);
        ensure!(output.status.code() == Some(2) && text.contains(why), "{arguments:?} does not say {why:?}: {text}");
    }
    Ok(())
}
