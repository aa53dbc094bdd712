//! `docs/conformance.md` against the cases and tests that it names.

use std::path::Path;

use conformance::{
    CASES,
    nd::{Shown, Version},
};

const DOCUMENT: &str = include_str!("../../../docs/conformance.md");

/// What a row names.
enum Named<'a> {
    /// A case of `ndharness run`.
    Case(&'a str),
    /// A function of a file: a test of cargo.
    Test(&'a str, &'a str),
}

/// What is quoted in a row and is a case, or a test.
fn named(row: &str) -> impl Iterator<Item = Named<'_>> {
    row.split('`').skip(1).step_by(2).filter_map(|quoted| match quoted.split_once(": ") {
        Some((file, test)) if file.ends_with(".rs") => Some(Named::Test(file, test)),
        _ if quoted.contains("::") && quoted.starts_with(|first: char| first.is_lowercase()) => {
            Some(Named::Case(quoted))
        }
        _ => None,
    })
}

/// Whether there is such a case on the front end that a row is about.
fn is_case(row: &str, name: &str) -> bool {
    // Names of interfaces have a digit from the second version on.
    if row.starts_with("| V") || row.starts_with("| IND") && !row.starts_with("| IND2") {
        Version::V1.cases().any(|known| known.name == name)
    } else if row.starts_with("| P") {
        CASES.iter().any(|known| known.name == name)
    } else {
        Version::V2.cases().any(|known| known.name == name)
    }
}

/// Whether the file has such a function.
fn is_test(file: &str, name: &str) -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::read_to_string(root.join(file)).is_ok_and(|source| source.contains(&format!("fn {name}(")))
}

/// The rows that name what there is not.
fn wrong(document: &str) -> Vec<&str> {
    let is_known = |row: &str| {
        named(row).all(|one| match one {
            Named::Case(name) => is_case(row, name),
            Named::Test(file, name) => is_test(file, name),
        })
    };
    document.lines().filter(|row| !is_known(row)).collect()
}

#[test]
fn what_the_document_names_is_there() {
    assert_eq!(wrong(DOCUMENT), [""; 0]);
    let count = |is: fn(&Named<'_>) -> bool| DOCUMENT.lines().flat_map(named).filter(is).count();
    assert!(count(|one| matches!(one, Named::Case(_))) > 250);
    assert!(count(|one| matches!(one, Named::Test(..))) > 15);
}

/// The negative control: a letter more in any name is noticed.
#[test]
fn a_wrong_name_is_noticed() {
    for row in DOCUMENT.lines() {
        for one in named(row) {
            let quoted = match one {
                Named::Case(name) => name.to_owned(),
                Named::Test(file, name) => format!("{file}: {name}"),
            };
            let corrupted = row.replacen(&format!("`{quoted}`"), &format!("`{quoted}x`"), 1);
            assert_eq!(wrong(&corrupted), [&corrupted]);
        }
    }
    // A case of another front end is none of this one's.
    assert_eq!(wrong("| V1 | | `posts::flags` |").len(), 1);
    assert_eq!(wrong("| N1 | | `endpoint::send` |").len(), 1);
}

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
