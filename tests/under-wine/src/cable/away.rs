//! Peers that go and come back, and a cable that is unplugged in the middle of traffic.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use build::command::step;
use checks::tally::Tally;

use super::seen;
use super::stream::Stream;
use super::{Computer, LINUX, OTHER, OURS, other_has_local, ping, until_reached, until_socket, until_unreached};
use crate::session::Session;
use crate::two_processes::{Harness, serving_at, so_many_requests};

/// How often the cable is unplugged and back at once.
const SHORT: usize = 5;
/// How long a computer is away, besides the second of a ping without an answer.
const AWAY: Duration = Duration::from_secs(1);
/// Seconds of RDMA traffic: TCP may take as long as the cable was away to find it back.
const SECONDS: u64 = 30;

pub(super) fn peers(tally: &mut Tally) {
    for (computer, what) in [
        (LINUX, "a stream goes on when its peer has gone and come back"),
        (OURS, "a stream goes on when the network below the cable has gone and come back"),
    ] {
        let back = step(&format!("taking computer {} off the network", computer.0), || comes_back(&computer));
        tally.check(what, back);
    }
}

/// A computer leaves the network that carries the datagrams, in mid stream.
pub(super) fn comes_back(computer: &Computer) -> Result<()> {
    let stream = Stream::start(&OURS, &LINUX)?;
    computer.run("ip link set wire down")?;
    until_unreached(&OTHER, &computer.address())?;
    thread::sleep(AWAY);
    computer.run("ip link set wire up")?;
    stream.flows()?;
    stream.end()?;
    ping(&OURS, &LINUX.address(), 56)
}

/// A peer gets another address in the network that carries the datagrams: it is a stranger, until `CablePeers` names the address and the adapter
/// starts again.
pub(super) fn changes_address(session: &mut Session, tally: &mut Tally) {
    const NEW: &str = "198.51.100.22";
    let moves = |session: &mut Session, from: &str, to: &str| {
        LINUX.run(&format!("ip link set cable type vxlan local {to}"))?;
        let before = seen::strangers(session)?;
        until_unreached(&LINUX, &OURS.address()).context("a stranger")?;
        ensure!(seen::strangers(session)? > before, "no datagram of a stranger was counted");
        session.set_keyword("CablePeers", &OURS.peers().join(",").replace(from, to))?;
        session.sleep()?;
        until_reached(&LINUX, &OURS.address())
    };
    let old = LINUX.underlay();
    let moved = LINUX.run(&format!("ip address add {NEW}/24 dev wire")).and_then(|_| moves(session, &old, NEW));
    // Also if that has failed: what follows needs the address.
    let moved = moved.and(moves(session, NEW, &old));
    tally.check("a peer with another address is a stranger until CablePeers names it", moved);
}

/// The cable of the first of two computers is taken away from a stream of Linux's and from RDMA between both.
pub(super) fn unplugged(sessions: &mut [Session; 2], tally: &mut Tally) {
    let goes_on = step("unplugging the cable in the middle of traffic", || goes_on(sessions));
    tally.check("a stream and RDMA traffic go on when the cable was unplugged and is back", goes_on);
}

pub(super) fn goes_on(sessions: &mut [Session; 2]) -> Result<()> {
    let [first, second] = sessions;
    // OURS sends, so that its driver has frames on their way when the cable goes.
    let stream = Stream::start(&OURS, &LINUX)?;
    let (seconds, patience) = (SECONDS.to_string(), "60");
    let server = Harness::start(first, &["serve", "--path", "plain", "--patience", patience])?;
    let address = server.until(serving_at)?;
    let arguments = ["connect", &address, "exchange", "--path", "plain", "--wire"];
    let client = Harness::start(second, &[&arguments[..], &["--seconds", &seconds, "--patience", patience]].concat())?;
    server.until(|line| so_many_requests(line, 2))?;
    let start = Instant::now();
    for _ in 0..SHORT {
        other_has_local(first, false)?;
        until_socket(false)?;
        other_has_local(first, true)?;
        until_socket(true)?;
        stream.flows().context("the stream")?;
    }
    other_has_local(first, false)?;
    until_unreached(&LINUX, &OURS.address())?;
    // More frames than the driver has room for.
    let lost = OURS.run(&format!("ping -n -q -i 0.002 -c 500 -W 1 {}", LINUX.address()));
    ensure!(lost.is_err(), "{} answers", LINUX.address());
    other_has_local(first, true)?;
    // The lines until now are still to be read. On a slow machine the traffic is over soon.
    let now = (2 + start.elapsed().as_secs()).min(SECONDS - 4);
    let before = server.until(|line| so_many_requests(line, now))?;
    let after = server.until(|line| so_many_requests(line, SECONDS - 2))?;
    stream.flows().context("the stream")?;
    stream.end().context("the stream")?;
    for (end, harness) in [("the client", client), ("the server", server)] {
        let (status, text) = harness.end()?;
        ensure!(status.success(), "{end} ended with {status}:\n{text}");
    }
    println!("{before} requests before the cable was back, {after} in all");
    ensure!(after > before, "no request has ended since the cable is back");
    until_reached(&OURS, &OTHER.address())
}
