//! Messages on a stream of bytes. Each has a length of four bytes, followed by JSON.

use std::io::{self, ErrorKind};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Returns a message in the form in which it is sent.
///
/// # Errors
/// The message has no form in JSON.
pub fn framed(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(message)?;
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&text);
    Ok(bytes)
}

/// Moves the whole messages out of the bytes that have arrived, and adds them to `messages`.
///
/// # Errors
/// A message has more than `bytes_max` bytes, or does not parse. The messages before it are added
/// all the same.
pub(crate) fn take<T: DeserializeOwned>(
    arrived: &mut Vec<u8>,
    bytes_max: usize,
    messages: &mut impl Extend<T>,
) -> io::Result<()> {
    let mut rest = &arrived[..];
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        if length > bytes_max {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes")));
        }
        let Some((text, after)) = after.split_at_checked(length) else { break };
        messages.extend([serde_json::from_slice(text)?]);
        rest = after;
    }
    // No bytes move while a long message is incomplete.
    let taken = arrived.len() - rest.len();
    arrived.drain(..taken);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_before_an_invalid_one_are_taken() {
        for invalid in [&[1, 0, 0, 0, b'x'][..], &[9, 0, 0, 0]] {
            let mut arrived = [&framed(&1).unwrap()[..], &framed(&2).unwrap(), invalid].concat();
            let mut messages: Vec<u32> = Vec::new();
            assert!(take::<u32>(&mut arrived, 8, &mut messages).is_err());
            assert_eq!(messages, [1, 2]);
        }
    }
}
