//! TCP/IP of Linux leaves checksums and large segments to the adapter, and gets received segments as one, if the keywords say so. The adapter has
//! the stand-in for Winsock Kernel make datagrams of messages, by UDP segmentation of Linux. tshark judges the frames on the network.

use std::path::PathBuf;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use checks::tally::Tally;

use super::{
    LINUX, MEBIBYTE, OURS, captured, frames, is_clean, messages, program, session, stream, stream_at, until_reached,
};
use crate::session::Session;

const MTU: u32 = 1500;
const KEYWORDS: [&str; 7] = [
    "*IPChecksumOffloadIPv4",
    "*TCPChecksumOffloadIPv4",
    "*TCPChecksumOffloadIPv6",
    "*LsoV2IPv4",
    "*LsoV2IPv6",
    "*RscIPv4",
    "*RscIPv6",
];

/// Turns the adapter's on or off, for the next start.
pub(super) fn turn(session: &mut Session, on: bool) -> Result<()> {
    KEYWORDS.iter().try_for_each(|keyword| session.set_keyword(keyword, if on { "1" } else { "0" }))
}

/// Has Linux divide messages before they pass the network of OURS, where tcpdump looks.
pub(super) fn without_udp_offload() -> Result<()> {
    OURS.run("ethtool -K wire tx-udp-segmentation off").map(|_| ())
}

pub(super) fn run(tally: &mut Tally) -> Result<()> {
    without_udp_offload()?;
    for on in [true, false] {
        let what = if on { "with task offloads" } else { "without task offloads" };
        let mut session = session(&OURS, MTU)?;
        turn(&mut session, on)?;
        session.set_keyword("WithoutUso", if on { "0" } else { "1" })?;
        session.load()?;
        until_reached(&LINUX, &OURS.address())?;
        for address in [LINUX.address(), format!("[{}]", LINUX.address_v6())] {
            let filter = format!("udp port 4789 and src host {}", OURS.underlay());
            let at = format!("{address}:5001");
            let sent = captured(&LINUX, "wire", &filter, || stream_at(&program(), &OURS, &LINUX, &at, 16 * MEBIBYTE));
            let judged = sent.and_then(|(file, _)| are_right(&file));
            tally.check(&format!("{what} a stream to {address} is of right segments"), judged);
        }
        for address in [OURS.address(), format!("[{}]", OURS.address_v6())] {
            let received = stream_at(&program(), &LINUX, &OURS, &format!("{address}:5001"), 16 * MEBIBYTE).map(|_| ());
            tally.check(&format!("{what} a stream from {address}'s peer is whole"), received);
        }
        tally.check(&format!("{what} two streams at a time are whole"), two_streams());
        let report = session.unload()?;
        tally.check(&format!("{what} softndk.sys leaves nothing"), is_clean(&report));
        tally.check(&format!("{what} received segments are joined as much"), joined(&session, on));
        tally.check(&format!("{what} TCP/IP leaves as much to it"), left(&session, on));
        let divides = messages(&session, "divided").and_then(|count| {
            ensure!((count > 100) == on, "{count} lists had a message of several datagrams");
            Ok(())
        });
        let how =
            if on { "sends messages of several datagrams" } else { "sends datagrams, as WSK has no UDP_SEND_MSG_SIZE" };
        tally.check(&format!("{what} softndk.sys {how}"), divides);
    }
    tally.check("after a refused message datagrams are sent one by one", refused_message());
    Ok(())
}

/// The stand-in says that it divides messages, and refuses them: the driver sends a few before it learns that.
fn refused_message() -> Result<()> {
    let mut session = session(&OURS, MTU)?;
    session.set_keyword("WithoutUso", "2")?;
    session.load()?;
    until_reached(&LINUX, &OURS.address())?;
    stream(&OURS, &LINUX, 16 * MEBIBYTE)?;
    is_clean(&session.unload()?)?;
    let count = messages(&session, "refused")?;
    ensure!((1..=8).contains(&count), "{count} messages were refused");
    Ok(())
}

/// Each TCP segment has right checksums, and fits into the network.
fn are_right(file: &PathBuf) -> Result<()> {
    let segments = frames(file, "vxlan && tcp")?;
    let good = frames(file, "vxlan && tcp.checksum.status == 1 && !(ip.checksum.status == 0)")?;
    let long = frames(file, &format!("frame.len > {}", MTU + 14))?;
    ensure!(segments > 5000 && good == segments && long == 0, "{segments} segments, {good} right, {long} too long");
    Ok(())
}

/// What the stand-in for NDIS has seen: units of IPv4 and of IPv6, or none of them.
fn joined(session: &Session, on: bool) -> Result<()> {
    let [ipv4, ipv6] = last_counts(session, "ndis: coalesced: ")?;
    let is_right = if on { ipv4.min(ipv6) > 100 } else { ipv4 + ipv6 == 0 };
    ensure!(is_right, "{ipv4} units of IPv4, {ipv6} of IPv6");
    Ok(())
}

/// Two streams at a time, whose frames come in turns.
fn two_streams() -> Result<()> {
    thread::scope(|scope| {
        let streams = ["5001", "5002"].map(|port| {
            let at = format!("{}:{port}", OURS.address());
            scope.spawn(move || stream_at(&program(), &LINUX, &OURS, &at, 16 * MEBIBYTE))
        });
        for stream in streams {
            stream.join().map_err(|_| anyhow::anyhow!("a stream panicked"))??;
        }
        Ok(())
    })
}

/// The two numbers behind `what` in the last such line of the stand-ins' log.
fn last_counts(session: &Session, what: &str) -> Result<[u64; 2]> {
    let log = session.log()?;
    let line = log.lines().rev().find_map(|line| line.split_once(what));
    let (_, counts) = line.with_context(|| format!("the stand-ins do not say {what:?}"))?;
    let counts = counts.split(' ').map_while(|count| count.parse().ok()).collect::<Vec<_>>();
    counts.try_into().map_err(|counts| anyhow::anyhow!("not two numbers behind {what:?}: {counts:?}"))
}

/// What the stand-in for NDIS has seen: large sends, and checksums, or none of them.
fn left(session: &Session, on: bool) -> Result<()> {
    let [large, checksums] = last_counts(session, "ndis: left to the miniport: ")?;
    ensure!((large > 100) == on && (checksums > 10) == on, "{large} large sends, {checksums} checksums");
    Ok(())
}
