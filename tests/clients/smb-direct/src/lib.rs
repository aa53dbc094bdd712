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

mod client;
mod connection;
mod credits;
mod link;
mod message;
mod pattern;
mod program;
mod region;
mod report;
mod run;
mod scenario;
mod server;
mod settings;
mod wire;
mod world;

pub use connection::Message;
pub use kernel_consumer::Kernel;
pub use link::{Access, Done, Link, Options, Port, Wake};
pub use report::{Failure, Figures, Report, Step};
pub use run::Consumer;
pub use scenario::Scenario;

pub(crate) use kernel_consumer::{
    Connector, Fifo, Listener, Lock, Mr, Open, Pd, PlatformOf, Ref, lock, no_memory, shared,
};

use ndk_abi::ndkpi::{NDK_CQ, NDK_QP};
use platform::Weak;

/// A weak reference from an object to its owner, set once both exist.
pub(crate) type BackRef<T, K> = Lock<Option<Weak<T, PlatformOf<K>>>, K>;
pub(crate) type Cq<K> = Open<NDK_CQ, connection::CqEvents<K>, K>;
pub(crate) type Qp<K> = Open<NDK_QP, connection::Pool<K>, K>;
