//! A machine with Linux siw behind VXLAN of Linux and a bridge: rping in both roles with softndk.sys, at its adapter's address.

use std::io::{BufRead as _, BufReader};
use std::net::IpAddr;
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use build::command::{output, step, wait};
use checks::tally::Tally;

use super::{LINUX, Network, OURS, is_clean, session_with, until_reached};
use crate::interop;

const MTU: u32 = 1500;
/// How long the machine may take to end.
const END_LIMIT: Duration = Duration::from_secs(60);

/// Skipped if there is no such machine.
pub(super) fn run(tally: &mut Tally) -> Result<()> {
    let Some(script) = interop::named_peer()? else {
        println!("skipped: rping with Linux siw behind VXLAN and a bridge: {} names no peer", interop::VARIABLE);
        return Ok(());
    };
    step("building rping", interop::build_rping)?;
    let network = Network::build(MTU, &[OURS])?;
    let played = step("playing rping with Linux siw over the cable", || {
        let guest = Guest::boot(&script)?;
        guest.join()?;
        rping(tally)?;
        guest.end()
    });
    tally.check("Linux siw behind VXLAN and a bridge is reached over the cable", played);
    drop(network);
    Ok(())
}

/// The machine, whose TAP interface its script makes in a namespace.
struct Guest {
    script: Child,
    /// The machine ends when this is closed.
    input: ChildStdin,
    namespace: String,
}

impl Guest {
    fn boot(script: &std::path::Path) -> Result<Self> {
        // The script runs this in its namespace: the shell prints the namespace's name, and ends with its input.
        let mut command = interop::peer_command(script);
        command.args(["sh", "-c", "ip netns identify $$; exec cat"]);
        let mut script = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = script.stdin.take().context("the script has no input")?;
        let mut namespace = String::new();
        BufReader::new(script.stdout.take().context("the script has no output")?).read_line(&mut namespace)?;
        let namespace = namespace.trim().to_owned();
        let guest = Self { script, input, namespace };
        if guest.namespace.is_empty() || guest.namespace.contains(' ') {
            bail!("the peer does not run: {:?}", guest.namespace);
        }
        Ok(guest)
    }

    /// Joins its interface, by a bridge at each end of a veth, to the VXLAN interface of LINUX. The interface stays up in its namespace: after a
    /// send that failed the machine would not use it again.
    fn join(&self) -> Result<()> {
        let (linux, script) = (LINUX.namespace(), &self.namespace);
        let (interface, ours) = (interop::INTERFACE, interop::OURS);
        for line in [
            format!("-n {script} link add bridge type bridge"),
            format!("-n {script} link add out type veth peer name guest netns {linux}"),
            format!("-n {script} link set out master bridge up"),
            // The machine drops packets that its interface would have to cut.
            format!("-n {script} link set {interface} gso_max_segs 1 master bridge"),
            format!("-n {script} address flush dev {interface}"),
            format!("-n {script} link set bridge up"),
            format!("-n {linux} link add bridge type bridge"),
            format!("-n {linux} link set cable master bridge"),
            format!("-n {linux} link set guest master bridge up"),
            format!("-n {linux} link set bridge up"),
            format!("-n {} address add {ours}/24 dev cable", OURS.namespace()),
        ] {
            output(std::process::Command::new("ip").args(line.split_whitespace()))?;
        }
        Ok(())
    }

    fn end(self) -> Result<()> {
        let Self { mut script, input, .. } = self;
        drop(input);
        let status = wait(&mut script, END_LIMIT)?;
        ensure!(status.success(), "the peer's script ended with {status}");
        Ok(())
    }
}

fn rping(tally: &mut Tally) -> Result<()> {
    let ours: IpAddr = interop::OURS.parse()?;
    let mut session = session_with(&OURS, MTU, &[ours])?;
    session.load()?;
    until_reached(&OURS, interop::PEER)?;
    let mut harness = session.program("ndharness.exe");
    harness.env("SOFTND_MODE", "driver");
    interop::both_roles(OURS.command(""), &harness, tally)?;
    is_clean(&session.unload()?)
}
