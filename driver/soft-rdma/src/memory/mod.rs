//! Memory of consumers: protection domains, their regions and windows, the tokens that name these, and the copies.

pub(crate) mod access;
pub(crate) mod pd;
pub(crate) mod region;
pub(crate) mod runs;
pub(crate) mod token;
pub(crate) mod window;
