//! Keys, parsed from the bytes that a terminal sends.

/// The longest sequence that begins with an escape. A longer sequence is not a key.
const SEQUENCE_MAX: usize = 16;
const ESCAPE: u8 = 0x1b;

/// A key that the view uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Enter,
    Escape,
    Backspace,
    /// Ctrl-C.
    Interrupt,
    Text(char),
}

/// Splits bytes into keys. The bytes of a key may arrive in several parts.
#[derive(Debug, Default)]
pub(super) struct KeyParser {
    pending: Vec<u8>,
}

impl KeyParser {
    /// Returns the keys that are complete with these bytes.
    pub fn keys(&mut self, bytes: &[u8]) -> Vec<Key> {
        self.pending.extend_from_slice(bytes);
        let mut keys = Vec::new();
        let mut used = 0;
        while let Some((count, key)) = first(&self.pending[used..]) {
            used += count;
            keys.extend(key);
        }
        self.pending.drain(..used);
        keys
    }

    /// Returns the escape key if the last byte was an escape and no sequence followed it.
    pub fn after_pause(&mut self) -> Option<Key> {
        let is_escape = self.pending == [ESCAPE];
        self.pending.clear();
        is_escape.then_some(Key::Escape)
    }
}

/// Returns the length of the first key, and the key if the view uses it. Returns `None` if more
/// bytes are needed.
fn first(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let key = match *bytes.first()? {
        ESCAPE => return sequence(bytes),
        0x03 => Some(Key::Interrupt),
        b'\r' | b'\n' => Some(Key::Enter),
        0x08 | 0x7f => Some(Key::Backspace),
        byte if byte < b' ' => None,
        _ => return character(bytes),
    };
    Some((1, key))
}

/// Parses a sequence that begins with an escape: `ESC [ … LETTER`, `ESC [ … ~` or `ESC O LETTER`.
fn sequence(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let start = bytes.get(1)?;
    if !matches!(start, b'[' | b'O') {
        return Some((1, Some(Key::Escape)));
    }
    let end = bytes.iter().skip(2).position(|byte| (0x40..=0x7e).contains(byte));
    let Some(length) = end.map(|end| end + 3) else {
        return (bytes.len() > SEQUENCE_MAX).then_some((bytes.len(), None));
    };
    let key = match &bytes[2..length] {
        b"A" => Some(Key::Up),
        b"B" => Some(Key::Down),
        b"C" => Some(Key::Right),
        b"D" => Some(Key::Left),
        b"5~" => Some(Key::PageUp),
        b"6~" => Some(Key::PageDown),
        _ => None,
    };
    Some((length, key))
}

/// Parses a character in UTF-8. A byte that can neither begin nor continue a character is left out.
fn character(bytes: &[u8]) -> Option<(usize, Option<Key>)> {
    let text = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(text) {
        Ok(valid) => valid,
        Err(error) if error.valid_up_to() == 0 => {
            // Without an error length, the rest of the character has not arrived yet.
            return error.error_len().map(|length| (length, None));
        }
        Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or_default(),
    };
    valid.chars().next().map(|c| (c.len_utf8(), Some(Key::Text(c))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(bytes: &[u8]) -> Vec<Key> {
        KeyParser::default().keys(bytes)
    }

    #[test]
    fn sequences_are_keys() {
        let arrows = [Key::Up, Key::Down, Key::Right, Key::Left];
        assert_eq!(keys(b"\x1b[A\x1b[B\x1b[C\x1b[D"), arrows);
        assert_eq!(keys(b"\x1bOA\x1bOB\x1bOC\x1bOD"), arrows);
        assert_eq!(
            keys(b"\x1b[5~q\x1b[6~\r\x7f\x03"),
            [Key::PageUp, Key::Text('q'), Key::PageDown, Key::Enter, Key::Backspace, Key::Interrupt,]
        );
        // Sequences of other keys and control characters are left out. An escape that begins no
        // sequence is the escape key.
        assert_eq!(keys(b"\x1b[1;5Cx\x1b[15~y\x01z"), "xyz".chars().map(Key::Text).collect::<Vec<_>>());
        assert_eq!(keys(b"\x1bx"), [Key::Escape, Key::Text('x')]);
        assert_eq!(keys(&[b"\x1b[".as_slice(), &[b'0'; SEQUENCE_MAX]].concat()), []);
    }

    #[test]
    fn a_key_may_come_in_parts() {
        let mut parser = KeyParser::default();
        assert_eq!(parser.keys(b"\x1b"), []);
        assert_eq!(parser.keys(b"["), []);
        assert_eq!(parser.keys(b"A\xc2"), [Key::Up]);
        assert_eq!(parser.keys(b"\xb5"), [Key::Text('µ')]);
        assert_eq!((parser.keys(b"\x1b"), parser.after_pause()), (vec![], Some(Key::Escape)));
        assert_eq!((parser.keys(b"\x1b["), parser.after_pause()), (vec![], None));
        assert_eq!(parser.keys(b"\xff\xc2xA"), [Key::Text('x'), Key::Text('A')]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let mut parser = KeyParser::default();
            for part in bytes.chunks(7) {
                parser.keys(part);
                prop_assert!(parser.pending.len() <= SEQUENCE_MAX + 1);
            }
        }
    }
}
