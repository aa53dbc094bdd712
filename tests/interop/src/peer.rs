//! The peer: a machine with Linux siw, a server of rping and a shell (`guest.sh`).

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpStream},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

/// Our address.
pub(crate) const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
/// The interface that has it.
pub(crate) const INTERFACE: &str = "tap0";
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
/// Where the peer's rping listens.
pub(crate) const RPING: SocketAddr = SocketAddr::new(PEER, 7174);
const SHELL: SocketAddr = SocketAddr::new(PEER, 7000);
/// Longer than any command may take.
const PATIENCE: Duration = Duration::from_secs(40);

/// Runs a command there; what it prints.
pub(crate) fn run(command: &str) -> Result<String> {
    let mut shell = TcpStream::connect_timeout(&SHELL, PATIENCE).context("the peer's shell does not answer")?;
    shell.set_read_timeout(Some(PATIENCE))?;
    writeln!(shell, "{command}")?;
    shell.shutdown(Shutdown::Write)?;
    let mut said = Vec::new();
    shell.read_to_end(&mut said).with_context(|| format!("the peer does not end {command:?}"))?;
    Ok(String::from_utf8_lossy(&said).trim().to_owned())
}

/// Runs the client of rping there, which compares what it gets.
pub(crate) fn rping(port: u16, size: usize, count: u32) -> Result<()> {
    let said = run(&format!("timeout 20 rping -c -S {size} -a {OURS} -p {port} -C {count} -V 2>&1; echo status $?"))?;
    ensure!(
        said.ends_with("status 0") && !said.contains("mismatch"),
        "rping of the peer: {}",
        said.replace('\n', "; ")
    );
    Ok(())
}

/// Has TCP make packets that fit the link: the peer's interface drops those that the link would have to cut.
pub(crate) fn fit_packets() -> Result<()> {
    let mut command = Command::new("ip");
    let status = command.args(["link", "set", "dev", INTERFACE, "gso_max_segs", "1"]).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "cannot set gso_max_segs of {INTERFACE}");
    Ok(())
}
