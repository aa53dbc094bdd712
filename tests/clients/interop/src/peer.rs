//! The peer: a machine with Linux siw, a server of rping and a shell (`guest.sh`).

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpStream},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, Result, ensure};

/// Our addresses.
pub(crate) const OURS: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
pub(crate) const OURS_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 1));
/// The interface that has it.
pub(crate) const INTERFACE: &str = "tap0";
/// Its address.
pub(crate) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
const PEER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 2));
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

/// Where its rping listens, for a client at an address of ours.
pub(crate) fn rping_server(ours: IpAddr) -> SocketAddr {
    if ours.is_ipv4() { SocketAddr::new(PEER, 7174) } else { SocketAddr::new(PEER_V6, 7176) }
}

/// Runs the client of rping there, which compares what it gets.
pub(crate) fn rping(server: SocketAddr, size: usize, count: u32) -> Result<()> {
    let (ip, port) = (server.ip(), server.port());
    let said = run(&format!("timeout 20 rping -c -S {size} -a {ip} -p {port} -C {count} -V 2>&1; echo status $?"))?;
    ensure!(
        said.ends_with("status 0") && !said.contains("mismatch"),
        "rping of the peer: {}",
        said.replace('\n', "; ")
    );
    Ok(())
}

/// Prepares our end of the link: an address of IPv6; and TCP has to make packets that fit, as the peer's interface drops those that the
/// link would have to cut.
pub(crate) fn prepare_link() -> Result<()> {
    ip(&["address", "replace", &format!("{OURS_V6}/64"), "dev", INTERFACE, "nodad"])?;
    ip(&["link", "set", "dev", INTERFACE, "gso_max_segs", "1"])
}

fn ip(arguments: &[&str]) -> Result<()> {
    let status = Command::new("ip").args(arguments).stdout(Stdio::null()).status()?;
    ensure!(status.success(), "ip {} ended with {status}", arguments.join(" "));
    Ok(())
}
