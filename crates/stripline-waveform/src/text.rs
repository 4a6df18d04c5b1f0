//! Text helpers: quoted names, lists, suggestions, quantities, and wrapped lines.

use stripline::internal::printable;
use unicode_width::UnicodeWidthStr;

/// Quotes a text of the user within a sentence: on one line and shortened.
pub(super) fn quoted(text: &str) -> String {
    quoted_up_to(60, text)
}

/// Quotes a line that a program printed. The limit has room for a whole sentence with a remedy.
pub(super) fn quoted_line(text: &str) -> String {
    quoted_up_to(500, text)
}

fn quoted_up_to(length_max: usize, text: &str) -> String {
    let mut registered = printable(&text.chars().take(length_max).collect::<String>());
    if text.chars().nth(length_max).is_some() {
        registered.push('…');
    }
    format!("`{registered}`")
}

/// Formats `a`, `a or b`, `a, b or c`, with each name in quotes.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
    const SHOWN_MAX: usize = 12;
    let mut names: Vec<String> = names.into_iter().map(quoted).collect();
    if names.len() > SHOWN_MAX {
        let more = names.len() - SHOWN_MAX;
        names.truncate(SHOWN_MAX);
        return format!("{} and {more} more", names.join(", "));
    }
    match names.split_last() {
        Some((end, start)) if !start.is_empty() => format!("{} {last} {end}", start.join(", ")),
        _ => names.concat(),
    }
}

/// Returns the candidate that was probably meant.
///
/// ```
/// use stripline_waveform::internal::suggestion;
///
/// assert_eq!(suggestion("adsb-sorce", ["adsb-source", "null-sink"]), Some("adsb-source"));
/// assert_eq!(suggestion("oscilloscope", ["adsb-source", "null-sink"]), None);
/// ```
pub fn suggestion<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const LENGTH_MAX: usize = 64;
    if name.len() > LENGTH_MAX {
        return None;
    }
    let plain = |text: &str| text.to_lowercase().replace('_', "-");
    let wanted = plain(name);
    known
        .into_iter()
        .filter(|candidate| candidate.len() <= LENGTH_MAX)
        .map(|candidate| (strsim::damerau_levenshtein(&wanted, &plain(candidate)), candidate))
        .filter(|&(distance, candidate)| {
            let allowed = name.len().min(candidate.len()).div_ceil(3);
            distance <= allowed && distance < name.len()
                || name.len() >= 3 && candidate.split('-').any(|word| word == wanted)
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the remedy for an unknown name: the candidate probably meant, or all candidates.
pub(super) fn did_you_mean<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
    there_is: &str,
) -> String {
    match suggestion(name, known.clone()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if known.clone().into_iter().next().is_none() => String::new(),
        None => format!("{there_is} {}", listed(known, "and")),
    }
}

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

    #[test]
    fn suggestions_are_near_or_absent() {
        let known = ["adsb-source", "null-sink", "throttle"];
        assert_eq!(suggestion("adsb-sorce", known), Some("adsb-source"));
        assert_eq!(suggestion("Null_Sink", known), Some("null-sink"));
        assert_eq!(suggestion("sink", known), Some("null-sink"));
        assert_eq!(suggestion("x", known), None);
        assert_eq!(suggestion("oscilloscope", known), None);
        assert_eq!(suggestion(&"a".repeat(1 << 20), known), None);
    }

    #[test]
    fn quoted_text_stays_short_and_on_one_line() {
        assert_eq!(quoted("a\n\u{1b}b"), "`a\\n\\u{1b}b`");
        assert!(quoted(&"é".repeat(1000)).chars().count() < 64);
        assert_eq!(quoted_line(&"é".repeat(400)).chars().count(), 402);
        assert_eq!(quoted_line(&"é".repeat(1000)).chars().count(), 503);
    }
}
