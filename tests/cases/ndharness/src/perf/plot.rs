//! The figures as a drawing.

use figures::{BANDWIDTH, By, LATENCY, Line, Panel, RATE};

use super::report::{Figures, Measurements, Row};

const OPERATIONS: [&str; 3] = ["send", "read", "write"];

/// A figure of a row, on one path.
type Value = fn(&Row, &Figures) -> f64;

const PANELS: [(&str, Value); 3] = [
    (LATENCY, |_, figures| figures.latency_us.median),
    (RATE, |_, figures| figures.rate),
    (BANDWIDTH, |row, figures| row.bandwidth(figures.rate) / 1e6),
];

/// A document with one panel for latencies, one for rates and one for bandwidths.
pub(super) fn svg(measurements: &Measurements) -> anyhow::Result<String> {
    let panels = PANELS.map(|(title, value)| {
        let mut lines = lines(&measurements.figures, value);
        if title == BANDWIDTH {
            let points = |row: &Row| (row.bytes as f64, row.bandwidth(row.memcpy_rate) / 1e6);
            let first = measurements.figures.first().map(|row| row.operation);
            let rows = measurements.figures.iter().filter(|row| Some(row.operation) == first);
            lines.push(Line::reference("memcpy".to_owned(), rows.map(points).collect()));
        }
        Panel { title, by: By::Bytes, lines }
    });
    figures::svg(panels.into(), figures::machine())
}

/// A line for each operation and path. Those of the plain path are thin and pale.
fn lines(rows: &[Row], value: Value) -> Vec<Line> {
    let mut lines = Vec::new();
    for operation in OPERATIONS {
        let rows = || rows.iter().filter(|row| row.operation == operation);
        if rows().next().is_none() {
            continue;
        }
        let points = |of: fn(&Row) -> &Figures| rows().map(|row| (row.bytes as f64, value(row, of(row)))).collect();
        lines.push(Line::new(operation, format!("{operation}, rings"), points(|row| &row.rings)));
        lines.push(Line::pale(operation, format!("{operation}, plain"), points(|row| &row.plain)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{super::report::tests::report, *};

    #[test]
    fn each_panel_has_its_lines_and_names() {
        let drawing = svg(&report(80.0).measurements).unwrap();
        assert!(drawing.starts_with("<svg ") && drawing.trim_end().ends_with("</svg>"), "{drawing}");
        for (text, times) in [("write, rings", 3), ("write, plain", 3), ("memcpy", 1), ("send, rings", 0), ("1 MiB", 3)]
        {
            assert_eq!(drawing.matches(&format!("\n{text}\n")).count(), times, "{text} in {drawing}");
        }
        assert_eq!(PANELS.iter().filter(|(title, _)| drawing.contains(title)).count(), PANELS.len());
    }

    #[test]
    fn nothing_measured_is_no_drawing() {
        assert!(svg(&Measurements { figures: Vec::new(), ..report(1.0).measurements }).is_err());
    }
}
