//! The figures of a soak, and its closing table.

use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::two_processes::Harness;

/// Findings that the table says.
const FINDINGS_KEPT: usize = 20;

/// What was done on one front end, and what came of it. `ndharness soak` prints those that it has.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct Figures {
    /// Work and control requests. Of nd1 and nd2, also cases and connections.
    pub(super) operations: u64,
    pub(super) connects: u64,
    pub(super) resizes: u64,
    /// Processes killed, or files closed, in mid-traffic.
    pub(super) kills: u64,
    /// RDMA turned off, and on again.
    pub(super) disables: u64,
    pub(super) unloads: u64,
    /// Calls of the kernel that were made to fail.
    pub(super) faults: u64,
    pub(super) lost: u64,
    pub(super) leaked: u64,
    pub(super) violations: u64,
    /// Other data, a completion that comes twice, an unexpected refusal, a program that fails.
    pub(super) wrong: u64,
    pub(super) findings: Vec<String>,
}

impl Figures {
    /// Of a program that did not end as it should.
    pub(super) fn wrong(error: &anyhow::Error) -> Self {
        Self { wrong: 1, findings: vec![format!("{error:#}")], ..Self::default() }
    }

    /// Something that is wrong, in words.
    pub(super) fn find(&mut self, what: impl fmt::Display) {
        if self.findings.len() < FINDINGS_KEPT {
            self.findings.push(what.to_string());
        }
    }

    fn is_clean(&self) -> bool {
        (self.lost, self.leaked, self.violations, self.wrong) == (0, 0, 0, 0)
    }

    fn counts(&self) -> [u64; COLUMNS.len()] {
        [
            self.operations,
            self.connects,
            self.resizes,
            self.kills,
            self.disables,
            self.unloads,
            self.faults,
            self.lost,
            self.leaked,
            self.violations,
            self.wrong,
        ]
    }
}

const COLUMNS: [&str; 11] = [
    "operations",
    "connects",
    "resizes",
    "kills",
    "disables",
    "unloads",
    "faults",
    "lost",
    "leaked",
    "violations",
    "wrong",
];

impl AddAssign for Figures {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.connects += other.connects;
        self.resizes += other.resizes;
        self.kills += other.kills;
        self.disables += other.disables;
        self.unloads += other.unloads;
        self.faults += other.faults;
        self.lost += other.lost;
        self.leaked += other.leaked;
        self.violations += other.violations;
        self.wrong += other.wrong;
        other.findings.into_iter().for_each(|finding| self.find(finding));
    }
}

impl Harness {
    /// What a soak says last. `is_killed`: what it said before.
    pub(super) fn figures(self, is_killed: bool, limit: Duration) -> Result<Figures> {
        let (status, said) = self.end_within(limit)?;
        // Who is killed may be cut off in the middle of a line.
        let last = said.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
        let last = last.with_context(|| format!("it ended with {status}, and said nothing:\n{said}"))?;
        ensure!(is_killed || last["last"] == true, "it ended with {status}, before it was over: {last}\n{said}");
        Ok(serde_json::from_value(last)?)
    }
}

/// What was found, by front end.
pub(super) struct Table {
    pub(super) seed: u64,
    pub(super) minutes: f64,
    pub(super) rows: Vec<(&'static str, Figures)>,
}

impl Table {
    pub(super) fn total(&self) -> Figures {
        self.rows.iter().fold(Figures::default(), |mut total, (_, row)| {
            total += row.clone();
            total
        })
    }

    pub(super) fn as_json(&self) -> Value {
        let rows: Vec<_> = self.rows.iter().map(|(name, row)| json!({ "front_end": name, "figures": row })).collect();
        json!({ "seed": self.seed, "minutes": self.minutes, "rows": rows, "total": self.total() })
    }

    /// Nothing was found, and on each front end something was done and a connection made.
    pub(super) fn judge(&self) -> Result<()> {
        let total = self.total();
        ensure!(
            total.is_clean(),
            "{} lost, {} leaked, {} violations, {} wrong; --seed {}",
            total.lost,
            total.leaked,
            total.violations,
            total.wrong,
            self.seed
        );
        for (name, row) in &self.rows {
            ensure!(row.operations > 0, "nothing was done on {name}");
            ensure!(row.connects > 0, "nothing has connected on {name}");
        }
        Ok(())
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = ("total", self.total());
        let rows: Vec<_> = self.rows.iter().chain([&total]).map(|(name, row)| (*name, row.counts())).collect();
        let first = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
        write!(f, "{:first$}", "")?;
        COLUMNS.iter().try_for_each(|name| write!(f, "  {name:>10}"))?;
        for (name, counts) in rows {
            write!(f, "\n{name:first$}")?;
            counts.iter().try_for_each(|count| write!(f, "  {count:>10}"))?;
        }
        total.1.findings.iter().try_for_each(|finding| write!(f, "\n\n{finding}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(row: Figures) -> Table {
        Table {
            seed: 1,
            minutes: 1.0,
            rows: vec![
                ("a", Figures { operations: 1, connects: 1, ..row }),
                ("b", Figures { operations: 2, connects: 1, ..Figures::default() }),
            ],
        }
    }

    #[test]
    fn whatever_is_found_is_a_failure() {
        assert!(table(Figures::default()).judge().is_ok());
        for found in [
            Figures { lost: 1, ..Figures::default() },
            Figures { leaked: 1, ..Figures::default() },
            Figures { violations: 1, ..Figures::default() },
            Figures { wrong: 1, ..Figures::default() },
        ] {
            assert!(table(found).judge().is_err());
        }
    }

    #[test]
    fn a_front_end_on_which_nothing_was_done_is_a_failure() {
        for row in [Figures::default(), Figures { operations: 1, ..Figures::default() }] {
            let mut table = table(Figures::default());
            table.rows.push(("c", row));
            assert!(table.judge().is_err());
        }
    }

    #[test]
    fn rows_add_up_and_all_is_shown() {
        let table = table(Figures { findings: vec!["a finding".to_owned()], ..Figures::default() });
        assert_eq!(table.total().operations, 3);
        let text = table.to_string();
        assert!(text.contains("a finding") && COLUMNS.iter().all(|column| text.contains(column)), "{text}");
        assert_eq!(table.as_json()["rows"][1]["figures"]["operations"], 2);
    }
}
