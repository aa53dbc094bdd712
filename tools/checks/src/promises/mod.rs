//! What the documents promise, against the tests that are tagged with it, and `cargo xtask promises`.

mod name;
mod rows;
mod tags;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::json;

use crate::passed_tests::Passed;
use build::paths;
use name::Name;
use rows::Row;
use tags::Tag;

/// Which promises to print, and how.
#[derive(clap::Args)]
pub struct Wanted {
    /// The number of a row of docs/specification.md, docs/conformance.md or docs/threat-model.md; all rows if none is given
    #[arg(value_name = "ROW")]
    row: Option<String>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// A row, and what shows that it is kept.
struct Promise {
    row: Row,
    shown_by: BTreeSet<Name>,
}

/// All promises; an error is one that no test shows and that does not say so, or a tag of none.
fn promises(root: &Path) -> Result<Vec<Promise>> {
    join(rows::rows(root)?, tags::tags(root)?)
}

fn join(rows: Vec<Row>, tags: Vec<Tag>) -> Result<Vec<Promise>> {
    let mut wrong = Vec::new();
    let mut names = BTreeMap::new();
    for row in &rows {
        if names.insert(row.number.clone(), BTreeSet::new()).is_some() {
            wrong.push(format!("{} is there twice", row.number));
        }
    }
    for Tag { number, name } in tags {
        match names.get_mut(&number) {
            None => wrong.push(format!("{name} shows {number}, which no row has")),
            Some(names) => {
                if !names.insert(name.clone()) {
                    wrong.push(format!("{name} shows {number} twice"));
                }
            }
        }
    }
    let promise = |row: Row| Promise { shown_by: names.remove(&row.number).unwrap_or_default(), row };
    let promises = rows.into_iter().map(promise).collect::<Vec<_>>();
    for Promise { row, shown_by } in &promises {
        if shown_by.is_empty() && !row.admits {
            wrong.push(format!("no test shows {}, and it does not say why: {}", row.number, row.promise));
        }
        if !shown_by.is_empty() && row.admits {
            wrong.push(format!("{} says that no test shows it, but one does", row.number));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(promises)
}

/// The promises that name something for which `is_true` does not hold, and what that is.
fn broken(promises: &[Promise], is_true: impl Fn(&Name) -> bool) -> Vec<String> {
    let names = promises.iter().flat_map(|promise| promise.shown_by.iter().map(move |name| (&promise.row, name)));
    names
        .filter(|(_, name)| !is_true(name))
        .map(|(row, name)| format!("{name} of {} {}", row.number, row.promise))
        .collect()
}

/// Fails unless all that is tagged with a promise has passed, in this run.
pub fn kept(root: &Path, passed: &Passed) -> Result<()> {
    let broken = broken(&promises(root)?, |name| name.has_passed(passed));
    ensure!(broken.is_empty(), "it is not there, did not run, was skipped or has failed:\n{}", broken.join("\n"));
    Ok(())
}

/// Prints promises with what shows them.
pub fn print(wanted: &Wanted) -> Result<()> {
    let mut promises = promises(&paths::root())?;
    if let Some(row) = &wanted.row {
        promises.retain(|promise| promise.row.number == *row);
        ensure!(!promises.is_empty(), "no row has the number {row}");
    }
    if wanted.json {
        let rows = promises.iter().map(|Promise { row, shown_by }| {
            let shown_by = shown_by.iter().map(Name::to_string).collect::<Vec<_>>();
            json!({ "number": row.number, "promise": row.promise, "shown_by": shown_by })
        });
        println!("{}", serde_json::to_string_pretty(&rows.collect::<Vec<_>>()).context("no JSON")?);
    } else {
        for Promise { row, shown_by } in &promises {
            println!("{:<6}{}", row.number, row.promise);
            shown_by.iter().for_each(|name| println!("      {name}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
