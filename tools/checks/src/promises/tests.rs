//! The documents and the tags against the tree, without a run.

use std::fs;

use build::paths;
use conformance::CASES;
use conformance::nd::Version;
use serde_json::json;

use super::name::Name;
use super::rows::{SPECIFICATION, THREATS};
use super::tags::{CHECKS, of_file};
use super::{Promise, broken, join, promises};
use crate::passed_tests::{self, Passed};

/// Whether the tree has such a test, case or check.
struct Tree {
    /// The text of this program, but for tests.
    checks: Vec<String>,
}

impl Tree {
    fn read() -> Self {
        let mut checks = Vec::new();
        let mut folders = CHECKS.map(|folder| paths::root().join(folder)).to_vec();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else {
                    checks.push(fs::read_to_string(entry).unwrap());
                }
            }
        }
        Self { checks }
    }

    fn has(&self, name: &Name) -> bool {
        match name {
            Name::Test { file, function } => {
                let source = fs::read_to_string(paths::root().join(file));
                source.is_ok_and(|source| source.contains(&format!("fn {function}(")))
            }
            Name::Case { front_ends, case } => front_ends.iter().any(|front_end| match *front_end {
                "nd1" => Version::V1.cases().any(|known| known.name == case),
                "nd2" => Version::V2.cases().any(|known| known.name == case),
                _ => CASES.iter().any(|known| known.name == case),
            }),
            Name::Stage(what) => self.checks.iter().any(|source| source.contains(&format!("\"{what}\""))),
        }
    }
}

#[test]
fn what_the_tags_name_is_there() {
    let tree = Tree::read();
    let promises = promises(&paths::root()).unwrap();
    assert_eq!(broken(&promises, |name| tree.has(name)), [""; 0]);
    let names = || promises.iter().flat_map(|promise| &promise.shown_by);
    let count = |is: fn(&Name) -> bool| names().filter(|name| is(name)).count();
    assert!(count(|name| matches!(name, Name::Case { .. })) > 300);
    assert!(count(|name| matches!(name, Name::Test { .. })) > 150);
    assert!(count(|name| matches!(name, Name::Stage(_))) > 10);
}

/// The negative control: a letter more in any name is noticed.
#[test]
fn a_wrong_name_is_noticed() {
    let tree = Tree::read();
    for name in promises(&paths::root()).unwrap().into_iter().flat_map(|promise| promise.shown_by) {
        let longer = match name {
            Name::Test { file, function } => Name::Test { file, function: function + "x" },
            Name::Case { front_ends, case } => Name::Case { front_ends, case: case + "x" },
            Name::Stage(what) => Name::Stage(what + "x"),
        };
        assert!(!tree.has(&longer), "{longer:?}");
    }
    // A case of another front end is none of this one's, and a function beside the cases is none.
    for (front_ends, case) in [
        (&["nd1"][..], "posts::flags"),
        (&["nd2"][..], "endpoint::small"),
        (&["ioctl", "sim"][..], "notify::any"),
        (&["ioctl"][..], "smb_direct_link::link"),
    ] {
        assert!(!tree.has(&Name::Case { front_ends, case: case.to_owned() }), "{case}");
    }
}

/// Rows of the specification, and what is tagged with them.
fn of(rows: &str, sources: &[(&str, &str)]) -> anyhow::Result<Vec<Promise>> {
    let tags = sources.iter().map(|(file, text)| of_file(file, text)).collect::<anyhow::Result<Vec<_>>>()?;
    join(SPECIFICATION.rows(rows)?, tags.into_iter().flatten().collect())
}

const STAGES: &str = "tools/xtask/src/a.rs";
const FLUSH: &str = "driver/soft-rdma/tests/flush.rs";
const CQ: &str = "tests/cases/conformance/src/cases/cq.rs";
const KEPT: (&str, &str) = (FLUSH, "// Shows S1.\n#[test]\nfn kept() {");

/// A run in which one test of each kind has passed.
fn run() -> Passed {
    let mut passed =
        passed_tests::tests::passed("driver/soft-rdma", "flush", &["test kept ... ok", "test idle ... ignored"]);
    passed.cases("ioctl", &json!({ "cases": [
        { "name": "cq::depths (plain)", "result": "passed" }, { "name": "cq::overrun (plain)", "result": "skipped" },
    ]}));
    passed.stage("a thing");
    passed
}

#[test]
fn what_has_passed_keeps_a_promise() {
    let case = (CQ, "// Shows S2.\npub(super) fn depths(bench: &Bench<'_>) {");
    let check = (STAGES, "// Shows S2.\ntally.check(\"a thing\", done);");
    let promises = of("* S1: a\n* S2: b", &[KEPT, case, check]).unwrap();
    assert_eq!(promises[1].shown_by.len(), 2);
    assert_eq!(broken(&promises, |name| name.has_passed(&run())), [""; 0]);
}

#[test]
fn what_has_not_run_keeps_none() {
    for other in [
        (FLUSH, "// Shows S1.\n#[test]\nfn kep() {"),
        (CQ, "// Shows S1.\nfn depth(bench: &Bench<'_>) {"),
        (CQ, "// Shows S1 (sim).\nfn depths(bench: &Bench<'_>) {"),
        ("tests/cases/conformance/src/nd/cases/cq.rs", "// Shows S1.\nfn depths(nd: &Nd) {"),
        (STAGES, "// Shows S1.\ntally.check(\"another\", done);"),
        // Skipped.
        (FLUSH, "// Shows S1.\n#[test]\nfn idle() {"),
        (CQ, "// Shows S1.\nfn overrun(bench: &Bench<'_>) {"),
    ] {
        let promises = of("* S1: a", &[KEPT, other]).unwrap();
        assert_eq!(broken(&promises, |name| name.has_passed(&run())).len(), 1, "{other:?}");
    }
}

#[test]
fn rows_and_tags_belong_together() {
    assert!(of("* S1: a", &[KEPT]).is_ok());
    for (rows, sources) in [
        // No test shows the second.
        ("* S1: a\n* S2: b", &[KEPT][..]),
        // Nothing has the number of the tag.
        ("* S2: a", &[KEPT]),
        ("* S1: a", &[KEPT, (STAGES, "// Shows S11.\ntally.check(\"a thing\", done);")]),
        // Twice.
        ("* S1: a\n* S1: b", &[KEPT]),
        ("* S1: a", &[(FLUSH, "// Shows S1, S1.\n#[test]\nfn kept() {")]),
    ] {
        assert!(of(rows, sources).is_err(), "{rows} {sources:?}");
    }
    let admits = || THREATS.rows("| T1 | a | not stopped: c |").unwrap();
    assert!(join(admits(), Vec::new()).is_ok());
    assert!(join(admits(), of_file(FLUSH, "// Shows T1.\n#[test]\nfn kept() {").unwrap()).is_err());
}
