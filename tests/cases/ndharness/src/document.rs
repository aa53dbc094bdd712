//! `docs/conformance.md` against the tables of return values. The cases and tests that it names, `cargo xtask test` looks at.

use conformance::nd::{Shown, Version};

const DOCUMENT: &str = include_str!("../../../../docs/conformance.md");

/// Its tables of return values are those that a run prints.
#[test]
fn the_tables_of_return_values_are_true() {
    let both = [Version::V1, Version::V2].map(Version::documented).concat();
    for one in both.iter().filter(|one| one.method.starts_with("IND")) {
        let start = format!("| {} | {} |", one.method, one.name);
        let row = DOCUMENT.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("the document has no row {start}"));
        match one.shown {
            Shown::ByCases => assert!(row.contains("::") && row.contains('`'), "{row}"),
            Shown::OverRings(why) => assert!(row.contains("over rings `") && row.contains(why), "{row} has not: {why}"),
            Shown::Never(why) => assert!(row.contains(why), "{row} has not: {why}"),
        }
    }
}
