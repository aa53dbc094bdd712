//! The test of `ndkctl perf`: that there is each figure, and that the adapters count the bytes. How large they are is not tested, but printed.

use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::ndkctl::{ndkctl, octets, shown};
use crate::perf::{has_latency, is_positive};
use crate::session::Session;
use crate::two_processes::Harness;
use crate::wine_tests::until;

const ADDRESSES: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

/// Measures within an adapter, between two, and with a server in another process; then an adapter goes.
pub(crate) fn measures() -> Result<()> {
    const DRAWING: &str = "kernel-perf.svg";
    let mut session = Session::start_test(&[ADDRESSES[0].parse()?])?;
    session.set_keyword("Adapters", "2")?;
    session.set_keyword("1.Addresses", ADDRESSES[1])?;
    let drawing = session.file(DRAWING);
    let _ = fs::remove_file(&drawing);
    session.load()?;
    until(|| {
        ensure!(session.log()?.contains("ndis: adapter 1 started and checked"), "the second adapter has not started");
        Ok(())
    })?;

    counted(&session, &["--sizes", "64,64KiB", "--plot", DRAWING], &[64, 65_536])?;
    let drawing = fs::read_to_string(&drawing).context("the drawing")?;
    ensure!(drawing.starts_with("<svg") && drawing.contains("\nread\n"), "the drawing is none:\n{drawing}");
    counted(&session, &["--sizes", "64", "--to", "2"], &[64])?;

    let server = Harness::spawn(session.program("ndkctl.exe"), &["perf", "--server", "--adapter", "2"])?;
    server.until(|line| line.contains("serving at").then_some(()))?;
    figures(&shown(&session, &["perf", ADDRESSES[1], "--sizes", "64"])?, &[64])?;
    drop(server);

    // The adapter goes while it serves.
    let server = Harness::spawn(session.program("ndkctl.exe"), &["perf", "--server"])?;
    server.until(|line| line.contains("serving at").then_some(()))?;
    session.remove_surprisingly()?;
    let (status, text) = server.end()?;
    ensure!(status.code() == Some(2), "the server on the adapter that has gone ended with {status}:\n{text}");

    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// A measurement, of which both adapters together count what it says that it has moved.
fn counted(session: &Session, arguments: &[&str], sizes: &[u64]) -> Result<()> {
    let both = || -> Result<[u64; 2]> {
        let stats = ["1", "2"].map(|adapter| shown(session, &["--adapter", adapter, "stats"]));
        let [first, second] = stats;
        let (first, second) = (first?, second?);
        Ok(["out_octets", "in_octets"].map(|name| octets(&first, name) + octets(&second, name)))
    };
    let before = both()?;
    let found = shown(session, &[&["perf"], arguments].concat())?;
    let after = both()?;
    let moved = found["moved_bytes"].as_u64().filter(|moved| *moved > 0).context("nothing was moved")?;
    ensure!([after[0] - before[0], after[1] - before[1]] == [moved; 2], "{before:?}, {after:?}: {found}");
    figures(&found, sizes)
}

fn figures(found: &Value, sizes: &[u64]) -> Result<()> {
    let rows = found["figures"].as_array().context("no figures")?;
    let names: Vec<_> = rows.iter().map(|row| (row["operation"].as_str(), row["bytes"].as_u64())).collect();
    let asked = ["send", "read", "write"]
        .map(|operation| sizes.iter().map(move |bytes| (Some(operation), Some(*bytes))).collect::<Vec<_>>());
    ensure!(names == asked.concat(), "figures of {names:?}");
    for row in rows {
        let counts = ["samples", "operations"].iter().all(|count| row[count].as_u64() > Some(0));
        ensure!(has_latency(&row["latency_us"]) && is_positive(&row["rate"]) && counts, "{row}");
        println!(
            "   {} of {} B from {} to {}: {} us, {:.0} in a second",
            row["operation"].as_str().unwrap_or_default(),
            row["bytes"],
            found["from"],
            found["to"],
            row["latency_us"]["median"],
            row["rate"].as_f64().unwrap_or_default()
        );
    }
    Ok(())
}

/// The driver of the package has no test consumer, and ndkctl says so.
pub(crate) fn is_refused(session: &Session) -> Result<()> {
    let refused = ndkctl(session, &["perf", "--sizes", "64"])?;
    let told = String::from_utf8_lossy(&refused.stderr).contains("cargo make test-consumer");
    ensure!(refused.status.code() == Some(2) && told, "figures without a test consumer: {refused:?}");
    Ok(())
}
