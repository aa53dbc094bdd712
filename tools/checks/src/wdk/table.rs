//! What was compared, and what came of it.

use std::fmt;

use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
struct Row {
    what: &'static str,
    agrees: bool,
    detail: String,
}

/// All rows.
#[derive(Default, Serialize)]
pub(super) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds a row.
    pub(super) fn add(&mut self, what: &'static str, result: Result<String>) {
        let (agrees, detail) = match result {
            Ok(detail) => (true, detail),
            Err(error) => (false, format!("{error:#}")),
        };
        self.rows.push(Row { what, agrees, detail });
    }

    /// True if there are rows and all agree.
    pub(super) fn is_success(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.agrees)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Row { what, agrees, detail } in &self.rows {
            writeln!(f, "{:8}{what:52}{detail}", if *agrees { "agrees" } else { "DIFFERS" })?;
        }
        let differ = self.rows.iter().filter(|row| !row.agrees).count();
        write!(f, "{} agree, {differ} differ", self.rows.len() - differ)
    }
}

#[cfg(test)]
mod tests {
    use super::Table;

    #[test]
    fn one_difference_is_enough_and_an_empty_table_agrees_with_nothing() {
        let mut table = Table::default();
        assert!(!table.is_success());
        table.add("a", Ok("3 alike".to_owned()));
        assert!(table.is_success());
        table.add("b", Err(anyhow::anyhow!("planted")));
        assert!(!table.is_success());
        assert!(table.to_string().ends_with("1 agree, 1 differ"), "{table}");
    }
}
