//! What a processor runs in a row, however many objects there are.
#![expect(unsafe_code, reason = "runs are queued by address, with a context pointer")]

use std::{
    cell::{Cell, RefCell},
    ffi::c_void,
    ptr,
};

use platform::{Next, RUNS_IN_A_ROW, Run};
use simkernel::{SimKernel, at_dispatch, boot};

type RunQueue = platform::RunQueue<SimKernel>;

/// A processor of a kernel that runs DPCs until none is queued, and a thread then.
#[derive(Default)]
struct Processor {
    queue: RunQueue,
    /// The processor's DPC is queued.
    dpc: Cell<bool>,
    /// Its thread is to run.
    thread: Cell<bool>,
    /// Runs since a thread of the processor had its turn.
    row: Cell<u32>,
    longest: Cell<u32>,
}

impl Processor {
    fn push(&self, run: &Run) {
        // SAFETY: initialised, not queued, and kept by the test until nothing is queued.
        unsafe { self.queue.push(run, || assert!(!self.dpc.replace(true), "queued twice")) };
    }

    fn run_next(&self) {
        self.row.set(self.row.get() + 1);
        self.longest.set(self.longest.get().max(self.row.get()));
        match at_dispatch(|dispatch| self.queue.run_next(dispatch)) {
            Next::Idle => {}
            Next::Dpc => assert!(!self.dpc.replace(true), "queued twice"),
            Next::Thread => assert!(!self.thread.replace(true), "two threads"),
        }
    }

    /// Runs what is to be run, until its thread has had its turn once. False: there is nothing.
    fn turn(&self) -> bool {
        let mut found = false;
        while self.dpc.replace(false) {
            found = true;
            self.run_next();
        }
        self.row.set(0);
        if self.thread.replace(false) {
            found = true;
            self.run_next();
        }
        found
    }
}

/// Queues itself `left` times, on the processors in turn.
struct Object<'a> {
    run: Run,
    processors: &'a [Processor],
    left: Cell<u32>,
    order: &'a RefCell<Vec<usize>>,
    number: usize,
}

/// SAFETY: `context` is an `Object`.
unsafe extern "C" fn run(context: *mut c_void) {
    // SAFETY: by contract.
    let object = unsafe { &*context.cast::<Object<'_>>() };
    object.order.borrow_mut().push(object.number);
    if object.left.get() > 0 {
        object.left.set(object.left.get() - 1);
        let processor = object.number + object.left.get() as usize / 1000;
        object.processors[processor % object.processors.len()].push(&object.run);
    }
}

/// Has `objects` objects run `1 + again` times each; gives the order of the runs, and the longest row of all processors.
fn play(processors: &[Processor], objects: usize, again: u32) -> (Vec<usize>, u32) {
    let order = RefCell::default();
    let object = |number| Object { run: Run::default(), processors, left: Cell::new(again), order: &order, number };
    let objects: Vec<_> = (0..objects).map(object).collect();
    for object in &objects {
        object.run.initialize(run, ptr::from_ref(object).cast_mut().cast());
        processors[object.number % processors.len()].push(&object.run);
    }
    // Each of them has its turn in each round.
    while processors.iter().filter(|processor| processor.turn()).count() > 0 {}
    let longest = processors.iter().map(|processor| processor.longest.get()).max().unwrap_or(0);
    (order.into_inner(), longest)
}

// Shows T17.
#[test]
fn endless_work_of_many_objects_lets_threads_run() {
    let _kernel = boot();
    for (processors, objects) in [(1, 1), (1, 100), (2, 1), (2, 100)] {
        let processors: Vec<_> = (0..processors).map(|_| Processor::default()).collect();
        let (order, longest) = play(&processors, objects, 4000);
        assert_eq!(order.len(), 4001 * objects);
        // One more with several processors: the run on the thread, before the DPC that the thread has queued.
        let most = RUNS_IN_A_ROW + u32::from(processors.len() > 1);
        assert_eq!(longest.max(most), most, "with {objects} objects on {} processors", processors.len());
        assert!(longest >= RUNS_IN_A_ROW);
    }
}

#[test]
fn what_is_queued_first_runs_first() {
    let _kernel = boot();
    let (order, _) = play(&[Processor::default()], 100, 2);
    let expected: Vec<_> = (0..3).flat_map(|_| 0..100).collect();
    assert_eq!(order, expected, "by the DPC, then by the thread");
}

/// When the thread has emptied the queue, the DPC runs the objects that are queued later.
#[test]
fn the_dpc_comes_back() {
    let _kernel = boot();
    let processors = [Processor::default()];
    for _ in 0..3 {
        let (order, longest) = play(&processors, 1, 2 * RUNS_IN_A_ROW);
        assert_eq!((order.len() as u32, longest), (2 * RUNS_IN_A_ROW + 1, RUNS_IN_A_ROW));
    }
    let before = processors[0].longest.replace(0);
    let (_, longest) = play(&processors, 10, 0);
    assert_eq!((before, longest), (RUNS_IN_A_ROW, 10), "none of ten has to wait for the thread");
}

/// Neither while a run is queued nor while it runs.
#[test]
fn a_queue_is_idle_when_nothing_is_queued_or_runs() {
    let _kernel = boot();
    let processor = Processor::default();
    assert_eq!(processor.queue.idle(), Some(0));
    let during = Cell::new(Some(0));
    let context = (&processor, &during);
    /// SAFETY: `context` is such a pair.
    unsafe extern "C" fn look(context: *mut c_void) {
        // SAFETY: by contract.
        let (processor, during) = unsafe { &*context.cast::<(&Processor, &Cell<Option<u64>>)>() };
        during.set(processor.queue.idle());
    }
    let run = Run::default();
    run.initialize(look, ptr::from_ref(&context).cast_mut().cast());
    processor.push(&run);
    assert_eq!(processor.queue.idle(), None);
    while processor.turn() {}
    assert_eq!((during.get(), processor.queue.idle()), (None, Some(1)));
}
