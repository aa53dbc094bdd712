//! Two adapters of one softndk.sys, joined by a patch cable. TCP/IP behind each is Linux's, in a computer of its own.

use anyhow::{Result, ensure};
use checks::tally::Tally;

use super::stream::Stream;
use super::{
    Computer, MEBIBYTE, Network, OTHER, OURS, allocations, is_clean, ping, refused, seen, stream, until, until_reached,
    until_unreached,
};
use crate::session::Session;

/// Without an encapsulation on a network, the adapters carry what `*JumboPacket` says.
const MTU: u32 = 1500;
/// Bytes of a ping besides its data.
const PING: u32 = 28;

pub(super) fn run(tally: &mut Tally) -> Result<()> {
    let network = Network::build(MTU, &[OURS])?;
    // The second adapter is behind the other computer's interface of this name.
    OTHER.run("ip link delete cable")?;
    OURS.run("ip tuntap add second mode tap")?;
    OURS.run(&format!("ip link set cable mtu {MTU}"))?;
    let mut session = session()?;
    session.load()?;
    // The first adapter is there; the second's interface has a carrier once the stand-in has opened it.
    OURS.run("ip link set second up")?;
    until(|| {
        let carrier = OURS.run("cat /sys/class/net/second/carrier")?;
        ensure!(carrier.trim() == "1", "the second adapter has not started");
        Ok(())
    })?;
    for line in [
        format!("ip link set second netns {} name cable", OTHER.namespace()),
        format!("ip -n {} address add {}/24 dev cable", OTHER.namespace(), OTHER.address()),
        format!("ip -n {} address add {}/64 dev cable nodad", OTHER.namespace(), OTHER.address_v6()),
        format!("ip -n {} link set cable mtu {MTU} up", OTHER.namespace()),
    ] {
        OURS.run(&line)?;
    }
    let mut check = |what: &str, result: Result<()>| tally.check(&format!("{what}, by a patch cable"), result);
    check("the adapters reach one another", until_reached(&OURS, &OTHER.address()));
    check("ndkctl shows it", seen::is_patched(&session));
    check("IPv6 too", ping(&OTHER, &OURS.address_v6(), 56));
    for (from, to) in [(OURS, OTHER), (OTHER, OURS)] {
        let what = |what: &str| format!("{what} from computer {} to {}", from.0, to.0);
        check(&what("the largest frame passes"), ping(&from, &to.address(), MTU - PING));
        check(&what("a larger one is refused"), refused(ping(&from, &to.address(), MTU - PING + 1)));
        check(&what("a stream of 64 MiB"), stream(&from, &to, 64 * MEBIBYTE));
    }
    check("no frame allocates pool", allocates_nothing(&mut session));
    check("a stream goes on when the one adapter sleeps", sleeps(&mut session));
    session.remove_surprisingly()?;
    check("without the one adapter the other is not reached", until_unreached(&OTHER, &OURS.address()));
    check("ndkctl shows that the other's link is down", seen::is_unpatched(&session));
    let report = session.unload()?;
    check("softndk.sys leaves nothing and breaks no rule", is_clean(&report));

    session.set_keyword("1.CableVni", "8")?;
    session.load()?;
    check("ends with another number are not joined", seen::is_unpatched(&session));
    let report = session.unload()?;
    check("softndk.sys leaves nothing with ends that are not joined", is_clean(&report));
    drop(network);
    Ok(())
}

/// An adapter that is halted parts the ends, and joins them when it is back.
fn sleeps(session: &mut Session) -> Result<()> {
    let stream = Stream::start(&OTHER, &OURS)?;
    session.hold()?;
    stream.flows()?;
    session.sleep()?;
    until_reached(&OTHER, &OURS.address())?;
    stream.flows()?;
    stream.end()
}

/// The driver of two adapters, not loaded yet.
fn session() -> Result<Session> {
    let address = |computer: &Computer| [computer.address(), computer.address_v6()].join(",");
    let mut session = Session::start_in(&OURS.namespace(), &[OURS.address().parse()?, OURS.address_v6().parse()?])?;
    for (keyword, value) in [
        ("Adapters", "2"),
        ("TapInterface", "cable"),
        ("1.TapInterface", "second"),
        ("1.Addresses", &address(&OTHER)),
        ("CablePeers", "local"),
        ("CableVni", super::VNI),
        ("1.CableVni", super::VNI),
    ] {
        session.set_keyword(keyword, value)?;
    }
    Ok(session)
}

/// Sends a stream each way.
fn allocates_nothing(session: &mut Session) -> Result<()> {
    let question = allocations(session, || Ok(()))?;
    let streams = allocations(session, || {
        stream(&OURS, &OTHER, 16 * MEBIBYTE)?;
        stream(&OTHER, &OURS, 16 * MEBIBYTE)
    })?;
    ensure!(question > 0 && streams == question, "{question} times without traffic, {streams} times with it");
    Ok(())
}
