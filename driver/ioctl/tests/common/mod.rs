//! A host over the simulated kernel and the real provider, and a user program in front of it.
#![allow(dead_code, unused_imports, reason = "each test file uses its part")]

pub(crate) mod host;
pub(crate) mod rings;
pub(crate) mod user;
pub(crate) mod world;

pub(crate) use host::start;
pub(crate) use user::User;
pub(crate) use world::World;
