//! Cuts the bytes of a path into the messages of a middleware.

use stripline::carrier::packet::{Header, Kind};
use stripline::carrier::padded;

/// The frames of the next message. There is room for every frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct MessageFrames {
    pub bytes: usize,
    /// The frames that count: frames of packets, and each part of a frame that is larger than a
    /// message.
    pub frames: u64,
    /// The bytes of the last frame that come with later messages.
    pub rest: usize,
}

impl MessageFrames {
    /// Finds the first message of these bytes. The first `rest` bytes belong to a frame that was
    /// cut.
    pub(crate) fn new(bytes: &[u8], rest: usize, room: u64, bytes_max: usize) -> Self {
        let part = |whole: usize, frames: u64| {
            let now = whole.min(bytes_max).min(bytes.len());
            Self { bytes: now, frames, rest: whole - now }
        };
        let none = Self { bytes: 0, frames: 0, rest };
        if rest > 0 {
            return if room > 0 { part(rest, 1) } else { none };
        }
        let mut admitted = none;
        while let Some(length) = Header::length_of(&bytes[admitted.bytes..]) {
            let there = &bytes[admitted.bytes..];
            let whole = padded(length as usize);
            // A description and the end of a stream need no room.
            let counts = u64::from(Header::outline(there).kind == Kind::Data as u8);
            if admitted.frames + counts > room || whole > there.len() {
                break;
            }
            if admitted.bytes + whole > bytes_max {
                return if admitted.bytes == 0 { part(whole, 1) } else { admitted };
            }
            admitted.bytes += whole;
            admitted.frames += counts;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: Kind, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; padded(length)];
        bytes[8..12].copy_from_slice(&(length as u32).to_le_bytes());
        bytes[14] = kind as u8;
        bytes
    }

    #[test]
    fn messages_are_cut_at_frames_where_that_is_possible() {
        let bytes = [frame(Kind::Stream, 20), frame(Kind::Data, 100), frame(Kind::Data, 64)].concat();
        let first = padded(20);
        let second = first + padded(100);
        let admitted = |bytes: &[u8], rest, room, bytes_max| {
            let MessageFrames { bytes, frames, rest } = MessageFrames::new(bytes, rest, room, bytes_max);
            (bytes, frames, rest)
        };
        assert_eq!(admitted(&bytes, 0, 0, 1000), (first, 0, 0));
        assert_eq!(admitted(&bytes, 0, 1, 1000), (second, 1, 0));
        assert_eq!(admitted(&bytes, 0, 9, 1000), (bytes.len(), 2, 0));
        assert_eq!(admitted(&bytes, 0, 9, second), (second, 1, 0));
        assert_eq!(admitted(&bytes, 0, 9, second - 1), (first, 0, 0));
        assert_eq!(admitted(&bytes[..first - 1], 0, 9, 1000), (0, 0, 0));
        // A frame that is larger than a message.
        let large = &bytes[first..];
        assert_eq!(admitted(large, 0, 9, 64), (64, 1, padded(100) - 64));
        assert_eq!(admitted(&large[64..], padded(100) - 64, 9, 64), (64, 1, padded(100) - 128));
        assert_eq!(admitted(&large[64..], padded(100) - 64, 9, 1000), (padded(100) - 64, 1, 0));
        assert_eq!(admitted(&large[64..], padded(100) - 64, 0, 1000), (0, 0, padded(100) - 64));
    }
}
