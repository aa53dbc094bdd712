//! softnd.dll with a device in the program's process: where no driver is loaded, or SOFTND_MODE says so.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use anyhow::{Result, ensure};
use build::command::{outcome, said, step};
use checks::tally::Tally;

use crate::session::{self, Session};
use crate::two_processes::Harness;
use crate::{any_provider, capture, faults, nd_cpp, run};

/// For one program.
const ONE_LIMIT: Duration = Duration::from_secs(120);

/// How the harness calls the device of its process, and that of the driver.
const HOSTED: &str = "the device of this process";
const DRIVER: &str = "softndk.sys through";

/// The checks that run every case, and their front ends. Names are written out, so that tags can stand at them.
const CASES: [(&str, &str); 2] = [
    // Shows S1101.
    ("the cases of nd1 run without a driver", "nd1"),
    // Shows S1101.
    ("the cases of nd2 run without a driver", "nd2"),
];

/// Every test of it, more if `full`. Each case counts.
pub fn run(full: bool, tally: &mut Tally) {
    for (name, front_end) in CASES {
        let passed = step(name, || cases(front_end, tally));
        tally.check(name, passed);
    }
    tally.check("a C++ program of NetworkDirect passes without a driver", nd_cpp::passes_without_driver(ONE_LIMIT));
    // Shows S1105.
    tally.check("what a program leaves in a device of its own is found, and it can exit", left_behind());
    // Shows S1106.
    tally.check("two programs speak rping without a driver, and notice a changed byte", rping());
    // Shows S1102, T55.
    tally.check("SOFTND_MODE chooses the device", modes());
    // Shows S1707.
    tally.check("SOFTND_FAULTS has fault rules for the device of the process", faults::without_driver());
    let captured = step("capturing a program's connections without a driver", capture::without_driver);
    // Shows S1724.
    tally.check("SOFTND_CAPTURE names the file for a capture of the process's device", captured);
    let (crc, timeout) = (reads("SOFTND_CRC", ["0", "1"], "yes"), reads("SOFTND_SEND_TIMEOUT", ["0", "3600"], "3601"));
    let shared = reads("SOFTND_SHARED_MEMORY", ["0", "1"], "off");
    // Shows T55.
    tally.check("a SOFTND_CRC that is neither 0 nor 1 is refused", crc);
    // Shows T55.
    tally.check("a SOFTND_SEND_TIMEOUT of more than 3600 seconds is refused", timeout);
    // Shows T55.
    tally.check("a SOFTND_SHARED_MEMORY that is neither 0 nor 1 is refused", shared);
    any_provider::run(full, tally);
}

fn cases(front_end: &str, tally: &mut Tally) -> Result<()> {
    let session = Session::start(&session::addresses(&[])?)?;
    let report = run::report_of(&session, &["run", "--front-end", front_end, "--json"], run::CASE_LIMIT)?;
    let (passed, failed) = tally.cases(front_end, &report);
    let device = report["front_end"].as_str().unwrap_or_default();
    println!("{front_end}, {device}: {passed} passed, {failed} failed");
    ensure!(device.contains(HOSTED) && passed > 0 && failed == 0, "{report:#}");
    Ok(())
}

/// The negative control of the checks after each case.
fn left_behind() -> Result<()> {
    let session = Session::start(&session::addresses(&[])?)?;
    for path in ["rings", "plain"] {
        let output = outcome(session.program("ndharness.exe").args(["left-behind", "--path", path]), ONE_LIMIT)?;
        ensure!(output.status.success(), "{path}: {}", said(&output));
    }
    Ok(())
}

/// What `cargo xtask interop` has Linux siw for: both roles, each in a process, and the negative control.
fn rping() -> Result<()> {
    let session = Session::start(&session::addresses(&[])?)?;
    for corrupt in [false, true] {
        // A port that nobody has: another run may be under way on this system.
        let at = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.to_string();
        let server = Harness::start(&session, &["rping", "server", &at, "--size=4096", "--count=10"])?;
        server.until(|line| line.starts_with("listening at ").then_some(()))?;
        let mut client = vec!["rping", "client", &at, "--address=127.0.0.1", "--size=4096", "--count=10"];
        client.extend(corrupt.then_some("--corrupt"));
        let output = outcome(session.program("ndharness.exe").args(client), ONE_LIMIT)?;
        let (code, says) = if corrupt { (2, "data mismatch in round 9") } else { (0, "passed on") };
        let (ended, said) = (output.status.code() == Some(code), said(&output));
        ensure!(ended && said.contains(says), "the client does not say {says:?}: {said}");
        if !corrupt {
            let (status, text) = server.end()?;
            ensure!(status.success() && text.contains(HOSTED), "the server ended with {status}:\n{text}");
        }
    }
    Ok(())
}

const ONE_CASE: [&str; 6] = ["run", "--front-end", "nd2", "--path", "rings", "provider::open_adapter"];

fn modes() -> Result<()> {
    let mut session = Session::start(&session::addresses(&[])?)?;
    let harness = |session: &Session, arguments: &[&str], mode: Option<&str>| {
        let mut command = session.program("ndharness.exe");
        outcome(command.args(arguments).envs(mode.map(|mode| ("SOFTND_MODE", mode))), ONE_LIMIT)
    };
    let serves = |session: &Session, mode, device: &str| {
        let output = harness(session, &ONE_CASE, mode)?;
        let text = said(&output);
        ensure!(output.status.success() && text.contains(device), "{mode:?}, {device}: {text}");
        Ok(())
    };
    let refuses = |session: &Session, mode, why: &[&str]| {
        let output = harness(session, &["serve"], Some(mode))?;
        let text = said(&output);
        ensure!(!output.status.success() && why.iter().all(|why| text.contains(why)), "{mode}: {text}");
        Ok(())
    };
    let unknown = ["SOFTND_MODE is \"Driver\"", "STATUS_INVALID_PARAMETER"];
    serves(&session, None, HOSTED)?;
    serves(&session, Some("hosted"), HOSTED)?;
    refuses(&session, "driver", &["STATUS_DEVICE_REMOVED"])?;
    refuses(&session, "Driver", &unknown)?;
    session.load()?;
    serves(&session, None, DRIVER)?;
    serves(&session, Some("hosted"), HOSTED)?;
    serves(&session, Some("driver"), DRIVER)?;
    refuses(&session, "Driver", &unknown)?;
    let report = session.unload()?;
    ensure!(report.is_clean(), "left behind: {report}");
    Ok(())
}

/// Of a variable of the environment, values that are `known` and one that is not.
fn reads(variable: &str, known: [&str; 2], unknown: &str) -> Result<()> {
    let session = Session::start(&session::addresses(&[])?)?;
    let harness = |arguments: &[&str], value| {
        outcome(session.program("ndharness.exe").args(arguments).env(variable, value), ONE_LIMIT)
    };
    for known in known {
        let output = harness(&ONE_CASE, known)?;
        let text = said(&output);
        ensure!(output.status.success() && text.contains(HOSTED), "{known}: {text}");
    }
    let output = harness(&["serve"], unknown)?;
    let text = said(&output);
    let told =
        [&*format!("{variable} is {unknown:?}"), "STATUS_INVALID_PARAMETER"].iter().all(|why| text.contains(why));
    ensure!(!output.status.success() && told, "{text}");
    Ok(())
}
