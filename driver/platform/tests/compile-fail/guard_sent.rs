//! A lock is released by the thread that took it.
use platform::SpinLock;
use simkernel::SimKernel;

fn on_another_thread<T: Send>(_: T) {}

fn main() {
    let lock = SpinLock::<u8, SimKernel>::new(0);
    on_another_thread(lock.lock());
}
