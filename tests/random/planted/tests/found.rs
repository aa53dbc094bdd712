//! Each planted bug is found by a check that passes without it.

use std::{env, fs, path::Path};

use model::{Event, Mismatch, Operation, Place, Post, Report, Request};
use platform::planted::{Bug, plant};

/// A check, by what it is.
struct Check {
    name: &'static str,
    run: fn() -> Result<Report, Mismatch>,
    /// In what it says of the bug.
    says: &'static str,
}

/// Plays operations against the reference model.
fn play(operations: &[Operation]) -> Result<Report, Mismatch> {
    model::run(1, operations)
}

/// A message from queue pair 0 to its peer, which is queue pair 1.
fn message() -> [Operation; 2] {
    let send = Post { request: Request::Send, sges: Vec::new(), flags: 0 };
    [Operation::Receive { qp: 1, sges: Vec::new() }, Operation::Post { qp: 0, posts: vec![send] }]
}

fn every_cq(operation: impl Fn(u8) -> Operation) -> Vec<Operation> {
    (0..4).map(operation).collect()
}

fn arm_with_entries() -> Result<Report, Mismatch> {
    let arm = every_cq(|cq| Operation::Arm { cq, notify: 1 });
    play(&[message().as_slice(), &arm].concat())
}

fn poll_several() -> Result<Report, Mismatch> {
    let poll = every_cq(|cq| Operation::Poll { cq, count: 40, plain: false });
    play(&[message().as_slice(), &message(), &message(), &poll].concat())
}

fn refused_connect() -> Result<Report, Mismatch> {
    // Nobody listens any more; the queue pair is a new one.
    let idle = Operation::Establish { active: 0, passive: 1, event: Event::None };
    let pause = Operation::Pause { listener: 0, pause: true };
    let close = Operation::CloseConnector { connector: 0 };
    let connect = Operation::Connect { connector: 0, qp: 0, listener: 0, inbound: 1, outbound: 1, private_data: 0 };
    play(&[idle, close, pause, connect])
}

fn arm_then_message() -> Result<Report, Mismatch> {
    let arm = every_cq(|cq| Operation::Arm { cq, notify: 1 });
    play(&[arm.as_slice(), &message()].concat())
}

/// An input of the fuzzer that is checked in.
fn fuzzed() -> Result<Report, Mismatch> {
    let input = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus/ndk_calls/end-of-region");
    play(&model::decode(&fs::read(input).expect("the input")))
}

/// A read of the peer's region, one byte past its end.
fn read_past_the_end() -> Result<Report, Mismatch> {
    let place = |length| Place { token: 0, offset: 16_300, length };
    let read = Post { request: Request::Read(place(6)), sges: vec![place(8 * 20)], flags: 0 };
    play(&[Operation::Post { qp: 0, posts: vec![read] }])
}

const CHECKS: [(Bug, &[Check]); 5] = [
    (Bug::LostWakeUp, &[Check { name: "arm rule of the reference model", run: arm_with_entries, says: "CqNotified" }]),
    (
        Bug::OutOfOrder,
        &[Check { name: "completion order of the reference model", run: poll_several, says: "is not due" }],
    ),
    (
        Bug::OffByOne,
        &[
            Check { name: "access rule of the reference model", run: read_past_the_end, says: "buffer 0 differs" },
            Check { name: "fuzz target ndk_calls, on a checked-in input", run: fuzzed, says: "buffer 0 differs" },
        ],
    ),
    (Bug::LeakedReference, &[Check { name: "closes of the reference model", run: refused_connect, says: "Closed(Qp" }]),
    (
        Bug::CallbackUnderLock,
        &[Check { name: "callback rule of the simulated kernel", run: arm_then_message, says: "spin lock held" }],
    ),
];

// Shows S310, T28.
#[test]
fn each_bug_is_found() {
    for (bug, checks) in CHECKS {
        for Check { name, run, says } in checks {
            plant(None);
            let clean = run();
            assert!(clean.is_ok(), "{name} fails without a bug: {clean:?}");
            plant(Some(bug));
            let found = run();
            plant(None);
            let Err(Mismatch(what)) = found else { panic!("{bug:?} is not found by the {name}") };
            assert!(what.contains(says), "{bug:?}: {what}");
            println!("{bug:?} is found by the {name}: {what}");
        }
    }
}

/// The mark that `cargo xtask build` looks for in what ships is in a binary that has the bugs.
#[test]
fn the_mark_is_there() {
    let program = fs::read(env::current_exe().expect("this program")).expect("its bytes");
    let mark = b"SoftNDK with planted bugs";
    assert!(program.windows(mark.len()).filter(|bytes| bytes == mark).count() > 1, "beside the one that this test has");
}
