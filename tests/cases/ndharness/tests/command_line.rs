//! The program as it is called.

use std::process::Command;

#[test]
fn a_case_that_does_not_exist_is_refused_by_name() {
    let output = Command::new(env!("CARGO_BIN_EXE_ndharness")).args(["run", "nosuch"]).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no case is called \"nosuch\"") && said.contains("ndharness list"), "{said}");
}
