//! How requests and answers travel: one of each to a connection, each with its length in front (4 bytes,
//! little-endian), as JSON that says its version first.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The version of [`Operation`](super::Operation) and [`Reply`](super::Reply).
pub(super) const VERSION: u32 = 1;
/// The longest request, in bytes.
pub(super) const REQUEST_MAX: usize = 1 << 20;
/// The longest answer, in bytes: a waveform has at most 1024 components of 256 properties each.
pub(super) const REPLY_MAX: usize = 256 << 20;

#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    version: u32,
    word: T,
}

/// What every version says first.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// A message as it is sent.
pub(super) fn framed(word: &impl Serialize) -> io::Result<Vec<u8>> {
    let text = serde_json::to_vec(&Envelope { version: VERSION, word })?;
    let length = u32::try_from(text.len()).map_err(|_| ErrorKind::FileTooLarge)?;
    Ok([&length.to_le_bytes()[..], &text].concat())
}

/// What a message says.
///
/// # Errors
/// In words that follow "the other side".
pub(crate) fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, String> {
    let nonsense = |e: serde_json::Error| format!("said something that does not parse: {e}");
    let Version { version } = serde_json::from_slice(text).map_err(nonsense)?;
    if version != VERSION {
        return Err(format!(
            "speaks version {version} of this protocol, not {VERSION}; use the `stripline` that the waveform was \
             started with"
        ));
    }
    serde_json::from_slice::<Envelope<T>>(text).map(|envelope| envelope.word).map_err(nonsense)
}

/// Sends all of it by then.
pub(super) fn send(mut stream: &UnixStream, bytes: &[u8], deadline: Instant) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left(deadline)?))?;
        match rustix::net::send(stream, rest, rustix::net::SendFlags::NOSIGNAL) {
            Ok(sent) => rest = &rest[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    stream.flush()
}

/// Receives one message, whole, by then. `UnexpectedEof`: the other side hung up before.
pub(super) fn receive(stream: &UnixStream, max: usize, deadline: Option<Instant>) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    fill(stream, &mut length, deadline)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > max {
        let why = format!("said something of {length} bytes, more than {max}");
        return Err(io::Error::new(ErrorKind::InvalidData, why));
    }
    // Memory for what has come, not for what was promised.
    let mut text = Vec::new();
    let mut piece = vec![0; 64 << 10];
    while text.len() < length {
        let part = &mut piece[..(64 << 10).min(length - text.len())];
        fill(stream, part, deadline)?;
        text.extend_from_slice(part);
    }
    Ok(text)
}

fn fill(mut stream: &UnixStream, mut buffer: &mut [u8], deadline: Option<Instant>) -> io::Result<()> {
    while !buffer.is_empty() {
        stream.set_read_timeout(deadline.map(left).transpose()?)?;
        match stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => buffer = &mut buffer[read..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::super::{Operation, Reply};
    use super::*;

    #[test]
    fn what_is_sent_is_what_is_said() {
        let stop = Operation::Stop { component: Some("fm".into()), now: false };
        assert_eq!(parse::<Operation>(&framed(&stop).unwrap()[4..]), Ok(stop));
        let other = parse::<Operation>(br#"{"version": 7, "shout": "stop"}"#).unwrap_err();
        assert!(other.contains("version 7"), "{other}");
        for nonsense in ["", "[]", "{}", r#"{"version": 1}"#, r#"{"version": 1, "word": "dance"}"#] {
            assert!(
                parse::<Operation>(nonsense.as_bytes()).unwrap_err().contains("does not parse"),
                "{nonsense}"
            );
            assert!(parse::<Reply>(nonsense.as_bytes()).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn lengths_are_checked_before_memory_is_taken() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let soon = || Instant::now() + Duration::from_secs(20);
        send(&ours, &u32::MAX.to_le_bytes(), soon()).unwrap();
        assert_eq!(receive(&theirs, 10, Some(soon())).unwrap_err().kind(), ErrorKind::InvalidData);
        send(&ours, &[100, 0, 0, 0, 1, 2, 3], soon()).unwrap();
        drop(ours);
        assert_eq!(receive(&theirs, 100, Some(soon())).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        let late = receive(&theirs, 100, Some(Instant::now())).unwrap_err();
        assert_eq!(late.kind(), ErrorKind::TimedOut);
    }
}
