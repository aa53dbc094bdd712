//! What is reported.

use serde::Serialize;

/// One figure and what it is compared with.
#[derive(Debug, Serialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// What both values are in: `ns` of one operation, or `KiB`.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
    /// The reference.
    pub reference: String,
    /// The reference's.
    pub reference_value: f64,
    /// The comparison that counts.
    pub compared: &'static str,
    /// Its value.
    pub ratio: f64,
    /// What the value must be, where something is asked for.
    pub target: Option<Target>,
}

/// A bound.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// At least.
    AtLeast(f64),
    /// At most.
    AtMost(f64),
}

impl Figure {
    /// Whether the target is met; true without one.
    #[must_use]
    pub fn is_met(&self) -> bool {
        match self.target {
            None => true,
            Some(Target::AtLeast(bound)) => self.ratio >= bound,
            Some(Target::AtMost(bound)) => self.ratio <= bound,
        }
    }
}

/// Lines for people.
#[must_use]
pub fn table(figures: &[Figure]) -> String {
    let width = figures.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
    let reference = figures.iter().map(|figure| figure.reference.len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    for figure in figures {
        let target = match figure.target {
            None => String::new(),
            Some(Target::AtLeast(bound)) => format!("at least {bound}"),
            Some(Target::AtMost(bound)) => format!("at most {bound}"),
        };
        let verdict = match figure.target {
            None => "",
            Some(_) if figure.is_met() => "met",
            Some(_) => "missed",
        };
        let unit = figure.unit;
        lines.push(format!(
            "{:width$}  {:>10.1} {unit:3} {:reference$}  {:>10.1} {unit:3} {:>6.2} {:16} {target:14} {verdict}",
            figure.name, figure.value, figure.reference, figure.reference_value, figure.ratio, figure.compared,
        ));
    }
    lines.join("\n")
}
