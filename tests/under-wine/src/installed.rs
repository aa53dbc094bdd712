//! The driver by its INF, under Wine: installed through SetupAPI, started by Plug and Play, back after a restart, removed.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use build::command::step;
use build::{inf, paths, wine};
use checks::tally::Tally;
use serde_json::Value;

use crate::prefix::{BESIDE_AN_INSTALLED_DRIVER, Computer};
use crate::run;
use crate::session::Session;

/// What Wine's SetupAPI takes for the driver store (DIRID 13): a folder for all that it does not know.
const DRIVER_STORE: &str = "drive_c/windows/system32/unknown";

/// Faults in the INF: what is wrong, the right text, the wrong one, and what is said.
const FAULTS: [(&str, &str, &str, &str); 3] = [
    ("for another device", r"Root\SoftNdk", r"Root\SoftNdkX", "the device has got no driver"),
    ("without its catalog", "= softndk.cat", "= missing.cat", "os error 2"),
    ("whose service is disabled", "StartType      = 3", "StartType = 4", "os error 2"),
];

/// In a prefix made for this. Each of the faults has to be noticed.
pub fn run(tally: &mut Tally) {
    let prefix = Computer::Installed.prefix();
    // An earlier run may have been broken off.
    let _ = wine::end(&prefix);
    let _ = fs::remove_dir_all(&prefix);
    for (what, good, bad, said) in FAULTS {
        let noticed = step(&format!("installing an INF {what}"), || fault(good, bad, said));
        tally.check(&format!("an INF {what} is noticed"), noticed);
    }
    let installed = step("installing softndk.sys by its INF", life);
    // Shows S1403.
    tally.check("the INF installs, its device starts, starts again after a restart, and is removed", installed);
    let _ = fs::remove_dir_all(&prefix);
}

fn fault(good: &str, bad: &str, said: &str) -> Result<()> {
    let text = text()?;
    ensure!(text.contains(good), "{good:?} is not in the INF");
    let mut session = Session::start_installed()?;
    place(&text.replace(good, bad))?;
    let error = match session.install() {
        Err(error) => error,
        // Wine installs a driver that does not start.
        Ok(()) => {
            let error = session.wait_for_device().err().context("the device has started")?;
            session.remove()?;
            session.delete_driver()?;
            error
        }
    };
    ensure!(format!("{error:#}").contains(said), "it says only: {error:#}");
    let traces = traces(&session)?;
    ensure!(traces.is_empty(), "left behind: {traces:?}");
    Ok(())
}

fn life() -> Result<()> {
    let mut session = Session::start_installed()?;
    place(&text()?)?;
    session.install()?;
    session.wait_for_device().with_context(|| session.log_tail())?;
    ensure!(traces(&session)?.len() == TRACES.len(), "only these are there: {:?}", traces(&session)?);
    // Its addresses would be those of TCP/IP, and there are none.
    ensure!(answers(&session), "the device does not answer\n{}", session.log_tail());
    let outcome = cases(&session, "connector::connects")?;
    ensure!(outcome["skipped"] == 1, "the device has an address: {}", outcome["cases"]);

    session.set_keyword("Addresses", "127.0.0.1")?;
    drop(session);
    let mut session = Session::start_installed()?;
    session.wait_for_device().with_context(|| session.log_tail())?;
    passes(&session, "connector::connects", true)?;
    passes(&session, "send::", false)?;

    session.remove()?;
    ensure!(!answers(&session), "the device answers when it has been removed");
    session.delete_driver()?;
    let report = session.report()?;
    ensure!(report.is_clean(), "left behind: {report}");
    nothing_is_left(&session).context("after the removal")?;
    drop(session);
    nothing_is_left(&Session::start_installed()?).context("after another restart")
}

fn nothing_is_left(session: &Session) -> Result<()> {
    let traces = traces(session)?;
    ensure!(traces.is_empty(), "there are still {traces:?}");
    ensure!(!answers(session), "the device answers");
    Ok(())
}

fn cases(session: &Session, name: &str) -> Result<Value> {
    run::harness(session, &["run", name, "--path", "plain", "--json"], run::CASE_LIMIT)
}

/// Whether a program can open the device.
fn answers(session: &Session) -> bool {
    cases(session, "adapter::unknown_address").is_ok_and(|outcome| outcome["passed"] == 1)
}

fn passes(session: &Session, name: &str, all: bool) -> Result<()> {
    let outcome = cases(session, name)?;
    let passed = outcome["passed"] != 0 && outcome["failed"] == 0 && (!all || outcome["skipped"] == 0);
    ensure!(passed, "{}\n{}", outcome["cases"], session.log_tail());
    Ok(())
}

/// The INF for Wine, which knows no decoration with a version of Windows.
fn text() -> Result<String> {
    let text = inf::stamped()?;
    let decoration = text.split_once("[Models.NTamd64").and_then(|(_, rest)| rest.split_once(']'));
    let (version, _) = decoration.context("the INF is for no version of Windows")?;
    Ok(text.replace(&format!("NTamd64{version}"), "NTamd64"))
}

/// Puts the package where it is installed from, and the stand-ins where the driver will look for them. The catalog is empty: Wine wants
/// one, and does not read it.
fn place(inf: &str) -> Result<()> {
    let prefix = Computer::Installed.prefix();
    let (package, store) = (prefix.join("drive_c/package"), prefix.join(DRIVER_STORE));
    for folder in [&package, &store] {
        fs::create_dir_all(folder)?;
    }
    fs::write(package.join("softndk.inf"), inf)?;
    fs::write(package.join("softndk.cat"), "")?;
    fs::copy(paths::dist().join("softndk.sys"), package.join("softndk.sys"))?;
    for module in BESIDE_AN_INSTALLED_DRIVER {
        fs::copy(paths::dist().join("wine").join(module), store.join(module))?;
    }
    Ok(())
}

/// What an installation leaves, as a key of the registry, a text below it, or a file.
const TRACES: [(&str, Trace); 4] = [
    ("the device", Trace::Registry(r"Enum\ROOT\NET", r"Root\SoftNdk")),
    ("the service", Trace::Registry(r"Services\softndk", "ImagePath")),
    ("the driver", Trace::File("system32/unknown/softndk.sys")),
    ("the INF", Trace::File("inf/softndk.inf")),
];

enum Trace {
    Registry(&'static str, &'static str),
    File(&'static str),
}

/// Those that are there.
fn traces(session: &Session) -> Result<Vec<&'static str>> {
    let windows: PathBuf = Computer::Installed.prefix().join("drive_c/windows");
    let mut found = Vec::new();
    for (what, trace) in &TRACES {
        let is_there = match trace {
            Trace::File(path) => windows.join(path).exists(),
            Trace::Registry(key, text) => {
                let key = format!(r"HKLM\System\CurrentControlSet\{key}");
                let output = session.program("reg").args(["query", &key, "/s"]).output()?;
                String::from_utf8_lossy(&output.stdout).contains(text)
            }
        };
        found.extend(is_there.then_some(*what));
    }
    Ok(found)
}
