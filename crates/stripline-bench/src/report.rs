//! The results of a benchmark: head, tables, notes and targets. The same tables are text and HTML.

use std::fmt::Write;

use serde::Serialize;
use stripline_waveform::internal::time;

/// The results of a benchmark, for output.
///
/// ```no_run
/// use stripline_bench::ladder::{Settings, run};
/// use stripline_bench::report::Measured;
///
/// let report = run(&Settings { quick: true, ..Settings::default() }, &mut |_| ())?;
/// assert!(report.sections().iter().any(|section| section.title == "RATIOS"));
/// std::fs::write("ladder.svg", report.drawing()?).expect("a file");
/// # Ok::<(), String>(())
/// ```
pub trait Measured: Serialize {
    /// Returns the first lines: the machine, and how it was measured.
    fn head(&self) -> Vec<String>;

    /// Returns the tables.
    fn sections(&self) -> Vec<Section>;

    /// Returns the notes below the tables.
    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the reasons why cases failed.
    fn failures(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns whether each target is met; if not, with the figure and the reason.
    fn targets(&self) -> Vec<Result<(), String>>;

    /// Returns whether the benchmark was ended early, so that the results are incomplete.
    fn is_interrupted(&self) -> bool;

    /// Returns a picture in SVG or a page in HTML.
    ///
    /// # Errors
    /// If there is nothing to draw.
    fn drawing(&self) -> Result<String, String> {
        Err("there is nothing to draw".into())
    }
}

/// A table of the results, with an explanation.
///
/// ```
/// let section = stripline_bench::report::Section::default();
/// assert!(section.grid.rows.is_empty());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Section {
    /// The title, in capitals; may be empty.
    pub title: String,
    /// The explanation of the columns.
    pub text: String,
    /// The table.
    pub grid: Grid,
    /// Lines below the table.
    pub lines: Vec<String>,
}

impl Section {
    pub(crate) fn new(title: &str, text: impl Into<String>, grid: Grid) -> Self {
        Self { title: title.into(), text: text.into(), grid, lines: Vec::new() }
    }
}

/// The cells of a table.
///
/// ```
/// let mut grid = stripline_bench::report::Grid::new(&["TRANSPORT", "BYTES"], 1, &[]);
/// grid.rows.push(vec!["shm".into(), "64".into()]);
/// assert_eq!(grid.titles.len(), grid.rows[0].len());
/// ```
#[derive(Clone, Debug, Default)]
pub struct Grid {
    /// The titles of the columns.
    pub titles: Vec<&'static str>,
    /// The number of columns at the left that hold words. The others hold numbers.
    pub words: usize,
    /// The columns that may be left out where there is not enough room, in that order.
    pub droppable: &'static [&'static str],
    /// The rows. An empty cell has no value.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// Creates a table without rows.
    pub fn new(titles: &[&'static str], words: usize, droppable: &'static [&'static str]) -> Self {
        Self { titles: titles.to_vec(), words, droppable, rows: Vec::new() }
    }
}

/// Formats nanoseconds with about three digits; `-` for no value.
///
/// ```
/// use stripline_bench::report::ns;
///
/// assert_eq!((ns(Some(12.34)), ns(Some(1234.0)), ns(None)), ("12.3 ns".into(), "1.23 µs".into(), "-".into()));
/// ```
pub fn ns(ns: Option<f64>) -> String {
    match ns {
        Some(ns) if ns < 99.95 => format!("{ns:.1} ns"),
        ns => time(ns.map(|ns| ns.round() as u64)),
    }
}

/// Formats milliseconds.
pub(crate) fn ms(value: Option<f64>) -> String {
    time(value.map(|ms| (ms * 1e6).round() as u64))
}

/// Formats a number with this many digits after the point.
pub(crate) fn fixed(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}

/// Formats a share as a percentage.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".into(), |share| format!("{:.0} %", share * 100.0))
}

/// Formats values as `4463 / 4508 / 4514`. Of more than three values, only the last three are
/// shown.
pub(crate) fn slashed(values: impl IntoIterator<Item = impl ToString>) -> String {
    const SHOWN_MAX: usize = 3;
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    let left_out = values.len().saturating_sub(SHOWN_MAX);
    let shown = values[left_out..].join(" / ");
    match (values.is_empty(), left_out) {
        (true, _) => "-".into(),
        (false, 0) => shown,
        (false, _) => format!("… / {shown}"),
    }
}

const STYLE: &str = "body{font:15px/1.45 Helvetica,Arial,sans-serif;max-width:1050px;margin:2em auto;padding:0 1em;\
    color:#222}table{border-collapse:collapse;margin:1em 0}th,td{padding:.25em .7em;text-align:right;\
    border-bottom:1px solid #ddd;vertical-align:top}th{text-align:right;font-weight:600}\
    .text{text-align:left}.met{color:#137333}.missed{color:#b3261e;font-weight:600}\
    .absent{color:#777}svg{max-width:100%;height:auto}h2{margin-top:2em}";

/// Renders results as a self-contained page, with plots. The first line of the head is the title of
/// the page. Each plot has a title and a text.
pub(crate) fn page(report: &impl Measured, plots: &[(String, String, String)]) -> String {
    let head = report.head();
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{0}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{0}</h1>\n",
        escaped(&head[0])
    );
    let mut add = |text: std::fmt::Arguments<'_>| {
        // Writing to a string does not fail.
        let _ = page.write_fmt(text);
    };
    for line in head[1..].iter().chain(&report.notes()) {
        add(format_args!("<p>{}</p>\n", escaped(line)));
    }
    if report.is_interrupted() {
        add(format_args!("<p class=\"missed\">Ended early: the figures are incomplete.</p>\n"));
    }
    for Section { title, text, grid, lines } in report.sections() {
        add(format_args!("<h2>{}</h2>\n<p>{}</p>\n<table>\n", escaped(&title), escaped(&text)));
        let header: Vec<String> = grid.titles.iter().map(|title| (*title).into()).collect();
        for (tag, row) in std::iter::once(("th", &header)).chain(grid.rows.iter().map(|row| ("td", row))) {
            add(format_args!("<tr>"));
            for (column, cell) in row.iter().enumerate() {
                let class = if column < grid.words { "text " } else { "" };
                add(format_args!("<{tag} class=\"{class}{}\">{}</{tag}>", tone(cell), escaped(cell)));
            }
            add(format_args!("</tr>\n"));
        }
        add(format_args!("</table>\n"));
        lines.iter().for_each(|line| add(format_args!("<p>{}</p>\n", escaped(line))));
    }
    for (title, text, svg) in plots {
        add(format_args!("<h2>{}</h2>\n<p>{}</p>\n{svg}", escaped(title), escaped(text)));
    }
    page + "</body></html>\n"
}

/// Returns the style of a cell: outcomes are coloured.
fn tone(cell: &str) -> &'static str {
    match cell {
        "met" => "met",
        _ if cell.starts_with("MISSED") || cell.starts_with("FAILED") => "missed",
        _ if cell.starts_with("not ") => "absent",
        _ => "",
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
