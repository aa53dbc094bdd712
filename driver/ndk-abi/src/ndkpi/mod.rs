//! NDKPI 2.1, the kernel interface of RDMA adapters: ten objects, each a public head that holds a table of functions,
//! and the callbacks through which the provider answers.
//!
//! Unless a page says otherwise: IRQL is at most DISPATCH_LEVEL; a function that returned STATUS_PENDING calls its
//! completion callback once and any other status means that it will not; the first parameter is the object.
//! Return codes are listed without their `STATUS_` prefix. "Page" is the page of the driver documentation.

pub mod adapter;
pub mod common;
pub mod connector;
pub mod constants;
pub mod cq;
pub mod data;
pub mod listener;
pub mod mr;
pub mod mw;
pub mod pd;
pub mod qp;
pub mod rss;
pub mod shared_endpoint;
pub mod srq;
pub mod wsk;

pub use adapter::*;
pub use common::*;
pub use connector::*;
pub use constants::*;
pub use cq::*;
pub use data::*;
pub use listener::*;
pub use mr::*;
pub use mw::*;
pub use pd::*;
pub use qp::*;
pub use rss::*;
pub use shared_endpoint::*;
pub use srq::*;
pub use wsk::*;
