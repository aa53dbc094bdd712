//! Every case with two ends, each end on a device of a process of its own. On the path of control codes the devices' bytes go by TCP of this
//! machine, on the path of rings through the memory that both devices share.
//!
//! This program starts itself again, to have the second device. Both processes share the memory of the cases, as they are one program to
//! them. One case is played after the other, as they have addresses of the machine.
#![cfg(target_os = "linux")]

#[macro_use]
#[path = "../common/mod.rs"]
mod common;
mod other;
mod sockets;

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use common::{PATIENCE, named, passed};
use conformance::{
    Case, Transport,
    agent::{Other, serve},
    client::Path,
    local::Local,
    play_on_two_devices, run_on_two_devices,
};
use hosted::Hosted;
use other::Process;

/// Waits for the turn of a test.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The other process, which shares memory with this one on the path of rings; the same for one case after the other as long as it runs.
fn other(path: Path) -> Arc<Process> {
    static OTHERS: [Mutex<Option<Arc<Process>>>; 2] = [const { Mutex::new(None) }; 2];
    let shares = path == Path::Rings;
    let mut other = OTHERS[usize::from(shares)].lock().unwrap_or_else(PoisonError::into_inner);
    match other.as_ref().filter(|process| process.is_running()) {
        Some(process) => process.clone(),
        None => {
            let process = Process::start("the_other_process", shares).expect("to start this program");
            other.insert(Arc::new(process)).clone()
        }
    }
}

/// The addresses of this process's device. The first is one that every Linux has, and that no device under Wine has: those may run beside
/// this test, and the SMB Direct cases listen at one port.
fn here() -> Vec<IpAddr> {
    vec![Ipv4Addr::new(127, 0, 1, 1).into(), Ipv6Addr::LOCALHOST.into()]
}

/// The addresses of the other's. Machines have one loopback address of IPv6 only: the second is any other, if there is one.
fn there() -> Vec<IpAddr> {
    let interfaces = if_addrs::get_if_addrs().expect("the addresses of the machine");
    let usable = |interface: &if_addrs::Interface| !interface.is_loopback() && !interface.is_link_local();
    let ipv6 = interfaces.iter().filter(|interface| usable(interface)).map(|interface| interface.ip());
    let other = IpAddr::V4(Ipv4Addr::new(127, 0, 1, 2));
    [other].into_iter().chain(ipv6.filter(IpAddr::is_ipv6).take(1)).collect()
}

fn boot(path: Path) -> (Box<dyn Transport>, Box<dyn Transport>) {
    (Box::new(Local::<Hosted>::new(&here(), true)), Box::new(Other::boot(other(path).agent())))
}

fn play(case: &Case, path: Path) -> anyhow::Result<bool> {
    let _turn = turn();
    let (here, there) = boot(path);
    run_on_two_devices(case, here, there, path, PATIENCE)
}

/// A device on the hosted platform has carried out a send when the post returns: no queue of them is ever full.
const WAITS_FOR_ROOM: &str = "smb_direct::send_queue";

fn run(name: &str, path: Path) {
    if name == WAITS_FOR_ROOM {
        return;
    }
    let _turn = turn();
    let case = named(name);
    passed(case, play_on_two_devices(case, || boot(path), path, PATIENCE));
}

conformance::for_each_case!(tests);

/// The other process is this program, with this test.
#[test]
#[ignore = "it is run by the other tests"]
fn the_other_process() {
    hosted::share_memory(other::shares());
    let listener = other::listener(&io::stdin()).unwrap();
    serve(listener, || Box::new(Local::<Hosted>::new(&there(), true))).unwrap();
}
