//! `cargo xtask bench` runs this program: a table for people, JSON for machines.

use std::{net::SocketAddr, path::PathBuf, time::Duration};

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use softndk_bench::{
    counted, crowd,
    figures::{Figure, table},
    idle, messages, plot, scale,
    two_processes::{self, Served},
    wake, wire, write,
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
    /// Only the groups whose names contain this: messages, write, write-captured, wake, threads, queue-pairs, tokens
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Measure connections over TCP between two devices instead: idle, connections, writes, round-trips, processes, shared (memory)
    #[arg(long)]
    wire: bool,
    /// Fail if a target is missed
    #[arg(long)]
    check: bool,
}

#[derive(Subcommand)]
enum Task {
    /// Draw latency and bandwidth by size, and messages by connections, beside their references, into this file, as SVG
    Plot {
        /// The file
        file: PathBuf,
    },
    /// Pass so many batches and measure nothing: for callgrind
    Count {
        /// Batches of 16 messages
        batches: usize,
    },
    /// Say how long a good client waits for a listener's answer at most, among peers that reset, say nothing or say little
    Crowd {
        /// So many of each
        #[arg(long, default_value_t = 1000)]
        peers: usize,
        /// A listener that answers whoever asks, such as that of `ndharness refuse`; one of this process if none is given
        #[arg(long, value_name = "ADDRESS:PORT")]
        at: Option<SocketAddr>,
        /// Fail if that is 50 ms or more
        #[arg(long)]
        check: bool,
    },
    /// Do the part of another process, for the program that started this
    Peer {
        #[command(subcommand)]
        part: Part,
    },
}

#[derive(Subcommand)]
enum Part {
    /// Take what is written
    Writes {
        /// By what
        served: Served,
        /// On this processor
        #[arg(long)]
        processor: Option<usize>,
        /// Pieces of a stream, or messages that are sent back, of this size
        #[arg(long)]
        size: Option<usize>,
    },
    /// Do what is asked, beside other connections
    Idle {
        /// The number of idle ones
        idle: usize,
        /// The number of those that take turns
        active: usize,
    },
}

type Group = fn(&ProgressBar) -> Result<Vec<Figure>>;

const GROUPS: [(&str, Group); 7] = [
    ("messages", |bar| Ok(messages::rate(bar))),
    ("write", |bar| Ok(write::throughput(bar))),
    ("write-captured", |bar| Ok(write::captured(bar))),
    ("wake", |bar| Ok(wake::latency(bar))),
    ("threads", |bar| Ok(messages::threads(bar))),
    ("queue-pairs", |bar| Ok(scale::queue_pairs(bar))),
    ("tokens", |bar| Ok(scale::tokens(bar))),
];

const WIRE: [(&str, Group); 6] = [
    ("idle", |bar| idle::idle(bar, &std::env::current_exe()?, 50, 1000)),
    ("connections", |bar| idle::connections(bar, &std::env::current_exe()?, 50, idle::most_connections(), 1000)),
    ("writes", |bar| two_processes::writes(bar, &std::env::current_exe()?, 100)),
    ("round-trips", |bar| wire::round_trips(bar, 50)),
    ("processes", |bar| two_processes::round_trips(bar, &std::env::current_exe()?, 50)),
    ("shared", |bar| two_processes::shared(bar, &std::env::current_exe()?, 50)),
];

fn progress(what: &'static str) -> Result<ProgressBar> {
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}").context("the progress style")?;
    Ok(ProgressBar::new_spinner().with_style(style).with_message(what))
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    match arguments.task {
        Some(Task::Count { batches }) => {
            counted::run(batches);
            return Ok(());
        }
        Some(Task::Plot { file }) => {
            let bar = progress("plot")?;
            let drawing = plot::svg(&bar, &std::env::current_exe()?, plot::ROUNDS, &plot::CONNECTIONS)?;
            bar.finish_and_clear();
            std::fs::write(&file, drawing).with_context(|| format!("cannot write {}", file.display()))?;
            return Ok(());
        }
        Some(Task::Crowd { peers, at, check }) => {
            let waits = at.map_or_else(|| crowd::waits(peers), |at| crowd::among(at, peers))?;
            for (kind, wait) in &waits {
                println!("among {peers} peers that {kind}: {:.1} ms", wait.as_secs_f64() * 1e3);
            }
            return if check { crowd::check(&waits) } else { Ok(()) };
        }
        Some(Task::Peer { part: Part::Writes { served, processor, size } }) => {
            return two_processes::serve(served, processor, size);
        }
        Some(Task::Peer { part: Part::Idle { idle, active } }) => return idle::serve(idle, active),
        None => {}
    }
    let mut figures = Vec::new();
    let groups: &[(&str, Group)] = if arguments.wire { &WIRE } else { &GROUPS };
    for (name, group) in groups.iter().filter(|(name, _)| name.contains(&arguments.only)) {
        let bar = progress(name)?;
        bar.enable_steady_tick(Duration::from_millis(500));
        figures.extend(group(&bar)?);
        bar.finish_and_clear();
    }
    let json = serde_json::to_string_pretty(&figures)? + "\n";
    if let Some(path) = &arguments.out {
        std::fs::write(path, &json).with_context(|| format!("cannot write {}", path.display()))?;
    }
    print!("{}", if arguments.json { json } else { table(&figures) + "\n" });
    ensure!(!arguments.check || figures.iter().all(Figure::is_met), "a target was missed");
    Ok(())
}
