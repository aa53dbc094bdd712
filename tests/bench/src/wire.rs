//! Two devices connected by the host's TCP, as two machines are, beside plain TCP.
//!
//! One thread is the consumer on both sides; the reactor of the hosted platform is the other one. Medians count, as threads meet.

use std::{
    cell::RefCell,
    fs,
    net::{IpAddr, Ipv4Addr},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use indicatif::ProgressBar;

use crate::{
    bell::Bell,
    figures::{Figure, Target},
    link::{Link, Side},
    memory::Message,
    ndk::{Adapter, Connector, Cq, Listener, Pd, Qp, QpSizes},
    sample::{Cost, Round, compare, timed},
    tcp::PingPong,
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
/// Connections that have just been made are not idle: for 50 ms after a thousand of them the host's TCP has its timers, and round trips
/// take a third longer.
const SETTLING: Duration = Duration::from_millis(200);
/// What may be spent on an idle connection, in KiB.
const LIMIT: f64 = 32.0;

/// Two devices. The listener goes first: the close of an adapter waits for what it has.
struct Machines {
    listener: Listener,
    from: Adapter,
    to: Adapter,
}

/// Addresses that every host has.
pub(crate) fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
}

impl Machines {
    fn new() -> Self {
        let [from, to] = [1, 2].map(|last| Adapter::at(address(last)));
        let listener = to.listener();
        Self { from, to, listener }
    }

    /// A connection whose receives ring the bell.
    fn link(&self, bell: &'static Bell, bytes: usize) -> Link {
        let devices = [&self.from, &self.to];
        let cqs = devices.map(|adapter| bell.cq(adapter, DEPTH));
        Link::between_notified(devices, &self.listener, DEPTH, bytes, cqs.each_ref())
    }
}

/// Makes `count` round trips of a message; `await_message` is called before each is taken.
#[inline]
fn trips(link: &Link, count: usize, await_message: impl Fn(&Side)) -> u64 {
    let ends = [&link.sender, &link.receiver];
    for index in 0..count {
        for end in ends {
            end.qp.receive(1, &end.buffer.message(1));
        }
        for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
            from.buffer.memory.write(0, [index as u64; 8]);
            from.qp.send(0, &from.buffer.message(0), 0);
            await_message(to);
            to.receive_cq.take(1, |_| ());
            assert_eq!(to.buffer.memory.read(1)[0], index as u64, "another message");
            from.initiator_cq.take(1, |_| ());
        }
    }
    0
}

/// Writes `rows` rows; each ends with a message, since what was written before one is there when it is.
fn write(link: &Link, bell: &Bell, rows: usize) -> u64 {
    let (from, to) = (&link.sender, &link.receiver);
    for _ in 0..rows {
        to.qp.receive(0, &to.buffer.message(0));
        for index in 0..ROW {
            let target = to.buffer.address(index % TARGETS * SIZE);
            from.qp.write(index, &from.buffer.sge(0, SIZE), target, to.buffer.token);
        }
        from.qp.send(ROW, &from.buffer.message(0), 0);
        bell.take(&to.receive_cq, 1);
        from.initiator_cq.take(ROW + 1, |_| ());
    }
    0
}

/// How two costs are compared.
#[derive(Clone, Copy)]
pub(crate) enum Compared {
    Rate,
    Time,
}

/// A figure of medians, which counts, and one of tenth percentiles, of `per` operations each.
pub(crate) fn figures(
    name: &str,
    reference: &str,
    [ours, theirs]: [Cost; 2],
    per: usize,
    compared: Compared,
    target: Option<Target>,
) -> [Figure; 2] {
    let figure = |which, ours: f64, theirs: f64, target| {
        let (compared, ratio) = match compared {
            Compared::Rate => ("of its rate", theirs / ours),
            Compared::Time => ("times its time", ours / theirs),
        };
        let (value, reference_value) = (ours / per as f64, theirs / per as f64);
        let (name, reference) = (format!("{name}, {which}"), reference.to_owned());
        Figure { name, unit: "ns", value, reference, reference_value, compared, ratio, target }
    };
    [figure("median", ours.median, theirs.median, target), figure("p10", ours.typical, theirs.typical, None)]
}

/// Round trips of 64 B beside a ping-pong: by polling, and by arming and waiting.
///
/// # Errors
/// The host's TCP's.
pub fn round_trips(bar: &ProgressBar, rounds: usize) -> Result<Vec<Figure>> {
    let machines = Machines::new();
    let bell = Bell::new();
    let link = machines.link(bell, 2 * size_of::<Message>());
    let mut ping_pong = PingPong::new(address(2), size_of::<Message>()).context("no ping-pong")?;
    let armed = |side: &Side| bell.wait(&side.receive_cq);
    let plain = |count| ping_pong.pass(count).map_or_else(|error| panic!("the ping-pong broke: {error}"), |()| 0);
    let contenders: &mut [(usize, Round<'_>)] = &mut [
        (TRIPS, timed(|count| trips(&link, count, |_| ()))),
        (TRIPS, timed(|count| trips(&link, count, armed))),
        (TRIPS, timed(plain)),
    ];
    let costs = compare(bar, rounds, contenders);
    let figure = |name, which: usize, target| {
        figures(name, "TCP ping-pong", [costs[which], costs[2]], 1, Compared::Time, target)
    };
    let polled = figure("64 B round trip, polled", 0, Some(Target::AtMost(1.5)));
    Ok(polled.into_iter().chain(figure("64 B round trip, armed", 1, None)).collect())
}

/// Connections on which nothing happens; they share a domain and a queue on each side.
struct Idle {
    _connectors: Vec<[Connector; 2]>,
    _pairs: Vec<[Qp; 2]>,
    _cqs: [Cq; 2],
    _pds: [Pd; 2],
}

impl Idle {
    fn new(machines: &Machines, count: usize, bar: &ProgressBar) -> Self {
        let Machines { from, to, listener } = machines;
        let (pds, cqs) = ([from.pd(), to.pd()], [from.cq(16), to.cq(16)]);
        let sizes = QpSizes { depth: 16, sges: 1, inline_data: 0 };
        let pairs: Vec<_> = (0..count).map(|_| [0, 1].map(|at| pds[at].qp(&cqs[at], &cqs[at], 0, sizes))).collect();
        let connect = |[active, passive]: &[Qp; 2]| from.connect(listener, active, passive);
        let connectors = pairs.iter().map(connect).inspect(|_| bar.tick()).collect();
        Self { _connectors: connectors, _pairs: pairs, _cqs: cqs, _pds: pds }
    }
}

/// Memory of the process in KiB: pages that it has touched.
fn resident() -> Result<f64> {
    let status = fs::read_to_string("/proc/self/status").context("no status of this process")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

/// What `count` idle connections cost the active one, and their memory.
///
/// # Errors
/// None of the device: those of reading the process's memory.
pub fn idle(bar: &ProgressBar, rounds: usize, count: usize) -> Result<Vec<Figure>> {
    let machines = Machines::new();
    let bell = Bell::new();
    let link = machines.link(bell, TARGETS * SIZE);
    let settle = || {
        let start = Instant::now();
        while start.elapsed() < SETTLING {
            trips(&link, TRIPS / 10, |_| ());
        }
    };
    let trips = || timed(|count| trips(&link, count, |_| ()));
    let writes = || timed(|rows| write(&link, bell, rows));
    settle();
    write(&link, bell, 1);
    let before = resident()?;
    let first = Idle::new(&machines, count, bar);
    // Each connection has two ends, both of this process.
    let each = (resident()? - before) / (2 * count) as f64;
    drop(first);

    let crowd = RefCell::new(None);
    let alone = |count| {
        *crowd.borrow_mut() = None;
        settle();
        trips()(count)
    };
    let beside = |trips_wanted| {
        *crowd.borrow_mut() = Some(Idle::new(&machines, count, bar));
        settle();
        trips()(trips_wanted)
    };
    let contenders: &mut [(usize, Round<'_>)] =
        &mut [(TRIPS, Box::new(alone)), (4, writes()), (TRIPS, Box::new(beside)), (4, writes())];
    let costs = compare(bar, rounds, contenders);
    let target = Some(Target::AtMost(1.1));
    let name = |what: &str| format!("{what} beside {count} idle connections");
    let trip = figures(&name("64 B round trip"), "alone", [costs[2], costs[0]], 1, Compared::Time, target);
    let write = figures(&name("1 MiB write"), "alone", [costs[3], costs[1]], ROW, Compared::Time, target);
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
