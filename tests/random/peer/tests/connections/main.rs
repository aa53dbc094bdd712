//! A device and one connection after another with peers that are not this device. One program, as each compiles the provider once more.

mod captures;
mod confirmations;
mod ends;
mod faults;
mod fuzzed;
mod hostile;
mod listening;
mod mpa;
mod refusals;
mod rules;
