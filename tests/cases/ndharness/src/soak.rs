//! Random lives of consumers until it is time: for `cargo xtask soak`, which looks on, kills it, and turns RDMA off beneath it.

use std::{
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use conformance::soak::{Figures, Record, simulated};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::front_end::FrontEnd;

/// How often it says what it has done.
const INTERVAL: Duration = Duration::from_millis(100);

/// What is asked for.
#[derive(Args)]
pub(crate) struct Options {
    /// Where the device is: sim or ioctl.
    #[arg(long, value_enum, default_value_t = FrontEnd::Sim)]
    front_end: FrontEnd,
    /// For how long.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// What is done comes from it; when, from the machine.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Consumers at a time, on a driver.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=16))]
    threads: u64,
    /// RDMA may be turned off meanwhile.
    #[arg(long)]
    removable: bool,
    /// Seconds to wait for anything that should happen before it is lost.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    patience: u64,
    /// Print a line of JSON ten times a second, and the last one, which says that it is, at the end.
    #[arg(long)]
    json: bool,
}

/// Fails if anything was found.
pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let (record, is_over) = (Record::default(), AtomicBool::new(false));
    let end = Instant::now() + Duration::from_secs(options.seconds);
    let progress = progress(options)?;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let figures = record.figures();
                if options.json {
                    println!("{}", as_json(&figures, false));
                }
                progress.set_message(format!("{} operations, {} connections", figures.operations, figures.connects));
                progress.set_position(options.seconds.saturating_sub((end - Instant::now()).as_secs()));
                thread::sleep(INTERVAL);
            }
        });
        let lived = live(options, end, &record);
        is_over.store(true, Ordering::Relaxed);
        lived
    })?;
    progress.finish_and_clear();
    let figures = record.figures();
    if options.json {
        println!("{}", as_json(&figures, true));
    } else {
        println!("{}", as_text(&figures));
    }
    Ok(if figures.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn live(options: &Options, end: Instant, record: &Record) -> anyhow::Result<()> {
    let patience = Duration::from_secs(options.patience);
    match options.front_end {
        FrontEnd::Sim => {
            (0..).map(|round| options.seed.wrapping_add(round)).take_while(|_| Instant::now() < end).for_each(|seed| {
                simulated(seed, end, patience, record);
            });
            Ok(())
        }
        #[cfg(windows)]
        FrontEnd::Ioctl => {
            use conformance::soak::{Trouble, Until, lives};
            let trouble = if options.removable { Trouble::Removal } else { Trouble::Nothing };
            let until = Until { end, lives: u64::MAX, patience };
            lives(&crate::ioctl::Device::new(), None, (options.seed, options.threads), trouble, until, record);
            Ok(())
        }
        #[cfg(not(windows))]
        FrontEnd::Ioctl => options.front_end.transport().map(drop),
        FrontEnd::Nd1 | FrontEnd::Nd2 => anyhow::bail!("this is about the IOCTLs: --front-end sim or ioctl"),
    }
}

fn progress(options: &Options) -> anyhow::Result<ProgressBar> {
    let progress = ProgressBar::new(options.seconds);
    progress.set_style(ProgressStyle::with_template("{pos}/{len} s {wide_bar} {msg}")?);
    Ok(progress)
}

fn as_json(figures: &Figures, is_last: bool) -> Value {
    let Figures { findings, .. } = figures;
    let mut value = json!({ "last": is_last, "findings": findings });
    for (name, count) in counts(figures) {
        value[name] = count.into();
    }
    value
}

fn as_text(figures: &Figures) -> String {
    let counts = counts(figures).into_iter().map(|(name, count)| format!("{name:11} {count}"));
    counts.chain(figures.findings.iter().cloned()).collect::<Vec<_>>().join("\n")
}

fn counts(figures: &Figures) -> [(&'static str, u64); 13] {
    [
        ("operations", figures.operations),
        ("connects", figures.connects),
        ("posted", figures.posted),
        ("completed", figures.completed),
        ("forgone", figures.forgone),
        ("resizes", figures.resizes),
        ("kills", figures.kills),
        ("faults", figures.faults),
        ("disturbed", figures.disturbed),
        ("lost", figures.lost),
        ("leaked", figures.leaked),
        ("violations", figures.violations),
        ("wrong", figures.wrong),
    ]
}
