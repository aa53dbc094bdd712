//! `loader.exe DRIVER.SYS ADDRESS[,ADDRESS]... TEST-CONSUMER`: loads and unloads the driver as told, line by line, on
//! standard input. The last argument, 0 or 1, is the adapter's parameter `TestConsumer`.
//!
//! It says `ok` when it is ready. Each line `load`, `unload`, `disable`, `enable` (RDMA), `tcpip ADDRESS,...` (what the interface
//! has), `wsk on`, `wsk off` (whether there is a Winsock Kernel), `crc on`, `crc off` (the adapter's parameter `Crc`, when it starts)
//! or `plant KIND` is answered by a line `ok` or `error: REASON`.
//! At the end of input the driver is unloaded and the service deleted. One process stays for a whole scenario because Wine
//! stops every service when the last ordinary process ends.

mod device;
#[path = "../../ndis/src/protocol.rs"]
mod protocol;
mod service;

use std::io::{BufRead, Write};
use std::process::ExitCode;

use ndk_abi::softndk_ioctl::{SOFTNDK_TEST_PLANT_LEAK_POOL, SOFTNDK_TEST_PLANT_WRONG_IRQL};
use service::Service;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(driver), Some(addresses), Some(test_consumer)) = (arguments.next(), arguments.next(), arguments.next())
    else {
        eprintln!("usage: loader DRIVER.SYS ADDRESS[,ADDRESS]... TEST-CONSUMER");
        return ExitCode::FAILURE;
    };
    match serve(&driver, &addresses, &test_consumer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("loader: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(driver: &str, addresses: &str, test_consumer: &str) -> std::io::Result<()> {
    let service = Service::create(driver)?;
    service.set_parameter("Addresses", addresses)?;
    service.set_parameter("TestConsumer", test_consumer)?;
    service.set_parameter("WithoutWsk", "0")?;
    service.set_parameter("Crc", "0")?;
    say("ok")?;
    let mut loaded = false;
    for line in std::io::stdin().lock().lines() {
        let answer = match line?.trim() {
            "load" => service.start().map(|()| loaded = true).and_then(|()| device::wait()),
            "unload" => service.stop().map(|()| loaded = false),
            "disable" => device::control::<()>(protocol::DISABLE_NDK, None),
            "enable" => device::control::<()>(protocol::ENABLE_NDK, None),
            "wsk on" => service.set_parameter("WithoutWsk", "0"),
            "wsk off" => service.set_parameter("WithoutWsk", "1"),
            "crc on" => service.set_parameter("Crc", "1"),
            "crc off" => service.set_parameter("Crc", "0"),
            "plant leak" => device::plant(SOFTNDK_TEST_PLANT_LEAK_POOL),
            "plant irql" => device::plant(SOFTNDK_TEST_PLANT_WRONG_IRQL),
            tcpip if tcpip.starts_with("tcpip") => service.set_parameter("TcpipAddresses", tcpip[5..].trim()),
            other => Err(std::io::Error::other(format!("unknown command {other:?}"))),
        };
        match answer {
            Ok(()) => say("ok")?,
            Err(error) => say(&format!("error: {error}"))?,
        }
    }
    if loaded {
        service.stop()?;
    }
    service.delete()
}

fn say(line: &str) -> std::io::Result<()> {
    let mut output = std::io::stdout();
    writeln!(output, "{line}")?;
    output.flush()
}
