//! Memory of consumers: protection domains, regions and windows in them, the tokens that name those, and the copies.

pub(crate) mod access;
pub(crate) mod pd;
pub(crate) mod region;
pub(crate) mod runs;
pub(crate) mod token;
pub(crate) mod window;
