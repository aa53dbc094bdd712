//! The figures as a drawing.

use std::ops::Range;

use anyhow::Context as _;
use plotters::prelude::*;

use crate::bytes;

/// Pixels of the drawing.
const SIZE: (u32, u32) = (960, 1290);
/// Pixels for the names of lines, at the right; and from one name to the next.
const NAMES: u32 = 200;
const NAME: i32 = 15;
const OPERATIONS: [(&str, RGBColor); 3] =
    [("send", RGBColor(0, 114, 178)), ("read", RGBColor(213, 94, 0)), ("write", RGBColor(0, 158, 115))];

/// The title of a panel of latencies.
pub const LATENCY: &str = "median latency, us";
/// The title of a panel of rates.
pub const RATE: &str = "operations in a second";
/// The title of a panel of bandwidths.
pub const BANDWIDTH: &str = "bandwidth, MB/s";

/// What the values of a panel belong to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Bytes of a message.
    Bytes,
    /// A number of connections.
    Count,
}

/// A part of the drawing.
pub struct Panel {
    /// What its values are.
    pub title: &'static str,
    /// What they belong to.
    pub by: By,
    /// The lines of the panel.
    pub lines: Vec<Line>,
}

/// A line of a panel.
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

    /// The line of one of three things.
    pub fn nth(nth: usize, name: String, points: Vec<(f64, f64)>) -> Self {
        let colour = OPERATIONS.get(nth).map_or(BLACK, |(_, colour)| *colour);
        Self { name, style: colour.stroke_width(2), points }
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

/// A document with these panels, one below the other, above a line that says where they were measured. Each line's name is beside its end. An
/// error: a panel has nothing to draw.
pub fn svg(panels: Vec<Panel>, machine: String) -> anyhow::Result<String> {
    let mut document = String::new();
    let all = SVGBackend::with_string(&mut document, (SIZE.0, SIZE.1 + 2 * NAME as u32)).into_drawing_area();
    all.fill(&WHITE)?;
    let (root, foot) = all.split_vertically(SIZE.1);
    foot.draw(&Text::new(machine, (NAME, 0), ("sans-serif", 14).into_font().color(&BLACK)))?;
    for (area, Panel { title, by, lines }) in root.split_evenly((panels.len(), 1)).iter().zip(panels) {
        let sizes = range(lines.iter().flat_map(|line| &line.points).map(|point| point.0)).context("no figures")?;
        let values = range(lines.iter().flat_map(|line| &line.points).map(|point| point.1)).context("no figures")?;
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 18))
            .margin(10)
            .margin_right(NAMES)
            .x_label_area_size(30)
            .y_label_area_size(70)
            .build_cartesian_2d(sizes.log_scale().base(if by == By::Bytes { 2.0 } else { 10.0 }), values.log_scale())?;
        let sizes = |size: &f64| match by {
            By::Bytes => bytes(size.round() as usize),
            By::Count => number(size.round()),
        };
        chart.configure_mesh().x_label_formatter(&sizes).y_label_formatter(&|value| number(*value)).draw()?;
        let mut ends = Vec::new();
        for Line { name, style, points } in lines {
            if let Some(end) = points.last() {
                ends.push((chart.backend_coord(end), name, style));
            }
            chart.draw_series(LineSeries::new(points, style).point_size(2))?;
        }
        ends.sort_by_key(|((_, y), ..)| *y);
        let bottom = area.get_pixel_range().1.end - NAME;
        let places = apart(&ends.iter().map(|((_, y), ..)| *y).collect::<Vec<_>>(), bottom);
        let right = SIZE.0 as i32 - NAMES as i32 + 20;
        for (((x, y), name, style), place) in ends.into_iter().zip(places) {
            root.draw(&PathElement::new([(x + 4, y), (right - 4, place)], style.stroke_width(1)))?;
            root.draw(&Text::new(name, (right, place - NAME / 2), ("sans-serif", 14).into_font().color(&style.color)))?;
        }
    }
    all.present()?;
    drop((all, root, foot));
    Ok(document)
}

/// The places of names beside the ends of lines, from above: `NAME` apart, and above `bottom`.
fn apart(ends: &[i32], bottom: i32) -> Vec<i32> {
    let mut least = i32::MIN;
    let down = ends.iter().map(|&end| {
        let place = end.max(least);
        least = place + NAME;
        place
    });
    let mut places: Vec<_> = down.collect();
    let mut most = bottom;
    for place in places.iter_mut().rev() {
        *place = (*place).min(most);
        most = *place - NAME;
    }
    places
}

/// A number as people write it.
fn number(value: f64) -> String {
    match value {
        _ if value >= 1e6 => format!("{} M", value / 1e6),
        _ if value >= 1e3 => format!("{},{:03}", (value / 1e3) as u32, (value % 1e3).round() as u32),
        _ => value.to_string(),
    }
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
        let mut panels: Vec<_> =
            [LATENCY, BANDWIDTH].map(|title| Panel { title, by: By::Bytes, lines: lines() }).into();
        let counted = Line::nth(1, "counted".to_owned(), vec![(1.0, 2.0), (10_000.0, 3.0)]);
        panels.push(Panel { title: "by so many", by: By::Count, lines: vec![counted] });
        let drawing = svg(panels, "somewhere".to_owned()).unwrap();
        for text in ["counted", "10,000", "somewhere"] {
            assert_eq!(drawing.matches(&format!("\n{text}\n")).count(), 1, "{text} in {drawing}");
        }
        assert!(drawing.starts_with("<svg ") && drawing.trim_end().ends_with("</svg>"), "{drawing}");
        for text in ["write, here", "read, there", "memcpy", "1 MiB"] {
            assert_eq!(drawing.matches(&format!("\n{text}\n")).count(), 2, "{text} in {drawing}");
        }
        assert!(drawing.contains(LATENCY) && drawing.contains(BANDWIDTH) && !drawing.contains(RATE), "{drawing}");
    }

    #[test]
    fn numbers_are_as_people_write_them() {
        let texts = [0.05, 1.0, 20.0, 1000.0, 20_050.0, 100_000.0, 1e6, 2.5e7].map(number);
        assert_eq!(texts, ["0.05", "1", "20", "1,000", "20,050", "100,000", "1 M", "25 M"]);
    }

    #[test]
    fn no_name_is_on_another() {
        assert_eq!(apart(&[10, 12, 100, 100, 101], 400), [10, 25, 100, 115, 130]);
        assert_eq!(apart(&[10, 395, 396, 397], 400), [10, 370, 385, 400]);
        assert!(apart(&[], 400).is_empty());
    }

    #[test]
    fn nothing_measured_is_no_drawing() {
        assert!(svg(vec![Panel { title: RATE, by: By::Bytes, lines: Vec::new() }], String::new()).is_err());
    }
}
