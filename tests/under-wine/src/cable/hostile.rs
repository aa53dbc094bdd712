//! What a peer and a stranger can send, T86 to T89 of the threat model: garbage, and frames of ever more stations. `cargo xtask test` does not play
//! it, so the rows' tags are at the tests of the crate `vxlan`.

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Result, anyhow, bail, ensure};
use build::command::{outcome, output, said, step};
use checks::tally::Tally;

use super::stream::{Pings, Stream};
use super::{Computer, LINUX, OTHER, OURS, VNI, captured, frames, ping, program, seen, until_reached};
use crate::session::Session;

/// An address of the peer OTHER that is no peer's: `CablePeers` does not name it.
const STRANGER: &str = "198.51.100.66";
/// Datagrams of a sender, of which Linux drops those that find no room in the socket.
const GARBAGE: &str = "30000";
const PINGED: Duration = Duration::from_secs(60);
/// More stations than the driver remembers, many times over.
const STATIONS: &str = "20000";

/// Has a computer with an address throw datagrams; its command.
fn thrower(from: &str, what: &str, count: &str) -> Result<Command> {
    let mut command = OTHER.command("");
    command.arg(program()).args(["throw", what, &format!("{from}:0"), &format!("{}:4789", OURS.underlay())]);
    command.args(["--vni", VNI, "--station", mac(&LINUX)?.trim(), "--count", count]);
    Ok(command)
}

fn mac(computer: &Computer) -> Result<String> {
    computer.run("cat /sys/class/net/cable/address")
}

/// Does `what`; how many of our datagrams with frames for LINUX have gone to OTHER then.
fn copies(what: impl FnOnce() -> Result<()>) -> Result<usize> {
    let digits = mac(&LINUX)?.trim().replace(':', "");
    let (first, last) = digits.split_at(8);
    // The destination of the frame in the datagram.
    let filter =
        format!("udp port 4789 and src host {} and udp[16:4] = 0x{first} and udp[20:2] = 0x{last}", OURS.underlay());
    let (file, ()) = captured(&OTHER, "wire", &filter, what)?;
    frames(&file, "udp")
}

pub(super) fn run(session: &mut Session, tally: &mut Tally) {
    let garbage = step("throwing garbage at softndk.sys", || garbage(session, tally));
    tally.check("a stream arrives whole while a peer and a stranger send garbage, which takes no memory", garbage);
    let flooded = step("flooding softndk.sys with stations", || flood(session));
    tally.check("a flood of stations takes no memory, and a forgotten one is found again", flooded);
    tally.check("a route that leads the cable's datagrams into the cable stops them, and no more", circular(session));
}

/// A route leads the datagrams for LINUX into the cable; they go again when the route is gone.
fn circular(session: &Session) -> Result<()> {
    let (peer, station) = (LINUX.underlay(), mac(&LINUX)?);
    ensure!(seen::circular(session)? == 0, "datagrams came back before");
    OURS.run(&format!("ip neighbour replace {peer} lladdr {} dev cable nud permanent", station.trim()))?;
    OURS.run(&format!("ip route add {peer}/32 dev cable src {}", OURS.underlay()))?;
    // More than the cable has slots.
    let flood = format!("ping -n -q -f -c 2000 -s 1400 -w 40 {}", LINUX.address());
    let pinged = outcome(&mut OURS.command(&flood), PINGED);
    OURS.run(&format!("ip route del {peer}/32 dev cable"))?;
    OURS.run(&format!("ip neighbour del {peer} dev cable"))?;
    let (pinged, dropped) = (pinged?, seen::circular(session)?);
    ensure!(!pinged.status.success() && dropped > 256, "{dropped} datagrams came back, and {}", said(&pinged));
    until_reached(&LINUX, &OURS.address())
}

/// While garbage comes a stream arrives whole, and pings are answered.
fn garbage(session: &mut Session, tally: &mut Tally) -> Result<()> {
    OTHER.run(&format!("ip address add {STRANGER}/24 dev wire"))?;
    let pool = session.pool()?.bytes;
    // What garbage is made of, and what Linux makes of a frame with a tag; the experimental types.
    let types = [0x88b5, 0x88b6, 0x8100, 0x88a8].map(|number| format!("ether[12:2] = {number}")).join(" or ");
    let (file, (copies, (sent, answered))) = captured(&OURS, "cable", &types, || {
        let found = traffic()?;
        // The control: the capture has what passes. Slowly, so that there is room for them.
        output(thrower(&OTHER.underlay(), "stations", "20")?.args(["--pause", "2000"]))?;
        Ok(found)
    })?;
    println!("while garbage came {answered} of {sent} pings were answered; Linux dropped {} datagrams", lost()?);
    let mut check = |what: &str, holds: bool, found: String| {
        tally.check(what, if holds { Ok(()) } else { Err(anyhow!(found)) });
    };
    check("pings are answered while garbage comes", answered > 0, format!("{answered} of {sent}"));
    let (passed, all) = (frames(&file, "eth.type == 0x88b5")?, frames(&file, "frame")?);
    check("no garbage gets to TCP/IP", passed > 0 && passed == all, format!("{all} frames, of which {passed} may"));
    check("no garbage teaches an address", copies == 0, format!("{copies} frames for one peer went to the other"));
    ping(&LINUX, &OURS.address(), 56)?;
    ping(&OURS, &LINUX.address(), 56)?;
    has_pool(session, pool)
}

/// A stream and pings while garbage comes: how many frames for LINUX have gone to OTHER, and how many pings were sent and answered.
fn traffic() -> Result<(usize, (u64, u64))> {
    let stream = Stream::start(&LINUX, &OURS)?;
    let pings = Pings::start(&LINUX, &OURS.address())?;
    let copies = copies(throw_garbage)?;
    stream.flows()?;
    let pings = pings.end(&LINUX)?;
    stream.end()?;
    Ok((copies, pings))
}

/// Datagrams that found no room in the driver's socket.
fn lost() -> Result<u64> {
    let sockets = OURS.run("cat /proc/net/udp")?;
    let last = |line: &str| line.split_whitespace().next_back()?.parse::<u64>().ok();
    Ok(sockets.lines().filter_map(last).sum())
}

/// A peer and a stranger at the same time.
fn throw_garbage() -> Result<()> {
    let peer = OTHER.underlay();
    let mut senders = vec![];
    for (from, what) in [(&peer[..], "garbage"), (STRANGER, "garbage"), (STRANGER, "frames")] {
        senders.push(thrower(from, what, GARBAGE)?.stdout(Stdio::null()).spawn()?);
    }
    for mut sender in senders {
        let status = sender.wait()?;
        ensure!(status.success(), "a sender ended with {status}");
    }
    Ok(())
}

/// The forwarding database has room for 256 stations.
fn flood(session: &mut Session) -> Result<()> {
    const TRIES: usize = 5;
    let pool = session.pool()?.bytes;
    let once = || copies(|| OURS.run(&format!("ping -n -c 1 -W 2 {}", LINUX.address())).map(|_| ()));
    once()?;
    let known = once()?;
    ensure!(known == 0, "{known} frames for a peer that is known went to the other");
    for _ in 0..TRIES {
        // The entry of LINUX has to be older than those that displace it.
        thread::sleep(Duration::from_millis(1500));
        output(&mut thrower(&OTHER.underlay(), "stations", STATIONS)?)?;
        // LINUX may have sent a frame since, which teaches its address.
        if once()? > 0 {
            let known = once()?;
            ensure!(known == 0, "{known} frames for a peer that has answered went to the other");
            ping(&LINUX, &OURS.address(), 56)?;
            ping(&OURS, &LINUX.address(), 56)?;
            return has_pool(session, pool);
        }
    }
    bail!("no station was forgotten")
}

/// The driver has as much pool as before, once what is under way is done.
fn has_pool(session: &mut Session, before: u64) -> Result<()> {
    const TRIES: usize = 50;
    let mut now = 0;
    for _ in 0..TRIES {
        now = session.pool()?.bytes;
        if now <= before {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    bail!("{before} bytes of pool have become {now}")
}
