//! What is checked without loading softndk.sys. [`tally`] counts it; `tools/xtask/src/test.rs` says in which order.

pub mod bench;
pub mod frames;
pub mod fuzz;
pub mod instructions;
pub mod mutants;
mod passed_tests;
pub mod picture;
pub mod promises;
pub mod tally;
pub mod test_programs;
pub mod wdk;
