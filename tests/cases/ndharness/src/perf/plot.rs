//! The figures as a drawing.

use std::ops::Range;

use anyhow::Context as _;
use plotters::prelude::*;

use super::report::{Figures, Measurements, Row, bytes};

/// Pixels of the drawing.
const SIZE: (u32, u32) = (960, 1290);
const OPERATIONS: [(&str, RGBColor); 3] =
    [("send", RGBColor(0, 114, 178)), ("read", RGBColor(213, 94, 0)), ("write", RGBColor(0, 158, 115))];

/// A figure of a row, on one path.
type Value = fn(&Row, &Figures) -> f64;

const PANELS: [(&str, Value); 3] = [
    ("median latency, us", |_, figures| figures.latency_us.median),
    ("operations in a second", |_, figures| figures.rate),
    (BANDWIDTH, |row, figures| row.bandwidth(figures.rate) / 1e6),
];
const BANDWIDTH: &str = "bandwidth, MB/s";

struct Line {
    name: String,
    style: ShapeStyle,
    points: Vec<(f64, f64)>,
}

/// A document with one panel for latencies, one for rates and one for bandwidths.
pub(super) fn svg(measurements: &Measurements) -> anyhow::Result<String> {
    let mut document = String::new();
    let root = SVGBackend::with_string(&mut document, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    for (panel, (title, value)) in root.split_evenly((PANELS.len(), 1)).iter().zip(PANELS) {
        let mut lines = lines(&measurements.figures, value);
        if title == BANDWIDTH {
            let points = |row: &Row| (row.bytes as f64, row.bandwidth(row.memcpy_rate) / 1e6);
            let first = measurements.figures.first().map(|row| row.operation);
            let rows = measurements.figures.iter().filter(|row| Some(row.operation) == first);
            lines.push(Line { name: "memcpy".to_owned(), style: BLACK.into(), points: rows.map(points).collect() });
        }
        let sizes = range(lines.iter().flat_map(|line| &line.points).map(|point| point.0)).context("no figures")?;
        let values = range(lines.iter().flat_map(|line| &line.points).map(|point| point.1)).context("no figures")?;
        let mut chart = ChartBuilder::on(panel)
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .margin_right(30)
            .x_label_area_size(30)
            .y_label_area_size(70)
            .build_cartesian_2d(sizes.log_scale().base(2.0), values.log_scale())?;
        chart.configure_mesh().x_label_formatter(&|size| bytes(size.round() as usize)).draw()?;
        for Line { name, style, points } in lines {
            chart
                .draw_series(LineSeries::new(points, style).point_size(2))?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style));
        }
        let labels = chart.configure_series_labels().background_style(WHITE.mix(0.8)).border_style(BLACK).draw();
        labels?;
    }
    root.present()?;
    drop(root);
    Ok(document)
}

/// A line for each operation and path. Those of the plain path are thin and pale.
fn lines(rows: &[Row], value: Value) -> Vec<Line> {
    let mut lines = Vec::new();
    for (operation, colour) in OPERATIONS {
        let rows = || rows.iter().filter(|row| row.operation == operation);
        for (path, style) in [("rings", colour.stroke_width(2)), ("plain", colour.mix(0.5).stroke_width(1))] {
            let figures = |row: &Row| if path == "rings" { row.rings } else { row.plain };
            let points: Vec<_> = rows().map(|row| (row.bytes as f64, value(row, &figures(row)))).collect();
            if !points.is_empty() {
                lines.push(Line { name: format!("{operation}, {path}"), style, points });
            }
        }
    }
    lines
}

/// What all values lie in. `None`: there are none above 0, which is all that a logarithmic axis has.
fn range(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let positive = values.filter(|value| *value > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    (low <= high).then_some(low / 1.2..high * 1.2)
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
