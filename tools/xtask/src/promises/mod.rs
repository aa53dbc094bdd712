//! What the documents promise, against the tests that they name.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::passed::Passed;

/// Documents whose rows are numbered S and T; each names what shows it.
const NUMBERED: [&str; 2] = ["docs/specification.md", "docs/threat-model.md"];
/// The document whose rows belong to a front end, which cases are named without.
const CONFORMANCE: &str = "docs/conformance.md";

/// What shows that a row is true.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    /// `file: function`, a test of cargo.
    Test { file: String, function: String },
    /// `front-end group::case`, of `ndharness run`.
    Case { front_ends: &'static [&'static str], case: String },
    /// `stage: what`, a check of `cargo xtask test`.
    Stage(String),
}

/// One row of a document.
struct Row {
    text: String,
    names: Vec<Name>,
}

impl Name {
    /// What is quoted, if it is a name; `of` are the front ends of a case that names none.
    fn parse(quoted: &str, of: Option<&'static [&'static str]>) -> Option<Self> {
        match quoted.split_once(": ") {
            Some(("stage", what)) => return Some(Self::Stage(what.to_owned())),
            Some((file, function)) if file.ends_with(".rs") => {
                return Some(Self::Test { file: file.to_owned(), function: function.to_owned() });
            }
            _ => {}
        }
        let (front_ends, case) = match quoted.split_once(' ') {
            Some(("sim", case)) => (&["sim"][..], case),
            Some(("processes", case)) => (&["processes"][..], case),
            Some(("ioctl", case)) => (&["ioctl"][..], case),
            Some(("nd1", case)) => (&["nd1"][..], case),
            Some(("nd2", case)) => (&["nd2"][..], case),
            _ => (of?, quoted),
        };
        let is_case =
            case.contains("::") && case.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b':'));
        is_case.then(|| Self::Case { front_ends, case: case.to_owned() })
    }

    fn has_passed(&self, passed: &Passed) -> bool {
        match self {
            Self::Test { file, function } => passed.has_test(file, function),
            Self::Case { front_ends, case } => front_ends.iter().any(|front_end| passed.has_case(front_end, case)),
            Self::Stage(what) => passed.has_stage(what),
        }
    }
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The numbered rows of a document; an error is one that cannot be read, or that shows nothing.
fn numbered(document: &str) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut numbers = BTreeSet::new();
    for line in document.lines() {
        let Some(digits) = line.strip_prefix("| S").or_else(|| line.strip_prefix("| T")) else { continue };
        if !digits.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        let cells =
            line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")).with_context(|| line.to_owned())?;
        let cells = cells.split(" | ").collect::<Vec<_>>();
        let (number, shown) = (cells[0], cells.last().copied().unwrap_or_default());
        ensure!(number.bytes().skip(1).all(|byte| byte.is_ascii_digit()), "{number} is no number");
        ensure!(numbers.insert(number), "{number} is there twice");
        ensure!(cells.len() == if number.starts_with('S') { 3 } else { 4 }, "{number} has another number of cells");
        let names =
            quoted(shown).map(|quoted| Name::parse(quoted, None).with_context(|| format!("{number}: {quoted}")));
        let names = names.collect::<Result<Vec<_>>>()?;
        // What a caller can do all the same, or no test tries, is said.
        let admits = shown.starts_with("not stopped: ") || shown.starts_with("not shown: ");
        ensure!(
            names.is_empty() == (admits && number.starts_with('T')),
            "{number} names no test, or admits what one shows"
        );
        rows.push(Row { text: line.to_owned(), names });
    }
    ensure!(!rows.is_empty(), "it promises nothing");
    Ok(rows)
}

/// The rows of the document on ND that name something. The front end of a row is told by its number, or by the interface.
fn conformance(document: &str) -> Vec<Row> {
    let front_ends = |line: &str| -> &'static [&'static str] {
        // Names of interfaces have a digit from the second version on.
        if line.starts_with("| V") || line.starts_with("| IND") && !line.starts_with("| IND2") {
            &["nd1"]
        } else if line.starts_with("| P") {
            &["ioctl", "sim"]
        } else {
            &["nd2"]
        }
    };
    let row = |line: &str| Row {
        text: line.to_owned(),
        names: quoted(line).filter_map(|quoted| Name::parse(quoted, Some(front_ends(line)))).collect(),
    };
    document.lines().map(row).filter(|row| !row.names.is_empty()).collect()
}

/// The rows of all documents.
fn rows(root: &Path) -> Result<Vec<Row>> {
    let read = |file: &str| fs::read_to_string(root.join(file)).with_context(|| file.to_owned());
    let mut rows = conformance(&read(CONFORMANCE)?);
    for file in NUMBERED {
        rows.extend(numbered(&read(file)?).with_context(|| file.to_owned())?);
    }
    Ok(rows)
}

/// The rows that name something for which `is_true` does not hold, and what that is.
fn broken(rows: &[Row], is_true: impl Fn(&Name) -> bool) -> Vec<String> {
    let names = rows.iter().flat_map(|row| row.names.iter().map(move |name| (row, name)));
    names.filter(|(_, name)| !is_true(name)).map(|(row, name)| format!("{name:?} of {}", row.text)).collect()
}

/// Fails unless all that the documents name has passed, in this run.
pub(crate) fn kept(root: &Path, passed: &Passed) -> Result<()> {
    let broken = broken(&rows(root)?, |name| name.has_passed(passed));
    ensure!(broken.is_empty(), "it is not there, did not run, was skipped or has failed:\n{}", broken.join("\n"));
    Ok(())
}

#[cfg(test)]
mod tests;
