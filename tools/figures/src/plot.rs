//! The figures as a drawing.

use std::ops::Range;

use anyhow::Context as _;
use plotters::prelude::*;

use crate::bytes;

/// Pixels of the drawing.
const SIZE: (u32, u32) = (960, 1290);
const OPERATIONS: [(&str, RGBColor); 3] =
    [("send", RGBColor(0, 114, 178)), ("read", RGBColor(213, 94, 0)), ("write", RGBColor(0, 158, 115))];

/// The title of a panel of latencies.
pub const LATENCY: &str = "median latency, us";
/// The title of a panel of rates.
pub const RATE: &str = "operations in a second";
/// The title of a panel of bandwidths.
pub const BANDWIDTH: &str = "bandwidth, MB/s";

/// A part of the drawing.
pub struct Panel {
    /// What its values are.
    pub title: &'static str,
    /// The lines of the panel.
    pub lines: Vec<Line>,
}

/// A line of a panel: values by bytes.
pub struct Line {
    name: String,
    style: ShapeStyle,
    points: Vec<(f64, f64)>,
}

impl Line {
    /// The line of an operation.
    pub fn new(operation: &str, name: String, points: Vec<(f64, f64)>) -> Self {
        Self { name, style: colour(operation).stroke_width(2), points }
    }

    /// A thin and pale line, beside [`Self::new`].
    pub fn pale(operation: &str, name: String, points: Vec<(f64, f64)>) -> Self {
        Self { name, style: colour(operation).mix(0.5).stroke_width(1), points }
    }

    /// What the others are compared with.
    pub fn reference(name: String, points: Vec<(f64, f64)>) -> Self {
        Self { name, style: BLACK.into(), points }
    }
}

fn colour(operation: &str) -> RGBColor {
    OPERATIONS.iter().find(|(name, _)| *name == operation).map_or(BLACK, |(_, colour)| *colour)
}

/// A document with these panels, one below the other. An error: a panel has nothing to draw.
pub fn svg(panels: Vec<Panel>) -> anyhow::Result<String> {
    let mut document = String::new();
    let root = SVGBackend::with_string(&mut document, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, Panel { title, lines }) in root.split_evenly((panels.len(), 1)).iter().zip(panels) {
        let sizes = range(lines.iter().flat_map(|line| &line.points).map(|point| point.0)).context("no figures")?;
        let values = range(lines.iter().flat_map(|line| &line.points).map(|point| point.1)).context("no figures")?;
        let mut chart = ChartBuilder::on(area)
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

/// What all values lie in. `None`: there are none above 0, which is all that a logarithmic axis has.
fn range(values: impl Iterator<Item = f64>) -> Option<Range<f64>> {
    let positive = values.filter(|value| *value > 0.0);
    let (low, high) = positive.fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    (low <= high).then_some(low / 1.2..high * 1.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawing_has_its_panels_lines_and_names() {
        let points = || vec![(64.0, 1.0), (1_048_576.0, 2.0)];
        let lines = || {
            vec![
                Line::new("write", "write, here".to_owned(), points()),
                Line::pale("read", "read, there".to_owned(), points()),
                Line::reference("memcpy".to_owned(), points()),
            ]
        };
        let panels = [LATENCY, BANDWIDTH].map(|title| Panel { title, lines: lines() });
        let drawing = svg(panels.into()).unwrap();
        assert!(drawing.starts_with("<svg ") && drawing.trim_end().ends_with("</svg>"), "{drawing}");
        for text in ["write, here", "read, there", "memcpy", "1 MiB"] {
            assert_eq!(drawing.matches(&format!("\n{text}\n")).count(), 2, "{text} in {drawing}");
        }
        assert!(drawing.contains(LATENCY) && drawing.contains(BANDWIDTH) && !drawing.contains(RATE), "{drawing}");
    }

    #[test]
    fn nothing_measured_is_no_drawing() {
        assert!(svg(vec![Panel { title: RATE, lines: Vec::new() }]).is_err());
    }
}
