//! Fault rules for frames: TCP of Linux, behind both ends of a patch cable, finds each changed bit, and mends what was lost, doubled and out of order;
//! what is delayed comes late and in order.

use anyhow::{Context as _, Result, ensure};
use build::command::said;

use super::{Computer, MEBIBYTE, OTHER, OURS, stream, until, until_reached};
use crate::ndkctl::{ndkctl, shown};
use crate::session::Session;

/// A rule's action, the computer's counter (RFC 4022, and of Linux) that tells of it, and whether that is how often the rule has fired.
const ACTIONS: [(&str, End, &str, bool); 4] = [
    ("drop", End::Sender, "TcpRetransSegs", false),
    ("duplicate", End::Receiver, "TcpExtTCPDSACKOldSent", false),
    ("reorder", End::Receiver, "TcpExtTCPOFOQueue", false),
    ("corrupt", End::Receiver, "TcpInCsumErrors", true),
];

/// Firings of a rule.
const TIMES: u64 = 10;

#[derive(PartialEq)]
enum End {
    Sender,
    Receiver,
}

/// A computer's counter, by nstat's name.
fn counter(computer: &Computer, name: &str) -> Result<u64> {
    let text = computer.run("cat /proc/net/snmp /proc/net/netstat")?;
    let lines: Vec<_> = text.lines().collect();
    let found = lines.chunks_exact(2).find_map(|pair| {
        let [names, values] = pair else { return None };
        let (protocol, names) = names.split_once(':')?;
        let place = names.split(' ').position(|found| Some(found) == name.strip_prefix(protocol))?;
        values.split_once(':')?.1.split(' ').nth(place)?.parse().ok()
    });
    found.with_context(|| format!("no counter {name}"))
}

fn set(session: &Session, rules: &str) -> Result<()> {
    let set = ndkctl(session, &["faults", "set", rules])?;
    ensure!(set.status.success(), "{}", said(&set));
    Ok(())
}

/// Frames of the first adapter, which is `OURS`, in both directions.
pub(super) fn are_mended(session: &Session) -> Result<()> {
    for (point, from, to) in [("frame-out", OURS, OTHER), ("frame-in", OTHER, OURS)] {
        for (action, end, name, is_exact) in ACTIONS {
            let of = if end == End::Sender { &from } else { &to };
            // Data segments, not the first ones.
            set(
                session,
                &format!("on {point} where port=5001 bytes>=1000 after 100 every 50 times {TIMES} do {action}"),
            )?;
            let before = counter(of, name)?;
            stream(&from, &to, 4 * MEBIBYTE).with_context(|| format!("{point}, {action}"))?;
            let counted = counter(of, name)? - before;
            let fired = shown(session, &["faults"])?["rules"][0]["fired"].as_u64();
            ensure!(fired == Some(TIMES), "{point}, {action}: {fired:?} firings");
            let expected = if is_exact { counted == TIMES } else { counted > 0 };
            ensure!(expected, "{point}, {action}: {name} rose by {counted}");
        }
        // Other ports are left alone.
        set(session, &format!("on {point} where port=5002 do drop"))?;
        stream(&from, &to, MEBIBYTE)?;
        let rules = shown(session, &["faults"])?["rules"].clone();
        ensure!(rules[0]["passed"] == 0, "{rules}");
    }
    let cleared = ndkctl(session, &["faults", "clear"])?;
    ensure!(cleared.status.success(), "{}", said(&cleared));
    Ok(())
}

/// Frames of the first adapter, which is `OURS`, in both directions, come when their time is over, in order; those that wait, when their rule goes.
pub(super) fn are_late(session: &Session) -> Result<()> {
    for (point, from, to) in [("frame-out", OURS, OTHER), ("frame-in", OTHER, OURS)] {
        set(session, &format!("on {point} where address={} do delay 200ms", to.address()))?;
        from.run(&format!("ping -n -c 3 -i 0.1 {}", to.address()))?;
        let fired = shown(session, &["faults"])?["rules"][0]["fired"].as_u64();
        ensure!(fired >= Some(3), "{point}: {fired:?} firings");

        set(session, &format!("on {point} where port=5001 do delay 20ms"))?;
        let before = counter(&to, "TcpExtTCPOFOQueue")?;
        stream(&from, &to, MEBIBYTE).with_context(|| format!("{point}, delay"))?;
        let misplaced = counter(&to, "TcpExtTCPOFOQueue")? - before;
        ensure!(misplaced == 0, "{point}: {misplaced} segments out of order");

        until_reached(&from, &to.address())?;
        until(|| {
            let before = counter(&to, "IcmpInEchos")?;
            set(session, &format!("on {point} where address={} times 1 do delay 3600s", to.address()))?;
            let ping = from.run(&format!("ping -n -c 1 -W 1 {}", to.address()));
            ensure!(ping.is_err(), "{point}: the request does not wait");
            let cleared = ndkctl(session, &["faults", "clear"])?;
            ensure!(cleared.status.success(), "{}", said(&cleared));
            from.run(&format!("ping -n -c 1 {}", to.address()))?;
            let arrived = counter(&to, "IcmpInEchos")? - before;
            ensure!(arrived == 2, "{point}: {arrived} requests came when the rule was removed");
            Ok(())
        })?;
    }
    Ok(())
}

/// A frame waits by a rule while the adapter is paused: the pause completes, and nothing of the frame is left.
pub(super) fn held_frame_is_let_go(session: &mut Session) -> Result<()> {
    for (action, point) in
        [("reorder", "frame-in"), ("reorder", "frame-out"), ("delay 3600s", "frame-in"), ("delay 3600s", "frame-out")]
    {
        let (from, to) = if point == "frame-in" { (OTHER, OURS) } else { (OURS, OTHER) };
        // The pause waits for these lists too.
        session.hold()?;
        until_reached(&from, &to.address())?;
        until(|| {
            set(session, &format!("on {point} where address={} times 1 do {action}", to.address()))?;
            let ping = from.run(&format!("ping -n -c 1 -W 1 {}", to.address()));
            // Answered, if a frame of another protocol came behind the request.
            ensure!(ping.is_err(), "{point}: the request does not wait");
            Ok(())
        })?;
        session.pause()?;
        until_reached(&from, &to.address())?;
    }
    Ok(())
}
