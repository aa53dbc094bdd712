//! Control requests, any: nearly right ones with handles of the wrong kind, file or time, with other bytes and lengths; by two
//! threads, with cancels and closes of files at any point.

mod attackers;
mod operation;
mod program;

use std::sync::Mutex;

use ndk_provider::ObjectCounts;
use simkernel::Session;
use users::start;

pub use operation::{Deed, Handle, Operation, Request};

use crate::{Finding, Outcomes, Result, Script, ensure, memory::Shortage, neighbours::Neighbours};
use attackers::Attackers;

/// Fault rules for the hostile users, in one script of three; none for what they do when they open a file. The neighbours must not notice them.
const RULES: [&str; 9] = [
    "on connect where process=OWN every 4 do fail STATUS_CONNECTION_REFUSED",
    "on accept where process=OWN every 4 do fail STATUS_CONNECTION_ABORTED",
    "on bind where process=OWN every 2 do delay 1ms",
    "on fast-register where process=OWN every 2 do stall",
    "on send where process=OWN every 3 do disconnect",
    "on read where process=OWN every 2 do fail STATUS_IO_TIMEOUT",
    "on write where process=OWN every 2 do reset",
    "on complete where process=OWN after 8 times 1 do overrun",
    "on notify where process=OWN every 2 do delay 1ms",
];

/// Of the neighbours.
const PROCESSES: [u64; 2] = [12, 16];

/// Plays a script on the simulated kernel, whose schedule its seed determines.
///
/// # Errors
/// What is wrong with the driver.
pub fn run(script: &Script<Operation>) -> Result<Outcomes> {
    let session = simkernel::boot_seeded(script.seed);
    let played = play_in(&session, script);
    let ledger = session.finish();
    let outcomes = played?;
    ensure!(ledger.is_clean(), "the kernel is not clean:\n{ledger}");
    Ok(outcomes)
}

fn play_in(session: &Session, script: &Script<Operation>) -> Result<Outcomes> {
    let device = start();
    let neighbours = Mutex::new(Neighbours::new(&device, PROCESSES));
    let foreign = simkernel::lock_paused(&neighbours).handles();
    let attackers = Attackers::new(&device, foreign);
    if script.seed.is_multiple_of(3) {
        let rules =
            RULES.iter().flat_map(|rule| attackers::PROCESSES.map(|process| rule.replace("OWN", &process.to_string())));
        let set = device.host().provider().set_fault_rules(&rules.collect::<Vec<_>>().join("\n"));
        ensure!(set.is_ok(), "the rules are refused: {set:?}");
    }
    let shortage = Shortage::new(session);
    let thread = |operations: &[Operation]| {
        let played = operations.iter().enumerate().try_for_each(|(number, operation)| {
            let performed = match operation {
                Operation::Send(request) => attackers.send(request),
                Operation::Do(Deed::Others) => shortage.without(|| simkernel::lock_paused(&neighbours).exchange()),
                Operation::Do(Deed::RunShort(others)) => {
                    shortage.begin(*others);
                    Ok(())
                }
                Operation::Do(Deed::Close { file, whether }) => {
                    // To open a file again, the test needs memory.
                    shortage.without(|| attackers.close(*file, *whether));
                    Ok(())
                }
                Operation::Do(deed) => attackers.perform(deed),
            };
            performed.map_err(|Finding(what)| Finding(format!("operation {number}, {operation:?}: {what}")))
        });
        attackers.finish_cancels();
        played
    };
    let [first, second] = &script.threads;
    let results = simkernel::scope(|scope| {
        let second = scope.spawn(|| thread(second));
        let first = thread(first);
        [first, second.join().unwrap_or_else(|_| Err(Finding("a thread panicked".to_owned())))]
    });
    shortage.without(|| ());
    results.into_iter().collect::<Result<()>>()?;
    session.flush_dpcs();
    let mut neighbours = neighbours.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    neighbours.exchange()?;
    let outcomes = attackers.end()?;
    neighbours.exchange()?;
    drop(neighbours);
    session.flush_dpcs();
    let pinned = device.host().pinned();
    ensure!(pinned == 0, "{pinned} ranges are locked when all files are closed");
    let counts = device.host().provider().object_counts();
    ensure!(counts == ObjectCounts::default(), "objects are left: {counts:?}");
    Ok(outcomes)
}
