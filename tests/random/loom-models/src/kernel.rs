//! The kernel of a model.
#![expect(unsafe_code, reason = "implements the unsafe trait Platform: kernel objects live behind raw pointers")]

use std::{
    alloc::{self, Layout},
    cell::{Cell, RefCell},
    collections::{BTreeMap, VecDeque},
    ffi::c_void,
    mem,
    ptr::NonNull,
    rc::Rc,
};

use loom::{
    alloc::Track,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};
use platform::{DpcRoutine, PASSIVE_LEVEL, Passive, Platform};

use crate::{RawSpinLock, Wakeup, sockets::Network};

/// What freed memory is filled with.
const POISON: u8 = 0xDD;

thread_local! {
    /// All threads of a model run on the thread that explores it.
    static STATE: RefCell<Option<State>> = const { RefCell::new(None) };
}

#[derive(Default)]
struct State {
    live: bool,
    /// Threads of DPCs and timers, ever.
    started: usize,
    /// Counts those that have ended, in a model that waits for them.
    ended: Option<Rc<Wakeup>>,
    /// DPCs queued before the model went live.
    queued: VecDeque<Call>,
    /// Live memory, by address. What is left at the end of the execution, loom finds.
    allocated: BTreeMap<usize, (Layout, Track<()>)>,
    freed: Vec<(NonNull<u8>, Layout)>,
}

impl State {
    /// Ends an execution: it is over, or a defect was found in it.
    fn end(self) {
        for (memory, layout) in self.freed {
            // SAFETY: allocated with this layout; the execution that used it is over.
            unsafe { alloc::dealloc(memory.as_ptr(), layout) };
        }
        for (_layout, leaked) in self.allocated.into_values() {
            // It belongs to an execution that is no more.
            mem::forget(leaked);
        }
    }
}

/// A routine to be called.
#[derive(Clone, Copy)]
struct Call {
    routine: DpcRoutine,
    context: *mut c_void,
}

impl Call {
    fn run(self) {
        // SAFETY: once for each queueing, with the context it was initialised with.
        unsafe { (self.routine)(self.context) };
    }
}

/// One execution of a model.
#[derive(Debug)]
pub struct Kernel(());

impl Kernel {
    /// Begins an execution.
    #[must_use]
    pub fn boot() -> Self {
        STATE.with_borrow_mut(|state| {
            if let Some(last) = state.replace(State::default()) {
                last.end();
            }
        });
        Self(())
    }

    /// Runs what is queued, and what that queues. For building what a model starts with.
    pub fn run_queued(&self) {
        while let Some(call) = with_state(|state| state.queued.pop_front()) {
            call.run();
        }
    }

    /// From now on each DPC is a thread.
    pub fn live(&self) {
        self.run_queued();
        with_state(|state| state.live = true);
    }

    /// As [`Kernel::live`], for a model that has to [`Kernel::calm`] down.
    pub fn live_for_a_while(&self) {
        self.live();
        let ended = Rc::new(Wakeup::default());
        with_state(|state| state.ended = Some(ended));
    }

    /// Waits until all threads of DPCs and timers have ended; from now on DPCs wait for [`Kernel::run_queued`] again. The threads of the model
    /// have ended.
    pub fn calm(&self) {
        let Some(ended) = with_state(|state| state.ended.clone()) else { unreachable!("not live for a while") };
        loop {
            let started = with_state(|state| state.started);
            ended.wait_for(started);
            // The last one may have queued another.
            if with_state(|state| state.started) == started {
                break;
            }
        }
        let ended = with_state(|state| {
            state.live = false;
            state.ended.take()
        });
        drop(ended);
    }
}

/// Dropping it ends the last execution of an exploration.
#[derive(Debug)]
pub(crate) struct LastExecution;

impl Drop for LastExecution {
    fn drop(&mut self) {
        if let Some(last) = STATE.take() {
            last.end();
        }
    }
}

/// The state of the execution. Not to be held over an operation of loom's, which may switch to another thread.
fn with_state<R>(access: impl FnOnce(&mut State) -> R) -> R {
    STATE.with_borrow_mut(|state| access(state.get_or_insert_default()))
}

/// Queues a call, or makes it a thread.
fn queue(call: Call) {
    if with_state(|state| state.live) {
        start(move || call.run());
    } else {
        with_state(|state| state.queued.push_back(call));
    }
}

/// Starts a thread of the kernel.
pub(crate) fn start(body: impl FnOnce() + 'static) {
    with_state(|state| state.started += 1);
    thread::spawn(move || {
        body();
        if let Some(ended) = with_state(|state| state.ended.clone()) {
            ended.wake();
        }
    });
}

/// The platform of models.
#[derive(Debug)]
pub enum Loom {}

/// The storage of a DPC.
#[derive(Default)]
pub struct Dpc(Cell<Option<Call>>);

// SAFETY: set once, before it is shared; the context is for the routine, which may run on any thread.
unsafe impl Send for Dpc {}
// SAFETY: as for Send.
unsafe impl Sync for Dpc {}

/// The storage of a timer.
#[derive(Default)]
pub struct Timer {
    call: Cell<Option<Call>>,
    /// Whether the timer that was set last is still to expire.
    pending: RefCell<Option<Rc<Pending>>>,
}

struct Pending(AtomicBool);

// SAFETY: loom runs one thread at a time; the cells are not borrowed over an operation of loom's.
unsafe impl Send for Timer {}
// SAFETY: as for Send.
unsafe impl Sync for Timer {}

// SAFETY: memory is std's, zeroed and of the layout asked for; the spin lock excludes; DPCs and timers are touched as the trait
// documents only.
unsafe impl Platform for Loom {
    type RawSpinLock = RawSpinLock;
    type Dpc = Dpc;
    type Event = ();
    type Timer = Timer;
    type Sockets = Network;

    fn allocate(layout: Layout) -> Option<NonNull<u8>> {
        // SAFETY: the size is not 0, by contract.
        let memory = NonNull::new(unsafe { alloc::alloc_zeroed(layout) })?;
        let track = Track::new(());
        with_state(|state| state.allocated.insert(memory.addr().get(), (layout, track)));
        Some(memory)
    }

    unsafe fn free(memory: NonNull<u8>, layout: Layout) {
        let allocated = with_state(|state| state.allocated.remove(&memory.addr().get()));
        let Some((_, track)) = allocated.filter(|(allocated, _)| *allocated == layout) else {
            unreachable!("freed twice, or with another layout");
        };
        drop(track);
        // SAFETY: allocated with that layout, and not used again.
        unsafe { memory.write_bytes(POISON, layout.size()) };
        with_state(|state| state.freed.push((memory, layout)));
    }

    fn irql() -> u8 {
        PASSIVE_LEVEL
    }

    fn claim_irql(_level: u8) {}

    fn system_time() -> u64 {
        0
    }

    fn notices_data() -> bool {
        false
    }

    fn new_dpc() -> Dpc {
        Dpc::default()
    }

    unsafe fn initialize_dpc(dpc: *mut Dpc, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: valid, by contract.
        let dpc = unsafe { &*dpc };
        dpc.0.set(Some(Call { routine, context }));
    }

    unsafe fn queue_dpc(dpc: *mut Dpc) {
        // SAFETY: valid, by contract.
        let dpc = unsafe { &*dpc };
        let Some(call) = dpc.0.get() else { unreachable!("a DPC that was not initialised") };
        queue(call);
    }

    fn new_timer() -> Timer {
        Timer::default()
    }

    unsafe fn initialize_timer(timer: *mut Timer, routine: DpcRoutine, context: *mut c_void) {
        // SAFETY: valid, by contract.
        let timer = unsafe { &*timer };
        timer.call.set(Some(Call { routine, context }));
    }

    unsafe fn set_timer(timer: *mut Timer, _microseconds: u32) {
        // SAFETY: valid, by contract.
        let timer = unsafe { &*timer };
        let Some(call) = timer.call.get() else { unreachable!("a timer that was not initialised") };
        let pending = Rc::new(Pending(AtomicBool::new(true)));
        *timer.pending.borrow_mut() = Some(pending.clone());
        // In the set-up none expires, as that of a listener without a network: threads are few.
        if with_state(|state| !state.live) {
            return;
        }
        start(move || {
            if pending.0.swap(false, Ordering::AcqRel) {
                call.run();
            }
        });
    }

    unsafe fn cancel_timer(timer: *mut Timer) -> bool {
        // SAFETY: valid, by contract.
        let timer = unsafe { &*timer };
        let pending = timer.pending.borrow_mut().take();
        pending.is_some_and(|pending| pending.0.swap(false, Ordering::AcqRel))
    }

    fn timer_granularity() -> u32 {
        0
    }

    fn new_event() {}

    unsafe fn initialize_event(_event: *mut ()) {}

    unsafe fn set_event(_event: *mut ()) {}

    unsafe fn wait_event(_event: *mut (), _passive: &Passive<'_>) {
        unreachable!("no model waits for an adapter")
    }

    unsafe fn mdl_system_address(_mdl: *mut c_void) -> Option<NonNull<u8>> {
        unreachable!("no model has MDLs")
    }
}
