//! Text of peers in messages.

/// Escapes text for a terminal: control characters, and characters that reverse the direction of
/// writing. A peer may have chosen the text.
pub fn printable(text: &str) -> String {
    let is_harmful =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_harmful(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_peer_does_not_act_on_the_terminal() {
        assert_eq!(printable("caf\u{e9}\u{1b}[2J\nforged\u{202e}"), "caf\u{e9}\\u{1b}[2J\\nforged\\u{202e}");
    }
}
