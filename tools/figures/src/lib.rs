//! What `ndharness perf` and `ndkctl perf` have in common: turns, latencies, rates, sizes as people write them, and the drawing.

mod machine;
mod plot;
mod samples;
mod sizes;

pub use machine::machine;
pub use plot::{BANDWIDTH, By, LATENCY, Line, Panel, RATE, svg};
pub use samples::{Latency, Samples, TURN, TURNS, median, progress};
pub use sizes::{DEFAULT_SIZES, bytes, size};
