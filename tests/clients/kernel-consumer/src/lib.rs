//! The common parts of the test consumers in the kernel: memory with MDLs, connections whose events wait for a thread, and that thread's wait.
#![no_std]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod bell;
mod connector;
mod kernel;
mod memory;
mod queue;

pub use bell::{Bell, SILENCE};
pub use connector::{ConnectorEvents, ListenerEvents};
pub use kernel::Kernel;
pub use memory::{Buffer, Registered};
pub use queue::Queue;

use ndk_abi::ndkpi::{NDK_CONNECTOR, NDK_LISTENER, NDK_MR, NDK_PD};
use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};
use ndk_consumer::{Adapter, Owned};
use platform::{Arc, OutOfMemory, SpinLock};

/// The platform of a kernel.
pub type PlatformOf<K> = <K as Kernel>::Platform;
/// A counted reference.
pub type Ref<T, K> = Arc<T, PlatformOf<K>>;
/// A queue of fixed size.
pub type Fifo<T, K> = Queue<T, PlatformOf<K>>;
/// A value with a spin lock.
pub type Lock<T, K> = SpinLock<T, PlatformOf<K>>;
/// An open NDK object with its context.
pub type Open<T, J, K> = Owned<T, J, PlatformOf<K>>;
/// A protection domain.
pub type Pd<K> = Open<NDK_PD, Adapter<PlatformOf<K>>, K>;
/// A memory region.
pub type Mr<J, K> = Open<NDK_MR, J, K>;
/// A connector.
pub type Connector<K> = Open<NDK_CONNECTOR, ConnectorEvents<K>, K>;
/// A listener.
pub type Listener<K> = Open<NDK_LISTENER, ListenerEvents<K>, K>;

/// Puts a value behind a spin lock.
pub fn lock<T, K: Kernel>(value: T) -> Lock<T, K> {
    SpinLock::<_, PlatformOf<K>>::new(value)
}

/// Moves a value to non-paged pool, with a reference count.
pub fn shared<T, K: Kernel>(value: T) -> Result<Ref<T, K>, NTSTATUS> {
    Arc::try_new(value).map_err(no_memory)
}

/// The NTSTATUS of a failed allocation.
#[must_use]
pub fn no_memory(OutOfMemory: OutOfMemory) -> NTSTATUS {
    STATUS_INSUFFICIENT_RESOURCES
}
