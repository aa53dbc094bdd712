//! [`RunQueue`]: routines that wait to run at DISPATCH_LEVEL on one processor. For a kernel that runs its own DPC queue
//! until it is empty.
#![expect(
    unsafe_code,
    reason = "runs are linked by address, and their routines are C functions with a context pointer"
)]

use core::{
    cell::Cell,
    ffi::c_void,
    ptr::{null, null_mut},
};

use crate::{Dispatch, DpcRoutine, Platform, SpinLock};

/// The runs that a processor's DPC takes in a row before it leaves the rest to a thread.
pub const RUNS_IN_A_ROW: u32 = 64;

/// A routine to be called at `DISPATCH_LEVEL`: the storage of a DPC. All-zero bytes are a valid, uninitialised value.
pub struct Run {
    routine: Cell<Option<DpcRoutine>>,
    context: Cell<*mut c_void>,
    /// The next run of the queue.
    next: Cell<*const Run>,
}

// SAFETY: the routine and the context are written before the run is first queued; `next` while the run is in no queue,
// or with the lock of its queue held.
unsafe impl Send for Run {}
// SAFETY: as for Send.
unsafe impl Sync for Run {}

impl Default for Run {
    fn default() -> Self {
        Self { routine: Cell::new(None), context: Cell::new(null_mut()), next: Cell::new(null()) }
    }
}

impl Run {
    /// Initialises the run, which is in no queue.
    pub fn initialize(&self, routine: DpcRoutine, context: *mut c_void) {
        self.routine.set(Some(routine));
        self.context.set(context);
    }
}

/// The runs of one processor, first in, first out. The processor's DPC takes one run, then queues itself again behind
/// the DPCs of other drivers. When it has taken [`RUNS_IN_A_ROW`] runs and there are more, a thread of the processor
/// takes all runs, new ones too, until the queue is empty; then the DPC serves the queue again. So runs that queue each
/// other cannot keep other threads from running.
pub struct RunQueue<P: Platform> {
    state: SpinLock<State, P>,
}

struct State {
    first: *const Run,
    last: *const Run,
    server: Server,
    /// The number of runs ever queued.
    pushed: u64,
}

// SAFETY: the runs may be used on any thread, and the links of queued runs are used with the lock held only.
unsafe impl Send for State {}

/// The context that takes the runs.
enum Server {
    /// The queue is empty.
    Idle,
    /// The processor's DPC, which has taken this number of runs since the queue was empty.
    Dpc(u32),
    Thread,
}

/// The context that takes the next run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The queue is empty.
    Idle,
    /// The processor's DPC.
    Dpc,
    /// The processor's thread.
    Thread,
}

impl<P: Platform> Default for RunQueue<P> {
    fn default() -> Self {
        Self { state: SpinLock::<_, P>::new(State { first: null(), last: null(), server: Server::Idle, pushed: 0 }) }
    }
}

impl<P: Platform> RunQueue<P> {
    /// Adds a run. If neither the DPC nor the thread takes runs, calls `queue_dpc`, with the lock held, to queue the
    /// processor's DPC. IRQL <= DISPATCH.
    ///
    /// # Safety
    /// `run` was initialised, is in no queue, and stays valid until its routine has been entered.
    pub unsafe fn push(&self, run: *const Run, queue_dpc: impl FnOnce()) {
        // SAFETY: valid, by contract.
        let fields = unsafe { &*run };
        fields.next.set(null());
        let mut state = self.state.lock();
        state.pushed = state.pushed.wrapping_add(1);
        let last = core::mem::replace(&mut state.last, run);
        if last.is_null() {
            state.first = run;
        } else {
            // SAFETY: queued, so valid.
            let last = unsafe { &*last };
            last.next.set(run);
        }
        if let Server::Idle = state.server {
            state.server = Server::Dpc(0);
            queue_dpc();
        }
    }

    /// Takes a run, calls its routine, and returns the context that takes the next run. Only that context makes the
    /// next call; after `queue_dpc` it is the DPC.
    pub fn run_next(&self, _: &Dispatch<'_>) -> Next {
        if let Some(run) = self.pop() {
            // SAFETY: the run was queued until now, so it is valid; the reference is not used after the routine was
            // entered.
            let fields = unsafe { &*run };
            let (routine, context) = (fields.routine.get(), fields.context.get());
            if let Some(routine) = routine {
                // SAFETY: the context is the one that the run was initialised with; called once for each `push`.
                unsafe { routine(context) };
            }
        }
        let mut state = self.state.lock();
        let (server, next) = match state.server {
            _ if state.first.is_null() => (Server::Idle, Next::Idle),
            Server::Dpc(runs) if runs.wrapping_add(1) < RUNS_IN_A_ROW => (Server::Dpc(runs.wrapping_add(1)), Next::Dpc),
            _ => (Server::Thread, Next::Thread),
        };
        state.server = server;
        next
    }

    /// The context that takes the next run.
    pub fn next(&self) -> Next {
        match self.state.lock().server {
            Server::Idle => Next::Idle,
            Server::Dpc(_) => Next::Dpc,
            Server::Thread => Next::Thread,
        }
    }

    /// The number of runs ever queued; `None` if a run is queued or running now.
    pub fn idle(&self) -> Option<u64> {
        let state = self.state.lock();
        matches!(state.server, Server::Idle).then_some(state.pushed)
    }

    fn pop(&self) -> Option<*const Run> {
        let mut state = self.state.lock();
        let run = state.first;
        if run.is_null() {
            return None;
        }
        // SAFETY: queued, so valid.
        state.first = unsafe { (*run).next.get() };
        if state.first.is_null() {
            state.last = null();
        }
        Some(run)
    }
}
