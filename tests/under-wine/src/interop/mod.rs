//! The device against Linux siw, which a user-mode Linux runs in a network namespace: `docs/interop.md`.

mod sides;
mod table;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use build::command::{cargo, run};
use build::{dist, paths, setup};

pub(crate) use self::sides::both_roles;
pub use self::sides::every_side;
use self::table::{Row, Table};

/// Where the peer is: the script that boots it and runs a command against it.
pub(crate) const VARIABLE: &str = "SOFTNDK_SIW_PEER";
/// The interface by which this system reaches the peer, our address at it, and the peer's.
pub(crate) const INTERFACE: &str = "tap0";
pub(crate) const OURS: &str = "10.77.0.1";
pub(crate) const PEER: &str = "10.77.0.2";
/// Names libraries that come before others.
const PRELOAD: &str = "LD_PRELOAD";
/// What the script ends with where the peer cannot run.
const CANNOT_RUN: i32 = 77;

/// What the steps of SMB Direct need besides.
const PACKAGES: [(&str, &str); 2] = [
    ("smbclient", "the client of SMB that our SMB Direct carries to ksmbd"),
    (
        "samba",
        "smbd, to which our SMB Direct carries Linux's client; where Debian has services, it starts smbd for all at port 445",
    ),
];

/// Boots the peer once and tries everything. A machine that cannot do that is told why; that is no failure, unless a peer was named.
pub fn interop(json: bool) -> Result<ExitCode> {
    let named = env::var_os(VARIABLE).map(PathBuf::from);
    let is_named = named.is_some();
    let Some(script) = peer(named, &paths::root().join("../shared/siw-peer/run.sh"))? else {
        let why = format!("there is no peer; {VARIABLE} names the script that boots one, see docs/interop.md");
        return Ok(skipped(&why, json));
    };
    if let Err(error) = setup::provide(&PACKAGES) {
        eprintln!("what needs them is skipped: {error:#}");
    }
    dist::build()?;
    dist::build_test_driver()?;
    build_rping()?;
    build_verbs()?;
    // Itself, in the peer's namespace.
    let mut command = peer_command(&script);
    command.arg(env::current_exe()?).args(["interop", "--inside"]);
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start the peer's script")?;
    let (mut table, mut said) = (Table::default(), Vec::new());
    for line in BufReader::new(child.stdout.take().context("the script has no output")?).lines() {
        let line = line?;
        match Row::parse(&line) {
            Some(row) => table.add(row),
            None => said.push(line),
        }
    }
    let status = child.wait()?;
    let said = said.join("\n");
    if cannot_run(status.code(), &table) {
        ensure!(!is_named, "{VARIABLE} names a peer that cannot run here: {}", said.trim());
        return Ok(skipped(said.trim(), json));
    }
    if json {
        println!("{}", serde_json::to_string_pretty(&table)?);
    } else {
        println!("{table}");
    }
    ensure!(status.success() == table.is_success(), "the peer's script ended with {status}: {said}");
    Ok(if table.is_success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The programs that play rping, and what the peer needs.
pub(crate) fn build_rping() -> Result<()> {
    run(cargo(&paths::root()).args(["build", "--package", "interop", "--package", "siw-xstate"]))
}

/// Boots the peer, and runs the command in its namespace that is to follow.
pub(crate) fn peer_command(script: &Path) -> Command {
    let mut command = Command::new(script);
    // For the peer: tests/clients/siw-xstate says why.
    command.env(PRELOAD, paths::root().join("target/debug/libsiw_xstate.so"));
    command.arg(paths::root().join("tests/clients/interop/guest.sh"));
    command.args(["env", "-u", PRELOAD]);
    command
}

/// The script of the peer that is named.
pub(crate) fn named_peer() -> Result<Option<PathBuf>> {
    peer(env::var_os(VARIABLE).map(PathBuf::from), Path::new(""))
}

/// The script that boots the peer: the one that is named, which has to be there, or `usual`, if that is.
fn peer(named: Option<PathBuf>, usual: &Path) -> Result<Option<PathBuf>> {
    let Some(script) = named else { return Ok(usual.is_file().then(|| usual.to_owned())) };
    ensure!(script.is_file(), "{VARIABLE} names {script:?}, which is no file");
    Ok(Some(script))
}

/// Whether the script says that there can be no peer here: not if something was tried with one, nor if one was started and did not come
/// up, which is a failure.
fn cannot_run(code: Option<i32>, table: &Table) -> bool {
    code == Some(CANNOT_RUN) && table.is_empty()
}

/// The program for the peer's end.
fn verbs_program() -> PathBuf {
    paths::root().join("target/interop/verbs")
}

/// Compiles it, where there are the headers of librdmacm.
fn build_verbs() -> Result<()> {
    let program = verbs_program();
    fs::create_dir_all(paths::root().join("target/interop"))?;
    // What other headers have left.
    let _ = fs::remove_file(&program);
    if !Path::new("/usr/include/rdma/rdma_verbs.h").is_file() {
        return Ok(());
    }
    let mut compiler = Command::new("gcc");
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(program);
    run(compiler.arg(paths::root().join("tests/clients/interop/peer/verbs.c")).args(["-lrdmacm", "-libverbs"]))
}

fn skipped(why: &str, json: bool) -> ExitCode {
    if json {
        println!("{:#}", serde_json::json!({ "skipped": why }));
    } else {
        println!("skipped: {why}");
    }
    ExitCode::SUCCESS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_is_named_has_to_be_there() {
        let (here, nowhere) = (Path::new(file!()), Path::new("/nowhere/run.sh"));
        let here = &paths::root().join(here);
        assert_eq!(peer(None, nowhere).unwrap(), None);
        assert_eq!(peer(None, here).unwrap().as_deref(), Some(here.as_path()));
        assert_eq!(peer(Some(here.clone()), nowhere).unwrap().as_deref(), Some(here.as_path()));
        for unusable in ["/nowhere/run.sh", "", "/"] {
            let error = peer(Some(unusable.into()), here).expect_err(unusable).to_string();
            assert!(error.contains(VARIABLE) && error.contains(unusable), "{error}");
        }
    }

    #[test]
    fn what_was_tried_is_not_skipped() {
        let mut table = Table::default();
        assert!(cannot_run(Some(CANNOT_RUN), &table));
        assert!(!cannot_run(Some(1), &table));
        assert!(!cannot_run(None, &table));
        table.add(Row::of("us", "a step", Err(anyhow::anyhow!("it failed"))));
        assert!(!cannot_run(Some(CANNOT_RUN), &table));
    }
}
