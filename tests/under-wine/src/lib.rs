//! Loads softndk.sys under Wine and runs what needs it loaded. `wine_tests` is the list; `session` is one driver, loaded.

pub mod access;
pub mod cable;
pub mod computers;
mod consumer;
pub mod crowd;
mod events;
mod faults;
pub mod hosted;
pub mod installed;
pub mod interop;
mod nd_cpp;
mod ndkctl;
mod perf;
mod ping_and_perf;
mod places;
mod prefix;
mod report;
pub mod run;
mod session;
pub mod soak;
mod tcpip;
mod two_adapters;
pub mod two_computers;
pub mod two_processes;
mod wine_sockets;
pub mod wine_tests;
pub mod witness;
