//! The plots of a report.

use plotters::prelude::*;

use super::report::{CaseReport, ExperimentReport};
use crate::plot::{Area, Drawn, FONT, GREY, GRID, Line, chart, seconds, svg};

const WIDTH: u32 = 1000;
const ROW_HEIGHT: u32 = 22;
const SENDS_HEIGHT: u32 = 300;
/// The maximum number of points of a plot; more could not be distinguished.
const POINTS_MAX: usize = 1000;
const COLORS: [RGBColor; 8] = [
    RGBColor(0xd6, 0x27, 0x28),
    RGBColor(0x1f, 0x77, 0xb4),
    RGBColor(0x2c, 0xa0, 0x2c),
    RGBColor(0xff, 0x7f, 0x0e),
    RGBColor(0x94, 0x67, 0xbd),
    RGBColor(0x17, 0xa5, 0xb8),
    RGBColor(0x8c, 0x56, 0x4b),
    RGBColor(0x55, 0x55, 0x55),
];

/// Draws the time at which the last packet left: measured, ideal and published, with one row for
/// each case that has figures. Returns `None` if no case has figures.
pub(super) fn last_packets(report: &ExperimentReport) -> Result<Option<String>, String> {
    let cases: Vec<&CaseReport> = report.cases.iter().filter(|case| !case.runs.is_empty()).collect();
    if cases.is_empty() {
        return Ok(None);
    }
    // The published figures are for the full number of packets, not for a quick run.
    let published = |case: &CaseReport| {
        let published = case.published.as_ref().filter(|_| !report.quick)?;
        published.last_ms.last().map(|ms| ms / 1e3)
    };
    let height = 90 + ROW_HEIGHT * cases.len() as u32;
    svg((WIDTH, height), |area| draw_last_packets(area, &cases, published)).map(Some)
}

/// Draws the duration of each send of the producer, with one line for each variant of a case.
pub(super) fn sends(name: &str, report: &ExperimentReport) -> Result<Option<String>, String> {
    let cases = report.cases.iter().filter(|case| case.case.name == name);
    let drawn = cases.filter_map(|case| Some((case, thinned(&case.runs.first()?.sends_ns))));
    let line = |((case, points), color): ((&CaseReport, _), &RGBColor)| {
        let label = case.case.variant.clone();
        Line { label, points, color: *color, is_dashed: false, has_dots: false }
    };
    let lines: Vec<Line> = drawn.filter(|(_, points)| !points.is_empty()).zip(&COLORS).map(line).collect();
    if lines.is_empty() {
        return Ok(None);
    }
    let last = lines.iter().flat_map(|line| &line.points).fold(1.0, |last: f64, (x, _)| last.max(*x));
    svg((WIDTH, SENDS_HEIGHT), |area| chart(area, ("", "packet"), 0.0..last, seconds, &lines)).map(Some)
}

fn draw_last_packets(
    area: &Area<'_>,
    cases: &[&CaseReport],
    published: impl Fn(&CaseReport) -> Option<f64>,
) -> Drawn {
    let seconds = |ms: f64| ms / 1e3;
    let measured = |case: &CaseReport| case.median(|run| Some(run.last_ms)).map_or(0.0, seconds);
    let ideal = |case: &CaseReport| case.median(|run| Some(run.ideal_ms)).map_or(0.0, seconds);
    let most = cases.iter().flat_map(|case| [measured(case), ideal(case), published(case).unwrap_or(0.0)]);
    let most = most.fold(f64::MIN_POSITIVE, f64::max) * 1.05;
    let rows = cases.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(10)
        .margin_top(30)
        .x_label_area_size(40)
        .y_label_area_size(330)
        .build_cartesian_2d(0.0..most, rows..0.0)?;
    let label = |row: &f64| {
        let index = row.floor().max(0.0) as usize;
        cases.get(index).map(|case| case.case.to_string()).unwrap_or_default()
    };
    chart
        .configure_mesh()
        .disable_y_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GREY)
        .y_labels(0)
        .x_desc("last packet out of the last component, seconds")
        .label_style((FONT, 13))
        .draw()?;
    for (index, case) in cases.iter().enumerate() {
        let middle = index as f64 + 0.5;
        let bar = [(0.0, middle - 0.3), (measured(case), middle + 0.3)];
        chart.draw_series([Rectangle::new(bar, COLORS[1].mix(0.55).filled())])?;
        let tick = vec![(ideal(case), middle - 0.45), (ideal(case), middle + 0.45)];
        chart.draw_series([PathElement::new(tick, BLACK.stroke_width(2))])?;
        if let Some(published) = published(case) {
            chart.draw_series([Circle::new((published, middle), 4, COLORS[0].filled())])?;
        }
        let (_, y) = chart.backend_coord(&(0.0, middle));
        area.draw(&Text::new(label(&(index as f64)), (10, y - 7), (FONT, 13).into_font()))?;
    }
    let legend = [
        ("bar: measured (median of the runs)", COLORS[1]),
        ("line: ideal", BLACK),
        ("dot: published", COLORS[0]),
    ];
    for (index, (text, color)) in legend.into_iter().enumerate() {
        area.draw(&Text::new(text, (340 + 240 * index as i32, 8), (FONT, 13).into_font().color(&color)))?;
    }
    Ok(())
}

/// Returns packet numbers and seconds. If there are many packets, returns the slowest of each
/// group.
fn thinned(sends_ns: &[u64]) -> Vec<(f64, f64)> {
    let group = sends_ns.len().div_ceil(POINTS_MAX).max(1);
    let slowest = |group: &[u64]| group.iter().max().map_or(0.0, |ns| (*ns).max(1) as f64 / 1e9);
    sends_ns.chunks(group).enumerate().map(|(i, sends)| ((i * group) as f64, slowest(sends))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_sends_the_slowest_are_drawn() {
        let mut sends = vec![1_000_000; 5000];
        sends[4321] = 7_000_000;
        let points = thinned(&sends);
        assert_eq!(points.len(), 1000);
        assert_eq!(points[864], (4320.0, 0.007));
        assert_eq!(thinned(&[2_000_000]), [(0.0, 0.002)]);
        assert!(thinned(&[]).is_empty());
    }
}
