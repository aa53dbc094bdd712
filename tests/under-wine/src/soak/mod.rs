//! `cargo xtask soak`: random consumers for so many minutes, on the simulated kernel and, at the same time, on softndk.sys under Wine,
//! where they are killed, RDMA is turned off and on beneath them, and the driver is unloaded and loaded again.

mod figures;
mod simulated;
mod under_wine;
mod watch;

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, anyhow, ensure};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

use build::command::step;
use build::{dist, paths, setup};
use checks::tally::Tally;
use figures::{Figures, Table};

/// What is asked for.
#[derive(Args, Clone)]
pub struct Wanted {
    /// For how long; parts of a minute can be said, too
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// What is done comes from it; when, from the machine. One of the time's if none is given
    #[arg(long)]
    seed: Option<u64>,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Only this part
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Have a driver with planted faults break a rule before each unload: the soak has to fail
    #[arg(long, value_enum, hide = true)]
    planted: Option<Planted>,
}

/// Where the consumers are.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Simkernel,
    Wine,
}

/// What the driver with planted faults can be told to do.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Planted {
    Leak,
    Irql,
}

/// What both parts need to know.
struct Plan<'a> {
    seed: u64,
    end: Instant,
    planted: Option<Planted>,
    progress: &'a ProgressBar,
}

impl Plan<'_> {
    fn left(&self) -> Duration {
        self.end.saturating_duration_since(Instant::now())
    }
}

/// Builds, soaks, and prints the closing table, which target/report/soak.json has too. Fails if anything was found.
pub fn soak(wanted: &Wanted) -> Result<()> {
    setup::setup()?;
    if wanted.only != Some(Part::Simkernel) {
        dist::build()?;
    }
    if wanted.planted.is_some() {
        dist::build_test_driver()?;
    }
    let harness = if wanted.only == Some(Part::Wine) { None } else { Some(simulated::build()?) };
    let table = table(wanted, harness)?;
    let path = paths::root().join("target/report/soak.json");
    fs::create_dir_all(paths::root().join("target/report"))?;
    fs::write(path, format!("{:#}\n", table.as_json()))?;
    if wanted.json {
        println!("{:#}", table.as_json());
    } else {
        println!("{table}");
    }
    table.judge()
}

/// A soak of 12 seconds, or of ten minutes, as a test; what it needs is built.
pub(crate) fn short(full: bool, tally: &mut Tally) {
    let minutes = if full { 10.0 } else { 0.2 };
    let soaked = step("a short soak", || {
        let harness = Some(simulated::build_with_tests()?);
        let table = table(&Wanted { minutes, seed: None, json: false, only: None, planted: None }, harness)?;
        println!("{table}");
        table.judge()
    });
    // Shows S1208.
    tally.check("a short soak loses and leaves nothing", soaked);
}

/// The negative control: what the driver with planted faults does is found.
pub(crate) fn planted(tally: &mut Tally) {
    let found = step("soaking a driver that leaks", || finds(Planted::Leak, |total| total.leaked));
    // Shows S1208.
    tally.check("a soak finds a planted pool leak", found);
    let found = step("soaking a driver that breaks a rule", || finds(Planted::Irql, |total| total.violations));
    // Shows S1208.
    tally.check("a soak finds a planted IRQL violation", found);
}

fn finds(planted: Planted, column: impl Fn(&Figures) -> u64) -> Result<()> {
    let (only, planted) = (Some(Part::Wine), Some(planted));
    let table = table(&Wanted { minutes: 0.01, seed: Some(1), json: false, only, planted }, None)?;
    ensure!(column(&table.total()) > 0 && table.judge().is_err(), "not found:\n{table}");
    Ok(())
}

/// Soaks; what it needs of the driver is built. `harness`: for the simulated kernel; `None`: without that.
fn table(wanted: &Wanted, harness: Option<PathBuf>) -> Result<Table> {
    ensure!(wanted.minutes > 0.0 && wanted.minutes < 1e6, "{} minutes", wanted.minutes);
    let seed =
        wanted.seed.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_secs()));
    eprintln!("-- soaking for {} minutes; --seed {seed} plays the same", wanted.minutes);
    let duration = Duration::from_secs_f64(wanted.minutes * 60.0);
    let progress = ProgressBar::new(duration.as_secs());
    progress.set_style(ProgressStyle::with_template("{elapsed}/{len} s {wide_bar} {msg}")?);
    progress.enable_steady_tick(Duration::from_millis(500));
    let plan = Plan { seed, end: Instant::now() + duration, planted: wanted.planted, progress: &progress };
    let rows = std::thread::scope(|scope| {
        let simulated = scope.spawn(|| harness.as_deref().map_or(Ok(Vec::new()), |it| simulated::run(&plan, it)));
        let wine = match wanted.only {
            Some(Part::Simkernel) => Ok(Vec::new()),
            _ => under_wine::run(&plan),
        };
        let simulated = simulated.join().map_err(|_| anyhow!("a thread panicked"))?;
        Ok::<_, anyhow::Error>([simulated?, wine?].concat())
    });
    progress.finish_and_clear();
    Ok(Table { seed, minutes: wanted.minutes, rows: rows? })
}
