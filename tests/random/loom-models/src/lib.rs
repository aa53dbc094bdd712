//! A kernel for models: the third implementation of [`platform::Platform`], on loom's threads and locks.
//!
//! * Spin locks are loom's mutexes: whoever is to get a contended one is explored.
//! * Each queued DPC is a thread of its own, which may run at once, never before the others, or anywhere between. A model has
//!   five threads at most: before [`Kernel::live`], DPCs run on the model's own thread, one after another.
//! * A timer is a thread that expires whenever it wants, unless it was cancelled.
//! * A socket receives one byte, on a thread; so ends its close.
//! * Freed memory is poisoned and not used again in the same execution; leaks are found by loom.
//! * Levels are not checked: that is the simulated kernel's part.

mod kernel;
mod lock;
mod models;
mod ring;
mod sockets;

pub use kernel::{Kernel, Loom};
pub use lock::RawSpinLock;
pub use models::{Cell, Counted, Fault, Handle, Wakeup, callback, explore, finds_fault};
pub use ring::RingMemory;
pub use sockets::{Network, SILENT, Socket, take_sent};

/// Negative controls: each test explores a model with something planted, and finds it.
#[macro_export]
macro_rules! faults {
    ($($test:ident: $model:ident with $kind:ident($what:expr) says $said:literal),* $(,)?) => {
        $(#[test]
        fn $test() {
            $crate::finds_fault(stringify!($test), $crate::Fault::$kind($what), $said, $model);
        })*
    };
}
