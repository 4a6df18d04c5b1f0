//! Pictures of results in SVG: charts of lines, each with a name at its right end.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

pub(crate) const FONT: &str = "Helvetica, Arial, sans-serif";
pub(crate) const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
pub(crate) const GREY: RGBColor = RGBColor(0x80, 0x80, 0x80);

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(crate) type Drawn = Result<(), Box<dyn std::error::Error>>;

/// Draws a picture of this size.
pub(crate) fn svg(size: (u32, u32), draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, String> {
    let mut svg = String::new();
    let drawn: Drawn = (|| {
        let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        area.fill(&WHITE)?;
        draw(&area)?;
        Ok(area.present()?)
    })();
    drawn.map_err(|error| format!("the plot: {error}"))?;
    Ok(svg)
}

/// A line of a chart.
pub(crate) struct Line {
    pub label: String,
    pub points: Vec<(f64, f64)>,
    pub color: RGBColor,
    pub is_dashed: bool,
    /// Whether each point has a dot.
    pub has_dots: bool,
}

/// Draws a chart with a logarithmic axis for the values, which have a unit. A dashed line is for a
/// receiver that is asleep.
pub(crate) fn chart<X>(
    area: &Area<'_>,
    (title, below): (&str, &str),
    x: X,
    unit: fn(&f64) -> String,
    lines: &[Line],
) -> Drawn
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let (low, high) = bounds(lines, |point| point.1).ok_or("nothing to draw was measured")?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 19).into_font().style(FontStyle::Bold))
        .margin(14)
        .margin_right(150)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(x, (low / 1.4..high * 1.4).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(GREY)
        .x_labels(8)
        .y_labels(8)
        .x_desc(below)
        .x_label_formatter(&count)
        .y_label_formatter(&unit)
        .label_style((FONT, 13))
        .draw()?;
    let mut ends = Vec::new();
    for line in lines {
        let style = line.color.stroke_width(2);
        let points = line.points.iter().copied();
        if line.is_dashed {
            chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(points, style))?;
        }
        if line.has_dots {
            chart.draw_series(line.points.iter().map(|point| Circle::new(*point, 2, line.color.filled())))?;
        }
        if let Some(last) = line.points.last() {
            ends.push((chart.backend_coord(last), line));
        }
    }
    // Names are moved apart so that each can be read.
    ends.sort_by_key(|((_, y), _)| *y);
    let edge = ends.iter().map(|((x, _), _)| *x).max().unwrap_or(0) + 8;
    let mut free = i32::MIN;
    let (x0, y0) = area.get_base_pixel();
    let bottom = y0 + area.dim_in_pixel().1 as i32 - 60;
    let surplus = ends.len() as i32 * 15;
    for ((_, y), line) in &ends {
        let at = (*y - 7).max(free).min(bottom.max(surplus));
        free = at + 15;
        let label = if line.is_dashed { format!("{} (asleep)", line.label) } else { line.label.clone() };
        area.draw(&Text::new(label, (edge - x0, at - y0), (FONT, 12).into_font().color(&line.color)))?;
    }
    Ok(())
}

/// Returns the least and the largest coordinate of all points; `None` without a point.
pub(crate) fn bounds(lines: &[Line], of: fn(&(f64, f64)) -> f64) -> Option<(f64, f64)> {
    let each = lines.iter().flat_map(|line| &line.points).map(|point| (of(point), of(point)));
    each.reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
}

/// Formats a number on an axis.
fn count(number: &f64) -> String {
    match *number {
        number if number < 1e4 => format!("{number:.0}"),
        number if number < 1e6 => format!("{:.0} k", number / 1e3),
        number => format!("{:.0} M", number / 1e6),
    }
}

/// Formats seconds on an axis.
pub(crate) fn seconds(value: &f64) -> String {
    match *value {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s => format!("{:.0} ms", s * 1e3),
    }
}
