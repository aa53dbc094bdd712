//! 1 MiB writes and round trips of 64 B between two processes, as between machines, beside TCP between two processes.
//!
//! Each end waits for what it needs and looks for nothing meanwhile, as the stream's do: two processors then have the two ends of what
//! is measured, and nobody else.

use std::{
    cell::RefCell,
    fs, io,
    net::{SocketAddr, TcpListener},
    panic::resume_unwind,
    path::Path,
    thread,
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
    memory::Message,
    ndk::{Adapter, Connector},
    peer::{Peer, tell},
    sample::{Cost, Round, compare, pin, timed},
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
/// Round trips in a round.
const TRIPS: usize = 500;

/// What a process is the other end of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Served {
    /// A TCP stream.
    Stream,
    /// TCP that sends each message back.
    Echo,
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
            Self::Stream | Self::Echo | Self::Plain => Adapter::at(address(last)),
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
pub fn serve(served: Served, processor: Option<usize>) -> Result<()> {
    processor.map(pin);
    std::thread::spawn(|| {
        let _ended = io::copy(&mut io::stdin(), &mut io::sink());
        std::process::exit(0);
    });
    let listener = || -> Result<TcpListener> {
        let listener = TcpListener::bind((address(2), 0))?;
        tell(&Offer { listens: listener.local_addr()?, memory: 0, token: 0 })?;
        Ok(listener)
    };
    match served {
        Served::Stream => Ok(tcp::serve_stream(&listener()?, SIZE, TARGETS, ROW)?),
        Served::Echo => Ok(tcp::serve_echo(&listener()?, size_of::<Message>())?),
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
    fn start(program: &Path, served: Served, processor: Option<usize>) -> Result<Self> {
        let name = served.to_possible_value().context("no name for that")?;
        let processor = processor.map(|processor| processor.to_string());
        let mut task = vec!["writes", name.get_name()];
        task.extend(processor.iter().flat_map(|processor| ["--processor", processor]));
        let mut peer = Peer::start(program, &task)?;
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
        Self::at(program, served, None)
    }

    /// With the other end on this processor.
    fn at(program: &Path, served: Served, processor: Option<usize>) -> Result<Self> {
        let other = Other::start(program, served, processor)?;
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

impl Writer {
    /// Makes `count` round trips of a message.
    fn trips(&self, count: usize) -> u64 {
        let Self { side, bell, .. } = self;
        for _ in 0..count {
            side.qp.receive(0, &side.buffer.message(1));
            side.qp.send(1, &side.buffer.message(0), 0);
            bell.take(&side.receive_cq, 1);
            side.initiator_cq.take(1, |_| ());
        }
        0
    }
}

/// Round trips of 64 B between two processes that wait for each message, beside blocking sockets of two processes: on a processor each, and on one. The
/// scheduler puts either pair on one processor or on two, by chance, which makes more difference than all else.
///
/// # Errors
/// The host's TCP's, or of the other processes.
pub fn round_trips(bar: &ProgressBar, program: &Path, rounds: usize) -> Result<Vec<Figure>> {
    let places = [("a processor each", 1, Some(Target::AtMost(2.0))), ("one processor", 0, None)];
    let measure = |(place, processor, target)| {
        let writer = Writer::at(program, Served::Plain, Some(processor))?;
        let echo = Other::start(program, Served::Echo, Some(processor))?;
        // Not before: a process is where the thread is that starts it.
        pin(0);
        let mut ping_pong = tcp::PingPong::with(echo.offer.listens, size_of::<Message>()).context("no ping-pong")?;
        let tcp = |count| ping_pong.pass(count).map_or_else(|error| panic!("the ping-pong broke: {error}"), |()| 0);
        let mut contenders = [(TRIPS, timed(|count| writer.trips(count))), (TRIPS, timed(tcp))];
        let costs = compare(bar, rounds, &mut contenders);
        let name = format!("64 B round trip of two processes, armed, {place}");
        Ok(figures(&name, "TCP of two processes", [costs[0], costs[1]], 1, Compared::Time, target))
    };
    // A thread that is pinned stays so, and those that it starts.
    let on_a_thread = |place| thread::scope(|scope| scope.spawn(|| measure(place)).join());
    let all = places.map(|place| on_a_thread(place).unwrap_or_else(|panic| resume_unwind(panic)));
    Ok(all.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
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
    let reader = Other::start(program, Served::Stream, None)?;
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
