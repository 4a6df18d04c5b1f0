//! Numbers as users read and write them: their format, and suggestions for a number with a unit.

/// Suggests how to write a text that is not a number, for example `10 MHz` if the unit is Hz.
/// Returns `None` if the text does not resemble a number.
pub fn fix(text: &str, unit: &str, whole: bool) -> Option<String> {
    let text = text.trim();
    let (value, rest) = leading_number(text)?;
    let registered = |value: f64| if whole { value.round().to_string() } else { number(value) };
    if let Some(fraction) = rest.strip_prefix(',') {
        if whole {
            return Some("write a whole number, without commas".into());
        }
        let value: f64 = format!("{value}.{fraction}").parse().ok()?;
        return Some(format!("write a point, not a comma: {}", registered(value)));
    }
    let in_unit = if unit.is_empty() { String::new() } else { format!(", in {unit}") };
    match factor(rest.trim(), unit) {
        Some(factor) => Some(format!("write the number alone{in_unit}: {}", registered(value * factor))),
        None => Some(format!("write the number alone{in_unit}")),
    }
}

/// Formats a number for users, very large and very small numbers with an exponent.
pub fn number(x: f64) -> String {
    if x != 0.0 && !(1e-4..1e7).contains(&x.abs()) { format!("{x:e}") } else { x.to_string() }
}

/// Returns the number at the start of a text, and the remaining text.
fn leading_number(text: &str) -> Option<(f64, &str)> {
    // The condition excludes `inf` and `nan`, which would parse as well.
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let digits = text.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.' | '_')));
    // Takes the longest prefix that is a number: `1e3` of `1e3Hz`, `10` of `10e`.
    (1..=digits.unwrap_or(text.len())).rev().find_map(|end| {
        let value: f64 = text.get(..end)?.replace('_', "").parse().ok()?;
        value.is_finite().then_some((value, &text[end..]))
    })
}

/// Returns the factor from the written unit to the property's unit.
fn factor(said: &str, unit: &str) -> Option<f64> {
    let is_unit = |text: &str| !unit.is_empty() && text.eq_ignore_ascii_case(unit);
    let prefix = match said.len().checked_sub(unit.len()).filter(|at| said.is_char_boundary(*at)) {
        Some(at) if is_unit(&said[at..]) => &said[..at],
        _ => said,
    };
    Some(match prefix.trim() {
        "" => 1.0,
        "k" | "K" => 1e3,
        // With these units, the prefix `m` never means a thousandth.
        "m" if unit == "Hz" || unit == "samples/s" => 1e6,
        "M" => 1e6,
        "G" | "g" => 1e9,
        "m" => 1e-3,
        "u" | "µ" | "μ" => 1e-6,
        "n" => 1e-9,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_a_unit_is_suggested_without_it() {
        let hz = |text: &str| fix(text, "Hz", false).unwrap_or_default();
        for text in ["10 Mhz", "10MHz", "10 M", "10m", "1e7 Hz", "10_000 kHz"] {
            assert_eq!(hz(text), "write the number alone, in Hz: 1e7", "{text}");
        }
        assert_eq!(hz("2.4G"), "write the number alone, in Hz: 2.4e9");
        assert_eq!(hz("-1.5 kHz"), "write the number alone, in Hz: -1500");
        assert_eq!(hz("3 furlongs"), "write the number alone, in Hz");
        assert_eq!(hz("2,5"), "write a point, not a comma: 2.5");
        assert_eq!(fix("5 ms", "s", false).unwrap(), "write the number alone, in s: 0.005");
        assert_eq!(fix("4k", "samples", true).unwrap(), "write the number alone, in samples: 4000");
        assert_eq!(fix("3,500", "", true).unwrap(), "write a whole number, without commas");
        assert_eq!(fix("3x", "", true).unwrap(), "write the number alone");
        for text in ["", "fast", "inf", "nan Hz", "-", "é"] {
            assert_eq!(fix(text, "Hz", false), None, "{text}");
        }
    }
}
