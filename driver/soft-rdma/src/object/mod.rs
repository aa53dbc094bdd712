//! What each object has: its callbacks, its close, and its place among the others of its kind.

pub(crate) mod callback;
pub(crate) mod close;
pub(crate) mod counts;
