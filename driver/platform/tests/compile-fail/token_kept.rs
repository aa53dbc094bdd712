//! A token lives no longer than what it proves: the guard of a lock.
use platform::{AsDispatch, Dispatch, SpinLock};
use simkernel::SimKernel;

fn keep(lock: &SpinLock<u8, SimKernel>) -> Dispatch<'_> {
    let guard = lock.lock();
    guard.dispatch()
}

fn main() {}
