//! Adapters of one softndk.sys, joined by patch cables. TCP/IP behind the first two is Linux's, in a computer each.

use anyhow::{Result, ensure};
use checks::tally::Tally;

use super::stream::Stream;
use super::{
    Computer, MEBIBYTE, Network, OTHER, OURS, allocations, faults, is_clean, paused, ping, seen, stream, until,
    until_reached,
};
use crate::session::Session;
use crate::two_computers::{self, LOOPBACK};
use crate::two_processes;
use crate::wine_tests::{FIRST, SECOND};

/// Bytes of a ping besides its data.
const PING: u32 = 28;
/// Why a link is down without another adapter.
const NO_OTHER_END: &str = "NDIS_STATUS_MEDIA_DISCONNECTED";

pub(super) fn run(tally: &mut Tally) -> Result<()> {
    for mtu in [1500, 9000] {
        two_adapters(mtu, tally)?;
    }
    let network = Network::build(1500, &[OURS])?;
    let mut session = session(1500)?;
    session.set_keyword("1.CableVni", "8")?;
    let mut check = |what: &str, result: Result<()>| tally.check(&format!("{what}, by a patch cable"), result);
    check("ends with another number are not joined", not_joined(&mut session));
    check("softndk.sys leaves nothing with ends that are not joined", is_clean(&session.unload()?));
    check("a third end waits, and takes the place of one that goes", three_adapters(&mut session));
    check("softndk.sys leaves nothing with three ends", is_clean(&session.unload()?));
    drop(network);
    Ok(())
}

/// All that passes between two adapters, and what happens when one of them pauses, sleeps and goes.
fn two_adapters(mtu: u32, tally: &mut Tally) -> Result<()> {
    let network = Network::build(mtu, &[OURS])?;
    OURS.run(&format!("ip link set cable mtu {mtu}"))?;
    let mut session = session(mtu)?;
    second_interface()?;
    session.load()?;
    until_second_started()?;
    // The second adapter is behind the other computer's interface.
    OTHER.run("ip link delete cable")?;
    OURS.run(&format!("ip link set second netns {} name cable", OTHER.namespace()))?;
    OTHER.run(&format!("ip address add {}/24 dev cable", OTHER.address()))?;
    OTHER.run(&format!("ip address add {}/64 dev cable nodad", OTHER.address_v6()))?;
    OTHER.run(&format!("ip link set cable mtu {mtu} up"))?;
    let mut check = |what: &str, result: Result<()>| {
        tally.check(&format!("{what}, by a patch cable, MTU {mtu}"), result);
    };
    check("the adapters reach one another", until_reached(&OURS, &OTHER.address()));
    for adapter in [FIRST, SECOND] {
        check(&format!("ndkctl shows it of adapter {adapter}"), seen::is_patched(&session, adapter));
    }
    check("IPv6 too", ping(&OTHER, &OURS.address_v6(), 56));
    for (from, to) in [(OURS, OTHER), (OTHER, OURS)] {
        let what = |what: &str| format!("{what} from computer {} to {}", from.0, to.0);
        check(&what("the largest frame passes"), ping(&from, &to.address(), mtu - PING));
        check(&what("a stream of 64 MiB"), stream(&from, &to, 64 * MEBIBYTE));
    }
    check("no frame allocates pool", allocates_nothing(&mut session));
    if mtu == 1500 {
        let played = two_computers::cases_of_adapters(&session, LOOPBACK, tally);
        tally.check("every case but one holds between two adapters, over their addresses, by a patch cable", played);
        for path in ["rings", "plain"] {
            let played = two_processes::roles_of_adapters(&session, &OTHER.address(), path, tally);
            tally.check(
                &format!("every case of programs on {path} holds between two adapters, by a patch cable"),
                played,
            );
        }
    }
    let mut check = |what: &str, result: Result<()>| {
        tally.check(&format!("{what}, by a patch cable, MTU {mtu}"), result);
    };
    if mtu == 1500 {
        check("TCP mends what fault rules do to frames", faults::are_mended(&session));
        check(
            "frames that fault rules delay come late, in order, and when the rule is removed",
            faults::are_late(&session),
        );
        check("a frame that waits by a rule is let go by a pause", faults::held_frame_is_let_go(&mut session));
    }
    check("a stream goes on when the one adapter was paused", paused::pauses(&mut session, &OTHER));
    check("a stream goes on when the one adapter sleeps", paused::sleeps(&mut session, &OTHER));
    check("the one adapter goes in mid stream, and the other's link goes down", goes(&mut session));
    check("softndk.sys leaves nothing and breaks no rule", is_clean(&session.unload()?));
    check("NDIS was told of each change of the links once", told(&session));
    drop(network);
    Ok(())
}

/// The driver of two adapters, not loaded yet.
fn session(mtu: u32) -> Result<Session> {
    let address = |computer: &Computer| [computer.address(), computer.address_v6()].join(",");
    let mut session = Session::start_in(&OURS.namespace(), &[OURS.address().parse()?, OURS.address_v6().parse()?])?;
    for (keyword, value) in [
        ("Adapters", "2"),
        ("TapInterface", "cable"),
        ("1.TapInterface", "second"),
        ("1.Addresses", &address(&OTHER)),
        ("OtherComputer", &format!("{} {}", OTHER.namespace_path(), address(&OTHER))),
        ("CablePeers", "local"),
        ("CableVni", super::VNI),
        ("1.CableVni", super::VNI),
        ("FaultInjection", "1"),
        // With the Ethernet header.
        ("*JumboPacket", &(mtu + 14).to_string()),
    ] {
        session.set_keyword(keyword, value)?;
    }
    Ok(session)
}

/// Makes the second adapter's interface.
fn second_interface() -> Result<()> {
    OURS.run("ip tuntap add second mode tap")?;
    OURS.run("ip link set second up").map(|_| ())
}

/// A driver is loaded when its first adapter is there. The second one's interface has a carrier once that has started and was checked.
fn until_second_started() -> Result<()> {
    until(|| {
        let carrier = OURS.run("cat /sys/class/net/second/carrier")?;
        ensure!(carrier.trim() == "1", "the second adapter has not started");
        Ok(())
    })
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

fn goes(session: &mut Session) -> Result<()> {
    let stream = Stream::start(&OURS, &OTHER)?;
    session.hold()?;
    stream.flows()?;
    session.remove_surprisingly()?;
    seen::is_down(session, SECOND, NO_OTHER_END)
}

/// What NDIS was told of an adapter's link in this session, in order.
fn links(session: &Session, adapter: u32) -> Result<Vec<String>> {
    let (log, of) = (session.log()?, format!("ndis: link of adapter {adapter}: "));
    Ok(log.lines().filter_map(|line| Some(line.split_once(&of)?.1.trim().to_owned())).collect())
}

/// The first adapter starts twice, the second sees it come, sleep, come again, and go.
fn told(session: &Session) -> Result<()> {
    let told = [links(session, 0)?, links(session, 1)?];
    ensure!(told[0] == ["up", "up"] && told[1] == ["up", "down", "up", "down"], "{told:?}");
    Ok(())
}

fn not_joined(session: &mut Session) -> Result<()> {
    second_interface()?;
    session.load()?;
    until_second_started()?;
    for adapter in [FIRST, SECOND] {
        seen::is_down(session, adapter, NO_OTHER_END)?;
    }
    let told = [links(session, 0)?, links(session, 1)?];
    ensure!(told.iter().all(Vec::is_empty), "{told:?}");
    Ok(())
}

fn three_adapters(session: &mut Session) -> Result<()> {
    for (keyword, value) in [
        ("Adapters", "3"),
        ("1.CableVni", super::VNI),
        ("2.CableVni", super::VNI),
        ("2.TapInterface", "third"),
        ("2.Addresses", "192.0.2.4"),
    ] {
        session.set_keyword(keyword, value)?;
    }
    session.load()?;
    until(|| {
        ensure!(session.log()?.contains("ndis: adapter 2 started and checked"), "the third adapter has not started");
        Ok(())
    })?;
    let told = [links(session, 0)?, links(session, 1)?, links(session, 2)?];
    ensure!(told[0] == ["up"] && told[1] == ["up"] && told[2].is_empty(), "{told:?}");
    seen::is_patched(session, FIRST)?;
    session.remove_surprisingly()?;
    until(|| {
        let told = [links(session, 0)?, links(session, 1)?, links(session, 2)?];
        ensure!(told[1] == ["up", "down", "up"] && told[2] == ["up"], "{told:?}");
        Ok(())
    })
}
