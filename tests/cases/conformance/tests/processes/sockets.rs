//! That the cases are played between two processes, over TCP: as Linux sees it, not the devices.

use std::{
    fs,
    net::{SocketAddr, SocketAddrV4},
    process,
};

use anyhow::{Context as _, ensure};
use conformance::{
    Bench, Case,
    client::Path,
    local::Local,
    pair::{Pair, exchange, pattern},
    run, run_on_two_devices,
};
use hosted::Hosted;

use crate::common::PATIENCE;
use crate::{here, other, play, there, turn};

/// Of a file in /proc/net: an address of IPv4.
fn as_listed(address: SocketAddrV4) -> String {
    format!("{:08X}:{:04X}", u32::from_ne_bytes(address.ip().octets()), address.port())
}

/// The number of the established socket at `local`, to `remote`.
fn socket(local: SocketAddr, remote: SocketAddr) -> anyhow::Result<String> {
    const ESTABLISHED: &str = "01";
    let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (local, remote) else { anyhow::bail!("not of IPv4") };
    let (local, remote) = (as_listed(local), as_listed(remote));
    let sockets = fs::read_to_string("/proc/net/tcp")?;
    let fields = sockets.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut found = fields.filter(|fields| fields.get(1..4) == Some(&[&*local, &*remote, ESTABLISHED]));
    let fields = found.next().with_context(|| format!("there is no TCP from {local} to {remote}"))?;
    Ok((*fields.get(9).context("no number")?).to_owned())
}

/// Whether the process has the socket.
fn has(process: u32, socket: &str) -> anyhow::Result<bool> {
    let socket = format!("socket:[{socket}]");
    for file in fs::read_dir(format!("/proc/{process}/fd"))? {
        // Others come and go meanwhile.
        if fs::read_link(file?.path()).is_ok_and(|target| target.as_os_str() == &*socket) {
            return Ok(true);
        }
    }
    Ok(false)
}

const BY_TCP: Case = Case {
    name: "connects",
    shows: "a connection is one of TCP between the two processes",
    run: |bench| connects(bench, Path::Plain),
};
const BY_MEMORY: Case = Case {
    name: "connects",
    shows: "a connection is one of TCP between the two processes, which share memory",
    run: |bench| connects(bench, Path::Rings),
};

/// Whether the process has memory mapped that it shares with the other end of such a connection.
fn shares_memory(process: u32) -> anyhow::Result<bool> {
    Ok(fs::read_to_string(format!("/proc/{process}/maps"))?.contains("/softndk-"))
}

/// A connection with data both ways. Whoever connected has to have one end of its TCP, and the other process the other.
fn connects(bench: &Bench<'_>, path: Path) -> anyhow::Result<()> {
    let other = other(path);
    let pair = Pair::new(bench)?;
    exchange(&pair.a, &pair.b, &pattern(1, 5000))?;
    exchange(&pair.b, &pair.a, &pattern(2, 5000))?;
    let ends = (pair.a.connector.address()?, pair.a.connector.peer_address()?);
    let (Some(from), Some(to)) = ends else { anyhow::bail!("no addresses: {ends:?}") };
    let (ours, theirs) = (socket(from, to)?, socket(to, from)?);
    ensure!(has(process::id(), &ours)?, "this process does not have the end at {from}");
    ensure!(has(other.id(), &theirs)?, "the other process does not have the end at {to}");
    for process in [process::id(), other.id()] {
        ensure!(shares_memory(process)? == (path == Path::Rings), "process {process} shares memory, or does not");
    }
    Ok(())
}

/// What a case fails for.
fn failure<T>(result: anyhow::Result<T>) -> String {
    format!("{:#}", result.err().expect("it passes"))
}

// Shows S812.
#[test]
fn a_connection_is_tcp_between_two_processes() {
    assert!(play(&BY_TCP, Path::Plain).unwrap());
    assert!(play(&BY_MEMORY, Path::Rings).unwrap());
}

#[test]
fn two_devices_of_one_process_are_noticed() {
    let _turn = turn();
    let [here, there] = [here(), there()].map(|addresses| Box::new(Local::<Hosted>::new(&addresses, true)));
    let failure = failure(run_on_two_devices(&BY_TCP, here, there, Path::Plain, PATIENCE));
    assert!(failure.contains("the other process does not have the end at 127.0.1.2"), "{failure}");
}

#[test]
fn one_device_is_noticed() {
    let _turn = turn();
    let device = Box::new(Local::<Hosted>::new(&here(), true));
    let failure = failure(run(&BY_TCP, device, Path::Plain, PATIENCE));
    assert!(failure.contains("there is no TCP from 0101007F"), "{failure}");
}

#[test]
fn the_end_of_the_other_process_is_noticed() {
    let dies = |bench: &Bench<'_>| {
        let pair = Pair::new(bench)?;
        other(Path::Plain).end();
        exchange(&pair.a, &pair.b, b"nobody is there")
    };
    let dies = Case { name: "dies", shows: "the other process is gone", run: dies };
    let failure = failure(play(&dies, Path::Plain));
    assert!(failure.contains("the other process is gone: "), "{failure}");
    assert!(play(&BY_TCP, Path::Plain).unwrap(), "the next case has another one");
}
