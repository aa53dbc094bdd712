//! Broken rules of the kernel.

use std::{alloc::Layout, backtrace::Backtrace, fmt, sync::Arc, thread};

use crate::{irql, ledger};

/// A rule of the kernel that was broken. Addresses are those of the objects concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Breach {
    /// Something was called above the IRQL it allows.
    IrqlTooHigh {
        /// What was called.
        call: &'static str,
        /// The highest level it may be called at.
        limit: u8,
    },
    /// A context token, [`platform::Passive`] or [`platform::Dispatch`], was minted at another IRQL: the driver was called at
    /// a level it may not be called at, or claims what is not so.
    FalseClaim {
        /// The level that the token stands for.
        claimed: u8,
    },
    /// A callback of a consumer was called outside of its documented levels.
    CallbackIrql {
        /// Which callback.
        callback: &'static str,
        /// The lowest level it may be called at.
        lowest: u8,
        /// The highest one.
        highest: u8,
    },
    /// A callback of a consumer was called with a spin lock held.
    CallbackUnderLock {
        /// Which callback.
        callback: &'static str,
        /// The address of the lock.
        lock: usize,
    },
    /// A thread took a spin lock that it holds.
    LockRecursion(usize),
    /// Two spin locks were taken in both orders, if not directly then through others. One report for each order.
    LockCycle {
        /// The lock taken first.
        held: Place,
        /// The lock taken then.
        taken: Place,
    },
    /// A spin lock was released that is not the last one its thread took.
    LockOrder(usize),
    /// A spin lock was released by a thread that does not hold it.
    LockNotHeld(usize),
    /// A spin lock was released at another IRQL than it was taken at.
    UnlockIrql(usize),
    /// A DPC routine, or the code given to `at_irql`, ended at another IRQL than it was called at.
    IrqlChanged {
        /// The level at the call.
        entered: u8,
        /// The level at the end.
        left: u8,
    },
    /// A DPC routine, a session, or the code given to `at_irql` ended with a spin lock held.
    LockStillHeld(usize),
    /// Memory was freed twice.
    DoubleFree(usize),
    /// Memory was freed that was never allocated.
    UnknownFree(usize),
    /// Memory was freed with another layout than it was allocated with.
    WrongLayout {
        /// The layout it was allocated with.
        allocated: Layout,
        /// The layout it was freed with.
        freed: Layout,
    },
    /// An allocation of no bytes.
    EmptyAllocation,
    /// Bytes behind the end of an allocation (given by its number) were written.
    Overrun(u64),
    /// An allocation (given by its number) was written after it was freed.
    UseAfterFree(u64),
    /// Memory was freed with a queued DPC in it.
    FreedQueuedDpc(usize),
    /// Memory was freed with a timer in it that is set.
    FreedSetTimer(usize),
    /// A DPC was queued that is in the queue.
    QueuedTwice(usize),
    /// A timer was set that is set already.
    SetTwice(usize),
    /// Memory was freed with something in it that a thread waits for.
    FreedWhileWaiting(usize),
    /// Memory was freed with a spin lock in it that the freeing thread holds.
    FreedHeldLock(usize),
    /// A DPC was queued or an event used before it was initialised.
    Uninitialized(usize),
    /// A DPC was initialised while queued, or an event while waited for.
    InitializedInUse(usize),
    /// An address was taken for an MDL that is none, or none any more.
    UnknownMdl(usize),
    /// The pages of an MDL were mapped that has none.
    EmptyMdlMapped(usize),
    /// A socket was used from within the routine of a request, which may run on the stack of another such call.
    SocketCallInRoutine {
        /// What was called.
        call: &'static str,
    },
    /// A socket was used with a spin lock held, which the routine of the request may want.
    SocketCallUnderLock {
        /// What was called.
        call: &'static str,
        /// The address of the lock.
        lock: usize,
    },
    /// A socket was used that is not in the right state: not connected, finished, closed.
    SocketState {
        /// What was called.
        call: &'static str,
    },
    /// Two requests were made on a socket that may not be under way together.
    RequestsOverlap {
        /// What the second one was.
        call: &'static str,
    },
    /// A request was used again while it is under way.
    RequestUnderWay(usize),
    /// A socket was closed while a call for it had not returned.
    ClosedDuringCall,
    /// A request with no bytes, with too many, or with such that are not the driver's.
    BadTransfer {
        /// Where they begin.
        address: usize,
        /// How many they are.
        length: usize,
    },
    /// Memory was freed with a request in it that is under way, or with its bytes.
    FreedRequest(usize),
    /// Memory was freed with a socket in it that is not closed.
    FreedOpenSocket(usize),
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IrqlTooHigh { call, limit } => write!(f, "{call} above IRQL {limit}"),
            Self::FalseClaim { claimed } => write!(f, "code for IRQL {claimed} entered"),
            Self::CallbackIrql { callback, lowest, highest } => {
                write!(f, "{callback} called at an IRQL that is not {lowest} to {highest}")
            }
            Self::CallbackUnderLock { callback, lock } => write!(f, "{callback} called with spin lock {lock:#x} held"),
            Self::LockRecursion(lock) => write!(f, "spin lock {lock:#x} taken twice by one thread"),
            Self::LockCycle { held, taken } => {
                write!(f, "spin locks taken in both orders, here first {held} then {taken}")
            }
            Self::LockOrder(lock) => write!(f, "spin lock {lock:#x} released before one taken after it"),
            Self::LockNotHeld(lock) => write!(f, "spin lock {lock:#x} released by a thread that does not hold it"),
            Self::UnlockIrql(lock) => write!(f, "spin lock {lock:#x} released at another IRQL than it was taken at"),
            Self::IrqlChanged { entered, left } => write!(f, "entered at IRQL {entered}, left at {left}"),
            Self::LockStillHeld(lock) => write!(f, "left with spin lock {lock:#x} held"),
            Self::DoubleFree(memory) => write!(f, "{memory:#x} freed twice"),
            Self::UnknownFree(memory) => write!(f, "{memory:#x} freed, but never allocated"),
            Self::WrongLayout { allocated, freed } => write!(f, "allocated with {allocated:?}, freed with {freed:?}"),
            Self::EmptyAllocation => write!(f, "allocation of no bytes"),
            Self::Overrun(number) => write!(f, "allocation #{number} written past its end"),
            Self::UseAfterFree(number) => write!(f, "allocation #{number} written after it was freed"),
            Self::FreedQueuedDpc(dpc) => write!(f, "freed with the queued DPC {dpc:#x} in it"),
            Self::FreedSetTimer(timer) => write!(f, "freed with the timer {timer:#x} in it set"),
            Self::QueuedTwice(dpc) => write!(f, "DPC {dpc:#x} queued while queued"),
            Self::SetTwice(timer) => write!(f, "timer {timer:#x} set twice"),
            Self::FreedWhileWaiting(object) => write!(f, "freed while a thread waits for {object:#x} in it"),
            Self::FreedHeldLock(lock) => write!(f, "freed with the held spin lock {lock:#x} in it"),
            Self::Uninitialized(object) => write!(f, "{object:#x} used before it was initialised"),
            Self::InitializedInUse(object) => write!(f, "{object:#x} initialised while in use"),
            Self::UnknownMdl(mdl) => write!(f, "{mdl:#x} is not a live MDL"),
            Self::EmptyMdlMapped(mdl) => write!(f, "MDL {mdl:#x} describes no bytes, yet was mapped"),
            Self::SocketCallInRoutine { call } => write!(f, "{call} within the routine of a request"),
            Self::SocketCallUnderLock { call, lock } => write!(f, "{call} with spin lock {lock:#x} held"),
            Self::SocketState { call } => write!(f, "{call} on a socket that is not in the state for it"),
            Self::RequestsOverlap { call } => write!(f, "{call} while the like is under way on the socket"),
            Self::RequestUnderWay(request) => write!(f, "request {request:#x} used while it is under way"),
            Self::ClosedDuringCall => write!(f, "a socket closed while a call for it has not returned"),
            Self::BadTransfer { address, length } => write!(f, "request with {length} bytes at {address:#x}"),
            Self::FreedRequest(request) => write!(f, "freed with {request:#x} of a request under way in it"),
            Self::FreedOpenSocket(socket) => write!(f, "freed with the open socket {socket:#x} in it"),
        }
    }
}

/// A place in an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The number of the allocation.
    pub allocation: u64,
    /// Bytes from its start.
    pub offset: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}+{:#x}", self.allocation, self.offset)
    }
}

/// A [`Breach`], and who did it.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The rule.
    pub breach: Breach,
    /// The name of the thread.
    pub thread: String,
    /// Its IRQL.
    pub irql: u8,
    /// Where, if `RUST_LIB_BACKTRACE=1`.
    pub backtrace: Arc<Backtrace>,
}

impl Violation {
    /// By the current thread.
    pub(crate) fn here(breach: Breach) -> Self {
        Self {
            breach,
            thread: thread::current().name().unwrap_or("unnamed").to_owned(),
            irql: irql::current(),
            backtrace: ledger::backtrace(),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (thread {}, IRQL {})", self.breach, self.thread, self.irql)?;
        ledger::write_backtrace(f, &self.backtrace)
    }
}
