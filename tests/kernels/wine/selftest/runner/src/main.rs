//! `selftest.exe DRIVER.SYS`: tests the stand-ins with a driver made for it.
//!
//! First everything that must work, after which the report of the stand-ins must be clean; then everything that must be caught,
//! after which the report must say so. The driver lies beside the ndis, netio and wdfldr stand-ins.

mod device;
mod expected;
mod heap;
mod memory;
#[path = "../../protocol.rs"]
#[expect(unreachable_pub, reason = "shared with the driver")]
mod protocol;
mod report;
mod service;

use std::{process::ExitCode, time::Duration};

use device::Device;
use protocol::{BLOCK, CHECKS, FIRST_PLANTED, LEAK, PLANTED, REMOVE, WRONG_START};
use report::Report;
use service::Service;

/// Argument with which this program starts itself to be killed.
const VICTIM: &str = "--victim";
/// The same, while the driver keeps a request of it.
const KEEPER: &str = "--keeper";
/// The same, while its memory is being shared.
const SHARER: &str = "--sharer";

/// The parameter of an adapter that names its TAP interface, and a name that no interface has.
const TAP_INTERFACE: &str = "TapInterface";
const NO_INTERFACE: &str = "no/interface";

/// Counts and prints.
#[derive(Default)]
struct Tally {
    passed: u32,
    failed: u32,
}

impl Tally {
    fn check(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => {
                println!("ok    {name}");
                self.passed += 1;
            }
            Err(problem) => {
                println!("FAIL  {name}: {problem}");
                self.failed += 1;
            }
        }
    }
}

fn main() -> ExitCode {
    let Some(argument) = std::env::args().nth(1) else {
        eprintln!("usage: selftest DRIVER.SYS");
        return ExitCode::FAILURE;
    };
    if argument == VICTIM {
        return memory::be_killed();
    }
    if argument == KEEPER {
        return memory::keep_until_killed();
    }
    if argument == SHARER {
        return memory::share_until_killed();
    }
    let mut tally = Tally::default();
    let result = must_work(&argument, &mut tally).and_then(|()| must_be_caught(&argument, &mut tally));
    if let Err(error) = result {
        tally.check("run", Err(error));
    }
    println!("{} passed, {} failed", tally.passed, tally.failed);
    if tally.failed == 0 && tally.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Loads the driver, runs `work` with its device, unloads it, and reads the report.
fn loaded(driver: &str, wrong_start: bool, work: impl FnOnce() -> Result<(), String>) -> Result<Report, String> {
    let report = Report::begin();
    let service = Service::create(driver)?;
    service.set_parameter(WRONG_START, wrong_start.into())?;
    if wrong_start {
        service.set_text(TAP_INTERFACE, NO_INTERFACE)?;
    }
    service.start()?;
    let result = Device::wait().and_then(|_| work());
    service.stop()?;
    service.delete()?;
    result?;
    report.end()
}

fn must_work(driver: &str, tally: &mut Tally) -> Result<(), String> {
    let report = loaded(driver, false, || {
        // The stand-in goes on checking the adapter after the device has appeared.
        std::thread::sleep(Duration::from_millis(300));
        let device = Device::open()?;
        for (number, name) in (0..).zip(CHECKS) {
            tally.check(name, device.run(number));
        }
        tally.check("requests run at the same time", concurrency(&device));
        tally.check("requests of a thread run in order", device::order(&device));
        tally.check("a pended request is cancelled", device::cancel());
        tally.check("a warning to who waits for it", device::warn_synchronous());
        tally.check("shared memory", memory::shared(&device));
        tally.check("overlapping locks", memory::overlapping(&device));
        tally.check("shared memory beside threads that allocate", memory::beside_others(&device));
        tally.check("files that are mapped", memory::mapped(&device));
        tally.check("memory of heaps that grow meanwhile", heap::heaps(&device));
        tally.check("memory of this program's own heap", heap::own_heap(&device));
        tally.check("pages of other protections", heap::protected(&device));
        tally.check("pages that were reserved", heap::reserved(&device));
        tally.check("bad addresses", memory::bad(&device));
        tally.check("cleanup before close", device::cleanup(&device));
        tally.check("a process that is killed", memory::kill(&device));
        tally.check("processes that are killed while their memory is shared", memory::kill_sharing(&device));
        Ok(())
    })?;
    tally.check("report: no pool", report.expect("pool 0 bytes in 0 allocations"));
    tally.check("report: no objects", report.expect("objects 0"));
    tally.check("report: no violations", report.expect("irql violations 0"));
    Ok(())
}

fn must_be_caught(driver: &str, tally: &mut Tally) -> Result<(), String> {
    let report = loaded(driver, true, || {
        std::thread::sleep(Duration::from_millis(300));
        let device = Device::open()?;
        for (number, name) in (FIRST_PLANTED..).zip(PLANTED) {
            tally.check(&format!("caught: {name}"), device.run(number));
        }
        tally.check("caught: a warning that ends an overlapped request at once", device::warn_overlapped());
        tally.check("caught: memory that cannot be shared", heap::refused(&device));
        tally.check("caught: a request that outlives its process", memory::kill_kept(&device));
        device.run(LEAK)?;
        device.run(REMOVE)
    })?;
    tally.check("report: the leak", report.expect("pool 100 bytes in 1 allocations"));
    tally.check("report: its tag", report.expect("  tag Self 100 bytes in 1 allocations"));
    let leaked = ["MDL", "NET_BUFFER_LIST", "NET_BUFFER_LIST pool", "WSK registration"];
    let objects = leaked.iter().try_for_each(|kind| report.expect(&format!("  {kind} 1")));
    tally.check("report: the objects", objects);
    for text in expected::violations() {
        tally.check(&format!("caught: {text}"), report.expect_violation(&text));
    }
    let count = report.violations();
    let enough = count >= PLANTED.len();
    tally.check("report: the violations", if enough { Ok(()) } else { Err(format!("{count} only")) });
    Ok(())
}

/// Wine delivers requests one at a time: the stand-in must not.
fn concurrency(device: &Device) -> Result<(), String> {
    let blocked = std::thread::spawn(|| Device::open()?.call(BLOCK, &500_u32.to_le_bytes(), 0).map(drop));
    std::thread::sleep(Duration::from_millis(100));
    let start = std::time::Instant::now();
    device.call(BLOCK, &0_u32.to_le_bytes(), 0)?;
    let waited = start.elapsed();
    blocked.join().map_err(|_| "a thread panicked")??;
    if waited < Duration::from_millis(250) { Ok(()) } else { Err(format!("a request waited for {waited:?}")) }
}
