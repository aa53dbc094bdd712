//! Instructions of one post and of one poll, counted by callgrind: unlike seconds they are the same on every run, so that a
//! regression can be seen. The budget is tests/softndk-bench/instructions.json.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use build::paths;

/// Batches that are counted; each is 16 messages.
const BATCHES: u64 = 512;
/// What is counted: its name, the function of the benchmarks (`counted`) that does it, and how many it does in a batch.
const COUNTED: [(&str, &str, u64); 4] = [
    ("post_receive", "softndk_bench::counted::receive", 16),
    ("post_send_deferred", "softndk_bench::counted::deferred_send", 15),
    ("carry_out_a_message", "softndk_bench::counted::last_send", 16),
    ("poll_a_result", "softndk_bench::counted::poll", 32),
];
/// Compilers and C libraries differ a little.
const TOLERANCE: f64 = 1.10;

/// Instructions by name.
pub(crate) type Counts = BTreeMap<String, f64>;

/// Counts with the program of the benchmarks.
pub(crate) fn count(program: &Path) -> Result<Counts> {
    COUNTED
        .iter()
        .map(|(name, function, operations)| Ok(((*name).to_owned(), one(program, function, *operations)?)))
        .collect()
}

fn one(program: &Path, function: &str, operations: u64) -> Result<f64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]);
    valgrind.arg(format!("--toggle-collect={function}")).arg(program).args(["count", &BATCHES.to_string()]);
    let result = valgrind.output().context("valgrind does not start; `cargo xtask setup` installs it")?;
    let log = String::from_utf8_lossy(&result.stderr);
    if !result.status.success() {
        bail!("counting {function} ended with {}:\n{log}", result.status);
    }
    let collected = log.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse::<u64>().ok());
    match collected {
        Some(instructions) if instructions > 0 => Ok(instructions as f64 / (BATCHES * operations) as f64),
        _ => bail!("callgrind counted nothing in {function}:\n{log}"),
    }
}

/// Lines for people.
pub(crate) fn table(counts: &Counts) -> String {
    let lines = counts.iter().map(|(name, instructions)| format!("{name:20}  {instructions:>8.1} instructions"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Fails if anything takes more instructions than its budget.
pub fn check(program: &Path) -> Result<()> {
    let path = paths::root().join("tests/softndk-bench/instructions.json");
    let text = std::fs::read_to_string(&path).with_context(|| format!("no budget: {}", path.display()))?;
    let budget: Counts = serde_json::from_str(&text)?;
    let counts = count(program)?;
    println!("{}", table(&counts));
    let beyond = beyond(&counts, &budget);
    if beyond.is_empty() { Ok(()) } else { bail!("more instructions than {}: {}", path.display(), beyond.join(", ")) }
}

/// What is over its budget, or has none.
fn beyond(counts: &Counts, budget: &Counts) -> Vec<String> {
    let is_beyond =
        |(name, count): &(&String, &f64)| budget.get(*name).is_none_or(|budget| **count > budget * TOLERANCE);
    let line = |(name, count): (&String, &f64)| match budget.get(name) {
        Some(budget) => format!("{name} takes {count:.1}, not {budget:.1}"),
        None => format!("{name} takes {count:.1} and has no budget"),
    };
    counts.iter().filter(is_beyond).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::{Counts, beyond};

    fn counts(values: &[(&str, f64)]) -> Counts {
        values.iter().map(|&(name, value)| (name.to_owned(), value)).collect()
    }

    #[test]
    fn more_than_the_tolerance_is_beyond_the_budget() {
        let budget = counts(&[("post", 100.0), ("poll", 50.0)]);
        assert!(beyond(&counts(&[("post", 109.0), ("poll", 20.0)]), &budget).is_empty());
        assert_eq!(beyond(&counts(&[("post", 111.0), ("poll", 50.0)]), &budget), ["post takes 111.0, not 100.0"]);
        assert_eq!(beyond(&counts(&[("other", 1.0)]), &budget).len(), 1);
    }
}
