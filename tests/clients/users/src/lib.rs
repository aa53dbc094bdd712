//! User programs of the control device, in front of the real provider on the simulated kernel: what the tests of the device and
//! the fuzz targets send its requests with.
#![allow(missing_docs, reason = "named as the requests that they send")]

pub mod handles;
pub mod host;
pub mod request;
pub mod rings;
pub mod user;
pub mod world;

pub use host::{start, start_beside};
pub use user::User;
pub use world::World;
