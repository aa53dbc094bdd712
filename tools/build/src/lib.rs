//! Builds softndk.sys and what runs with it on Linux, and refuses what would not load. `cargo xtask build` calls [`dist::build`].

pub mod command;
pub mod cross;
pub mod digest;
pub mod dist;
pub mod facts;
pub mod imports;
pub mod inf;
mod nd_cpp;
pub mod paths;
pub mod pe;
mod rust_src;
pub mod setup;
mod wdk_build;
pub mod wdk_root;
pub mod wine;

/// The driver's target, which Windows builds use too.
pub const TARGET_DRIVER: &str = "x86_64-pc-windows-msvc";
/// The target of programs and stand-ins that run under Wine.
pub const TARGET_PROGRAMS: &str = "x86_64-pc-windows-gnu";
