//! What is tried against the peer, from within its network namespace: the device in a process of this system; softnd.dll without a
//! driver, and on softndk-test.sys, which has the SMB Direct consumer, both under Wine.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use build::command::{self, outcome};
use build::dist::TEST_DRIVER;
use build::paths;
use checks::tally::Tally;

use super::table::Row;
use crate::prefix;
use crate::session::Session;

/// For both roles together: a program gives up on each long before.
const ROLES_LIMIT: Duration = Duration::from_secs(600);

/// Our addresses there, of which the second is added by the first suite.
const OURS: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1)), IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1))];

/// Prints a line of JSON for each step.
pub fn every_side() -> Result<ExitCode> {
    let mut passed = true;
    for crc in [false, true] {
        passed &= suite("a process", crc, None)?;
    }
    let mut session = Session::start_test(&OURS)?;
    for crc in [false, true] {
        let mut harness = harness(&session);
        harness.env("SOFTND_MODE", "hosted").env("SOFTND_CRC", if crc { "1" } else { "0" });
        passed &= suite("softnd.dll, no driver", crc, Some(&harness))?;
    }
    for crc in [false, true] {
        session.set_crc(crc)?;
        session.load()?;
        let mut harness = harness(&session);
        harness.env("SOFTND_MODE", "driver");
        passed &= suite(TEST_DRIVER, crc, Some(&harness))?;
        let left = session.unload().and_then(|report| {
            ensure!(report.is_clean(), "left behind: {report}");
            Ok("no memory, no object".to_owned())
        });
        let row = Row::of(TEST_DRIVER, "it leaves nothing behind", left);
        passed &= !row.is_failure();
        println!("{}", serde_json::to_string(&row)?);
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn harness(session: &Session) -> Command {
    session.program("ndharness.exe")
}

/// The steps of a side: of the program that plays our role, or of the suite's own device. Whether all passed.
fn suite(name: &str, crc: bool, program: Option<&Command>) -> Result<bool> {
    let directory = paths::root().join("target/interop");
    fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let mut command = Command::new(paths::root().join("target/debug/interop"));
    command.args(["suite", "--name", name, "--directory"]).arg(directory);
    if crc {
        command.arg("--crc");
    }
    if name == TEST_DRIVER {
        command.arg("--driver");
    }
    let verbs = super::verbs_program();
    if verbs.is_file() {
        command.arg("--verbs").arg(verbs);
    }
    if let Some(program) = program {
        plays_by(&mut command, program);
    }
    Ok(command.status().context("cannot start the suite")?.success())
}

/// `command` has `program` play our role.
fn plays_by(command: &mut Command, program: &Command) {
    command.arg("--").arg(program.get_program()).args(program.get_args());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    program.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| {
        command.env_remove(name);
    });
    program.get_current_dir().into_iter().for_each(|folder| {
        command.current_dir(folder);
    });
}

/// Plays both roles of rping with the peer; `inside` begins a command where the peer is reached.
pub(crate) fn both_roles(mut inside: Command, program: &Command, tally: &mut Tally) -> Result<()> {
    inside.arg(paths::root().join("target/debug/interop")).args(["roles", "--name", prefix::DRIVER]);
    plays_by(&mut inside, program);
    let said = outcome(&mut inside, ROLES_LIMIT)?;
    let mut played = false;
    for row in String::from_utf8_lossy(&said.stdout).lines().filter_map(Row::parse) {
        played = true;
        let result = if row.is_failure() { Err(anyhow!("{row}")) } else { Ok(()) };
        tally.check(&format!("{}, over the cable", row.step()), result);
    }
    ensure!(played, "nothing was played: {}", command::said(&said));
    Ok(())
}
