//! The requests of each kind of object, and what the driver keeps of one.

pub(crate) mod adapter;
pub(crate) mod affinity;
pub(crate) mod connector;
pub(crate) mod cq;
pub(crate) mod listener;
pub(crate) mod mr;
pub(crate) mod mw;
pub(crate) mod pd;
pub(crate) mod post;
pub(crate) mod qp;
pub(crate) mod srq;

use self::connector::Connector;
use crate::session::pended;

/// The requests of a provider context that wait.
pub(crate) type PendedRequests<H> = pended::PendedRequests<H, Connector<H>>;
