//! What a program has of the control device: its files, its handles, its requests that wait, and what counts against its limits.

pub(crate) mod attach;
pub(crate) mod contexts;
pub(crate) mod file;
pub(crate) mod handles;
pub(crate) mod lines;
pub(crate) mod pended;
pub(crate) mod provider_context;
pub(crate) mod quota;
pub(crate) mod sent;
pub(crate) mod slab;
