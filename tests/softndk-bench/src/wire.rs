//! Two devices connected by the host's TCP, as two machines are, beside plain TCP.
//!
//! One thread is the consumer on both sides, and carries out what comes in while it polls; else the reactor of the hosted platform, another
//! thread, does. Medians count, as threads meet.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result};
use indicatif::ProgressBar;

use crate::{
    bell::Bell,
    figures::{Figure, Target},
    link::{Link, Side},
    memory::Message,
    ndk::{Adapter, Listener},
    sample::{Cost, Round, compare, timed},
    tcp::PingPong,
};

/// Requests of a queue.
const DEPTH: usize = 32;
/// Round trips in a round.
const TRIPS: usize = 500;

/// Two devices. The listener goes first: the close of an adapter waits for what it has.
pub(crate) struct Machines {
    pub(crate) listener: Listener,
    pub(crate) from: Adapter,
    pub(crate) to: Adapter,
}

/// Addresses that every host has.
pub(crate) fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))
}

impl Machines {
    pub(crate) fn new(adapter: fn(IpAddr) -> Adapter) -> Self {
        // As two machines are.
        hosted::share_memory(false);
        let [from, to] = [1, 2].map(|last| adapter(address(last)));
        let listener = to.listener();
        Self { from, to, listener }
    }

    /// A connection whose receives ring the bell.
    pub(crate) fn link(&self, bell: &'static Bell, bytes: usize) -> Link {
        let devices = [&self.from, &self.to];
        let cqs = devices.map(|adapter| bell.cq(adapter, DEPTH));
        Link::between_notified(devices, &self.listener, DEPTH, bytes, cqs.each_ref())
    }
}

/// Makes `count` round trips of a message; `await_message` is called before each is taken.
#[inline]
pub(crate) fn trips(link: &Link, count: usize, await_message: impl Fn(&Side)) -> u64 {
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
    let machines = Machines::new(Adapter::at);
    let bell = Bell::new();
    let link = machines.link(bell, 2 * size_of::<Message>());
    let programs = Machines::new(Adapter::of_program);
    let confirmed = programs.link(Bell::new(), 2 * size_of::<Message>());
    let mut ping_pong = PingPong::new(address(2), size_of::<Message>()).context("no ping-pong")?;
    let armed = |side: &Side| bell.wait(&side.receive_cq);
    let plain = |count| ping_pong.pass(count).map_or_else(|error| panic!("the ping-pong broke: {error}"), |()| 0);
    let contenders: &mut [(usize, Round<'_>)] = &mut [
        (TRIPS, timed(|count| trips(&link, count, |_| ()))),
        (TRIPS, timed(|count| trips(&link, count, armed))),
        (TRIPS, timed(|count| trips(&confirmed, count, |_| ()))),
        (TRIPS, timed(plain)),
    ];
    let costs = compare(bar, rounds, contenders);
    let figure = |name, which: usize, target| {
        figures(name, "TCP ping-pong", [costs[which], costs[3]], 1, Compared::Time, target)
    };
    let polled = figure("64 B round trip, polled", 0, Some(Target::AtMost(1.5)));
    let armed = figure("64 B round trip, armed", 1, None);
    let program = figure("64 B round trip of programs, polled", 2, None);
    Ok(polled.into_iter().chain(armed).chain(program).collect())
}
