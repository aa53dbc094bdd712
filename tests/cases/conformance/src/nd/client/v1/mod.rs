//! Version 1 of the interfaces.

mod adapter;
mod connector;
mod endpoint;
mod listen;
mod memory;
mod provider;
mod queue;
mod results;

pub(crate) use adapter::Adapter;
pub(crate) use connector::Connector;
pub(crate) use endpoint::{Endpoint, EndpointSize};
pub(crate) use listen::Listen;
pub(crate) use memory::{Descriptor, Mr, Mw};
pub(crate) use provider::Provider;
pub(crate) use queue::Cq;
pub(crate) use results::REMOTE_INVALIDATION;
pub(in crate::nd) use results::late_writes;

use nd_com::v1::INDOverlapped as Overlapping;

use super::{Request, accepted, ask, begin, call, cast, saw};

/// A method that makes an object: `create!(Made, Interface::Method, object, arguments before the pointer) -> Result<Made>`.
macro_rules! create {
    ($made:ident, $interface:ident :: $method:ident, $object:expr $(, $argument:expr)*) => {{
        let mut made = std::ptr::without_provenance_mut(1);
        let result = super::ask!($interface::$method, $object $(, $argument)*, &raw mut made);
        assert!(result.is_ok() || made.is_null(), "{} fails and leaves a pointer", stringify!($method));
        // SAFETY: the method succeeded, so it is an object of that interface, and the reference is ours.
        result.map(|()| unsafe { $made::from_raw(made) })
    }};
}
use create;
