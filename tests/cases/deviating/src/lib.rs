//! deviating.dll: an example of a NetworkDirect provider that deviates from the documentation, in the one way that the environment's
//! `DEVIATION` names; it has to be found by `ndharness run --provider`. Without `DEVIATION` it deviates in none.
//!
//! The objects are those of softnd.dll, which lies beside it. In their tables of methods one method is replaced (`methods`), which calls the
//! one that was there (`deviations`). Nothing of softnd.dll but the published exports is used.
#![cfg(windows)]

mod deviations;
mod exports;
mod methods;
mod softnd;
