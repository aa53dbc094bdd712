//! What every object has: callbacks, close, and its place in the count of its kind.

pub(crate) mod callback;
pub(crate) mod close;
pub(crate) mod counts;
