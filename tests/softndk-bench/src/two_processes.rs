//! 1 MiB writes and round trips of 64 B between two processes, as between machines, beside TCP between two processes.
//!
//! Each end waits for what it needs and looks for nothing meanwhile, as the stream's do: two processors then have the two ends of what
//! is measured, and nobody else.

use std::{
    cell::RefCell,
    fs, hint, io,
    net::{SocketAddr, TcpListener},
    panic::resume_unwind,
    path::Path,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
    time::Duration,
};

use anyhow::{Context, Result};
use clap::ValueEnum;
use indicatif::ProgressBar;
use ndk_abi::ndkpi::NDK_OP_FLAG_DEFER;
use serde::{Deserialize, Serialize};

use crate::{
    bell::Bell,
    figures::{Figure, Target},
    link::{BATCH, Side},
    memory::Message,
    ndk::{Adapter, Connector, Cq},
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
/// So for small ones.
const SMALL_ROW: usize = 512;
/// Requests of a queue.
const DEPTH: usize = 2 * SMALL_ROW;
/// Round trips in a round.
const TRIPS: usize = 500;

/// Pieces of a row, by their size.
pub(crate) fn row(size: usize) -> usize {
    if size < 8 << 10 { SMALL_ROW } else { ROW }
}

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
    /// As plain, and both ends poll.
    Polled,
    /// As plain, by shared memory.
    Shared,
    /// As shared, and both ends poll.
    SharedPolled,
}

impl Served {
    fn adapter(self, last: u8) -> Adapter {
        match self {
            Self::Checked => Adapter::with_crc(address(last)),
            Self::Program => Adapter::of_program(address(last)),
            _ => Adapter::at(address(last)),
        }
    }

    fn polls(self) -> bool {
        matches!(self, Self::Polled | Self::SharedPolled)
    }

    fn shares_memory(self) -> bool {
        matches!(self, Self::Shared | Self::SharedPolled)
    }
}

/// Takes one result from the queue of a bell, by polling or by waiting.
fn take(cq: &Cq, bell: &Bell, polls: bool) {
    if polls {
        cq.take(1, |_| ());
    } else {
        bell.take(cq, 1);
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
pub fn serve(served: Served, processor: Option<usize>, size: Option<usize>) -> Result<()> {
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
        Served::Stream => {
            let size = size.unwrap_or(SIZE);
            Ok(tcp::serve_stream(&listener()?, size, TARGETS, row(size))?)
        }
        Served::Echo => Ok(tcp::serve_echo(&listener()?, size.unwrap_or(size_of::<Message>()))?),
        _ => serve_writes(served),
    }
}

fn serve_writes(served: Served) -> Result<()> {
    hosted::share_memory(served.shares_memory());
    let adapter = &served.adapter(2);
    let bell = Bell::new();
    let listener = adapter.listener();
    let side = Side::with_receive_cq(adapter, DEPTH, TARGETS * SIZE, &bell.cq(adapter, DEPTH));
    tell(&Offer { listens: listener.address(), memory: side.buffer.address(0), token: side.buffer.token })?;
    side.qp.receive(0, &side.buffer.message(0));
    let _connector = listener.accept(&side.qp);
    loop {
        take(&side.receive_cq, bell, served.polls());
        side.qp.receive(0, &side.buffer.message(0));
        side.qp.send(0, &side.buffer.message(1), 0);
        side.initiator_cq.take(1, |_| ());
    }
}

/// The process of the other end.
pub(crate) struct Other {
    peer: Peer,
    offer: Offer,
}

impl Other {
    fn start(program: &Path, served: Served, processor: Option<usize>) -> Result<Self> {
        Self::sized(program, served, processor, None)
    }

    /// For pieces of this size.
    pub(crate) fn sized(program: &Path, served: Served, processor: Option<usize>, size: Option<usize>) -> Result<Self> {
        let name = served.to_possible_value().context("no name for that")?;
        let [processor, size] = [processor, size].map(|number| number.map(|number| number.to_string()));
        let mut task = vec!["writes", name.get_name()];
        task.extend(processor.iter().flat_map(|processor| ["--processor", processor]));
        task.extend(size.iter().flat_map(|size| ["--size", size]));
        let mut peer = Peer::start(program, &task)?;
        let offer = peer.heard()?;
        Ok(Self { peer, offer })
    }

    pub(crate) fn listens(&self) -> SocketAddr {
        self.offer.listens
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
pub(crate) struct Writer {
    _connector: Connector,
    side: Side,
    bell: &'static Bell,
    other: Other,
    polls: bool,
    _adapter: Adapter,
}

impl Writer {
    fn new(program: &Path, served: Served) -> Result<Self> {
        Self::at(program, served, None)
    }

    /// With the other end on this processor.
    pub(crate) fn at(program: &Path, served: Served, processor: Option<usize>) -> Result<Self> {
        let other = Other::start(program, served, processor)?;
        let bell = Bell::new();
        let adapter = served.adapter(1);
        let side = Side::with_receive_cq(&adapter, DEPTH, SIZE, &bell.cq(&adapter, DEPTH));
        hosted::share_memory(served.shares_memory());
        let _connector = adapter.connect_to(other.offer.listens, &side.qp);
        Ok(Self { _connector, side, bell, other, polls: served.polls(), _adapter: adapter })
    }

    /// Writes `rows` rows of `row` pieces, a batch at a time; each ends with a message, since what was written before one is there when it is, and with its answer.
    pub(crate) fn pass(&self, rows: usize, row: usize, size: usize) -> u64 {
        let Self { side, bell, other: Other { offer, .. }, .. } = self;
        for _ in 0..rows {
            side.qp.receive(0, &side.buffer.message(1));
            for index in 0..row {
                let target = offer.memory + (index % TARGETS * size) as u64;
                let flags = if (index + 1) % BATCH == 0 || index + 1 == row { 0 } else { NDK_OP_FLAG_DEFER };
                side.qp.write(index, &side.buffer.sge(0, size), target, offer.token, flags);
            }
            side.qp.send(row, &side.buffer.message(0), 0);
            take(&side.receive_cq, bell, self.polls);
            side.initiator_cq.take(row + 1, |_| ());
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
            take(&side.receive_cq, bell, self.polls);
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
    let all = places.map(|place| pinned(|| measure(place)));
    Ok(all.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// Does `work` on a thread, as a thread that is pinned stays so, and what it starts.
pub(crate) fn pinned<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
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
        (1, counted(timed(|rows| plain.pass(rows, ROW, SIZE)), &plain.other, &spent[0])),
        (1, counted(timed(|rows| checked.pass(rows, ROW, SIZE)), &checked.other, &spent[1])),
        (1, counted(timed(|rows| confirmed.pass(rows, ROW, SIZE)), &confirmed.other, &spent[2])),
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

/// Sends a word to a thread on another processor and back, `count` times.
fn word_trips(count: usize) -> u64 {
    let word = AtomicUsize::new(0);
    let await_word = |awaited| {
        while word.load(Ordering::Acquire) != awaited {
            hint::spin_loop();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            for trip in 0..count {
                await_word(2 * trip + 1);
                word.store(2 * trip + 2, Ordering::Release);
            }
        });
        for trip in 0..count {
            word.store(2 * trip + 1, Ordering::Release);
            await_word(2 * trip + 2);
        }
    });
    0
}

/// Between two processes that share memory, each on a processor: round trips of 64 B, beside a word between two threads and blocking sockets of two
/// processes; 1 MiB writes, beside memcpy; 64 B writes, beside those over TCP, and these beside as many messages of TCP.
///
/// # Errors
/// The host's TCP's, or of the other processes.
pub fn shared(bar: &ProgressBar, program: &Path, rounds: usize) -> Result<Vec<Figure>> {
    let small = |writer: &Writer, rows| writer.pass(rows, SMALL_ROW, size_of::<Message>());
    // One after the other: a process that polls has its processor for itself.
    let polled = pinned(|| {
        let writer = Writer::at(program, Served::SharedPolled, Some(1))?;
        pin(0);
        let (from, mut to) = (vec![1_u8; SIZE], vec![2_u8; TARGETS * SIZE]);
        let copy = |count| {
            for index in 0..count {
                to[index % TARGETS * SIZE..][..SIZE].copy_from_slice(&from);
                hint::black_box(&mut to);
            }
            0
        };
        let mut contenders = [
            (TRIPS, timed(|count| writer.trips(count))),
            (20 * TRIPS, timed(word_trips)),
            (2, timed(|rows| writer.pass(rows, ROW, SIZE))),
            (2 * ROW, timed(copy)),
            (4, timed(|rows| small(&writer, rows))),
        ];
        Ok(compare(bar, rounds, &mut contenders))
    })?;
    let armed = pinned(|| {
        let writer = Writer::at(program, Served::Shared, Some(1))?;
        let echo = Other::start(program, Served::Echo, Some(1))?;
        pin(0);
        let mut ping_pong = tcp::PingPong::with(echo.offer.listens, size_of::<Message>()).context("no ping-pong")?;
        let tcp = |count| ping_pong.pass(count).map_or_else(|error| panic!("the ping-pong broke: {error}"), |()| 0);
        Ok(compare(bar, rounds, &mut [(TRIPS, timed(|count| writer.trips(count))), (TRIPS, timed(tcp))]))
    })?;
    let by_tcp = pinned(|| {
        let writer = Writer::at(program, Served::Polled, Some(1))?;
        pin(0);
        Ok(compare(bar, rounds, &mut [(4, timed(|rows| small(&writer, rows)))]))
    })?;
    let each_call = pinned(|| {
        let reader = Other::sized(program, Served::Stream, Some(1), Some(size_of::<Message>()))?;
        pin(0);
        let mut stream =
            tcp::Stream::new(reader.offer.listens, size_of::<Message>(), SMALL_ROW).context("no stream")?;
        let tcp = |rows| stream.pass(rows).map_or_else(|error| panic!("the stream broke: {error}"), |()| 0);
        Ok(compare(bar, rounds, &mut [(4, timed(tcp))]))
    })?;
    let trip = |name: &str, reference: &str, costs, most| {
        let name = format!("64 B round trip of two processes, shared memory, {name}");
        figures(&name, reference, costs, 1, Compared::Time, Some(Target::AtMost(most)))
    };
    let of_one =
        |cost: Cost, row: usize| Cost { median: cost.median / row as f64, typical: cost.typical / row as f64, ..cost };
    let large = [of_one(polled[2], ROW), polled[3]];
    let [shared, by_tcp, each_call] = [polled[4], by_tcp[0], each_call[0]].map(|cost| of_one(cost, SMALL_ROW));
    let all = [
        trip("polled", "a word between two threads", [polled[0], polled[1]], 3.0),
        trip("polled", "TCP of two processes", [polled[0], armed[1]], 0.5),
        trip("armed", "TCP of two processes", [armed[0], armed[1]], 1.5),
        figures("1 MiB write, shared memory", "memcpy", large, 1, Compared::Rate, Some(Target::AtLeast(0.5))),
        figures("64 B write, shared memory", "over TCP", [shared, by_tcp], 1, Compared::Rate, None),
        figures("64 B write, over TCP", "64 B of TCP, a call each", [by_tcp, each_call], 1, Compared::Rate, None),
    ];
    Ok(all.into_iter().flatten().collect())
}
