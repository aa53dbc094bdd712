//! A test consumer of an NDK provider that measures: the latency of sends, reads and writes, and their rate with several of them at once.
//!
//! [`Consumer::serve`] is one end of one measurement, at PASSIVE_LEVEL on the thread of a control request: the client, which measures, or the
//! server, which answers one client after another. A connection is for one measurement. The ends may be on one adapter, on two, or on two
//! machines. Nothing outlives the request.
//!
//! The client tells the server what it measures in the private data of NdkConnect, and each end tells the other where its memory is. So the
//! server's receives are posted before the connection is there. A message of no bytes from the client is its last one, and one of no bytes
//! from the server the answer to it. What the other end sends is not trusted.
#![no_std]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod ask;
mod client;
mod end;
mod greeting;
mod run;
mod server;

pub use kernel_consumer::Kernel;
pub use run::Consumer;

use kernel_consumer::Open;
use ndk_abi::ndkpi::{NDK_CQ, NDK_QP};

pub(crate) type Cq<K> = Open<NDK_CQ, end::CqEvents<K>, K>;
pub(crate) type Qp<K> = Open<NDK_QP, end::Parts<K>, K>;
