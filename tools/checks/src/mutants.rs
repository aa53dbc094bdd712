//! `cargo xtask mutants`: cargo-mutants changes one place of a driver crate at a time, and a test has to fail.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use build::command::{cargo, output, step};
use build::paths;
use clap::Args;
use serde_json::json;

/// A crate, and the packages whose tests judge what its own tests have not noticed.
const CRATES: [(&str, &[&str]); 8] = [
    ("fault-rules", &["soft-rdma"]),
    ("nd-rings", &["nd-ioctl"]),
    ("vxlan", &[]),
    ("task-offload", &[]),
    ("iwarp", &["soft-rdma", "peer"]),
    ("platform", &["soft-rdma", "ndk-provider", "peer"]),
    ("soft-rdma", &["ndk-provider", "peer", "nd-ioctl", "model", "conformance"]),
    ("nd-ioctl", &["hostile", "conformance"]),
];

/// The status of cargo-mutants when mutants were missed, and when tests timed out: both are in its files.
const MISSED: i32 = 2;
const TIMED_OUT: i32 = 3;

/// Seconds that the tests of all judges have for a mutant: cargo-mutants would give them five times what the crate's own tests take.
const JUDGES_LIMIT: &str = "1200";

/// Which mutants to try, and how they are told.
#[derive(Args)]
pub struct Wanted {
    /// Only this crate: fault-rules, nd-rings, vxlan, task-offload, iwarp, platform, soft-rdma or nd-ioctl
    package: Option<String>,
    /// Only a part, K of N from 0: `3/8`
    #[arg(long, value_name = "K/N")]
    shard: Option<String>,
    /// Only in lines that have changed since this commit
    #[arg(long, value_name = "COMMIT")]
    since: Option<String>,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

impl Wanted {
    /// The options of cargo-mutants for the part of a crate that is asked for.
    fn part(&self) -> Result<Vec<String>> {
        let mut part: Vec<_> = self.shard.iter().map(|shard| format!("--shard={shard}")).collect();
        if let Some(since) = &self.since {
            let changed = output(Command::new("git").args(["diff", since, "--", "driver"]).current_dir(paths::root()))?;
            ensure!(!changed.is_empty(), "nothing in driver/ has changed since {since}");
            let file = paths::root().join("target/mutants/since.diff");
            fs::create_dir_all(paths::root().join("target/mutants"))?;
            fs::write(&file, changed)?;
            part.push(format!("--in-diff={}", file.display()));
        }
        Ok(part)
    }
}

/// What became of the mutants of a crate.
#[derive(Default)]
struct Row {
    package: &'static str,
    tried: usize,
    /// They do not compile.
    unviable: usize,
    /// Tests ran into their time limit, which notices them.
    timed_out: usize,
    /// Left out by .cargo/mutants.toml, which says why.
    equivalent: usize,
    missed: Vec<String>,
}

impl Row {
    fn caught(&self) -> usize {
        self.tried.saturating_sub(self.unviable + self.timed_out + self.missed.len())
    }
}

/// Prints a table, and fails if a mutant was missed.
pub fn mutants(wanted: &Wanted) -> Result<()> {
    let installed = Command::new("cargo-mutants").args(["mutants", "--version"]).output();
    ensure!(installed.is_ok(), "cargo-mutants is not there: `cargo install --locked cargo-mutants`");
    let chosen: Vec<_> =
        CRATES.iter().filter(|(package, _)| wanted.package.as_deref().is_none_or(|name| name == *package)).collect();
    ensure!(!chosen.is_empty(), "{:?} is none of the crates; see --help", wanted.package);
    let part = wanted.part()?;
    let rows = chosen.into_iter().map(|(package, judges)| examine(package, judges, &part));
    let rows = rows.collect::<Result<Vec<_>>>()?;
    if wanted.json {
        println!("{:#}", rows.iter().map(as_json).collect::<serde_json::Value>());
    } else {
        print(&rows);
    }
    let missed: usize = rows.iter().map(|row| row.missed.len()).sum();
    ensure!(missed == 0, "{missed} mutants were noticed by no test");
    Ok(())
}

/// Its own tests judge first, as they build fastest; the tests of `judges` see only what those missed.
fn examine(package: &'static str, judges: &[&str], part: &[String]) -> Result<Row> {
    let folder = paths::root().join("target/mutants").join(package);
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let tried = list(package, part, false)?;
    let equivalent = list(package, part, true)?.saturating_sub(tried);
    if tried == 0 {
        return Ok(Row { package, equivalent, ..Row::default() });
    }
    step(&format!("{tried} mutants of {package}, by its own tests"), || run(package, &[package], part, &folder, &[]))?;
    let mut unviable = lines(&folder, "unviable")?.len();
    let mut timed_out = lines(&folder, "timeout")?.len();
    if !judges.is_empty() && !lines(&folder, "missed")?.is_empty() {
        let left = lines(&folder, "missed")?.len();
        let tests = [&[package], judges].concat();
        let limit = ["--baseline", "skip", "--timeout", JUDGES_LIMIT];
        step(&format!("{left} of them, by the tests of {}", judges.join(", ")), || {
            run(package, &tests, part, &folder, &limit)
        })?;
        unviable += lines(&folder, "unviable")?.len();
        timed_out = lines(&folder, "timeout")?.len();
    }
    let missed = lines(&folder, "missed")?;
    Ok(Row { package, tried, unviable, timed_out, equivalent, missed })
}

fn run(package: &str, tests: &[&str], part: &[String], folder: &Path, limit: &[&str]) -> Result<()> {
    let mut command = command(package, part);
    command.args(limit);
    command.args(["--no-shuffle", "--iterate", "--output"]).arg(folder);
    command.args(tests.iter().flat_map(|test| ["--test-package", test]));
    fs::create_dir_all(folder)?;
    let status = command.status().context("cannot start cargo mutants")?;
    ensure!(
        status.success() || status.code().is_some_and(|code| [MISSED, TIMED_OUT].contains(&code)),
        "cargo mutants ended with {status}"
    );
    Ok(())
}

/// How many there are, with those that are equivalent or without.
fn list(package: &str, part: &[String], with_equivalent: bool) -> Result<usize> {
    let mut command = command(package, part);
    command.arg("--list").args(with_equivalent.then_some("--no-config"));
    Ok(output(&mut command)?.lines().count())
}

fn command(package: &str, part: &[String]) -> Command {
    let mut command = cargo(&paths::root());
    command.args(["mutants", "--package", package]).args(part);
    command
}

/// The mutants that cargo-mutants has put into one of its lists.
fn lines(folder: &Path, name: &str) -> Result<Vec<String>> {
    let path = folder.join("mutants.out").join(format!("{name}.txt"));
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn as_json(row: &Row) -> serde_json::Value {
    json!({
        "package": row.package,
        "tried": row.tried,
        "caught": row.caught(),
        "timed_out": row.timed_out,
        "unviable": row.unviable,
        "equivalent": row.equivalent,
        "missed": row.missed,
    })
}

fn print(rows: &[Row]) {
    println!("package       tried   caught  timed out  unviable  equivalent   missed");
    for row in rows {
        let Row { package, tried, timed_out, unviable, equivalent, missed } = row;
        let (caught, missed) = (row.caught(), missed.len());
        println!("{package:12}  {tried:5}  {caught:7}  {timed_out:9}  {unviable:8}  {equivalent:10}  {missed:7}");
    }
    rows.iter().flat_map(|row| &row.missed).for_each(|missed| println!("missed: {missed}"));
}
