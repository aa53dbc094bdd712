//! The report that the stand-ins leave.

use std::fs;

const FILE: &str = r"C:\softndk\standin-report.txt";
const PREFIX: &str = "softndk-standin: ";

/// The lines that one run of the driver added.
pub(crate) struct Report {
    lines: Vec<String>,
}

/// How long the report was before that run.
pub(crate) struct Beginning(usize);

impl Report {
    pub(crate) fn begin() -> Beginning {
        Beginning(fs::read(FILE).map_or(0, |bytes| bytes.len()))
    }

    /// Whether the report has this line.
    pub(crate) fn expect(&self, line: &str) -> Result<(), String> {
        if self.lines.iter().any(|found| found == line) {
            Ok(())
        } else {
            Err(format!("the report says {:?}", self.lines))
        }
    }

    /// Whether the report has a violation with this text.
    pub(crate) fn expect_violation(&self, text: &str) -> Result<(), String> {
        let found = self.lines.iter().any(|line| line.starts_with("violation: ") && line.contains(text));
        if found { Ok(()) } else { Err(format!("the report says {:?}", self.lines)) }
    }

    pub(crate) fn violations(&self) -> usize {
        self.lines
            .iter()
            .filter_map(|line| line.strip_prefix("irql violations "))
            .find_map(|n| n.parse().ok())
            .unwrap_or(0)
    }
}

impl Beginning {
    pub(crate) fn end(self) -> Result<Report, String> {
        let bytes = fs::read(FILE).map_err(|error| format!("{FILE}: {error}"))?;
        let new = String::from_utf8_lossy(bytes.get(self.0..).unwrap_or_default()).into_owned();
        Ok(Report { lines: new.lines().filter_map(|line| line.strip_prefix(PREFIX)).map(str::to_owned).collect() })
    }
}
