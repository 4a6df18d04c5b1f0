//! Numbers and texts in lines of output.

pub use stripline::component::kit::{counted, grouped};

/// Formats a number of packets, for example `1 packet` or `1,234 packets`.
pub fn packets(number: u64) -> String {
    counted(number, "packet")
}

/// Returns a text of another process without characters that move the cursor, change colours or
/// reverse the line. The result is cut to `max` characters.
pub fn printable(text: &str, max: usize) -> String {
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
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".into(), "1,234,567".into()));
        assert_eq!((packets(0), packets(1)), ("0 packets".into(), "1 packet".into()));
        assert_eq!(counted(1_000, "component"), "1,000 components");
    }

    #[test]
    fn characters_that_move_the_cursor_are_escaped() {
        assert_eq!(printable("a\u{1b}[2Jb\u{202e}", 100), "a\\u{1b}[2Jb\\u{202e}");
        assert_eq!(printable("abc", 2), "ab…");
    }
}
