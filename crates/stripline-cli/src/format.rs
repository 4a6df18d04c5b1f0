//! Numbers and texts for output.

use std::io::IsTerminal;

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

/// Formats a whole number with its digits in groups.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number of packets, as `1 packet` or `1,234 packets`.
pub(crate) fn packets(number: u64) -> String {
    counted(number, "packet")
}

/// Formats a number of things, with the singular for one.
pub(crate) fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Returns the most characters of a table cell on standard output. A terminal is narrow; a pipe or
/// a file is not.
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

/// Returns another process's text without characters that move the cursor, change colours or
/// reverse the line, cut to `max` characters.
pub(crate) fn printable(text: &str, max: usize) -> String {
    let mut safe = String::new();
    for (index, c) in text.chars().enumerate() {
        if index == max {
            safe.push('…');
            break;
        }
        let turns = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if c.is_control() || turns {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
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
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".into(), "1,234,567".into()));
        assert_eq!((packets(0), packets(1)), ("0 packets".into(), "1 packet".into()));
        assert_eq!(counted(1_000, "component"), "1,000 components");
    }
}
