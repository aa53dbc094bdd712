//! The user's side of rings is hostile: rings of any geometry, anything written into them at any moment, by two threads, at the
//! end of each read of the driver, with requests of the control device in between.

mod attacker;
mod operation;
mod peer;
mod requests;

use std::sync::Mutex;

use ndk_provider::ObjectCounts;
use simkernel::Session;
use users::start;

pub use operation::{Damage, Entry, Field, Number, Operation, Piece, Request};

use crate::{Finding, Outcomes, Result, Script, ensure, memory::Shortage, neighbours::Neighbours};
use attacker::Attacker;
use peer::Peer;

/// What stands for a control code in the outcomes of receives of the peer.
const RECEIVES: u32 = 0;
/// Of the hostile user, its peer, and the neighbours.
const PROCESSES: [u64; 4] = [4, 8, 12, 16];
/// Deferred calls that an operation leads to at most; each request in a ring takes some, and each queue looks at its ring a few
/// times before it sleeps.
const RUNS: u64 = 4_000;
/// Bytes of non-paged pool that all of it takes at most.
const POOL: usize = 32 << 20;

/// Plays a script on the simulated kernel, whose schedule its seed determines.
///
/// # Errors
/// What is wrong with the driver.
pub fn run(script: &Script<Operation>) -> Result<Outcomes> {
    play(simkernel::boot_seeded(script.seed), script)
}

/// As [`run`], with the machine's own schedule, which does not replay.
///
/// # Errors
/// As [`run`].
pub fn run_unscheduled(script: &Script<Operation>) -> Result<Outcomes> {
    play(simkernel::boot(), script)
}

fn play(session: Session, script: &Script<Operation>) -> Result<Outcomes> {
    let played = play_in(&session, script);
    change_what_is_read(0);
    let ledger = session.finish();
    let outcomes = played?;
    ensure!(ledger.is_clean(), "the kernel is not clean:\n{ledger}");
    Ok(outcomes)
}

fn play_in(session: &Session, script: &Script<Operation>) -> Result<Outcomes> {
    let device = start();
    let [own, peers, one, two] = PROCESSES;
    let attacker = Attacker::new(&device, own);
    let mut peer = Peer::new(&device, peers, &attacker);
    peer.work()?;
    let neighbours = Neighbours::new(&device, [one, two]);
    let runs_before = session.ledger().dpc_runs;
    let others = Mutex::new((peer, neighbours));
    let shortage = Shortage::new(session);
    let perform = |operation: &Operation| match operation {
        Operation::Others => shortage.without(|| {
            let (peer, neighbours) = &mut *simkernel::lock_paused(&others);
            neighbours.exchange().and_then(|()| peer.work())
        }),
        Operation::Change(bits) => {
            change_what_is_read(*bits);
            Ok(())
        }
        Operation::RunShort(others) => {
            shortage.begin(*others);
            Ok(())
        }
        operation => attacker.perform(operation),
    };
    let thread = |operations: &[Operation]| {
        operations.iter().enumerate().try_for_each(|(number, operation)| {
            perform(operation).map_err(|Finding(what)| Finding(format!("operation {number}, {operation:?}: {what}")))
        })
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
    let (peer, mut neighbours) = others.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    neighbours.exchange()?;
    let ledger = session.ledger();
    let operations = 1 + script.threads.iter().map(Vec::len).sum::<usize>() as u64;
    let runs = ledger.dpc_runs - runs_before;
    ensure!(runs <= RUNS * operations, "{runs} deferred calls for {operations} operations");
    ensure!(ledger.pool_bytes() <= POOL, "{} bytes of pool", ledger.pool_bytes());
    let mut outcomes = attacker.end()?;
    neighbours.exchange()?;
    outcomes.extend(peer.end()?.into_iter().map(|(status, times)| ((RECEIVES, status), times)));
    drop(neighbours);
    session.flush_dpcs();
    let pinned = device.host().pinned();
    ensure!(pinned == 0, "{pinned} ranges are locked when all files are closed");
    let counts = device.host().provider().object_counts();
    ensure!(counts == ObjectCounts::default(), "objects are left: {counts:?}");
    Ok(outcomes)
}

#[cfg(feature = "changing-memory")]
fn change_what_is_read(bits: u64) {
    nd_rings::changing::change_what_is_read(bits);
}

/// The driver here cannot be told apart from one that reads twice.
#[cfg(not(feature = "changing-memory"))]
fn change_what_is_read(_: u64) {}
