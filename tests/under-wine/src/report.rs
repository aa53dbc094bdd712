//! What the stand-ins say at unload.

use std::fmt;
use std::ops::AddAssign;
use std::path::PathBuf;

use anyhow::{Context, Result};

/// Sums over all stand-ins that reported. Anything but zeros is a fault of the driver.
#[derive(Clone, Debug, Default)]
pub(crate) struct StandInReport {
    /// Pool bytes still allocated.
    pub(crate) pool_bytes: u64,
    /// Pool allocations still alive.
    pub(crate) pool_allocations: u64,
    /// Kernel and NDIS objects still alive.
    pub(crate) objects: i64,
    /// Calls at an IRQL that the documentation forbids.
    pub(crate) irql_violations: u64,
    /// What else they say: each violation, each kind of object, each pool tag.
    pub(crate) details: Vec<String>,
    /// The file with what the driver has printed.
    pub(crate) log: PathBuf,
}

impl StandInReport {
    /// Reads lines `softndk-standin: ...`. Fails while one of the three kinds of line is missing.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut report = Self::default();
        let mut seen = [false; 3];
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("softndk-standin: ")) {
            let words = line.split_whitespace().collect::<Vec<_>>();
            let number = |word: &str| word.parse::<u64>().with_context(|| format!("{line:?} has no number"));
            match *words {
                ["pool", bytes, "bytes", "in", allocations, "allocations"] => {
                    report.pool_bytes += number(bytes)?;
                    report.pool_allocations += number(allocations)?;
                    seen[0] = true;
                }
                ["objects", objects] => {
                    report.objects += objects.parse::<i64>().with_context(|| format!("{line:?} has no number"))?;
                    seen[1] = true;
                }
                ["irql", "violations", violations] => {
                    report.irql_violations += number(violations)?;
                    seen[2] = true;
                }
                _ => report.details.push(line.to_owned()),
            }
        }
        seen.iter().all(|seen| *seen).then_some(report).context("the stand-ins did not report what the driver left")
    }

    /// True if the driver left nothing behind and broke no rule.
    pub(crate) fn is_clean(&self) -> bool {
        (self.pool_bytes, self.pool_allocations, self.objects, self.irql_violations) == (0, 0, 0, 0)
    }
}

impl AddAssign for StandInReport {
    fn add_assign(&mut self, other: Self) {
        self.pool_bytes += other.pool_bytes;
        self.pool_allocations += other.pool_allocations;
        self.objects += other.objects;
        self.irql_violations += other.irql_violations;
        self.details.extend(other.details);
        self.log = other.log;
    }
}

impl fmt::Display for StandInReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool_bytes, pool_allocations, objects, irql_violations, details, log } = self;
        write!(f, "{pool_bytes} bytes of pool in {pool_allocations} allocations, {objects} objects, ")?;
        write!(f, "{irql_violations} IRQL violations")?;
        details.iter().try_for_each(|line| write!(f, "\n  {line}"))?;
        write!(f, "\n  {}", log.display())
    }
}

#[cfg(test)]
mod tests {
    use super::StandInReport;

    #[test]
    fn the_lines_of_all_stand_ins_add_up() {
        let text = "softndk-standin: pool 0 bytes in 0 allocations\nsoftndk-standin: objects 2\n\
                    softndk-standin:   tag x 1 bytes\nother\nsoftndk-standin: objects 1\nsoftndk-standin: irql violations 3\n";
        let report = StandInReport::parse(text).unwrap();
        assert_eq!((report.pool_bytes, report.objects, report.irql_violations), (0, 3, 3));
        assert_eq!(report.details, ["  tag x 1 bytes"]);
        assert!(!report.is_clean());
    }

    #[test]
    fn a_report_that_is_cut_off_is_none() {
        let text = "softndk-standin: pool 0 bytes in 0 allocations\nsoftndk-standin: objects 0\n";
        assert!(StandInReport::parse(text).is_err());
        assert!(StandInReport::parse(&format!("{text}softndk-standin: irql violations 0")).unwrap().is_clean());
        assert!(StandInReport::parse("softndk-standin: objects many").is_err());
    }
}
