//! The plot of time and throughput over size.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::report::{Report, Row};

const SIZE: (u32, u32) = (1280, 620);
const FONT: &str = "Helvetica, Arial, sans-serif";

/// A line of the plot: the label, the points, the colour, and whether the line is dashed.
struct Line {
    label: String,
    points: Vec<(f64, f64)>,
    color: RGBColor,
    dashed: bool,
}

/// The colour of each subject. An entry has the name (as in `what`), the transport and the colour.
const COLORS: &[(&str, &str, RGBColor)] = &[
    ("stripline", "shm", RGBColor(0xd6, 0x27, 0x28)),
    ("stripline", "inproc", RGBColor(0xff, 0x7f, 0x0e)),
    ("stripline", "uds", RGBColor(0x1f, 0x77, 0xb4)),
    ("stripline", "tcp", RGBColor(0x2c, 0xa0, 0x2c)),
    ("stripline", "mqueue", RGBColor(0x8c, 0x6d, 0x31)),
    ("stripline", "udp", RGBColor(0xe3, 0x77, 0xc2)),
    ("stripline", "zeromq", RGBColor(0x0b, 0x6e, 0x7a)),
    ("stripline", "iceoryx2", RGBColor(0x5b, 0x2c, 0x83)),
    ("stripline", "zenoh", RGBColor(0x2f, 0x5d, 0x1f)),
    ("stripline", "dds", RGBColor(0x8c, 0x2d, 0x5a)),
    ("stripline", "corba", RGBColor(0x7a, 0x5c, 0x00)),
    ("minimal ring", "shm", RGBColor(0x6b, 0x4c, 0x3b)),
    ("bare ring", "shm", RGBColor(0xe3, 0x9a, 0x9a)),
    ("memcpy", "memory", RGBColor(0x22, 0x22, 0x22)),
    ("two atomics", "memory", RGBColor(0x88, 0x88, 0x88)),
    ("bare Unix socket", "uds", RGBColor(0x8c, 0xb8, 0xdc)),
    ("bare TCP socket", "tcp", RGBColor(0x98, 0xd0, 0x98)),
    ("bare POSIX queue", "mqueue", RGBColor(0xb8, 0xa0, 0x6a)),
    ("bare UDP socket", "udp", RGBColor(0xf0, 0xb8, 0xdd)),
    ("iceoryx2", "shm", RGBColor(0x94, 0x67, 0xbd)),
    ("iceoryx2", "iceoryx2", RGBColor(0xc5, 0xb0, 0xd5)),
    ("ZeroMQ", "uds", RGBColor(0x17, 0xa5, 0xb8)),
    ("ZeroMQ", "zeromq", RGBColor(0x6f, 0xc4, 0xcf)),
    ("zenoh", "zenoh", RGBColor(0x9a, 0xc2, 0x86)),
    ("Cyclone DDS", "dds", RGBColor(0xd3, 0x9b, 0xb8)),
    ("omniORB", "corba", RGBColor(0xd9, 0xc0, 0x6a)),
];

/// Draws the report as an SVG picture: one-way time and throughput over packet size.
///
/// # Errors
/// If there is nothing to draw.
///
/// ```no_run
/// use stripline_bench::ladder::{Settings, plot, run};
///
/// let report = run(&Settings::default(), &mut |_| ())?;
/// std::fs::write("ladder.svg", plot(&report)?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn plot(report: &Report) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(report, &area).map_err(|error| format!("the plot: {error}"))?;
        area.present().map_err(|error| format!("the plot: {error}"))?;
    }
    Ok(svg)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(report: &Report, area: &Area<'_>) -> Drawn {
    area.fill(&WHITE)?;
    let rows = |wait: &[&str]| -> Vec<&Row> {
        report.rows.iter().filter(|row| row.statistics && wait.contains(&row.wait.as_str())).collect()
    };
    let time = |row: &Row| row.one_way_ns.typical.map(|ns| ns / 1e9);
    let mut times = lines(&rows(&["spin", "none"]), time, false);
    times.extend(lines(&rows(&["block"]), time, true));
    // A bare word has no size, so the line is horizontal.
    for limit in report.rows.iter().filter(|row| ["two atomics", "futex hand-over"].contains(&&*row.what)) {
        let Some(seconds) = time(limit) else { continue };
        let span = times.iter().flat_map(|line| line.points.iter().map(|point| point.0));
        let (low, high) = span.fold((f64::MAX, 0.0f64), |(low, high), x| (low.min(x), high.max(x)));
        if low <= high {
            times.push(Line {
                label: limit.what.clone(),
                points: vec![(low, seconds), (high, seconds)],
                color: RGBColor(0x88, 0x88, 0x88),
                dashed: limit.wait == "block",
            });
        }
    }
    let rates = lines(&rows(&["spin", "none", "block"]), |row| row.bytes_per_s, false);
    let (left, right) = area.split_horizontally(SIZE.0 / 2);
    chart(&left, "One-way time (dashed: asleep)", "bytes per packet", seconds, &times)?;
    chart(&right, "Throughput", "bytes per packet", bytes_per_s, &rates)
}

/// Returns a line for each subject that has this figure.
fn lines(rows: &[&Row], figure: impl Fn(&Row) -> Option<f64>, dashed: bool) -> Vec<Line> {
    COLORS
        .iter()
        .map(|(subject, transport, color)| {
            let own = rows.iter().filter(|row| row.what == *subject && row.transport == *transport);
            let own =
                own.filter(|row| row.size > 0 && row.publish_ns.is_none() && row.per_packet_ns.is_none());
            let points = own.filter_map(|row| Some((row.size as f64, figure(row)?))).collect();
            let label = if *subject == "stripline" {
                format!("Stripline {transport}")
            } else {
                (*subject).to_string()
            };
            Line { label, points, color: *color, dashed }
        })
        .filter(|line| !line.points.is_empty())
        .collect()
}

/// Draws a chart with logarithmic axes. Every line has a name at the right end.
fn chart(area: &Area<'_>, title: &str, below: &str, unit: fn(&f64) -> String, lines: &[Line]) -> Drawn {
    let points = || lines.iter().flat_map(|line| &line.points);
    if points().next().is_none() {
        return Err("nothing to draw was measured".into());
    }
    let bounds = |of: fn(&(f64, f64)) -> f64| {
        points().map(of).fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), v| (low.min(v), high.max(v)))
    };
    let ((left, right), (low, high)) = (bounds(|point| point.0), bounds(|point| point.1));
    let range = (low / 1.4, high * 1.4);
    // A single size is drawn in the middle.
    let (left, right) = if left < right { (left, right) } else { (left / 2.0, right * 2.0) };
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 19).into_font().style(FontStyle::Bold))
        .margin(14)
        .margin_right(150)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d((left..right).log_scale(), (range.0..range.1).log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(0xe4, 0xe4, 0xe4))
        .axis_style(RGBColor(0x80, 0x80, 0x80))
        .x_labels(8)
        .y_labels(8)
        .x_desc(below)
        .x_label_formatter(&bytes)
        .y_label_formatter(&unit)
        .label_style((FONT, 13))
        .draw()?;
    let mut ends = Vec::new();
    for line in lines {
        let style = line.color.stroke_width(2);
        let points = line.points.iter().copied();
        if line.dashed {
            chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?;
        } else {
            chart.draw_series(LineSeries::new(points, style))?;
        }
        chart.draw_series(line.points.iter().map(|point| Circle::new(*point, 2, line.color.filled())))?;
        if let Some(last) = line.points.last() {
            ends.push((chart.backend_coord(last), line));
        }
    }
    // Names are moved apart so that each can be read.
    ends.sort_by_key(|((_, y), _)| *y);
    let edge = ends.iter().map(|((x, _), _)| *x).max().unwrap_or(0) + 8;
    let mut free = i32::MIN;
    let (_, top) = area.get_base_pixel();
    let bottom = top + area.dim_in_pixel().1 as i32 - 60;
    let surplus = ends.len() as i32 * 15;
    for ((_, y), line) in &ends {
        let at = (*y - 7).max(free).min(bottom.max(surplus));
        free = at + 15;
        let label = if line.dashed { format!("{} (asleep)", line.label) } else { line.label.clone() };
        let (x0, y0) = area.get_base_pixel();
        area.draw(&Text::new(label, (edge - x0, at - y0), (FONT, 12).into_font().color(&line.color)))?;
    }
    Ok(())
}

fn bytes(size: &f64) -> String {
    match *size {
        size if size < 1e4 => format!("{size:.0}"),
        size if size < 1e6 => format!("{:.0} k", size / 1e3),
        size => format!("{:.0} M", size / 1e6),
    }
}

fn seconds(value: &f64) -> String {
    match *value {
        s if s < 1e-6 => format!("{:.0} ns", s * 1e9),
        s if s < 1e-3 => format!("{:.0} µs", s * 1e6),
        s => format!("{:.0} ms", s * 1e3),
    }
}

fn bytes_per_s(value: &f64) -> String {
    match *value {
        v if v < 1e6 => format!("{:.0} kB/s", v / 1e3),
        v if v < 1e9 => format!("{:.0} MB/s", v / 1e6),
        v => format!("{:.0} GB/s", v / 1e9),
    }
}
