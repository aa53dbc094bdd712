//! What many connections cost, on which nothing happens, or something in turn: processes that have none of them, and processes that have many,
//! take turns.
//!
//! A process keeps what it has: connections made and closed for each round would leave the host's TCP with thousands that wait for their
//! end, and work of its own that comes and goes while others are measured.

use std::{
    cell::RefCell,
    fs,
    io::{self, BufRead},
    net::{TcpListener, TcpStream},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::{
    bell::Bell,
    figures::{Figure, Target},
    link::Link,
    memory::Message,
    ndk::{Adapter, Connector, Cq, Pd, Qp, QpSizes},
    peer::{Peer, tell},
    sample::{Round, compare},
    wire::{Compared, Machines, address, figures, trips},
};

const SIZE: usize = 1 << 20;
/// Places that are written in turn.
const TARGETS: usize = 4;
/// Writes until the other side has them all.
const ROW: usize = 16;
/// Round trips in a round.
const TRIPS: usize = 500;
/// Rows in a round.
const ROWS: usize = 4;
/// What may be spent on an idle connection, in KiB.
const LIMIT: f64 = 16.0;
/// Plain connections that are made, as a reference.
const PLAIN: usize = 1000;

/// Writes `rows` rows; each ends with a message, since what was written before one is there when it is.
fn write(link: &Link, bell: &Bell, rows: usize) -> u64 {
    let (from, to) = (&link.sender, &link.receiver);
    for _ in 0..rows {
        to.qp.receive(0, &to.buffer.message(0));
        for index in 0..ROW {
            let target = to.buffer.address(index % TARGETS * SIZE);
            from.qp.write(index, &from.buffer.sge(0, SIZE), target, to.buffer.token, 0);
        }
        from.qp.send(ROW, &from.buffer.message(0), 0);
        bell.take(&to.receive_cq, 1);
        from.initiator_cq.take(ROW + 1, |_| ());
    }
    0
}

/// Connections on which nothing happens; they share a domain and a queue on each side.
struct Idle {
    _connectors: Vec<[Connector; 2]>,
    _pairs: Vec<[Qp; 2]>,
    _cqs: [Cq; 2],
    _pds: [Pd; 2],
}

impl Idle {
    fn new(machines: &Machines, count: usize) -> Self {
        let Machines { from, to, listener } = machines;
        let (pds, cqs) = ([from.pd(), to.pd()], [from.cq(16), to.cq(16)]);
        let sizes = QpSizes { depth: 16, sges: 1, inline_data: 0 };
        let pairs: Vec<_> = (0..count).map(|_| [0, 1].map(|at| pds[at].qp(&cqs[at], &cqs[at], 0, sizes))).collect();
        let connect = |[active, passive]: &[Qp; 2]| from.connect(listener, active, passive);
        let connectors = pairs.iter().map(connect).collect();
        Self { _connectors: connectors, _pairs: pairs, _cqs: cqs, _pds: pds }
    }
}

/// Memory of the process in KiB: pages that it has touched.
fn resident() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("no status of this process")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

/// The connections of a process, besides the first.
#[derive(Clone, Copy)]
struct Many {
    /// Nothing happens on them.
    idle: usize,
    /// Round trips take turns.
    active: usize,
}

impl Many {
    const NONE: Self = Self { idle: 0, active: 0 };
}

/// What it took to make them.
#[derive(Serialize, Deserialize)]
struct Made {
    /// KiB of memory for all idle ones.
    grown: f64,
    /// The time for one idle one.
    each: Duration,
    /// The time for a plain one of TCP.
    plain: Duration,
}

/// The time for one connection of the host's TCP, by a thread that connects and accepts.
fn plain() -> io::Result<Duration> {
    let listener = TcpListener::bind((address(2), 0))?;
    let to = listener.local_addr()?;
    let start = Instant::now();
    let pairs = (0..PLAIN).map(|_| Ok((TcpStream::connect(to)?, listener.accept()?.0)));
    let _pairs = pairs.collect::<io::Result<Vec<_>>>()?;
    Ok(start.elapsed() / PLAIN as u32)
}

/// What a process is asked to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum Work {
    /// Round trips of 64 B, on the first connection.
    Trips(usize),
    /// Round trips of 64 B, on the active ones in turn.
    Turns(usize),
    /// Rows of 1 MiB writes.
    Rows(usize),
}

/// Makes a connection, `active` ones that take turns, and `idle` ones; tells what the idle ones took; then does what the process that started
/// this one asks, until that closes the input. Each answer is how long the work took.
///
/// # Errors
/// None of the device: those of reading the process's memory, of plain connections, and of talking to the other one.
pub fn serve(idle: usize, active: usize) -> Result<()> {
    let machines = Machines::new(Adapter::at);
    let bell = Bell::new();
    let link = machines.link(bell, TARGETS * SIZE);
    let actives: Vec<_> = (0..active).map(|_| machines.link(bell, 2 * size_of::<Message>())).collect();
    let perform = |work| match work {
        Work::Trips(count) => trips(&link, count, |_| ()),
        Work::Turns(count) => actives.iter().cycle().take(count).map(|link| trips(link, 1, |_| ())).sum(),
        Work::Rows(rows) => write(&link, bell, rows),
    };
    for first in [Work::Trips(TRIPS), Work::Turns(active), Work::Rows(1)] {
        perform(first);
    }
    let plain = plain()?;
    let (before, start) = (resident()?, Instant::now());
    let _idle = Idle::new(&machines, idle);
    let each = start.elapsed() / idle.max(1) as u32;
    tell(&Made { grown: resident()? - before, each, plain })?;
    for line in io::stdin().lock().lines() {
        let work = serde_json::from_str(&line?).context("asked for something else")?;
        // What others have taken out of the processor's caches meanwhile is not what is measured.
        perform(work);
        let start = Instant::now();
        perform(work);
        tell(&start.elapsed())?;
    }
    Ok(())
}

/// A process with these connections.
fn start(program: &Path, many: Many) -> Result<(RefCell<Peer>, Made)> {
    let mut peer = Peer::start(program, &["idle", &many.idle.to_string(), &many.active.to_string()])?;
    let made = peer.heard()?;
    Ok((RefCell::new(peer), made))
}

/// A process that does the same again and again.
fn contender(peer: &RefCell<Peer>, work: fn(usize) -> Work) -> Round<'_> {
    Box::new(move |count| {
        let mut peer = peer.borrow_mut();
        let answer = peer.say(&work(count)).and_then(|()| peer.heard());
        answer.unwrap_or_else(|error| panic!("a process broke: {error:#}"))
    })
}

/// What `count` idle connections cost the active one, and their memory. The processes are of `program`, which is the one of this crate.
///
/// # Errors
/// Those of the processes.
pub fn idle(bar: &ProgressBar, program: &Path, rounds: usize, count: usize) -> Result<Vec<Figure>> {
    let (alone, _) = start(program, Many::NONE)?;
    let (among_idle, Made { grown, .. }) = start(program, Many { idle: count, active: 0 })?;
    let contenders: &mut [(usize, Round<'_>)] = &mut [
        (TRIPS, contender(&alone, Work::Trips)),
        (TRIPS, contender(&among_idle, Work::Trips)),
        (ROWS, contender(&alone, Work::Rows)),
        (ROWS, contender(&among_idle, Work::Rows)),
    ];
    let costs = compare(bar, rounds, contenders);
    let target = Some(Target::AtMost(1.1));
    let name = |what: &str| format!("{what} beside {count} idle connections");
    let trip = figures(&name("64 B round trip"), "alone", [costs[1], costs[0]], 1, Compared::Time, target);
    let write = figures(&name("1 MiB write"), "alone", [costs[3], costs[2]], ROW, Compared::Time, target);
    // Each connection has two ends, both of that process.
    let each = grown / (2 * count) as f64;
    let memory = Figure {
        name: "resident memory of an end of an idle connection".to_owned(),
        unit: "KiB",
        value: each,
        reference: "what it may be".to_owned(),
        reference_value: LIMIT,
        compared: "of it",
        ratio: each / LIMIT,
        target: Some(Target::AtMost(1.0)),
    };
    Ok(trip.into_iter().chain(write).chain([memory]).collect())
}

/// What a message costs where `count` connections are, `active` of which have one in turn, and what it costs to make a connection. The
/// processes are of `program`, which is the one of this crate.
///
/// # Errors
/// Those of the processes.
pub fn connections(
    bar: &ProgressBar,
    program: &Path,
    rounds: usize,
    count: usize,
    active: usize,
) -> Result<Vec<Figure>> {
    let (alone, _) = start(program, Many::NONE)?;
    let (many, Made { each, plain, .. }) = start(program, Many { idle: count - active, active })?;
    let contenders: &mut [(usize, Round<'_>)] =
        &mut [(TRIPS, contender(&alone, Work::Trips)), (TRIPS, contender(&many, Work::Turns))];
    let costs = compare(bar, rounds, contenders);
    let name = format!("64 B round trip on {active} of {count} connections in turn");
    let trip = figures(&name, "on the only one", [costs[1], costs[0]], 1, Compared::Time, None);
    let [each, plain] = [each, plain].map(|time| time.as_nanos() as f64);
    let made = Figure {
        name: format!("a connection, {count} made in a row"),
        unit: "ns",
        value: each,
        reference: "TCP connect and accept".to_owned(),
        reference_value: plain,
        compared: "times its time",
        ratio: each / plain,
        target: None,
    };
    Ok(trip.into_iter().chain([made]).collect())
}

/// As many connections, both of whose ends are of one process, as it may have files for; 10,000 at most.
#[must_use]
pub fn most_connections() -> usize {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limit = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    let files: usize = limit.and_then(|limit| limit.parse().ok()).unwrap_or(10_000);
    (files.saturating_sub(2 * PLAIN + 100) / 2).clamp(1, 10_000)
}
