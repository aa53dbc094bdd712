//! What the models share: exploring, negative controls, waiting, counting, callbacks.
#![expect(unsafe_code, reason = "callbacks with a context pointer")]

use std::{
    env,
    ffi::c_void,
    mem::ManuallyDrop,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicPtr, AtomicUsize, Ordering},
    },
};

use loom::{
    cell::UnsafeCell,
    model::Builder,
    sync::{Condvar, Mutex},
};
use planted_atomics::Defect;
use platform::planted::{Bug, plant};
use soft_rdma::Callback;

use crate::kernel::{Kernel, LastExecution, Loom};

/// Explores a model: all its executions, or, with a bound, all in which threads are preempted at most so many times each.
pub fn explore(preemptions: Option<usize>, model: impl Fn(&Kernel) + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 100_000;
    // Also when a defect was found.
    let _end = LastExecution;
    let executions = Arc::new(AtomicUsize::new(0));
    let count = executions.clone();
    builder.check(move || {
        count.fetch_add(1, Ordering::Relaxed);
        model(&Kernel::boot());
    });
    println!("{} executions", executions.load(Ordering::Relaxed));
}

/// What a negative control plants.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// A defect of the atomics.
    Atomics(Defect),
    /// A bug of the device.
    Device(Bug),
    /// Nothing: the model leaves out what this says.
    Model(&'static str),
}

/// Set in the processes that [`finds_fault`] starts.
const CHILD: &str = "SOFTNDK_LOOM_FAULT";

/// The negative control of a model, from the test that is called `test`: explored with `fault`, it must fail, and say
/// something that contains `said`. It fails in a process of its own, as a panic in a deferred call ends the process.
///
/// # Panics
/// If it is not found.
pub fn finds_fault(test: &str, fault: Fault, said: &str, model: impl FnOnce()) {
    if env::var_os(CHILD).is_some() {
        match fault {
            Fault::Atomics(defect) => planted_atomics::plant(defect),
            Fault::Device(bug) => plant(Some(bug)),
            Fault::Model(_) => {}
        }
        model();
        return;
    }
    let program = env::current_exe().expect("the path of the test");
    let child = Command::new(program).args([test, "--exact", "--nocapture"]).env(CHILD, "1").output();
    let child = child.expect("a child");
    let output = String::from_utf8_lossy(&child.stderr) + String::from_utf8_lossy(&child.stdout);
    assert!(!child.status.success(), "not found: {fault:?}");
    assert!(output.contains(said), "found, but not said: {said}\n{output}");
}

/// Something that threads wait for. If it never comes, loom says that they are deadlocked.
#[derive(Debug)]
pub struct Wakeup {
    count: Mutex<usize>,
    changed: Condvar,
}

impl Default for Wakeup {
    fn default() -> Self {
        Self { count: Mutex::new(0), changed: Condvar::new() }
    }
}

impl Wakeup {
    fn lock(&self) -> loom::sync::MutexGuard<'_, usize> {
        let Ok(count) = self.count.lock() else { unreachable!("loom's mutexes are never poisoned") };
        count
    }

    /// Counts one.
    pub fn wake(&self) {
        *self.lock() += 1;
        self.changed.notify_all();
    }

    /// How many have been counted.
    pub fn count(&self) -> usize {
        *self.lock()
    }

    /// Waits until so many have been counted.
    pub fn wait_for(&self, count: usize) {
        let mut current = self.lock();
        while *current < count {
            let Ok(next) = self.changed.wait(current) else { unreachable!("loom's mutexes are never poisoned") };
            current = next;
        }
    }
}

/// A number that one may change at a time while nobody reads: loom finds every other use.
#[derive(Debug)]
pub struct Cell(UnsafeCell<usize>);

impl Default for Cell {
    fn default() -> Self {
        Self(UnsafeCell::new(0))
    }
}

impl Cell {
    /// The number.
    pub fn read(&self) -> usize {
        // SAFETY: loom checks that nobody writes.
        self.0.with(|value| unsafe { value.read() })
    }

    /// Counts one.
    pub fn add_one(&self) {
        // SAFETY: loom checks that nobody else uses it.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }
}

// SAFETY: loom checks its use.
unsafe impl Sync for Cell {}

/// An object that is used until it is dropped, once.
#[derive(Debug)]
pub struct Counted {
    value: Cell,
    dropped: Arc<Wakeup>,
}

impl Counted {
    /// One that counts its end.
    #[must_use]
    pub fn new(dropped: &Arc<Wakeup>) -> Self {
        Self { value: Cell::default(), dropped: dropped.clone() }
    }

    /// Uses it, as others may at the same time.
    pub fn read(&self) {
        self.value.read();
    }

    /// Uses it, as nobody else may at the same time.
    pub fn change(&mut self) {
        self.value.add_one();
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.change();
        self.dropped.wake();
    }
}

/// An object, for a callback of it: it lives as long as that runs.
#[derive(Debug)]
pub struct Handle<T>(AtomicPtr<T>);

impl<T> Default for Handle<T> {
    fn default() -> Self {
        Self(AtomicPtr::default())
    }
}

impl<T> Handle<T> {
    /// Says which object it is.
    pub fn set(&self, object: &platform::Arc<T, Loom>) {
        self.0.store(platform::Arc::as_ptr(object).cast_mut(), Ordering::Relaxed);
    }

    /// Uses it, in a callback.
    pub fn with<R>(&self, code: impl FnOnce(&platform::Arc<T, Loom>) -> R) -> R {
        let object = self.0.load(Ordering::Relaxed).cast_const();
        // SAFETY: the address of an object that lives, as one of its callbacks runs. The reference is not dropped.
        let object = ManuallyDrop::new(unsafe { platform::Arc::<T, Loom>::from_raw(object) });
        code(&object)
    }
}

/// A callback of the device that calls `function` with `context`, which is leaked: models are short.
pub fn callback<C: Sync + 'static, A>(context: &Arc<C>, function: fn(&C, A)) -> Callback<A> {
    unsafe fn invoke<C, A>(function: *const (), context: *mut c_void, argument: A) {
        // SAFETY: made from a function of this type.
        let function = unsafe { std::mem::transmute::<*const (), fn(&C, A)>(function) };
        // SAFETY: leaked, so it lives.
        let context = unsafe { &*context.cast::<C>().cast_const() };
        function(context, argument);
    }
    let context = Arc::into_raw(context.clone()).cast_mut().cast();
    // SAFETY: as above.
    unsafe { Callback::new(invoke::<C, A>, function as *const (), context) }
}
