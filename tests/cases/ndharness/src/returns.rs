//! Which of the documented return values a run has seen.
#![cfg_attr(not(windows), allow(dead_code, reason = "softnd.dll is for Windows"))]

use std::{collections::BTreeMap, fmt};

use conformance::nd::{Documented, Shown};
use serde::Serialize;

/// What methods returned: (path, method, status), and the first case that saw it.
pub(crate) type Seen = BTreeMap<(&'static str, &'static str, u32), &'static str>;

/// A documented value.
#[derive(Serialize)]
pub(crate) struct Row {
    value: &'static str,
    code: String,
    method: &'static str,
    /// The case that saw it first on each path, and why none can on another.
    shown: String,
    /// It should have been seen and was not.
    missing: bool,
}

/// The documented values of those methods that were called. `is_whole`: every case was run, so that all must have been seen.
pub(crate) fn rows(documented: &[Documented], paths: &[&'static str], seen: &Seen, is_whole: bool) -> Vec<Row> {
    let was_called = |method| seen.keys().any(|(_, called, _)| *called == method);
    documented
        .iter()
        .filter(|one| is_whole || was_called(one.method))
        .map(|one| {
            let by = |path| seen.get(&(path, one.method, one.value.to_u32())).copied();
            let (is_due, why): (fn(&str) -> bool, _) = match one.shown {
                Shown::ByCases => (|_| true, None),
                Shown::OverRings(why) => (|path| path == "rings", Some(why)),
                Shown::Never(why) => (|_| false, Some(why)),
            };
            let mut cases: Vec<_> = paths.iter().filter_map(|path| by(path)).collect();
            cases.dedup();
            let cases = cases.join(", ");
            let (shown, missing) = if paths.iter().any(|path| !is_due(path) && by(path).is_some()) {
                // A reason why something cannot be must not be wrong.
                (format!("SEEN, unexpectedly: {cases}"), true)
            } else if paths.iter().any(|path| is_due(path) && by(path).is_none()) {
                let shown = if is_whole { "NOT SEEN" } else { "not seen in this run" };
                (shown.to_owned(), is_whole)
            } else {
                let shown = match why {
                    None => cases,
                    Some(why) if cases.is_empty() => format!("- {why}"),
                    Some(why) => format!("{cases}; {why}"),
                };
                (shown, false)
            };
            Row { value: one.name, code: format!("{:#010x}", one.value.to_u32()), method: one.method, shown, missing }
        })
        .collect()
}

/// How many rows are wrong.
pub(crate) fn missing(rows: &[Row]) -> usize {
    rows.iter().filter(|row| row.missing).count()
}

/// The table, for people.
pub(crate) fn write(rows: &[Row], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n{:26} {:10}  {:43} shown by, or why not", "value", "", "method or request")?;
    rows.iter().try_for_each(|row| writeln!(f, "{:26} {}  {:43} {}", row.value, row.code, row.method, row.shown))
}

#[cfg(test)]
mod tests {
    use conformance::nd::Version;

    use super::*;

    const PATHS: [&str; 2] = ["rings", "plain"];
    const DOCUMENTED: &[Documented] = Version::V2.documented();

    fn everything() -> Seen {
        let all = DOCUMENTED.iter().flat_map(|one| PATHS.map(|path| (path, one)));
        let due = all.filter(|(path, one)| match one.shown {
            Shown::ByCases => true,
            Shown::OverRings(_) => *path == "rings",
            Shown::Never(_) => false,
        });
        due.map(|(path, one)| ((path, one.method, one.value.to_u32()), "some::case")).collect()
    }

    #[test]
    fn a_value_that_is_not_seen_on_a_path_is_missing() {
        let mut seen = everything();
        assert_eq!(missing(&rows(DOCUMENTED, &PATHS, &seen, true)), 0);
        let dropped = ("plain", "IND2CompletionQueue::Resize", 0x8000_0005);
        assert!(seen.remove(&dropped).is_some());
        let incomplete = rows(DOCUMENTED, &PATHS, &seen, true);
        assert_eq!(missing(&incomplete), 1);
        assert!(incomplete.iter().any(|row| row.missing && row.value == "ND_BUFFER_OVERFLOW"));
        assert_eq!(missing(&rows(DOCUMENTED, &PATHS, &seen, false)), 0);
        assert_eq!(missing(&rows(DOCUMENTED, &["rings"], &seen, true)), 0);
    }

    #[test]
    fn a_value_that_cannot_be_must_not_be() {
        let mut seen = everything();
        seen.insert(("rings", "IND2CompletionQueue::Resize", 0xc000_00bb), "some::case");
        assert_eq!(missing(&rows(DOCUMENTED, &PATHS, &seen, true)), 1);
    }

    #[test]
    fn a_value_of_rings_is_due_there_only() {
        let (mut seen, method, value) = (everything(), "IND2CompletionQueue::Resize", 0xc000_009a);
        let row = |seen: &Seen| {
            let rows = rows(DOCUMENTED, &PATHS, seen, true);
            rows.into_iter().find(|row| row.method == method && row.value == "ND_INSUFFICIENT_RESOURCES").unwrap()
        };
        assert!(row(&seen).shown.starts_with("some::case; by control codes"));
        seen.insert(("plain", method, value), "some::case");
        assert!(row(&seen).missing);
        seen.remove(&("plain", method, value));
        seen.remove(&("rings", method, value));
        assert!(row(&seen).missing);
    }
}
