//! The tables of a provider context, of handles and of requests that wait, and the slab that both are in.

pub(crate) mod handles;
pub(crate) mod lines;
pub(crate) mod pended;
pub(crate) mod sent;
pub(crate) mod slab;
