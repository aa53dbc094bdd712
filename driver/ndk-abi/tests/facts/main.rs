//! The crate against the documentation: every structure, field, size, table slot, prototype, enumeration value and
//! constant of the fact tables (`*.csv`, beside this file) must be declared with the same numbers and types, and
//! nothing may be declared that the tables do not have.
#![allow(clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod compare;
mod ctypes;
mod table;

use compare::Crate;
use table::Row;

// Shows N7, P1, S113.
#[test]
fn the_crate_is_the_documentation() {
    let rows = table::all();
    let differences = Crate::load().differences(&rows);
    assert!(differences.count() == 0, "{differences:#?}");
    println!("{} facts agree", rows.len());
}

/// Negative control of the above: it must notice each fact that is lost, renamed or wrong, whichever it is.
#[test]
fn every_corrupted_fact_is_noticed() {
    let subject = Crate::load();
    let rows = table::all();
    let mut corruptions = 0;
    for group in rows.chunk_by(|a, b| a.kind == b.kind && a.name == b.name) {
        // Facts of different names are compared independently of each other, so the rest can be left out.
        let before = subject.differences(group);
        assert!(before.contradictions.is_empty(), "{before:#?}");
        let before = before.count();
        for (at, row) in group.iter().enumerate() {
            let mut lost = group.to_vec();
            lost.remove(at);
            assert!(subject.differences(&lost).count() > before, "loss not noticed: {row:?}");
            for wrong in corrupted(row) {
                let mut corrupted = group.to_vec();
                corrupted[at] = wrong.clone();
                assert!(subject.differences(&corrupted).count() > before, "not noticed: {wrong:?} for {row:?}");
                corruptions += 1;
            }
            corruptions += 1;
        }
    }
    println!("{corruptions} corruptions noticed in {} facts", rows.len());
}

/// A fact with each of its compared columns wrong, one at a time.
fn corrupted(row: &Row) -> Vec<Row> {
    let mut out = vec![Row { member: format!("{}X", row.member), ..row.clone() }];
    out.push(Row { kind: if row.kind == "struct" { "dispatch" } else { "struct" }.into(), ..row.clone() });
    if row.kind != "const" {
        out.push(Row { name: format!("{}X", row.name), ..row.clone() });
    }
    // The position of an enumeration value is not a fact of its own.
    if row.kind != "const" && row.kind != "enum" {
        out.push(Row { index: other_number(&row.index), ..row.clone() });
    }
    let value = match row.kind.as_str() {
        "const" | "enum" => other_number(&row.value),
        _ if row.value == "LPCGUID" => "ULONG".into(),
        _ => "LPCGUID".into(),
    };
    out.push(Row { value, ..row.clone() });
    out
}

/// Another number, GUID or formula: the last digit changed. A remark in brackets is no part of the number.
fn other_number(text: &str) -> String {
    let text = text.split(" (").next().unwrap_or(text);
    let last = text.rfind(|c: char| c.is_ascii_hexdigit()).filter(|_| text != "-");
    match last {
        Some(at) => format!("{}{}{}", &text[..at], if &text[at..=at] == "1" { "2" } else { "1" }, &text[at + 1..]),
        None => "1".into(),
    }
}
