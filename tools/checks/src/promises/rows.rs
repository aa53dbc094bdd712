//! The numbered rows of the documents: one promise each.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

/// A document that promises something.
pub(super) struct Document {
    file: &'static str,
    /// Its rows are `| number | threat | what stops it |`. Else they are `* number: promise`.
    is_table: bool,
    /// A row may say that no test shows it.
    may_admit: bool,
}

pub(super) const SPECIFICATION: Document =
    Document { file: "docs/specification.md", is_table: false, may_admit: false };
pub(super) const CONFORMANCE: Document = Document { file: "docs/conformance.md", is_table: false, may_admit: true };
pub(super) const THREATS: Document = Document { file: "docs/threat-model.md", is_table: true, may_admit: true };

/// How the text of a row begins, in a table that of its last cell, that no test shows, and the reason follows.
const ADMISSIONS: [&str; 2] = ["not shown: ", "not stopped: "];

/// One row of a document.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) number: String,
    pub(super) promise: String,
    /// It says why no test shows it.
    pub(super) admits: bool,
}

impl Document {
    /// The rows in its text; an error is one that cannot be read.
    pub(super) fn rows(&self, text: &str) -> Result<Vec<Row>> {
        let rows = text.lines().filter_map(|line| self.row(line)).collect::<Result<Vec<_>>>()?;
        ensure!(!rows.is_empty(), "it promises nothing");
        Ok(rows)
    }

    fn row(&self, line: &str) -> Option<Result<Row>> {
        let begin = if self.is_table { "| " } else { "* " };
        let row = line.strip_prefix(begin).filter(|row| begins_with_number(row))?;
        Some(self.read(row).with_context(|| line.to_owned()))
    }

    fn read(&self, row: &str) -> Result<Row> {
        let (number, promise, last) = if self.is_table {
            let cells = row.strip_suffix(" |").context("it has no end")?.split(" | ").collect::<Vec<_>>();
            let [number, threat, stopped] = cells[..] else { bail!("it has another number of cells") };
            (number, format!("{threat} - {stopped}"), stopped)
        } else {
            let (number, promise) = row.split_once(": ").context("it promises nothing")?;
            (number, promise.to_owned(), promise)
        };
        ensure!(is_number(number), "{number} is no number");
        let admits = ADMISSIONS.iter().any(|admission| last.starts_with(admission));
        ensure!(self.may_admit || !admits, "{number} is shown by nothing");
        Ok(Row { number: number.to_owned(), promise, admits })
    }
}

/// Whether it begins with a capital letter and a digit.
fn begins_with_number(text: &str) -> bool {
    matches!(text.as_bytes(), [b'A'..=b'Z', b'0'..=b'9', ..])
}

/// Whether it is a letter and digits, or the one row that came between two others, S5a.
pub(super) fn is_number(text: &str) -> bool {
    let digits = text.strip_suffix('a').unwrap_or(text).get(1..).unwrap_or_default();
    begins_with_number(text) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// The rows of all documents.
pub(super) fn rows(root: &Path) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for document in [SPECIFICATION, CONFORMANCE, THREATS] {
        let read = || document.rows(&fs::read_to_string(root.join(document.file))?);
        rows.extend(read().with_context(|| document.file)?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::{CONFORMANCE, SPECIFICATION, THREATS};

    #[test]
    fn a_row_may_say_why_nothing_shows_it() {
        for admitted in ["| T1 | a | not stopped: c |", "| T1 | a | not shown: c |"] {
            assert!(THREATS.rows(admitted).is_ok_and(|rows| rows[0].admits), "{admitted}");
        }
        assert!(CONFORMANCE.rows("* N1: not shown: c").is_ok_and(|rows| rows[0].admits));
        // As it is said of a part of what stops it.
        assert!(THREATS.rows("| T1 | a | b. Not stopped: c |").is_ok_and(|rows| !rows[0].admits));
        assert!(CONFORMANCE.rows("* S5a: a").is_ok_and(|rows| !rows[0].admits && rows[0].number == "S5a"));
    }

    #[test]
    fn rows_that_cannot_be_read_are_refused() {
        for wrong in ["", "* S1", "* S1x: a", "* S1: not stopped: c", "| S1 | a |"] {
            assert!(SPECIFICATION.rows(wrong).is_err(), "{wrong}");
        }
        for wrong in ["| T1 | a |", "| T1 | a | b", "| T1 | a | b | c |", "* T1: a"] {
            assert!(THREATS.rows(wrong).is_err(), "{wrong}");
        }
    }
}
