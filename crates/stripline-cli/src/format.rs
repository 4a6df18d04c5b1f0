//! Numbers and texts for output.

use std::io::IsTerminal;

pub(crate) use stripline_components::internal::{counted, grouped, packets, printable};

/// Formats nanoseconds with three significant digits and their unit; `-` for no value.
pub(crate) fn time(ns: Option<u64>) -> String {
    let Some(ns) = ns else { return "-".into() };
    let ns = ns as f64;
    match ns {
        _ if ns < 1e3 => format!("{ns} ns"),
        _ if ns < 1e6 => format!("{} µs", three(ns / 1e3)),
        _ if ns < 1e9 => format!("{} ms", three(ns / 1e6)),
        _ => format!("{} s", three(ns / 1e9)),
    }
}

/// Formats a quantity with three significant digits and a decimal prefix.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    match value {
        _ if value < 1e3 => format!("{} {unit}", value.round()),
        _ if value < 1e6 => format!("{} k{unit}", three(value / 1e3)),
        _ if value < 1e9 => format!("{} M{unit}", three(value / 1e6)),
        _ => format!("{} G{unit}", three(value / 1e9)),
    }
}

/// Returns the most characters of a table cell on standard output. Only a terminal limits the
/// width.
pub(crate) fn cell_max() -> usize {
    if std::io::stdout().is_terminal() { 60 } else { usize::MAX }
}

fn three(value: f64) -> String {
    match value {
        _ if value < 9.995 => format!("{value:.2}"),
        _ if value < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
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
