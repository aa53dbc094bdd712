//! `loader.exe DRIVER.SYS ADDRESS[,ADDRESS]...`: loads and unloads the driver as told, line by line, on standard input.
//!
//! It says `ok` when it is ready. Each line `load`, `unload`, `disable`, `enable` (RDMA), `sleep` (and wake up), `surprise` (the
//! adapter is removed), `hold` (the protocol keeps the lists that are indicated until the adapter is pausing), `pause` (the adapter is
//! paused while the protocol keeps some, and restarted), `pool` (how much pool is in use, on the debug channel), `tcpip ADDRESS,...` (what the
//! interface has), `wsk on`, `wsk off` (whether there is a Winsock Kernel),
//! `crc on`, `crc off` (the adapter's parameter `Crc`, when it starts), `set KEYWORD VALUE` (another of its parameters), `start` (load,
//! and do not wait for the device), `below` (the driver has to refuse to open a name below its device), `trace LEVEL` (events up to that level
//! are kept, 0: none), `keep freed` (from the next load on freed memory keeps its content), `consumer NAME DRIVER.SYS` (a service for another driver, in the same process), `consume NAME` (that is started and
//! stopped) or `plant KIND` is answered by a line `ok` or `error: REASON`.
//! At the end of input the driver is unloaded and the service deleted. One process stays for a whole scenario because Wine
//! stops every service when the last ordinary process ends.
//!
//! `loader.exe` without arguments is for a driver that comes by its INF. It takes `install INF`, `wait` (until the device is there), `set
//! KEYWORD VALUE` (a parameter of the adapter, when it starts), `remove` (device and INF), `delete` (service and file), and leaves alone what
//! is there at the end of input.

mod device;
mod install;
#[path = "../../ndis/src/protocol.rs"]
#[expect(dead_code, reason = "shared with others, which use the rest")]
mod protocol;
mod registry;
mod service;

use std::collections::BTreeMap;
use std::io::{BufRead, Result, Write};
use std::process::ExitCode;

use ndk_abi::softndk_ioctl::{
    SOFTNDK_TEST_PLANT_LEAK_POOL, SOFTNDK_TEST_PLANT_OPEN_NAMES, SOFTNDK_TEST_PLANT_WRONG_IRQL,
};
use service::Service;

/// While it is there, memory that a driver frees keeps its content: of the stand-in for ntoskrnl.
const KEEP_FREED: &str = r"C:\softndk\keep-freed.txt";

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let served = match &*arguments {
        [] => serve(installed),
        [driver, addresses] => serve_service(driver, addresses),
        _ => {
            eprintln!("usage: loader [DRIVER.SYS ADDRESS[,ADDRESS]...]");
            return ExitCode::FAILURE;
        }
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loader: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A driver without a device, by its service.
fn serve_service(driver: &str, addresses: &str) -> Result<()> {
    let service = Service::create(driver)?;
    service.set_parameter("Addresses", addresses)?;
    service.set_parameter("WithoutWsk", "0")?;
    service.set_parameter("WithoutUso", "0")?;
    service.set_parameter("RefusedWatches", "0")?;
    service.set_parameter("Unchecked", "0")?;
    service.set_parameter("Crc", "0")?;
    service.set_parameter("Groups", "")?;
    service.set_parameter("NetworkAddress", "")?;
    service.set_parameter("TapInterface", "")?;
    service.set_parameter("Adapters", "1")?;
    service.set_parameter("OtherAddresses", "198.51.100.1")?;
    for (keyword, default) in [
        ("CablePeers", ""),
        ("CableLocal", ""),
        ("CableVni", "1"),
        ("*JumboPacket", "1514"),
        ("Capture", "0"),
        ("FaultInjection", "0"),
        ("FaultRules", ""),
    ] {
        service.set_parameter(keyword, default)?;
    }
    set_trace_level("0")?;
    // It is there only if a run has asked for it.
    let _ = std::fs::remove_file(KEEP_FREED);
    service.set_parameter("TraceNdk", "0")?;
    let mut loaded = false;
    let mut consumers = BTreeMap::new();
    serve(|order| match order {
        "load" => service.start().map(|()| loaded = true).and_then(|()| device::wait()),
        "start" => service.start().map(|()| loaded = true),
        "unload" => service.stop().map(|()| loaded = false),
        "disable" => device::control::<()>(protocol::DISABLE_NDK, None),
        "enable" => device::control::<()>(protocol::ENABLE_NDK, None),
        "sleep" => device::control::<()>(protocol::SLEEP, None),
        "surprise" => device::control::<()>(protocol::REMOVE, None),
        "hold" => device::control::<()>(protocol::HOLD, None),
        "pause" => device::control::<()>(protocol::PAUSE, None),
        "pool" => device::control::<()>(protocol::POOL, None),
        "wsk on" => service.set_parameter("WithoutWsk", "0"),
        "wsk off" => service.set_parameter("WithoutWsk", "1"),
        trace if trace.starts_with("trace ") => {
            set_trace_level(&trace[6..])?;
            if loaded { device::control::<()>(protocol::TRACE, None) } else { Ok(()) }
        }
        "crc on" => service.set_parameter("Crc", "1"),
        "crc off" => service.set_parameter("Crc", "0"),
        "keep freed" => std::fs::write(KEEP_FREED, ""),
        "below" => device::below(),
        "plant leak" => device::plant(SOFTNDK_TEST_PLANT_LEAK_POOL),
        "plant irql" => device::plant(SOFTNDK_TEST_PLANT_WRONG_IRQL),
        "plant names" => device::plant(SOFTNDK_TEST_PLANT_OPEN_NAMES),
        tcpip if tcpip.starts_with("tcpip") => service.set_parameter("TcpipAddresses", tcpip[5..].trim()),
        other => match other.splitn(3, ' ').collect::<Vec<_>>()[..] {
            ["set", keyword, value] => service.set_parameter(keyword, value),
            ["consumer", name, driver] => {
                Service::create_named(name, driver).map(|consumer| drop(consumers.insert(name.to_owned(), consumer)))
            }
            ["consume", name] => match consumers.get(name) {
                Some(consumer) => consumer.start().and_then(|()| consumer.stop()),
                None => unknown(other),
            },
            _ => unknown(other),
        },
    })?;
    consumers.values().try_for_each(Service::delete)?;
    if loaded {
        service.stop()?;
    }
    service.delete()
}

/// A driver that comes by its INF.
fn installed(order: &str) -> Result<()> {
    match order.split(' ').collect::<Vec<_>>()[..] {
        ["install", inf] => install::install(inf),
        ["wait"] => device::wait(),
        ["set", keyword, value] => install::set_keyword(keyword, value),
        ["remove"] => install::remove(),
        ["delete"] => delete(),
        _ => unknown(order),
    }
}

/// What Windows does with a driver package that is no longer used.
fn delete() -> Result<()> {
    let service = Service::open()?;
    let binary = service.binary()?;
    if service.is_running()? {
        service.stop()?;
    }
    service.delete()?;
    match std::fs::remove_file(binary) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// The level from which on the ntoskrnl stand-in keeps events, once it looks.
fn set_trace_level(level: &str) -> Result<()> {
    std::fs::write(r"C:\softndk\trace-level.txt", level)
}

fn unknown(order: &str) -> Result<()> {
    Err(std::io::Error::other(format!("unknown command {order:?}")))
}

fn serve(mut perform: impl FnMut(&str) -> Result<()>) -> Result<()> {
    say("ok")?;
    for line in std::io::stdin().lock().lines() {
        match perform(line?.trim()) {
            Ok(()) => say("ok")?,
            Err(error) => say(&format!("error: {error}"))?,
        }
    }
    Ok(())
}

fn say(line: &str) -> Result<()> {
    let mut output = std::io::stdout();
    writeln!(output, "{line}")?;
    output.flush()
}
