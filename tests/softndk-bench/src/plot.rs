//! The figures that people look at first, by size and by connections, as a drawing.

use std::{hint, path::Path};

use ::figures::{By, Line, Panel, machine};
use anyhow::{Context, Result};
use indicatif::ProgressBar;

use crate::{
    link::Link,
    ndk::Adapter,
    sample::{Cost, compare, pin, timed},
    scale,
    tcp::{PingPong, Stream},
    two_processes::{Other, Served, Writer, pinned, row},
};

/// Bytes of a message.
const SIZES: [usize; 8] = [64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Connections, in one process, if nothing else is asked for.
pub const CONNECTIONS: [usize; 5] = [1, 10, 100, 1000, 10_000];
const LARGEST: usize = 1 << 20;
/// Places that are written in turn.
const TARGETS: usize = 4;
/// Rounds, if nothing else is asked for.
pub const ROUNDS: usize = 20;
/// Round trips in a round.
const TRIPS: usize = 100;

/// Values by size.
type Points = Vec<(f64, f64)>;

/// Microseconds of a round trip, and MB/s, by size.
struct Measured {
    latency: Points,
    bandwidth: Points,
}

impl Measured {
    /// `measure` takes a size, and returns the nanoseconds of a round trip and of one of many messages in a row.
    fn new(bar: &ProgressBar, mut measure: impl FnMut(usize) -> Result<[f64; 2]>) -> Result<Self> {
        let (mut latency, mut bandwidth) = (Vec::new(), Vec::new());
        for size in SIZES {
            let [trip, each] = measure(size)?;
            latency.push((size as f64, trip / 1e3));
            bandwidth.push((size as f64, size as f64 / each * 1e3));
            bar.tick();
        }
        Ok(Self { latency, bandwidth })
    }
}

/// Between two processes with a processor each: a write and its answer; and writes in a row.
fn processes(bar: &ProgressBar, program: &Path, rounds: usize, served: Served) -> Result<Measured> {
    pinned(|| {
        let writer = Writer::at(program, served, Some(1))?;
        pin(0);
        Measured::new(bar, |size| {
            let row = row(size);
            let contenders = &mut [
                (TRIPS, timed(|count| writer.pass(count, 1, size))),
                (1, timed(|rows| writer.pass(rows, row, size))),
            ];
            let costs = compare(bar, rounds, contenders);
            Ok([costs[0].median, costs[1].median / row as f64])
        })
    })
}

/// The same of blocking sockets.
fn tcp(bar: &ProgressBar, program: &Path, rounds: usize) -> Result<Measured> {
    let measure = |size| {
        let start = |served| Other::sized(program, served, Some(1), Some(size));
        let (echo, reader) = (start(Served::Echo)?, start(Served::Stream)?);
        // Not before: a process is where the thread is that starts it.
        pin(0);
        let mut ping_pong = PingPong::with(echo.listens(), size).context("no ping-pong")?;
        let mut stream = Stream::new(reader.listens(), size, row(size)).context("no stream")?;
        let contenders = &mut [
            (TRIPS, timed(|count| ping_pong.pass(count).map_or_else(|error| panic!("{error}"), |()| 0))),
            (1, timed(|rows| stream.pass(rows).map_or_else(|error| panic!("{error}"), |()| 0))),
        ];
        let costs = compare(bar, rounds, contenders);
        Ok([costs[0].median, costs[1].median / row(size) as f64])
    };
    Measured::new(bar, |size| pinned(|| measure(size)))
}

/// In one process: writes, and copies, MB/s by size.
fn one_process(bar: &ProgressBar, rounds: usize) -> [Points; 2] {
    const DEPTH: usize = 16;
    let adapter = Adapter::default();
    let listener = adapter.listener();
    let link = Link::with_bytes(&adapter, &listener, DEPTH, TARGETS * LARGEST);
    let (from, to) = (&link.sender.buffer, &link.receiver.buffer);
    let write = |count, size| {
        for index in 0..count {
            let target = to.address(index % TARGETS * size);
            link.sender.qp.write(index % DEPTH, &from.sge(0, size), target, to.token, 0);
            link.sender.initiator_cq.take(1, |_| ());
        }
        0
    };
    let copy = |count, size| {
        for index in 0..count {
            to.memory.copy_from(index % TARGETS * size, &from.memory, hint::black_box(size));
        }
        0
    };
    let measure = |size: usize| {
        let contenders: &mut [_] =
            &mut [(row(size), timed(|count| write(count, size))), (row(size), timed(|count| copy(count, size)))];
        compare(bar, rounds, contenders)
    };
    let costs: Vec<(usize, Vec<Cost>)> = SIZES.iter().map(|&size| (size, measure(size))).collect();
    let points =
        |which: usize| costs.iter().map(move |(size, of)| (*size as f64, *size as f64 / of[which].median * 1e3));
    [points(0).collect(), points(1).collect()]
}

/// A document: latencies and bandwidths by size, in one process, between two that share memory, and by TCP, beside blocking sockets and memcpy; and
/// what a message costs by connections, beside as many rings. The processes are of `program`, which is the one of this crate.
///
/// # Errors
/// The host's TCP's, or of the other processes.
pub fn svg(bar: &ProgressBar, program: &Path, rounds: usize, connections: &[usize]) -> Result<String> {
    let machine = machine();
    let [writes, copies] = one_process(bar, rounds);
    let shared = processes(bar, program, rounds, Served::SharedPolled)?;
    let waiting = processes(bar, program, rounds, Served::Shared)?;
    let by_tcp = processes(bar, program, rounds, Served::Plain)?;
    let plain = tcp(bar, program, rounds)?;
    let by_count = scale::by_count(bar, connections);
    let counted =
        |which: usize| connections.iter().zip(&by_count).map(|(&count, of)| (count as f64, of[which])).collect();
    let latency = vec![
        Line::nth(0, "shared memory, polled".to_owned(), shared.latency),
        Line::nth(1, "shared memory, armed".to_owned(), waiting.latency),
        Line::nth(2, "over TCP, armed".to_owned(), by_tcp.latency),
        Line::reference("blocking TCP".to_owned(), plain.latency),
    ];
    let bandwidth = vec![
        Line::nth(0, "in one process".to_owned(), writes),
        Line::nth(1, "shared memory, polled".to_owned(), shared.bandwidth),
        Line::nth(2, "over TCP, armed".to_owned(), by_tcp.bandwidth),
        Line::reference("memcpy".to_owned(), copies),
        Line::reference("a stream of TCP".to_owned(), plain.bandwidth),
    ];
    let messages = vec![
        Line::nth(0, "queue pairs of a process".to_owned(), counted(0)),
        Line::reference("as many rings".to_owned(), counted(1)),
    ];
    ::figures::svg(
        vec![
            Panel { title: "a write and its answer, us", by: By::Bytes, lines: latency },
            Panel { title: "writes, MB/s", by: By::Bytes, lines: bandwidth },
            Panel { title: "a 64 B message by connections, ns", by: By::Count, lines: messages },
        ],
        machine,
    )
}
