//! Messages of the end in Rust, as bytes of CBOR.

/// Returns the bytes of a message from a command: in hexadecimal, or `bytes:` and the length of a
/// byte string.
pub fn encoded(word: &str) -> Vec<u8> {
    match word.strip_prefix("bytes:") {
        Some(length) => {
            let length: u32 = length.parse().unwrap();
            let head = std::iter::once(0x5a).chain(length.to_be_bytes());
            head.chain((0..length).map(|place| (place * 7 % 256) as u8)).collect()
        }
        None => {
            let byte = |place| u8::from_str_radix(&word[place..place + 2], 16).unwrap();
            (0..word.len()).step_by(2).map(byte).collect()
        }
    }
}

/// Returns the printed form of a message: in hexadecimal, or the length and the sum of the bytes.
pub fn printed(bytes: &[u8]) -> String {
    if bytes.len() > 64 {
        let sum: u64 = bytes.iter().map(|byte| u64::from(*byte)).sum();
        return format!("#{}.{sum}", bytes.len());
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
