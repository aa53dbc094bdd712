//! A guard proves DISPATCH_LEVEL, never PASSIVE_LEVEL.
use platform::{AsDispatch, Passive, SpinLock};
use simkernel::SimKernel;

fn blocks(_: &Passive<'_>) {}

fn main() {
    let lock = SpinLock::<u8, SimKernel>::new(0);
    let guard = lock.lock();
    blocks(&guard.dispatch());
    blocks(&guard.passive());
}
