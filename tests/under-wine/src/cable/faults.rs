//! Fault rules for frames: TCP of Linux, behind both ends of a patch cable, finds each changed bit, and mends what was lost, doubled and out of order.

use anyhow::{Context as _, Result, ensure};
use build::command::said;

use super::{Computer, MEBIBYTE, OTHER, OURS, stream, until, until_reached};
use crate::ndkctl::{ndkctl, shown};
use crate::session::Session;

/// A rule's action, the computer's counter (RFC 4022, and of Linux) that tells of it, and whether that is how often the rule has fired.
const ACTIONS: [(&str, End, &str, bool); 4] = [
    ("drop", End::Sender, "RetransSegs", false),
    ("duplicate", End::Receiver, "TCPDSACKOldSent", false),
    ("reorder", End::Receiver, "TCPOFOQueue", false),
    ("corrupt", End::Receiver, "InCsumErrors", true),
];

/// Firings of a rule.
const TIMES: u64 = 10;

#[derive(PartialEq)]
enum End {
    Sender,
    Receiver,
}

/// A computer's counter of TCP.
fn counter(computer: &Computer, name: &str) -> Result<u64> {
    let text = computer.run("cat /proc/net/snmp /proc/net/netstat")?;
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("Tcp")).collect();
    let found = lines.chunks_exact(2).find_map(|pair| {
        let [names, values] = pair else { return None };
        let place = names.split(' ').position(|found| found == name)?;
        values.split(' ').nth(place)?.parse().ok()
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

/// A frame waits for the next one of its direction while the adapter is paused: the pause completes, and nothing of the frame is left.
pub(super) fn held_frame_is_let_go(session: &mut Session) -> Result<()> {
    for (point, from, to) in [("frame-in", OTHER, OURS), ("frame-out", OURS, OTHER)] {
        // The pause waits for these lists too.
        session.hold()?;
        until_reached(&from, &to.address())?;
        until(|| {
            set(session, &format!("on {point} where address={} times 1 do reorder", to.address()))?;
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
