//! The test of `ndharness perf`: that there is each figure. How large they are is not tested, but printed.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::run;
use crate::session::{self, Session};

const LIMIT: Duration = Duration::from_secs(300);

/// A short run, over everything but the sizes.
pub(crate) fn measures() -> Result<()> {
    const DRAWING: &str = "perf.svg";
    let mut session = Session::start(&session::addresses(&[])?)?;
    let drawing = session.file(DRAWING);
    let _ = fs::remove_file(&drawing);
    session.load()?;
    let command = ["perf", "--sizes", "64,1MiB", "--json", "--plot", DRAWING];
    let report = run::report_of(&session, &command, LIMIT)?;
    let left = session.unload()?;
    ensure!(left.is_clean(), "left behind: {left}");
    figures(&report).with_context(|| report.to_string())?;
    let drawing = fs::read_to_string(&drawing).context("the drawing")?;
    let whole = drawing.starts_with("<svg") && drawing.trim_end().ends_with("</svg>");
    ensure!(whole && drawing.contains("read, rings"), "the drawing is none:\n{drawing}");
    for ratio in report["ratios"].as_array().into_iter().flatten() {
        println!("   {} B {}: {} times {}", ratio["bytes"], ratio["operation"], ratio["ratio"], ratio["reference"]);
    }
    Ok(())
}

fn figures(report: &Value) -> Result<()> {
    let rows = report["figures"].as_array().context("no figures")?;
    let found: Vec<_> = rows.iter().map(|row| (row["operation"].as_str(), row["bytes"].as_u64())).collect();
    let asked = ["send", "read", "write"].map(|operation| [64, 1 << 20].map(|bytes| (Some(operation), Some(bytes))));
    ensure!(found == asked.concat(), "figures of {found:?}");
    ensure!(is_positive(&report["hand_over_us"]), "no reference for latencies");
    for row in rows {
        ensure!(is_positive(&row["memcpy_rate"]), "no reference for bandwidths: {row}");
        for path in ["rings", "plain"] {
            let figures = &row[path];
            ensure!(has_latency(&figures["latency_us"]), "{path}: latencies of {row}");
            ensure!(is_positive(&figures["rate"]) && figures["calls"].is_number(), "{path}: rate and calls of {row}");
        }
        // Each of these posts is a call.
        ensure!(row["plain"]["calls"].as_f64() >= Some(1.0), "calls of {row}");
    }
    ensure!(report["ratios"].as_array().is_some_and(|ratios| ratios.len() == 2), "no ratios");
    Ok(())
}

/// Whether it is a figure.
pub(crate) fn is_positive(value: &Value) -> bool {
    value.as_f64().is_some_and(|value| value.is_finite() && value > 0.0)
}

/// Whether it has figures of latencies that can be.
pub(crate) fn has_latency(figures: &Value) -> bool {
    let order = ["min", "median", "p99"].map(|name| figures[name].as_f64().unwrap_or(0.0));
    is_positive(&figures["min"]) && order.is_sorted()
}
