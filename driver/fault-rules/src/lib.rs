//! Fault rules: each says in one line at which point the device fails on purpose, for whom, how often, and how.
//!
//! ```text
//! on POINT [where FILTER ...] [after N] [every N] [times N] [for TIME] [chance N/M [seed N]] do ACTION
//! on write where port=445 role=passive bytes>=65536 after 3 times 1 do disconnect
//! ```
//!
//! [`parse`] reads the rules of a text; [`Rule::fires`] says whether a rule fires at a [`Passage`]. No code here allocates, waits or reads a clock,
//! so the same rules, seeds and passages fire alike.
#![no_std]
#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod parse;
mod point;
mod rule;

pub use parse::{Expected, LONGEST_RULE, ParseError, parse, texts};
pub use point::{ActionKind, FilterKind, Operation, Point};
pub use rule::{Action, Bytes, Chance, Counts, Filters, Passage, Role, Rule, When};
