//! Who may open the control device: administrators, those whom the parameter `Groups` names, and nobody else.
//!
//! The stand-in for NDIS checks the device's security descriptor as the I/O manager would; descriptors, tokens and the check are Wine's. What
//! Wine lacks is the status of an open: the first request of a file that was refused has it.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use build::command::{said, step};
use build::dist::TEST_DRIVER;
use checks::tally::Tally;

use crate::prefix;
use crate::report::StandInReport;
use crate::session::{self, Session};

const ADMINISTRATORS: &str = "S-1-5-32-544";
/// Those in which an ordinary user of Wine is.
const USERS: &str = "S-1-5-32-545";
/// One in which he is not.
const GUESTS: &str = "S-1-5-32-546";

/// What is no list of SIDs. Some of it would open the device to everyone.
const NO_SIDS: [&str; 10] = [
    "Users",
    "WD",
    "S-1-5",
    "S-1-5-32-",
    "s-1-5-32-545",
    "S-1-5-32-545)(A;;GA;;;WD",
    "S-1-5-32-545;S-1-1-0",
    "S-1-5-32-4294967296",
    "S-1-281474976710656-1",
    "S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16",
];

/// The programs that an ordinary user tries.
const PROGRAMS: [&[&str]; 4] = [
    &["ndharness.exe", "run", "--front-end", "ioctl", "--path", "rings", "adapter::addresses"],
    &["ndharness.exe", "run", "--front-end", "nd1", "--path", "rings", "connector::other_version"],
    &["ndharness.exe", "run", "--front-end", "nd2", "--path", "rings", "messages::inline"],
    &["ndkctl.exe", "connections"],
];

/// Every test of it.
pub fn run(tally: &mut Tally) {
    let refused = step("trying the device as an ordinary user", || ordinary_user(prefix::DRIVER));
    // Shows T1.
    tally.check("programs of an ordinary user are refused", refused);
    let named = step("naming groups that may open the device", groups);
    // Shows T65.
    tally.check("programs of a group that the parameter Groups names are served, those of others refused", named);
    let no_sids = step("naming what is no group", no_sids);
    // Shows T44, T67.
    tally.check("an adapter whose Groups are no SIDs, or whose Addresses are none, does not start", no_sids);
    let no_cable = step("naming what is no cable", no_cable);
    tally.check("an adapter whose cable cannot be does not start, another one starts without its link", no_cable);
    let below = step("opening a name below the device", || names_below(None));
    // Shows T2.
    tally.check("a name below the device is not opened", below);
}

/// The negative controls, on the driver of tests.
pub fn planted(tally: &mut Tally) {
    let caught = |error: anyhow::Error| if format!("{error:#}").contains(SERVED) { Ok(()) } else { Err(error) };
    let open = ordinary_user(TEST_DRIVER).map_or_else(caught, |()| Err(anyhow::anyhow!("not caught")));
    // Shows T1.
    tally.check("a planted device that everyone may open is caught", open);
    // Shows T2.
    tally.check("a planted device whose descriptor does not hold below it is caught", names_below(Some("names")));
}

const SERVED: &str = "served, though it should not be";

/// Runs a program, as an administrator or `without` some groups: whether it was served.
fn is_served(session: &Session, without: &[&str], program: &[&str]) -> Result<bool> {
    let groups = without.join(",");
    let (first, more) = match without {
        [] => (program.split_first(), &[][..]),
        _ => (Some((&"ordinary.exe", program)), &[groups.as_str()][..]),
    };
    let Some((first, rest)) = first else { anyhow::bail!("no program") };
    let output = session.program(first).args(more).args(rest).output()?;
    let (text, denied) = (said(&output), "STATUS_ACCESS_DENIED");
    let served = output.status.success();
    ensure!(served || text.contains(denied), "{program:?} without {without:?} ended with {}:\n{text}", output.status);
    Ok(served)
}

fn check(session: &Session, without: &[&str], wanted: bool) -> Result<()> {
    for program in PROGRAMS {
        let served = is_served(session, without, program)?;
        let what = if served { SERVED } else { "refused" };
        ensure!(served == wanted, "{program:?} without {without:?}: {what}\n{}", session.log_tail());
    }
    Ok(())
}

fn is_clean(report: &StandInReport) -> Result<()> {
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

fn start(driver: &str) -> Result<Session> {
    Session::start_driver(driver, &session::addresses(&[] as &[IpAddr])?)
}

fn ordinary_user(driver: &str) -> Result<()> {
    let mut session = start(driver)?;
    session.load()?;
    check(&session, &[], true)?;
    check(&session, &[ADMINISTRATORS], false)?;
    is_clean(&session.unload()?)
}

fn groups() -> Result<()> {
    let mut session = start(prefix::DRIVER)?;
    session.set_keyword("Groups", &format!("{GUESTS}, {USERS}"))?;
    session.load()?;
    check(&session, &[], true)?;
    check(&session, &[ADMINISTRATORS], true)?;
    check(&session, &[ADMINISTRATORS, USERS], false)?;
    is_clean(&session.unload()?)?;
    session.set_keyword("Groups", GUESTS)?;
    session.load()?;
    check(&session, &[ADMINISTRATORS], false)?;
    is_clean(&session.unload()?)
}

fn no_sids() -> Result<()> {
    let mut session = start(prefix::DRIVER)?;
    let too_long = [USERS; 43].join(",");
    let groups = NO_SIDS.into_iter().chain([&*too_long]).map(|groups| ("Groups", groups));
    for (keyword, wrong) in groups.chain([("Addresses", "10.0.0.256")]) {
        session.set_keyword(keyword, wrong)?;
        starts_in_vain(&mut session).with_context(|| format!("{keyword} = {wrong}"))?;
        session.set_keyword("Groups", USERS)?;
    }
    Ok(())
}

/// Parameters of a cable that cannot be; with others the adapter starts, without its link, as no interface has `CableLocal`.
fn no_cable() -> Result<()> {
    let mut session = start(prefix::DRIVER)?;
    let name = |session: &mut Session, peers: &str, local: &str| {
        session.set_keyword("CablePeers", peers)?;
        session.set_keyword("CableLocal", local)
    };
    for (peers, local) in [
        ("host", "192.0.2.1"),
        ("192.0.2.2", "host"),
        ("192.0.2.1", "192.0.2.1"),
        ("192.0.2.2, 192.0.2.2", "192.0.2.1"),
        ("192.0.2.2", "2001:db8::1"),
        ("fe80::2", "2001:db8::1"),
        ("224.0.0.1", "192.0.2.1"),
        ("local, 192.0.2.2", "192.0.2.1"),
    ] {
        name(&mut session, peers, local)?;
        starts_in_vain(&mut session).with_context(|| format!("CablePeers = {peers}, CableLocal = {local}"))?;
    }
    name(&mut session, "192.0.2.2, 192.0.2.3", "192.0.2.1")?;
    session.load()?;
    is_clean(&session.unload()?)
}

fn starts_in_vain(session: &mut Session) -> Result<()> {
    let (status, report) = session.load_in_vain()?;
    ensure!(status.contains("NDIS_STATUS_INVALID_DATA"), "{status}");
    is_clean(&report)
}

/// The driver itself refuses the name, which Wine's I/O manager does not let through; with a planted fault the descriptor of the device
/// does not hold for it, which the report of the stand-ins has to say.
fn names_below(planted: Option<&str>) -> Result<()> {
    let mut session = start(if planted.is_some() { TEST_DRIVER } else { prefix::DRIVER })?;
    session.load()?;
    session.open_below()?;
    match planted {
        None => is_clean(&session.unload()?),
        Some(fault) => {
            session.plant(fault)?;
            let report = session.unload()?;
            ensure!(report.details.iter().any(|line| line.contains("FILE_DEVICE_SECURE_OPEN")), "not caught: {report}");
            Ok(())
        }
    }
}
