//! Numbers in texts for users.

/// Formats a whole number with its digits in groups.
///
/// ```
/// assert_eq!(stripline::component::kit::grouped(1_234_567), "1,234,567");
/// ```
pub fn grouped(number: u64) -> String {
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

/// Formats a number of things, with the singular for one.
///
/// ```
/// use stripline::component::kit::counted;
///
/// assert_eq!((counted(1, "gap"), counted(1_000, "gap")), ("1 gap".into(), "1,000 gaps".into()));
/// ```
pub fn counted(number: u64, thing: &str) -> String {
    format!("{} {thing}{}", grouped(number), if number == 1 { "" } else { "s" })
}
