//! `cargo xtask bench` runs this program: a table for people, JSON for machines.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use softndk_bench::{
    counted,
    figures::{Figure, table},
    messages, scale, wake, write,
};

#[derive(Parser)]
#[command(about = "What the SoftNDK device costs, each figure beside a reference from the same run")]
struct Arguments {
    #[command(subcommand)]
    task: Option<Task>,
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Write the JSON to this file too
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Only the groups whose names contain this: messages, write, wake, threads, queue-pairs, tokens
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
}

#[derive(Subcommand)]
enum Task {
    /// Pass so many batches and measure nothing: for callgrind
    Count {
        /// Batches of 16 messages
        batches: usize,
    },
}

type Group = fn(&ProgressBar) -> Vec<Figure>;

const GROUPS: [(&str, Group); 6] = [
    ("messages", messages::rate),
    ("write", write::throughput),
    ("wake", wake::latency),
    ("threads", messages::threads),
    ("queue-pairs", scale::queue_pairs),
    ("tokens", scale::tokens),
];

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(Task::Count { batches }) = arguments.task {
        counted::run(batches);
        return Ok(());
    }
    let mut figures = Vec::new();
    for (name, group) in GROUPS.iter().filter(|(name, _)| name.contains(&arguments.only)) {
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}").context("the progress style")?;
        let bar = ProgressBar::new_spinner().with_style(style).with_message(*name);
        bar.enable_steady_tick(Duration::from_millis(500));
        figures.extend(group(&bar));
        bar.finish_and_clear();
    }
    let json = serde_json::to_string_pretty(&figures)? + "\n";
    if let Some(path) = &arguments.out {
        std::fs::write(path, &json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    print!("{}", if arguments.json { json } else { table(&figures) + "\n" });
    Ok(())
}
