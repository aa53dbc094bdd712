//! The test of an adapter that has the addresses of TCP/IP.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use build::command::step;
use checks::tally::Tally;

use crate::run;
use crate::session::Session;

/// Ends what hangs.
const LIMIT: Duration = Duration::from_secs(120);
/// A level of events.
const WARNING: u8 = 3;

pub(crate) fn run(tally: &mut Tally) {
    let followed = step("changing the addresses of TCP/IP", follows);
    // Shows N13, S712, S1305.
    tally.check("without addresses of its own the driver has those of TCP/IP", followed);
    let refused = step("having TCP/IP not tell of its addresses", is_refused);
    // Shows S1305.
    tally.check(
        "an adapter that TCP/IP does not tell of its addresses starts, and asks again when it is restarted",
        refused,
    );
}

/// Waits until so many of two cases, one for each family, pass, and the others are skipped.
fn becomes(session: &Session, passed: u64, skipped: u64) -> Result<()> {
    let start = Instant::now();
    loop {
        let cases = ["run", "connector::connects", "connector::ipv6", "--path", "plain", "--json"];
        let outcome = run::harness(session, &cases, run::CASE_LIMIT)?;
        if outcome["passed"] == passed && outcome["skipped"] == skipped {
            return Ok(());
        }
        ensure!(start.elapsed() < LIMIT, "{}\n{}", outcome["cases"], session.log_tail());
    }
}

/// Addresses come and go with those of TCP/IP: the case for a family is skipped where there is no address of it. That of another
/// interface and one that is not sure yet are not among them. All are addresses of this system: listeners listen on its TCP, too.
fn follows() -> Result<()> {
    let mut session = Session::start(&[])?;
    session.set_tcpip(&["127.0.0.77"])?;
    session.load()?;
    becomes(&session, 1, 1).context("IPv4 alone")?;
    session.set_tcpip(&["127.0.0.77", "::1"])?;
    becomes(&session, 2, 0).context("with IPv6")?;
    session.set_tcpip(&["127.0.0.78"])?;
    becomes(&session, 1, 1).context("another IPv4 alone")?;
    session.set_tcpip(&[])?;
    becomes(&session, 0, 2).context("no address")?;
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// TCP/IP refuses to tell of changes: MiniportInitializeEx alone, then also each MiniportRestart.
fn is_refused() -> Result<()> {
    let mut session = Session::start(&[])?;
    session.set_tcpip(&["127.0.0.77"])?;
    session.trace(WARNING)?;
    for (refusals, passed) in [("1", 1), ("1000", 0)] {
        session.set_keyword("RefusedWatches", refusals)?;
        session.load()?;
        becomes(&session, passed, 2 - passed).with_context(|| format!("{refusals} refusals"))?;
        let report = session.unload()?;
        ensure!(report.is_clean(), "left behind: {report}");
        let events = session.events()?;
        let told = events.iter().filter(|event| event["event"] == "AddressesUnknown").count();
        ensure!(
            if passed == 1 { told == 1 } else { told >= 2 },
            "{refusals} refusals, of which {told} are told: {events:?}"
        );
    }
    Ok(())
}
