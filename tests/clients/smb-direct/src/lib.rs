//! A test consumer of an NDK provider, written as the kernel client of SMB Direct (MS-SMBD) is: both ends of the protocol, and a file that
//! the client reads and writes, at most 8 MiB at a time.
//!
//! * [`Consumer::run`] performs one [`Scenario`] at PASSIVE_LEVEL, over connections of the adapter with itself, and returns a [`Report`]:
//!   the counts, or the step that failed and its NTSTATUS.
//! * Completions are polled at DISPATCH_LEVEL, in the callbacks of the completion queues: a callback arms the queue, then polls a bounded
//!   number of completions.
//! * The provider is called only through its dispatch tables, by `ndk-consumer`.
//!
//! A [`Link`] is one end by itself, whose peer is another implementation. [`Consumer::serve_link`] drives a link for a program.
//!
//! There is no SMB2: `message` defines this crate's own requests for the file, as both ends are in this crate.
#![no_std]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod bell;
mod client;
mod connection;
mod connector;
mod credits;
mod kernel;
mod link;
mod memory;
mod message;
mod pattern;
mod program;
mod queue;
mod region;
mod report;
mod run;
mod scenario;
mod server;
mod settings;
mod wire;
mod world;

pub use connection::Message;
pub use kernel::Kernel;
pub use link::{Access, Done, Link, Options, Port, Wake};
pub use report::{Failure, Figures, Report, Step};
pub use run::Consumer;
pub use scenario::Scenario;

use ndk_abi::ndkpi::{NDK_CONNECTOR, NDK_CQ, NDK_LISTENER, NDK_MR, NDK_PD, NDK_QP};
use ndk_abi::status::{NTSTATUS, STATUS_INSUFFICIENT_RESOURCES};
use ndk_consumer::{Adapter, Owned};
use platform::{Arc, OutOfMemory, SpinLock, Weak};

pub(crate) type PlatformOf<K> = <K as Kernel>::Platform;
pub(crate) type Ref<T, K> = Arc<T, PlatformOf<K>>;
/// A weak reference from an object to its owner, set once both exist.
pub(crate) type BackRef<T, K> = Lock<Option<Weak<T, PlatformOf<K>>>, K>;
/// A queue of fixed size.
pub(crate) type Fifo<T, K> = queue::Queue<T, PlatformOf<K>>;
pub(crate) type Lock<T, K> = SpinLock<T, PlatformOf<K>>;
/// An open NDK object with its context.
pub(crate) type Open<T, J, K> = Owned<T, J, PlatformOf<K>>;
pub(crate) type Pd<K> = Open<NDK_PD, Adapter<PlatformOf<K>>, K>;
pub(crate) type Cq<K> = Open<NDK_CQ, connection::CqEvents<K>, K>;
pub(crate) type Qp<K> = Open<NDK_QP, connection::Pool<K>, K>;
pub(crate) type Mr<J, K> = Open<NDK_MR, J, K>;
pub(crate) type Connector<K> = Open<NDK_CONNECTOR, connector::ConnectorEvents<K>, K>;
pub(crate) type Listener<K> = Open<NDK_LISTENER, connector::ListenerEvents<K>, K>;

pub(crate) fn lock<T, K: Kernel>(value: T) -> Lock<T, K> {
    SpinLock::<_, PlatformOf<K>>::new(value)
}

/// Moves a value to non-paged pool, with a reference count.
pub(crate) fn shared<T, K: Kernel>(value: T) -> Result<Ref<T, K>, NTSTATUS> {
    Arc::try_new(value).map_err(no_memory)
}

/// The NTSTATUS of a failed allocation.
pub(crate) fn no_memory(OutOfMemory: OutOfMemory) -> NTSTATUS {
    STATUS_INSUFFICIENT_RESOURCES
}
