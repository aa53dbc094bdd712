//! What `ndkctl cable` shows is true: of datagrams whose number is known, and of what Linux says of the peers.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use build::command::output;
use serde_json::Value;
use vxlan::header::{self, Vni};

use super::{Computer, LINUX, OTHER, OURS, captured, frames, payload, ping, program, until};
use crate::ndkctl::shown;
use crate::session::Session;
use crate::wine_tests::FIRST;

/// An address on the network that carries the datagrams, which is no peer's.
const STRANGER: &str = "198.51.100.9";
/// An Ethernet address that only dropped frames are from.
const STATION: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
const PINGS: u64 = 20;

fn cable(session: &Session) -> Result<Value> {
    cable_of(session, FIRST)
}

fn cable_of(session: &Session, adapter: &str) -> Result<Value> {
    let mut found = shown(session, &["cable", "--adapter", adapter])?;
    let cable = found.get_mut("cable").map(Value::take).filter(Value::is_object);
    cable.with_context(|| format!("no cable is shown: {found}"))
}

/// The link of an adapter is down, because of `status`.
pub(super) fn is_down(session: &Session, adapter: &str, status: &str) -> Result<()> {
    until(|| {
        let found = cable_of(session, adapter)?;
        let error = found["last_error"]["status"].as_str().unwrap_or_default();
        ensure!(
            found["link"] == "down" && error.contains(status),
            "the link is not shown as down, or not why: {found}"
        );
        Ok(())
    })
}

/// The link is up, and the other end is on this machine.
pub(super) fn is_patched(session: &Session, adapter: &str) -> Result<()> {
    until(|| {
        let found = cable_of(session, adapter)?;
        let shown = [&found["link"], &found["local"], &found["peers"][0]["address"]];
        ensure!(shown == ["up", "::1", "::1"], "no patch cable is shown: {found}");
        Ok(())
    })
}

/// The parameters, the frames of pings, the datagrams in which they were, and the peers' stations.
pub(super) fn traffic(session: &Session, mtu: u32) -> Result<()> {
    ping(&OTHER, &OURS.address(), 56)?;
    let before = cable(session)?;
    OURS.run(&format!("ping -n -c {PINGS} -i 0.05 {}", LINUX.address()))?;
    let after = cable(session)?;
    let parameters = [&after["link"], &after["local"], &after["port"], &after["vni"], &after["mtu"]];
    let expected = [
        Value::from("up"),
        OURS.underlay().into(),
        header::PORT.into(),
        super::VNI.parse::<u32>()?.into(),
        payload(mtu).into(),
    ];
    ensure!(parameters.into_iter().eq(&expected), "it has {expected:?}: {after}");
    stations(&after)?;
    counted(&before, &after)?;
    ensure!(counted(&before, &before).is_err(), "pings without a datagram were not noticed: {before}");
    Ok(())
}

/// Pings two peers at once: the datagrams of a peer's frames go to that peer, and none is lost.
pub(super) fn two_peers(session: &Session) -> Result<()> {
    const COUNT: u64 = 2000;
    let flood = |to: &Computer| OURS.command(&format!("ping -n -q -f -c {COUNT} {}", to.address()));
    let before = cable(session)?;
    let (file, said) = captured(&LINUX, "wire", &format!("udp port 4789 and src host {}", OURS.underlay()), || {
        let other = flood(&OTHER).stdout(Stdio::piped()).spawn()?;
        let said = output(&mut flood(&LINUX))?;
        Ok([said, String::from_utf8(other.wait_with_output()?.stdout)?])
    })?;
    ensure!(said.iter().all(|said| said.contains(" 0% packet loss")), "{said:?}");
    let asked = |of: &Computer| frames(&file, &format!("icmp.type == 8 && ip.dst == {}", of.address()));
    let (own, strange) = (asked(&LINUX)? as u64, asked(&OTHER)?);
    ensure!(
        own == COUNT && strange == 0,
        "the peer got {own} of its {COUNT} frames, and {strange} of the other peer's"
    );
    let after = cable(session)?;
    for place in 0..OURS.peers().len() {
        let sent = |shown: &Value| number(&shown["peers"][place]["sent"]);
        let sent = sent(&after).wrapping_sub(sent(&before));
        ensure!((COUNT..COUNT + PINGS).contains(&sent), "{COUNT} pings to each peer, {sent} datagrams: {after}");
    }
    Ok(())
}

/// Frames of strangers that were dropped so far.
pub(super) fn strangers(session: &Session) -> Result<u64> {
    Ok(number(&cable(session)?["dropped_in"]["stranger"]))
}

/// Datagrams of the cable that came back to the adapter, and were dropped so far.
pub(super) fn circular(session: &Session) -> Result<u64> {
    Ok(number(&cable(session)?["dropped_out"]["circular_route"]))
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

/// Each ping has an answer; some other frames have passed, which were fewer.
fn counted(before: &Value, after: &Value) -> Result<()> {
    let grown = |path: &str| {
        let of = |shown: &Value| shown.pointer(path).map_or(0, number);
        of(after).wrapping_sub(of(before))
    };
    let peers = after["peers"].as_array().context("no peers")?;
    let addresses: Vec<_> = peers.iter().map(|peer| peer["address"].as_str().unwrap_or_default()).collect();
    ensure!(addresses == OURS.peers(), "the peers are {:?}: {after}", OURS.peers());
    for (place, address) in addresses.iter().enumerate() {
        for way in ["sent", "received"] {
            let datagrams = grown(&format!("/peers/{place}/{way}"));
            let is_right = (datagrams >= PINGS) == (*address == LINUX.underlay());
            ensure!(
                is_right && datagrams < 2 * PINGS,
                "{PINGS} pings, {datagrams} datagrams {way}, {address}: {after}"
            );
        }
    }
    for way in ["frames_in", "frames_out"] {
        let frames = grown(&format!("/{way}"));
        ensure!((PINGS..2 * PINGS).contains(&frames), "{PINGS} pings, {frames} {way}: {after}");
    }
    Ok(())
}

/// The forwarding database has the address of each peer's interface, behind that peer.
fn stations(found: &Value) -> Result<()> {
    for peer in [LINUX, OTHER] {
        let mac = peer.run("cat /sys/class/net/cable/address")?.trim().to_owned();
        let is_it = |entry: &&Value| entry["mac"] == mac && entry["peer"] == peer.underlay();
        let entry = fdb(found)?
            .iter()
            .find(is_it)
            .with_context(|| format!("{mac} is not behind {}: {found}", peer.underlay()))?;
        ensure!(number(&entry["age"]) < 60, "it has just sent a frame: {entry}");
    }
    Ok(())
}

fn fdb(found: &Value) -> Result<&Vec<Value>> {
    found["fdb"].as_array().context("no forwarding database")
}

fn mac(address: [u8; 6]) -> String {
    address.map(|byte| format!("{byte:02x}")).join(":")
}

/// A datagram of this network, unless `vni` is another: a frame from `source`, of `length` bytes besides the addresses.
fn datagram(vni: u32, source: [u8; 6], ether_type: u16, length: usize) -> Result<Vec<u8>> {
    let header = header::emit(Vni::new(vni).context("a VNI has 24 bits")?);
    Ok([&header[..], &[0xff; 6], &source, &ether_type.to_be_bytes(), &vec![0; length]].concat())
}

/// Datagrams that are dropped, of each reason another number: each is counted under its reason.
pub(super) fn drops(session: &Session, mtu: u32) -> Result<()> {
    // For experiments (IEEE 802).
    const ETHER_TYPE: u16 = 0x88b5;
    let (vni, long) = (super::VNI.parse::<u32>()?, payload(mtu) as usize + 1);
    let own: Vec<_> =
        OURS.mac_address().split(':').map(|byte| u8::from_str_radix(byte, 16)).collect::<Result<_, _>>()?;
    let own = own.try_into().ok().context("a MAC address has six bytes")?;
    let mut short = datagram(vni, STATION, ETHER_TYPE, 0)?;
    short.pop();
    let sent = [
        ("stranger", datagram(vni, STATION, ETHER_TYPE, 46)?),
        ("not_vxlan", b"garbage, no VXLAN".to_vec()),
        ("other_vni", datagram(vni + 1, STATION, ETHER_TYPE, 46)?),
        ("short", short),
        ("long", datagram(vni, STATION, ETHER_TYPE, long)?),
        ("vlan_tag", datagram(vni, STATION, 0x8100, 46)?),
        ("invalid_source", datagram(vni, [0xff; 6], ETHER_TYPE, 46)?),
        ("own_address", datagram(vni, own, ETHER_TYPE, 46)?),
    ];
    let before = cable(session)?;
    let stranger = format!("address add {STRANGER}/32 dev wire");
    output(Command::new("ip").args(["-n", &LINUX.namespace()]).args(stranger.split_whitespace()))?;
    for (times, (why, bytes)) in (1..).zip(&sent) {
        let from = if *why == "stranger" { STRANGER.to_owned() } else { LINUX.underlay() };
        send(&LINUX, &from, bytes, times)?;
    }
    let expected: Vec<_> = (1..).zip(&sent).map(|(times, (why, _))| (*why, times)).collect();
    // The last ones may be on their way.
    until(|| dropped(&before, &cable(session)?, &expected))?;
    let after = cable(session)?;
    dropped(&before, &after, &expected)?;
    let station = mac(STATION);
    ensure!(fdb(&after)?.iter().all(|entry| entry["mac"] != station), "a dropped frame was learned from: {after}");
    ensure!(dropped(&before, &before, &expected).is_err(), "datagrams that were not sent were not missed: {before}");
    Ok(())
}

/// Has `computer` send our tunnel end a datagram, as often as `times` says.
fn send(computer: &Computer, from: &str, bytes: &[u8], times: u64) -> Result<()> {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let (from, to) = (format!("{from}:0"), format!("{}:{}", OURS.underlay(), header::PORT));
    let mut command = computer.command("");
    output(command.arg(program()).args(["datagram", &from, &to, &digits, &times.to_string()]))?;
    Ok(())
}

/// `expected`: how often each reason was counted since `before`. Other reasons were not, but for frames of Linux that no protocol wants.
fn dropped(before: &Value, after: &Value, expected: &[(&str, u64)]) -> Result<()> {
    let counts = after["dropped_in"].as_object().context("no counts")?;
    for (why, count) in counts.iter().filter(|(why, _)| *why != "not_wanted") {
        let grown = number(count).wrapping_sub(number(&before["dropped_in"][why]));
        let times = expected.iter().find(|(of, _)| of == why).map_or(0, |(_, times)| *times);
        ensure!(grown == times, "{times} datagrams to drop, {grown} counted, {why}: {before} {after}");
    }
    let missing = expected.iter().find(|(why, _)| !counts.contains_key(*why));
    ensure!(missing.is_none(), "{missing:?} is not shown: {after}");
    Ok(())
}
