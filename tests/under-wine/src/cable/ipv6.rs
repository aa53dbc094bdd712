//! softndk.sys and VXLAN of Linux over a network of IPv6.

use anyhow::Result;
use checks::tally::Tally;

use super::{LINUX, MEBIBYTE, Network, OURS, VNI, is_clean, ping, refused, session, stream, until_reached};

const MTU: u32 = 1500;
/// Bytes in a frame that a datagram can carry: less IPv6, UDP, VXLAN and Ethernet.
const PAYLOAD: u32 = MTU - 70;
/// Bytes of a ping besides its data.
const PING: u32 = 28;

pub(super) fn run(tally: &mut Tally) -> Result<()> {
    let network = Network::build(MTU, &[OURS])?;
    let [ours, linux] = [OURS, LINUX].map(|computer| format!("fd00:cab::{}", computer.0));
    OURS.run(&format!("ip address add {ours}/64 dev wire nodad"))?;
    OURS.run(&format!("ip link set cable mtu {PAYLOAD}"))?;
    for line in [
        format!("ip address add {linux}/64 dev wire nodad"),
        "ip link delete cable".to_owned(),
        format!("ip link add cable type vxlan id {VNI} local {linux} remote {ours} dev wire dstport 4789"),
        "ethtool -K cable tx off".to_owned(),
        format!("ip address add {}/24 dev cable", LINUX.address()),
        "ip link set cable up".to_owned(),
    ] {
        LINUX.run(&line)?;
    }
    let mut session = session(&OURS, MTU)?;
    for (keyword, value) in [("OtherAddresses", &ours), ("CableLocal", &ours), ("CablePeers", &linux)] {
        session.set_keyword(keyword, value)?;
    }
    session.load()?;
    let mut check = |what: &str, result: Result<()>| tally.check(&format!("{what}, underlay of IPv6"), result);
    check("the peer reaches the adapter", until_reached(&LINUX, &OURS.address()));
    check("the largest frame passes", ping(&OURS, &LINUX.address(), PAYLOAD - PING));
    check("the largest frame passes back", ping(&LINUX, &OURS.address(), PAYLOAD - PING));
    check("a larger one is refused", refused(ping(&OURS, &LINUX.address(), PAYLOAD - PING + 1)));
    check("a stream of 64 MiB goes out", stream(&OURS, &LINUX, 64 * MEBIBYTE));
    check("a stream of 64 MiB comes in", stream(&LINUX, &OURS, 64 * MEBIBYTE));
    let report = session.unload()?;
    check("softndk.sys leaves nothing and breaks no rule", is_clean(&report));
    drop(network);
    Ok(())
}
