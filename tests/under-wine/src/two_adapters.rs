//! Two adapters of one driver, at addresses of this system's loopback, between which programs speak. The first goes while they do.

use anyhow::{Result, ensure};
use build::command::step;
use checks::tally::Tally;
use serde_json::json;

use crate::ndkctl::shown;
use crate::session::Session;
use crate::two_processes::{self, Harness, is_told, serving_at, so_many_requests};
use crate::wine_tests::{SECOND, diagnostics_of, until};

const ADDRESSES: [&str; 2] = ["127.0.0.2", "127.0.0.3"];
const DEVICES: [&str; 2] = [r"\\.\SoftNdk", r"\\.\SoftNdk2"];

pub(crate) fn run(tally: &mut Tally) {
    let served = step("two adapters of one driver", || served(tally));
    // Shows S1316.
    tally.check("two adapters of one driver serve programs, and one goes without the other", served);
}

fn served(tally: &mut Tally) -> Result<()> {
    let mut session = Session::start(&[ADDRESSES[0].parse()?])?;
    session.set_keyword("Adapters", "2")?;
    session.set_keyword("1.Addresses", ADDRESSES[1])?;
    session.load()?;
    until(|| {
        ensure!(session.log()?.contains("ndis: adapter 1 started and checked"), "the second adapter has not started");
        Ok(())
    })?;
    adapters_are(&session, &[0, 1])?;
    two_processes::roles_of_adapters(&session, ADDRESSES[1], "rings", tally)?;
    first_goes(&mut session)?;
    adapters_are(&session, &[1])?;
    // Programs find the adapter that is left.
    let server = two_processes::serve(&session, "rings")?;
    two_processes::play(server, &session, &["--path", "rings", "messages"], None, tally)?;
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// `ndkctl adapters` shows these adapters.
fn adapters_are(session: &Session, numbers: &[usize]) -> Result<()> {
    let found = shown(session, &["adapters"])?;
    let adapters = found["adapters"].as_array().cloned().unwrap_or_default();
    let has = |field: &str| adapters.iter().map(|adapter| adapter[field].clone()).collect::<Vec<_>>();
    let expected = |of: [&str; 2]| numbers.iter().map(|number| json!(of[*number])).collect::<Vec<_>>();
    let addresses = has("addresses").iter().map(|addresses| addresses[0].clone()).collect::<Vec<_>>();
    ensure!(has("device") == expected(DEVICES) && addresses == expected(ADDRESSES), "{found:#}");
    let mut luids = has("net_luid");
    luids.dedup();
    ensure!(luids.len() == numbers.len(), "{found:#}");
    Ok(())
}

/// Removes the first adapter while a program on it exchanges messages with one on the second.
fn first_goes(session: &mut Session) -> Result<()> {
    let server = Harness::start(session, &["serve", "--address", ADDRESSES[1]])?;
    let address = server.until(serving_at)?;
    let client = Harness::start(session, &["connect", &address, "exchange", "--wire", "--seconds", "600"])?;
    let requests = server.until(|line| so_many_requests(line, 1))?;
    ensure!(requests > 0, "nothing was exchanged");
    session.remove_surprisingly()?;
    let (status, text) = client.end()?;
    ensure!(!status.success(), "the program on the adapter that has gone noticed nothing:\n{text}");
    let (status, text) = server.end()?;
    ensure!(status.code() == Some(1), "the program on the other adapter ended with {status}:\n{text}");
    is_told(&text)?;
    until(|| {
        let left = diagnostics_of(session, SECOND)?;
        let is_idle = ["qps", "cqs", "mrs", "connectors", "listeners"].iter().all(|kind| left[kind] == 0);
        ensure!(is_idle, "left on the other adapter: {left}");
        Ok(())
    })
}
