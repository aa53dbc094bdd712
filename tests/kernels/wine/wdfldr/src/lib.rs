//! Stand-in for `wdfldr.sys`, and for the part of KMDF 1.33 behind it that a driver in miniport mode may use.
//!
//! The driver finds KMDF's functions in a table that `WdfVersionBind` gives it. Slots that are not filled here report their index
//! as a violation and fail. Nothing here is Microsoft's code; it follows `wdf/*` pages and the public framework headers.
#![allow(non_snake_case, reason = "exports carry the names of the DDI")]

mod context;
mod driver;
mod loader;
mod lock;
mod memory;
mod object;
mod table;
mod timer;
mod work;
