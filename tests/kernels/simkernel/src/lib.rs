//! A simulated kernel: the second implementation of [`platform::Platform`], on std threads, that checks what a real
//! kernel only punishes.
//!
//! Start with [`boot`] and keep its [`Session`] in the first variable of the test: sessions are serialised in a process,
//! and dropping one waits for all DPCs and panics unless its [`Ledger`] is clean: no rule broken, nothing leaked.
//!
//! * IRQL is a thread-local number; [`at_dispatch`] raises it as a caller of the driver may. Breaches are [`Violation`]s.
//! * Memory is zeroed, poisoned when freed, followed by a red zone, and each allocation is numbered in the ledger. With
//!   `RUST_LIB_BACKTRACE=1` the ledger also says where it was made.
//! * DPCs run at `DISPATCH_LEVEL` on a few processor threads.
//! * Timers follow the real time, or a clock that the test holds and moves on: [`Session::hold_clock`].
//! * [`Network`] has TCP between sockets of the process, cut into segments and delayed as a generator chooses.
//! * [`each_fault`] has every fallible call fail once per call site; [`Session::fail_allocation`] and
//!   [`Session::fail_mapping`] plant a single fault.
//! * [`Pages`] and [`Mdl`] stand for a consumer's memory.
//! * [`watchdog`] ends a test that stalls, and says what it is waiting for.
//!
//! [`boot`] leaves the schedule to the machine, and any thread may call. In a session of [`boot_seeded`] the schedule comes
//! from a seed: which processor takes which DPC, who gets a contended lock, who is preempted where. It replays.

mod event;
mod fault;
mod held;
mod irql;
mod kernel;
mod ledger;
mod lock;
mod mdl;
mod network;
mod notices;
mod order;
mod pages;
mod pool;
mod processors;
mod schedule;
mod session;
mod site;
mod timers;
mod violation;
mod waiters;
mod watchdog;

pub use event::Event;
pub use fault::{Fault, Faults, each_fault};
pub use held::{HeldLock, held_locks};
pub use irql::{at_dispatch, at_irql, in_callback, passive};
pub use kernel::SimKernel;
pub use ledger::{Allocation, Ledger, Purpose, on_violation};
pub use lock::RawSpinLock;
pub use mdl::Mdl;
pub use network::{Network, Request, Socket};
pub use notices::tell_faults;
pub use pages::Pages;
pub use processors::{Dpc, OutstandingDpc, PROCESSOR_COUNT};
pub use schedule::{JoinHandle, Scope, Step, Trace, lock_paused, pause, scope, seeds};
pub use session::{Session, boot, boot_seeded};
pub use site::Site;
pub use timers::Timer;
pub use violation::{Breach, Place, Violation};
pub use waiters::Waiting;
pub use watchdog::watchdog;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks one of the simulator's own tables. A panicking test must not take the others down with it.
fn lock_table<T>(table: &Mutex<T>) -> MutexGuard<'_, T> {
    table.lock().unwrap_or_else(PoisonError::into_inner)
}
