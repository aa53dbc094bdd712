//! The tables of a provider context: handles, and pended requests with the files that they came by. Both are slabs.

pub(crate) mod handles;
pub(crate) mod lines;
pub(crate) mod pended;
pub(crate) mod sent;
pub(crate) mod slab;
