//! The plot of time and throughput over size.

use plotters::prelude::*;

use super::report::{Report, Row};
use crate::plot::{Area, Drawn, Line, bounds, chart, seconds, svg};

const SIZE: (u32, u32) = (1280, 620);

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
    ("descriptor ring", "shm", RGBColor(0xb0, 0x8d, 0x79)),
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
    svg(SIZE, |area| draw(report, area))
}

fn draw(report: &Report, area: &Area<'_>) -> Drawn {
    let rows = |wait: &[&str]| -> Vec<&Row> {
        report.rows.iter().filter(|row| row.statistics && wait.contains(&row.wait.as_str())).collect()
    };
    let time = |row: &Row| row.one_way_ns.typical.map(|ns| ns / 1e9);
    let mut times = lines(&rows(&["spin", "none"]), time, false);
    times.extend(lines(&rows(&["block"]), time, true));
    // A bare word has no size, so the line is horizontal.
    for limit in report.rows.iter().filter(|row| ["two atomics", "futex hand-over"].contains(&&*row.what)) {
        if let Some((seconds, (low, high))) = time(limit).zip(bounds(&times, |point| point.0)) {
            times.push(Line {
                label: limit.what.clone(),
                points: vec![(low, seconds), (high, seconds)],
                color: RGBColor(0x88, 0x88, 0x88),
                is_dashed: limit.wait == "block",
                has_dots: true,
            });
        }
    }
    let rates = lines(&rows(&["spin", "none", "block"]), |row| row.bytes_per_s, false);
    let (left, right) = area.split_horizontally(SIZE.0 / 2);
    let by_size = |area, title, unit, lines: &[Line]| {
        let (least, most) = bounds(lines, |point| point.0).unwrap_or((1.0, 1.0));
        // A single size is drawn in the middle.
        let sizes = if least < most { least..most } else { least / 2.0..most * 2.0 };
        chart(area, (title, "bytes per packet"), sizes.log_scale(), unit, lines)
    };
    by_size(&left, "One-way time (dashed: asleep)", seconds, &times)?;
    by_size(&right, "Throughput", bytes_per_s, &rates)
}

/// Returns a line for each subject that has this figure.
fn lines(rows: &[&Row], figure: impl Fn(&Row) -> Option<f64>, is_dashed: bool) -> Vec<Line> {
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
            Line { label, points, color: *color, is_dashed, has_dots: true }
        })
        .filter(|line| !line.points.is_empty())
        .collect()
}

fn bytes_per_s(value: &f64) -> String {
    match *value {
        v if v < 1e6 => format!("{:.0} kB/s", v / 1e3),
        v if v < 1e9 => format!("{:.0} MB/s", v / 1e6),
        v => format!("{:.0} GB/s", v / 1e9),
    }
}
