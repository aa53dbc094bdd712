//! The control codes of each kind of object, and the driver's state of an object.

pub(crate) mod adapter;
mod affinity;
pub(crate) mod connector;
pub(crate) mod cq;
pub(crate) mod listener;
pub(crate) mod mr;
pub(crate) mod mw;
mod object;
pub(crate) mod pd;
pub(crate) mod post;
pub(crate) mod qp;
mod sges;
pub(crate) mod srq;

pub(crate) use connector::PendedRequests;
pub(crate) use object::{Handles, Object};
