//! Lives on the simulated kernel, in rounds: each boots it, on one machine or two, and looks at what is left at its end.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use fastrand::Rng;
use ndk_abi::{
    softndk_ioctl::{
        IOCTL_SOFTNDK_CAPTURE, IOCTL_SOFTNDK_FAULT_RULES, IOCTL_SOFTNDK_SET_FAULT_RULES, IOCTL_SOFTNDK_START_CAPTURE,
        SOFTNDK_DIAGNOSTICS_QUERY, SOFTNDK_FAULT_RULE, SOFTNDK_IOCTL_VERSION, SOFTNDK_LIST, SOFTNDK_LIST_QUERY,
        SOFTNDK_START_CAPTURE,
    },
    status::STATUS_SUCCESS,
};
use simkernel::Session;
use zerocopy::IntoBytes as _;

use super::{Record, Trouble, Until, lives};
use crate::{Bench, Transport as _, sim::Simulated, transport::File};

/// How long a planted fault waits for its call.
const WAIT: Duration = Duration::from_millis(30);
/// A fault happens within this number of calls.
const SOON: u64 = 300;
/// Of each thread, in a round.
const LIVES: u64 = 8;

/// Plays a round, all of whose choices `seed` determines, but for when things happen. No life begins after `end`.
pub fn simulated(seed: u64, end: Instant, patience: Duration, record: &Record) {
    let mut random = Rng::with_seed(seed);
    let (two_devices, faulty, threads) = (random.bool(), random.bool(), random.u64(1..=3));
    let (here, there) = if two_devices {
        let [here, there] = Simulated::boot_two_devices();
        (here, Some(there))
    } else {
        (Simulated::boot(), None)
    };
    let trouble = if faulty { Trouble::Faults } else { Trouble::Nothing };
    let machines = [Some(&here), there.as_ref()].into_iter().flatten();
    if faulty {
        machines.clone().for_each(|machine| set_fault_rules(machine, &mut random, patience));
    }
    let captures: Vec<_> = machines.clone().filter_map(|machine| capture(machine, &mut random, patience)).collect();
    let until = Until { end, lives: LIVES, patience };
    let before = record.figures().findings.len();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        if faulty {
            let (here, is_over, mut random) = (&here, &is_over, random.fork());
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    fail_once(here.session(), &mut random, is_over, record);
                }
            });
        }
        let there = there.as_ref().map(|there| there as &(dyn crate::Transport + Sync));
        lives(&here, there, (random.u64(..), threads), trouble, until, record);
        is_over.store(true, Ordering::Relaxed);
    });
    captures.into_iter().for_each(|file| read_capture(&*file, patience));
    record.add().faults += machines.clone().map(|machine| fired(machine, patience)).sum::<u64>();
    let left: Vec<_> = machines.flat_map(|machine| Bench::new(machine, patience).left_behind()).collect();
    let ledger = here.session().ledger();
    let complaints: Vec<_> =
        there.map(|there| Box::new(there).close()).into_iter().flatten().chain(Box::new(here).close()).collect();
    let mut figures = record.add();
    figures.violations += ledger.violations.len() as u64;
    figures.leaked += (left.len() + complaints.len()) as u64;
    for what in left.into_iter().chain(complaints) {
        figures.find(what);
    }
    for finding in figures.findings.iter_mut().skip(before) {
        finding.push_str(&format!(
            " (in the round with --seed {seed}: two devices {two_devices}, faults {faulty}, {threads} at a time)"
        ));
    }
}

/// Fault rules. None stalls, or overruns a completion queue, as the requests would count as lost.
const RULES: [&str; 19] = [
    "on listen chance 1/20 seed SEED do fail STATUS_SHARING_VIOLATION",
    "on connect chance 1/10 seed SEED do fail STATUS_CONNECTION_REFUSED",
    "on connect chance 1/10 seed SEED do fail STATUS_IO_TIMEOUT",
    "on accept chance 1/10 seed SEED do fail STATUS_CONNECTION_ABORTED",
    "on register chance 1/20 seed SEED do fail STATUS_INSUFFICIENT_RESOURCES",
    "on send chance 1/50 seed SEED do fail STATUS_IO_TIMEOUT",
    "on write chance 1/50 seed SEED do fail STATUS_ACCESS_VIOLATION",
    "on read chance 1/50 seed SEED do fail STATUS_REMOTE_RESOURCES",
    "on bind chance 1/20 seed SEED do fail STATUS_ACCESS_VIOLATION",
    "on send where role=passive chance 1/50 seed SEED do disconnect",
    "on write where role=active chance 1/50 seed SEED do reset",
    "on read chance 1/20 seed SEED do delay 5ms",
    "on connect chance 1/10 seed SEED do send-timeout 1s",
    "on connect chance 1/20 seed SEED do fail STATUS_HOST_UNREACHABLE",
    "on notify chance 1/10 seed SEED do delay 2ms",
    "on segment-in where bytes>=1 chance 1/200 seed SEED do terminate 0x0100",
    "on segment-out chance 1/200 seed SEED do corrupt",
    "on segment-out chance 1/100 seed SEED do delay 3ms",
    "on segment-in chance 1/100 seed SEED do delay 3ms",
];

/// Gives a device some of [`RULES`].
fn set_fault_rules(machine: &Simulated, random: &mut Rng, patience: Duration) {
    let rules = RULES.iter().filter(|_| random.u8(..3) == 0).collect::<Vec<_>>();
    let rules = rules.into_iter().map(|rule| rule.replace("SEED", &random.u64(..).to_string()));
    let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: SOFTNDK_IOCTL_VERSION, Reserved: 0 };
    let input = [query.as_bytes(), rules.collect::<Vec<_>>().join("\n").as_bytes()].concat();
    let file = machine.open().expect("a file");
    let set = file.submit(IOCTL_SOFTNDK_SET_FAULT_RULES, &input, 0).wait(patience).expect("the request ends");
    assert_eq!(set.status, STATUS_SUCCESS, "the rules are right");
}

/// Starts a capture of a device, in one round of four. What finds no room is dropped.
fn capture(machine: &Simulated, random: &mut Rng, patience: Duration) -> Option<Box<dyn File>> {
    if random.u8(..4) > 0 {
        return None;
    }
    let [snap, bytes] = [random.choice([0, 256, 1 << 18])?, random.choice([4096, 1 << 20])?];
    let start =
        SOFTNDK_START_CAPTURE { Version: SOFTNDK_IOCTL_VERSION, Snap: snap, Bytes: bytes, Port: 0, Reserved: 0 };
    let file = machine.open().expect("a file");
    let started = file.submit(IOCTL_SOFTNDK_START_CAPTURE, start.as_bytes(), 0).wait(patience);
    assert_eq!(started.expect("the request ends").status, STATUS_SUCCESS);
    Some(file)
}

/// Reads a capture, and has it written, to nowhere.
fn read_capture(file: &dyn File, patience: Duration) {
    let query = SOFTNDK_DIAGNOSTICS_QUERY { Version: SOFTNDK_IOCTL_VERSION, Reserved: 0 };
    let mut writer = capture::Writer::new(std::io::sink()).expect("a writer");
    loop {
        let read = file.submit(IOCTL_SOFTNDK_CAPTURE, query.as_bytes(), 1 << 16).wait(patience);
        let read = read.expect("the request ends");
        assert_eq!(read.status, STATUS_SUCCESS);
        if writer.write(&read.output).expect("well formed") == 0 {
            break;
        }
    }
    writer.finish().expect("a file");
}

/// How often the rules of a device have fired.
fn fired(machine: &Simulated, patience: Duration) -> u64 {
    let query = SOFTNDK_LIST_QUERY { Version: SOFTNDK_IOCTL_VERSION, Start: 0 };
    let length = size_of::<SOFTNDK_LIST>() + RULES.len() * size_of::<SOFTNDK_FAULT_RULE>();
    let file = machine.open().expect("a file");
    let read = file.submit(IOCTL_SOFTNDK_FAULT_RULES, query.as_bytes(), length).wait(patience).expect("it ends");
    let (_, rules) = SOFTNDK_LIST::read::<SOFTNDK_FAULT_RULE>(&read.output).expect("a list");
    rules.map(|rule| rule.Fired).sum()
}

/// Has one call of the kernel fail.
fn fail_once(session: &Session, random: &mut Rng, is_over: &AtomicBool, record: &Record) {
    let nth = random.u64(1..SOON);
    let fault = match random.u8(..4) {
        0 => session.fail_mapping(nth.div_ceil(10)),
        1 => session.fail_request(nth.div_ceil(4)),
        _ => session.fail_allocation(nth),
    };
    let planted = Instant::now();
    while !fault.happened() && !is_over.load(Ordering::Relaxed) && planted.elapsed() < WAIT {
        thread::sleep(Duration::from_micros(200));
    }
    if fault.happened() {
        record.add().faults += 1;
    }
}
