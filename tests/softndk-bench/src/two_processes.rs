//! 1 MiB writes from one process to another, as from machine to machine, beside a TCP stream between two processes.
//!
//! Each end waits for what it needs and looks for nothing meanwhile, as the stream's do: two processors then have the two ends of what
//! is measured, and nobody else.

use std::{
    cell::RefCell,
    fs, io,
    net::{SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::ValueEnum;
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

use crate::{
    bell::Bell,
    figures::{Figure, Target},
    link::Side,
    ndk::{Adapter, Connector},
    peer::{Peer, tell},
    sample::{Cost, Round, compare, timed},
    tcp,
    wire::{Compared, address, figures},
};

const SIZE: usize = 1 << 20;
/// Places that are written in turn.
const TARGETS: usize = 4;
/// Writes, or pieces of the stream, until the other side says that it has them all.
const ROW: usize = 16;
/// Requests of a queue.
const DEPTH: usize = 2 * ROW;

/// What a process is the other end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Served {
    /// A TCP stream.
    Stream,
    /// A queue pair whose FPDUs have no CRCs.
    Plain,
    /// One whose FPDUs have.
    Checked,
    /// As plain, of programs: a write ends when it is placed.
    Program,
}

impl Served {
    fn adapter(self, last: u8) -> Adapter {
        match self {
            Self::Stream | Self::Plain => Adapter::at(address(last)),
            Self::Checked => Adapter::with_crc(address(last)),
            Self::Program => Adapter::of_program(address(last)),
        }
    }
}

/// What the other process tells: where it listens, and the memory that may be written.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Offer {
    listens: SocketAddr,
    memory: u64,
    token: u32,
}

/// The other end, until whoever started this process closes its input.
///
/// # Errors
/// The host's TCP's.
pub fn serve(served: Served) -> Result<()> {
    std::thread::spawn(|| {
        let _ended = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    match served {
        Served::Stream => {
            let listener = TcpListener::bind((address(2), 0))?;
            tell(&Offer { listens: listener.local_addr()?, memory: 0, token: 0 })?;
            Ok(tcp::serve_stream(&listener, SIZE, TARGETS, ROW)?)
        }
        Served::Plain | Served::Checked | Served::Program => serve_writes(&served.adapter(2)),
    }
}

fn serve_writes(adapter: &Adapter) -> Result<()> {
    let bell = Bell::new();
    let listener = adapter.listener();
    let side = Side::with_receive_cq(adapter, DEPTH, TARGETS * SIZE, &bell.cq(adapter, DEPTH));
    tell(&Offer { listens: listener.address(), memory: side.buffer.address(0), token: side.buffer.token })?;
    side.qp.receive(0, &side.buffer.message(0));
    let _connector = listener.accept(&side.qp);
    loop {
        bell.take(&side.receive_cq, 1);
        side.qp.receive(0, &side.buffer.message(0));
        side.qp.send(0, &side.buffer.message(1), 0);
        side.initiator_cq.take(1, |_| ());
    }
}

/// The process of the other end.
struct Other {
    peer: Peer,
    offer: Offer,
}

impl Other {
    fn start(program: &Path, served: Served) -> Result<Self> {
        let name = served.to_possible_value().context("no name for that")?;
        let mut peer = Peer::start(program, &["writes", name.get_name()])?;
        let offer = peer.heard()?;
        Ok(Self { peer, offer })
    }

    /// What both processes have spent.
    fn cpu_time(&self) -> Duration {
        cpu_time(std::process::id()) + cpu_time(self.peer.id())
    }
}

/// Time that the threads of a process have run; nothing if that is not told.
fn cpu_time(process: u32) -> Duration {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let times = threads.filter_map(|thread| {
        let times = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        times.split(' ').next()?.parse::<u64>().ok()
    });
    Duration::from_nanos(times.sum())
}

/// The end that writes. The connection ends first.
struct Writer {
    _connector: Connector,
    side: Side,
    bell: &'static Bell,
    other: Other,
    _adapter: Adapter,
}

impl Writer {
    fn new(program: &Path, served: Served) -> Result<Self> {
        let other = Other::start(program, served)?;
        let bell = Bell::new();
        let adapter = served.adapter(1);
        let side = Side::with_receive_cq(&adapter, DEPTH, SIZE, &bell.cq(&adapter, DEPTH));
        let _connector = adapter.connect_to(other.offer.listens, &side.qp);
        Ok(Self { _connector, side, bell, other, _adapter: adapter })
    }

    /// Writes `rows` rows; each ends with a message, since what was written before one is there when it is, and with its answer.
    fn pass(&self, rows: usize) -> u64 {
        let Self { side, bell, other: Other { offer, .. }, .. } = self;
        for _ in 0..rows {
            side.qp.receive(0, &side.buffer.message(1));
            for index in 0..ROW {
                let target = offer.memory + (index % TARGETS * SIZE) as u64;
                side.qp.write(index, &side.buffer.sge(0, SIZE), target, offer.token);
            }
            side.qp.send(ROW, &side.buffer.message(0), 0);
            bell.take(&side.receive_cq, 1);
            side.initiator_cq.take(ROW + 1, |_| ());
        }
        0
    }
}

/// Notes what each round costs in processor time, in nanoseconds of an operation.
fn counted<'a>(mut round: Round<'a>, other: &'a Other, spent: &'a RefCell<Vec<f64>>) -> Round<'a> {
    Box::new(move |operations| {
        let before = other.cpu_time();
        let time = round(operations);
        let spent_now = other.cpu_time().saturating_sub(before);
        spent.borrow_mut().push(spent_now.as_secs_f64() * 1e9 / operations as f64);
        time
    })
}

/// 1 MiB writes, without CRC and with, and of programs, beside a stream of pieces as large; the other ends are processes of `program`, which is the one of
/// this crate.
///
/// # Errors
/// The host's TCP's, or of the other processes.
pub fn writes(bar: &ProgressBar, program: &Path, rounds: usize) -> Result<Vec<Figure>> {
    let [plain, checked] = [Writer::new(program, Served::Plain)?, Writer::new(program, Served::Checked)?];
    let confirmed = Writer::new(program, Served::Program)?;
    let reader = Other::start(program, Served::Stream)?;
    let mut stream = tcp::Stream::new(reader.offer.listens, SIZE, ROW).context("no stream")?;
    let tcp = |rows| stream.pass(rows).map_or_else(|error| panic!("the stream broke: {error}"), |()| 0);
    let spent: [RefCell<Vec<f64>>; 4] = Default::default();
    let mut contenders = [
        (1, counted(timed(|rows| plain.pass(rows)), &plain.other, &spent[0])),
        (1, counted(timed(|rows| checked.pass(rows)), &checked.other, &spent[1])),
        (1, counted(timed(|rows| confirmed.pass(rows)), &confirmed.other, &spent[2])),
        (1, counted(timed(tcp), &reader, &spent[3])),
    ];
    let costs = compare(bar, rounds, &mut contenders);
    drop(contenders);
    // The first round does not count.
    let spent = spent.map(|spent| Cost::of(spent.into_inner().split_off(1)));
    let [without, with] = [0.8, 0.6].map(|least| Some(Target::AtLeast(least)));
    let all = [
        ("1 MiB write without CRC", 0, without),
        ("1 MiB write with CRC", 1, with),
        ("1 MiB write of programs", 2, None),
    ];
    let all = all.map(|(name, ours, target)| {
        let times = figures(name, "TCP stream", [costs[ours], costs[3]], ROW, Compared::Rate, target);
        let name = format!("{name}, processors");
        let processors = figures(&name, "TCP stream", [spent[ours], spent[3]], ROW, Compared::Time, None);
        times.into_iter().chain(processors)
    });
    Ok(all.into_iter().flatten().collect())
}
