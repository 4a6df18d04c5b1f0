//! A payload that shows its place: each byte is a function of the index in the stream, and of the
//! topic.

/// Returns the number that the topic adds to each byte.
pub fn seed(topic: &str) -> u64 {
    topic.bytes().map(u64::from).sum()
}

fn byte(number: u64, seed: u64) -> u8 {
    (number.wrapping_mul(167).wrapping_add((number >> 8).wrapping_mul(13)).wrapping_add(seed)) as u8
}

/// Writes the bytes of the stream from index `first` on.
pub fn fill(bytes: &mut [u8], first: u64, seed: u64) {
    bytes.iter_mut().zip(first..).for_each(|(place, number)| *place = byte(number, seed));
}

/// Returns whether the bytes match the stream from index `first` on.
pub fn is_sound(bytes: &[u8], first: u64, seed: u64) -> bool {
    bytes.iter().zip(first..).all(|(found, number)| *found == byte(number, seed))
}
