//! The documents against the tree, without a run.

use std::fs;

use clap::Parser;
use conformance::CASES;
use conformance::nd::Version;
use serde_json::json;

use super::{Name, Row, broken, conformance, numbered, rows};
use crate::passed::{self, Passed};
use crate::{Arguments, paths};

/// Whether the tree has such a test, case or check.
struct Tree {
    /// The text of this program, but for tests.
    checks: Vec<String>,
}

impl Tree {
    fn read() -> Self {
        let mut checks = Vec::new();
        let mut folders = vec![paths::root().join("tools/xtask/src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if entry.is_dir() {
                    folders.push(entry);
                } else if !entry.ends_with("promises/tests.rs") {
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
            Name::Stage(what) => self.checks.iter().any(|source| {
                let formats = source.split(".check(&format!(\"").skip(1).filter_map(|rest| rest.split('"').next());
                source.contains(&format!("\"{what}\"")) || { formats }.any(|format| may_give(format, what))
            }),
        }
    }
}

/// Whether `format` gives `text`, with something for each of its arguments.
fn may_give(format: &str, text: &str) -> bool {
    let mut pieces = format.split('{').map(|piece| piece.split_once('}').map_or(piece, |(_, rest)| rest));
    let Some(mut rest) = pieces.next().and_then(|first| text.strip_prefix(first)) else { return false };
    let mut last = "";
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
        last = piece;
    }
    // An argument at the end takes all the rest; a format of nothing but arguments says nothing.
    format.contains(' ') && (rest.is_empty() || last.is_empty() && format.ends_with('}'))
}

#[test]
fn what_the_documents_name_is_there() {
    let tree = Tree::read();
    let rows = rows(&paths::root()).unwrap();
    assert_eq!(broken(&rows, |name| tree.has(name)), [""; 0]);
    let count = |is: fn(&Name) -> bool| rows.iter().flat_map(|row| &row.names).filter(|name| is(name)).count();
    assert!(count(|name| matches!(name, Name::Case { .. })) > 300);
    assert!(count(|name| matches!(name, Name::Test { .. })) > 150);
    assert!(count(|name| matches!(name, Name::Stage(_))) > 10);
}

/// The negative control: a letter more in any name is noticed.
#[test]
fn a_wrong_name_is_noticed() {
    let tree = Tree::read();
    for row in rows(&paths::root()).unwrap() {
        for name in row.names {
            let longer = match name.clone() {
                Name::Test { file, function } => Name::Test { file, function: function + "x" },
                Name::Case { front_ends, case } => Name::Case { front_ends, case: case + "x" },
                Name::Stage(what) => Name::Stage(what + "x"),
            };
            assert!(!tree.has(&longer), "{longer:?}");
        }
    }
    // A case of another front end is none of this one's.
    let wrong = conformance("| V1 | | `posts::flags` |\n| N1 | | `endpoint::small` |\n| P1 | | `notify::any` |");
    assert_eq!(broken(&wrong, |name| tree.has(name)).len(), 3);
}

fn of(rows: &str) -> Vec<Row> {
    numbered(rows).unwrap()
}

/// A run in which one test of each kind has passed.
fn run() -> Passed {
    let mut passed = passed::tests::passed("driver/soft-rdma", "flush", &["test kept ... ok", "test idle ... ignored"]);
    passed.cases("ioctl", &json!({ "cases": [
        { "name": "cq::depths (plain)", "result": "passed" }, { "name": "cq::overrun (plain)", "result": "skipped" },
    ]}));
    passed.stage("a thing");
    passed
}

#[test]
fn what_has_passed_keeps_a_promise() {
    let rows =
        of("| S1 | a | `driver/soft-rdma/tests/flush.rs: kept` |\n| S2 | b | `ioctl cq::depths`, `stage: a thing` |");
    assert_eq!(broken(&rows, |name| name.has_passed(&run())), [""; 0]);
}

#[test]
fn an_invented_test_keeps_none() {
    for invented in ["driver/soft-rdma/tests/flush.rs: kep", "ioctl cq::depth", "nd2 cq::depths", "stage: another"] {
        let rows = of(&format!("| S1 | a | `driver/soft-rdma/tests/flush.rs: kept`, `{invented}` |"));
        assert_eq!(broken(&rows, |name| name.has_passed(&run())).len(), 1, "{invented}");
    }
}

#[test]
fn a_skipped_test_keeps_none() {
    for skipped in ["driver/soft-rdma/tests/flush.rs: idle", "ioctl cq::overrun"] {
        let rows = of(&format!("| S1 | a | `{skipped}` |"));
        assert_eq!(broken(&rows, |name| name.has_passed(&run())).len(), 1, "{skipped}");
    }
}

#[test]
fn rows_that_cannot_be_read_are_refused() {
    for admitted in ["| T1 | a | b | not stopped: c |", "| T1 | a | b | not shown: c |"] {
        assert!(numbered(admitted).is_ok_and(|rows| rows[0].names.is_empty()), "{admitted}");
    }
    for wrong in [
        "",
        "| S1 | a | none |",
        "| S1 | a | `stage: a`",
        "| S1x | a | `stage: a` |",
        "| S1 | a | `something else` |",
        "| S1 | a | not stopped: c |",
        "| S1 | `stage: a thing` |",
        "| S1 | a | `stage: a` |\n| S1 | b | `stage: b` |",
        "| T1 | a | b | c |",
        "| T1 | a | b | not stopped: `stage: a` |",
    ] {
        assert!(numbered(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_format_gives_what_it_may() {
    assert!(may_give("the cases of {front_end} run", "the cases of nd2 run"));
    assert!(may_give("{what}: nothing is left", "killing it: nothing is left"));
    assert!(may_give("clippy on {what}", "clippy on softnd.dll"));
    assert!(!may_give("the cases of {front_end} run", "the cases of nd2 runx"));
    assert!(!may_give("the cases of {front_end} run", "cases of nd2 run"));
    assert!(!may_give("{name}", "anything at all"));
}

/// What a reader in trouble is told to type can be typed.
#[test]
fn the_commands_for_those_in_trouble_exist() {
    let document = fs::read_to_string(paths::root().join("docs/troubleshooting.md")).unwrap();
    let commands = document.split('`').skip(1).step_by(2).filter_map(|quoted| quoted.strip_prefix("cargo xtask "));
    let mut count = 0;
    for command in commands {
        let words = ["xtask"].into_iter().chain(command.split_whitespace());
        assert!(Arguments::try_parse_from(words).is_ok(), "{command}");
        count += 1;
    }
    assert!(count > 5, "{count}");
    assert!(Arguments::try_parse_from(["xtask", "runx"]).is_err());
}
