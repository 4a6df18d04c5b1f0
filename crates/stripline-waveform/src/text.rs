//! Text helpers: quantities, and wrapped lines.

use stripline::inspect::AgeReport;
use stripline::internal::quoted_up_to;
pub use stripline::internal::suggestion;
pub(super) use stripline::internal::{did_you_mean, listed, quoted};
use unicode_width::UnicodeWidthStr;

/// Quotes a line that a program printed. The limit has room for a whole sentence with a remedy.
pub(super) fn quoted_line(text: &str) -> String {
    quoted_up_to(500, text)
}

/// The pages with the build of other transports and components.
pub(super) const BUILD_PAGES: &str = "docs/install.md has the build, and docs/python.md the wheel for pip";

/// Formats nanoseconds with three significant digits and their unit; `-` for no value.
///
/// ```
/// assert_eq!(stripline_waveform::internal::time(Some(56_700_000)), "56.7 ms");
/// ```
pub fn time(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".into() };
    let ns = ns as f64;
    match ns {
        _ if ns < 1e3 => format!("{ns} ns"),
        _ if ns < 1e6 => format!("{} µs", three(ns / 1e3)),
        _ if ns < 1e9 => format!("{} ms", three(ns / 1e6)),
        _ => format!("{} s", three(ns / 1e9)),
    }
}

/// Formats an age of samples, with the error of the clock: `?` if it is unknown, and nothing if the
/// times stand on the clock of a host.
///
/// ```
/// let text = r#"{ "samples": 2, "last_ns": 12300000, "max_ns": -15000 }"#;
/// let report: stripline::inspect::AgeReport = serde_json::from_str(text).unwrap();
/// assert_eq!(stripline_waveform::internal::age(report.last_ns, &report), "12.3 ms ± ?");
/// assert_eq!(stripline_waveform::internal::age(report.max_ns, &report), "-15.0 µs ± ?");
/// ```
pub fn age(ns: i64, report: &AgeReport) -> String {
    const DAY_NS: u64 = 86_400_000_000_000;
    let sign = if ns < 0 { "-" } else { "" };
    let size = match ns.unsigned_abs() {
        ns if ns < DAY_NS => time(Some(ns)),
        ns => format!("{} d", three(ns as f64 / DAY_NS as f64)),
    };
    let error = report.error().map_or_else(String::new, |error| format!(" ± {error}"));
    format!("{sign}{size}{error}")
}

/// Formats a quantity with three significant digits and a decimal prefix.
///
/// ```
/// assert_eq!(stripline_waveform::internal::quantity(240e6, "B/s"), "240 MB/s");
/// ```
pub fn quantity(value: f64, unit: &str) -> String {
    match value {
        _ if value < 1e3 => format!("{} {unit}", value.round()),
        _ if value < 1e6 => format!("{} k{unit}", three(value / 1e3)),
        _ if value < 1e9 => format!("{} M{unit}", three(value / 1e6)),
        _ => format!("{} G{unit}", three(value / 1e9)),
    }
}

fn three(value: f64) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Wraps lines at spaces so that they fit into `width` columns, and indents the continuation lines.
/// A word that is longer than a line stands alone on a line. `None` sets no limit.
///
/// ```
/// use stripline_waveform::internal::wrapped;
///
/// assert_eq!(wrapped("  one two three", Some(9), 4), "  one two\n    three");
/// assert_eq!(wrapped("one two", None, 0), "one two");
/// ```
pub fn wrapped(text: &str, width: Option<usize>, indent: usize) -> String {
    let Some(width) = width else { return text.into() };
    let mut lines = Vec::new();
    for line in text.split('\n') {
        // Spaces before the first word are kept; so are several spaces between two words.
        let start = line.len() - line.trim_start().len();
        let (mut current, mut is_begun) = (line[..start].to_string(), false);
        for word in line[start..].split(' ') {
            if is_begun && current.width() + 1 + word.width() > width {
                lines.push(current.trim_end().to_string());
                current = " ".repeat(indent);
            } else if is_begun {
                current.push(' ');
            }
            current += word;
            is_begun = true;
        }
        lines.push(current);
    }
    lines.join("\n")
}

/// Formats `1 error`, `2 errors`.
pub(super) fn count(n: usize, noun: &str) -> String {
    if n == 1 { format!("{n} {noun}") } else { format!("{n} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(time(None), "-");
        assert_eq!(time(Some(999)), "999 ns");
        assert_eq!(time(Some(1_234)), "1.23 µs");
        assert_eq!(time(Some(56_700_000)), "56.7 ms");
        assert_eq!(quantity(240e6, "B/s"), "240 MB/s");
        assert_eq!(quantity(12.0, "B"), "12 B");
    }
}
