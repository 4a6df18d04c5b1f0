//! Messages on a stream of bytes: the length of each in four bytes, then its JSON.

use std::io::{self, ErrorKind};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Returns a message as it travels.
///
/// # Errors
/// When it has no JSON.
pub fn framed(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(message)?;
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&text);
    Ok(bytes)
}

/// Takes the whole messages out of the bytes that have arrived.
///
/// # Errors
/// When one has more than `bytes_max` bytes, or does not parse.
pub(crate) fn take<T: DeserializeOwned>(arrived: &mut Vec<u8>, bytes_max: usize) -> io::Result<Vec<T>> {
    let (mut messages, mut rest) = (Vec::new(), &arrived[..]);
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        if length > bytes_max {
            return Err(io::Error::new(ErrorKind::InvalidData, format!("a message of {length} bytes")));
        }
        let Some((text, after)) = after.split_at_checked(length) else { break };
        messages.push(serde_json::from_slice(text)?);
        rest = after;
    }
    // Moves no bytes while a long message is incomplete.
    let taken = arrived.len() - rest.len();
    arrived.drain(..taken);
    Ok(messages)
}
