//! Releasing the lock ends its proof.
use platform::{AsDispatch, SpinLock};
use simkernel::SimKernel;

fn main() {
    let lock = SpinLock::<u8, SimKernel>::new(0);
    let guard = lock.lock();
    let dispatch = guard.dispatch();
    drop(guard);
    let _used = &dispatch;
}
