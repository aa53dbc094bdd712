//! README's walk with two machines: Linux's lines as they are, programs under Wine, and of the scripts what they set.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use build::command::{outcome, said};
use build::paths;
use checks::tally::Tally;

use super::{Computer, LINUX, Network, OTHER, OURS, is_clean, until_reached};
use crate::session::Session;
use crate::two_processes::Harness;

const SECTION: &str = "## Two machines in ten minutes\n";
const MTU: u32 = 1500;
const LIMIT: Duration = Duration::from_secs(120);

/// The lines of README's three blocks: scripts, programs, and Linux.
fn blocks() -> Result<[Vec<String>; 3]> {
    let readme = fs::read_to_string(paths::root().join("README.md"))?;
    let (_, section) = readme.split_once(SECTION).context("README has no walk")?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let blocks = section.split("```\n").skip(1).step_by(2);
    let blocks: Vec<Vec<_>> = blocks.map(|block| block.lines().map(str::to_owned).collect()).collect();
    blocks.try_into().map_err(|blocks| anyhow::anyhow!("README's walk has other blocks: {blocks:?}"))
}

/// A line with the addresses that its two machines have here.
fn here(line: &str, first: &Computer, second: &Computer) -> String {
    [
        ("192.168.1.10", first.underlay()),
        ("192.168.1.11", second.underlay()),
        ("10.77.0.1", first.address()),
        ("10.77.0.2", second.address()),
    ]
    .iter()
    .fold(line.to_owned(), |line, (readme, here)| line.replace(readme, here))
}

pub(super) fn run(tally: &mut Tally) -> Result<()> {
    let [scripts, programs, linux] = blocks()?;
    let network = Network::build(MTU, &[OURS, OTHER])?;
    tally.check("README's lines for two Windows machines", two_with_windows(&scripts, &programs));
    drop(network);
    let network = Network::build(MTU, &[OURS])?;
    tally.check("README's lines for a Linux machine", one_with_linux(&scripts, &linux));
    drop(network);
    Ok(())
}

/// The driver of the first of two machines, after its scripts; the ports that they open.
fn started(scripts: &[String], first: &Computer, second: &Computer) -> Result<(Session, Vec<u16>)> {
    let (mut peers, mut address, mut ports) = (None, None, Vec::new());
    for line in scripts {
        let line = here(line, first, second);
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [r".\set-cable.ps1", named] => peers = Some(named.to_owned()),
            [r".\set-address.ps1", given, "-Port", ref opened @ ..] => {
                address = Some(given.parse::<IpAddr>()?);
                let port = |port: &&str| port.trim_end_matches(',').parse::<u16>();
                ports = opened.iter().map(port).collect::<Result<_, _>>()?;
            }
            _ => bail!("no test plays {line:?}"),
        }
    }
    let (peers, address) = peers.zip(address).context("the scripts name no peer or no address")?;
    let mut session = Session::start_in(&first.namespace(), &[address])?;
    for (keyword, value) in [("TapInterface", "cable"), ("OtherAddresses", &*first.underlay())] {
        session.set_keyword(keyword, value)?;
    }
    let script = fs::read_to_string(paths::root().join("tools/set-cable.ps1"))?;
    for (keyword, value) in [("CableLocal", first.underlay()), ("CablePeers", peers)] {
        let sets = format!("-RegistryKeyword {keyword} ");
        ensure!(script.contains(&sets), "set-cable.ps1 does not say {sets:?}");
        session.set_keyword(keyword, &value)?;
    }
    session.load()?;
    Ok((session, ports))
}

fn two_with_windows(scripts: &[String], programs: &[String]) -> Result<()> {
    let ((mut first, _), (mut second, ports)) = (started(scripts, &OURS, &OTHER)?, started(scripts, &OTHER, &OURS)?);
    until_reached(&OURS, &OTHER.address())?;
    let mut servers = Vec::new();
    for line in programs {
        let line = here(line, &OURS, &OTHER);
        let mut words = line.split_whitespace();
        let program =
            words.next().and_then(|program| program.strip_prefix(r".\")).context("no program of the folder")?;
        let arguments: Vec<_> = words.collect();
        let at = arguments.iter().find_map(|argument| argument.parse::<SocketAddr>().ok());
        ensure!(at.is_none_or(|at| ports.contains(&at.port())), "the scripts do not open the port of {line:?}");
        if arguments.contains(&"server") {
            let server = Harness::spawn(second.program(program), &arguments)?;
            server.until(|line| line.starts_with("listening at ").then_some(()))?;
            servers.push(server);
        } else {
            let ended = outcome(first.program(program).args(arguments), LIMIT)?;
            let said = said(&ended);
            ensure!(ended.status.success(), "{line}: {said}");
            ensure!(program != "ndkctl.exe" || said.contains("link        up"), "{line}: {said}");
        }
    }
    for server in servers {
        let (status, said) = server.end()?;
        ensure!(status.success(), "the server ended with {status}: {said}");
    }
    for session in [&mut first, &mut second] {
        is_clean(&session.unload()?)?;
    }
    Ok(())
}

fn one_with_linux(scripts: &[String], linux: &[String]) -> Result<()> {
    let (mut session, _) = started(scripts, &OURS, &LINUX)?;
    LINUX.run("ip link delete cable")?;
    for line in linux {
        LINUX.run(&here(line, &OURS, &LINUX))?;
    }
    until_reached(&OURS, &LINUX.address())?;
    is_clean(&session.unload()?)
}
