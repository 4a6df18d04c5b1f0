//! Names in messages: quoted, listed, and suggested for a misspelt name.

use super::printable;

/// Quotes a text of the user within a sentence: on one line and shortened.
///
/// ```
/// assert_eq!(stripline::internal::quoted("a\nb"), "`a\\nb`");
/// ```
pub fn quoted(text: &str) -> String {
    quoted_up_to(60, text)
}

/// Quotes up to `length_max` characters of a text, on one line.
pub fn quoted_up_to(length_max: usize, text: &str) -> String {
    let mut registered = printable(&text.chars().take(length_max).collect::<String>());
    if text.chars().nth(length_max).is_some() {
        registered.push('…');
    }
    format!("`{registered}`")
}

/// Formats `a`, `a or b`, `a, b or c`, with each name in quotes.
///
/// ```
/// assert_eq!(stripline::internal::listed(["a", "b", "c"], "or"), "`a`, `b` or `c`");
/// ```
pub fn listed<'a>(names: impl IntoIterator<Item = &'a str>, last: &str) -> String {
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
/// use stripline::internal::suggestion;
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
                || name.len() >= 3 && plain(candidate).split('-').any(|word| word == wanted)
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the remedy for an unknown name: the candidate probably meant, or all candidates behind
/// the words of `there_is`.
///
/// ```
/// use stripline::internal::did_you_mean;
///
/// assert_eq!(did_you_mean("pfa", ["pfa_exponent"], "there is"), "did you mean `pfa_exponent`?");
/// assert_eq!(did_you_mean("x", ["left", "right"], "there are"), "there are `left` and `right`");
/// ```
pub fn did_you_mean<'a>(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_near_or_absent() {
        let known = ["adsb-source", "null-sink", "throttle", "pfa_exponent"];
        assert_eq!(suggestion("adsb-sorce", known), Some("adsb-source"));
        assert_eq!(suggestion("Null_Sink", known), Some("null-sink"));
        assert_eq!(suggestion("sink", known), Some("null-sink"));
        assert_eq!(suggestion("pfa", known), Some("pfa_exponent"));
        assert_eq!(suggestion("x", known), None);
        assert_eq!(suggestion("oscilloscope", known), None);
        assert_eq!(suggestion(&"a".repeat(1 << 20), known), None);
    }

    #[test]
    fn quoted_text_stays_short_and_on_one_line() {
        assert_eq!(quoted("a\n\u{1b}b"), "`a\\n\\u{1b}b`");
        assert!(quoted(&"é".repeat(1000)).chars().count() < 64);
        assert_eq!(quoted_up_to(500, &"é".repeat(400)).chars().count(), 402);
        assert_eq!(quoted_up_to(500, &"é".repeat(1000)).chars().count(), 503);
    }
}
