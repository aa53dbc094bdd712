//! The files of the control device, and their provider contexts.

pub(crate) mod attach;
pub(crate) mod contexts;
pub(crate) mod file;
pub(crate) mod provider_context;
