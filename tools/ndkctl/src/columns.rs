//! Tables for people.

use std::fmt;

/// Rows of cells. A column is as wide as its widest cell; a column of numbers is aligned to the right, any other column to the left.
pub(crate) struct Columns<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Columns<N> {
    /// A table with these headings.
    pub(crate) fn new(headings: [&str; N]) -> Self {
        Self { rows: vec![headings.map(str::to_owned)] }
    }

    pub(crate) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }
}

/// Whether a cell is a number, or `-`, which stands for no number.
fn is_number(cell: &str) -> bool {
    cell == "-" || !cell.is_empty() && cell.chars().all(|character| character.is_ascii_digit())
}

impl<const N: usize> fmt::Display for Columns<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = |nth: usize| self.rows.iter().filter_map(move |row| row.get(nth));
        let widths: [usize; N] =
            std::array::from_fn(|nth| column(nth).map(|cell| cell.chars().count()).max().unwrap_or(0));
        let numeric: [bool; N] =
            std::array::from_fn(|nth| self.rows.len() > 1 && column(nth).skip(1).all(|cell| is_number(cell)));
        for row in &self.rows {
            let cells = row.iter().zip(widths).zip(numeric).map(|((cell, width), numeric)| {
                if numeric { format!("{cell:>width$}") } else { format!("{cell:width$}") }
            });
            writeln!(f, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
        }
        Ok(())
    }
}

/// A number of bytes, with a unit.
pub(crate) fn bytes(count: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| count >> shift > 0) {
        Some((shift, unit)) if count.is_multiple_of(1 << shift) => format!("{} {unit}", count >> shift),
        Some((shift, unit)) => format!("{:.1} {unit}", count as f64 / (1_u64 << shift) as f64),
        None => format!("{count} B"),
    }
}

#[cfg(test)]
mod unit_tests {
    use super::*;

    #[test]
    fn numbers_go_to_the_right_and_text_to_the_left() {
        let mut columns = Columns::new(["kind", "alive", "owner"]);
        columns.row(["a".to_owned(), "12".to_owned(), "kernel".to_owned()]);
        columns.row(["longer".to_owned(), "-".to_owned(), "7".to_owned()]);
        assert_eq!(columns.to_string(), "kind    alive  owner\na          12  kernel\nlonger      -  7\n");
    }

    #[test]
    fn bytes_have_units() {
        let written = [0, 1023, 1024, 1536, 1 << 30, 3 << 30, (5 << 20) + 1].map(bytes);
        assert_eq!(written, ["0 B", "1023 B", "1 KiB", "1.5 KiB", "1 GiB", "3 GiB", "5.0 MiB"]);
    }
}
