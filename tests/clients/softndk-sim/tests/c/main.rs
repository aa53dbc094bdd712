//! Programs written in C against `libsoftndk_sim.so`, compiled by gcc: a consumer that behaves, one program for each of its
//! concerns, and programs that break a rule and must not get away with it.
#![cfg(target_os = "linux")]
#![allow(clippy::panic, clippy::expect_used, reason = "a test fails by panicking")]

mod declarations;
mod program;

use program::Program;

/// Programs that behave: they end with `softndk_sim_outstanding() == 0` and exit status 0.
macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            Program::compile(stringify!($name)).run().succeeds();
        })*
    };
}

programs!(careless, close_orders, invalidate, notify, shared_endpoint, srq, threads, transfer, versions, windows);

// Shows S1705.
#[test]
fn requests_fail_by_fault_rules_and_a_wrong_rule_is_told() {
    let ended = Program::compile("faults").run();
    ended.succeeds_with("softndk_sim_set_fault_rules: rule 1, column 4: expected one of listen, connect,");
}

#[test]
fn a_leaked_object_is_counted() {
    let ended = Program::compile("broken/leak").run();
    ended.succeeds_with("gives up: ObjectCounts { adapters: 1, pds: 1, cqs: 0");
}

/// Programs that break a rule, and what the library says before it aborts.
macro_rules! broken {
    ($($name:ident: $said:literal),* $(,)?) => {
        $(#[test]
        fn $name() {
            Program::compile(concat!("broken/", stringify!($name))).run().aborts($said);
        })*
    };
}

broken! {
    adapter_closed_twice: "is no adapter, or was closed before",
    freed_mdl: "NdkBuildLAM: ",
    level_of_export: "softndk_sim_close_adapter was called at IRQL 2",
    level_of_query: "NdkQueryAdapterInfo was called at IRQL 2",
    mapped_mdl_freed: "is used by 1 regions or mappings",
    mdl_freed_twice: "is no MDL, or was freed before",
    registered_mdl_freed: "is used by 1 regions or mappings",
}

#[test]
fn exactly_the_documented_exports() {
    let header = std::fs::read_to_string(program::folder().join("include/softndk_sim.h")).expect("the header");
    let mut declared: Vec<_> = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#', '}']))
        .filter_map(|line| line.split_once('(')?.0.split([' ', '*']).next_back())
        .collect();
    declared.sort_unstable();
    assert_eq!(declared.len(), 9, "{declared:?}");
    assert_eq!(program::exports(), declared);
}
