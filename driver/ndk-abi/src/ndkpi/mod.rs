//! NDKPI 2.1, the kernel interface of RDMA adapters: ten objects, one file each. An object is a public header with a
//! pointer to a table of functions; the provider answers by the consumer's callbacks.
//!
//! Unless a page says otherwise: IRQL is at most DISPATCH_LEVEL; the first parameter is the object; a function that
//! returned STATUS_PENDING calls its completion callback once, and a function that returned another status never calls
//! it. Return codes are listed without their `STATUS_` prefix. "Page" is the page of the driver documentation.

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
