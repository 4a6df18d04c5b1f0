//! Messages of a single plain packet through a library that carries each message once and in order.
//!
//! A plain packet continues the packet before it, with the same number of bytes and without times.
//! So eight bytes replace the header, the padding and the prefix of the message:
//!
//! ```text
//! message: | complement of the key (8) | payload |
//! ```
//!
//! With 64 bytes of payload, the message has 72 bytes in place of 128.

use stripline::carrier::packet::{HEADER_BYTES, Header, Kind};
use stripline::carrier::padded;

use super::{PREFIX_BYTES, TransitBound};

/// Bytes before the payload of a plain packet.
pub(crate) const PLAIN_BYTES: usize = 8;
/// The largest payload of a plain packet, in bytes. A header is a small part of a larger message.
const PLAIN_PAYLOAD_MAX: usize = 1024;

/// The state of a path that determines the next plain packet. Both ends note the same messages, so
/// both expect the same packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlainStream {
    /// The header of the last message, if that was one small packet, whole and without flags.
    last: Option<Header>,
    /// The samples of this packet; `None`: unknown, as for the first packet.
    samples: Option<u64>,
    /// The frame count up to the end of the last message.
    number: u64,
}

impl PlainStream {
    /// Notes the frames of a message, and the frame count up to their end.
    pub(crate) fn note(&mut self, number: u64, frames: &[u8]) {
        let last = one_packet(frames);
        let samples = self.last.zip(last).and_then(|(before, last)| {
            let continues = before.sequence.wrapping_add(1) == last.sequence
                && (before.length, before.stream) == (last.length, last.stream);
            continues.then(|| last.sample_index.wrapping_sub(before.sample_index))
        });
        *self = Self { last, samples, number };
    }

    /// Returns the payload of these frames, if they are the plain packet that comes next.
    pub(crate) fn payload_of<'a>(&self, frames: &'a [u8]) -> Option<&'a [u8]> {
        let next = self.next()?;
        let is_next = one_packet(frames) == Some(next);
        is_next.then(|| &frames[HEADER_BYTES..][..next.length as usize])
    }

    /// Writes the whole message of a plain packet, with prefix and frame. Returns false if it is
    /// not a message of the sender, or not the next one.
    pub(crate) fn write_whole(&self, bound: TransitBound, message: &[u8], into: &mut Vec<u8>) -> bool {
        let Some((key, payload)) = message.split_first_chunk::<PLAIN_BYTES>() else { return false };
        let Some(next) = self.next().filter(|next| next.length as usize == payload.len()) else {
            return false;
        };
        if *key != plain_key(bound) {
            return false;
        }
        let bytes = padded(payload.len());
        let number = self.number.wrapping_add(bound.frames_of(bytes));
        into.clear();
        into.resize(PREFIX_BYTES + bytes, 0);
        let (prefix, frame) = into.split_at_mut(PREFIX_BYTES);
        prefix.copy_from_slice(&bound.prefix(number));
        next.write(frame);
        frame[HEADER_BYTES..][..payload.len()].copy_from_slice(payload);
        true
    }

    /// Returns the header of the plain packet that comes next; `None`: the next packet is not
    /// determined.
    fn next(&self) -> Option<Header> {
        let (last, samples) = (self.last?, self.samples?);
        Some(Header {
            sequence: last.sequence.wrapping_add(1),
            sample_index: last.sample_index.wrapping_add(samples),
            time_ns: 0,
            intended_ns: 0,
            sent_ns: 0,
            ..last
        })
    }
}

/// Returns the bytes before the payload of a plain packet.
pub(crate) fn plain_key(bound: TransitBound) -> [u8; PLAIN_BYTES] {
    (!bound.key).to_le_bytes()
}

/// Returns the header of the frames, if they are one small packet, whole and without flags.
fn one_packet(frames: &[u8]) -> Option<Header> {
    let header = Header::read(frames)?;
    let length = header.length as usize;
    let is_one = header.kind == Kind::Data as u8
        && header.flags == 0
        && length <= PLAIN_PAYLOAD_MAX
        && frames.len() == padded(length);
    is_one.then_some(header)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOUND: TransitBound = TransitBound { key: 0x1234_5678_9abc_def0, frames: 8, unit: None };

    fn frame(header: Header) -> Vec<u8> {
        let mut frame = vec![0; padded(header.length as usize)];
        header.write(&mut frame);
        frame[HEADER_BYTES..][..header.length as usize].fill(header.sequence as u8 | 1);
        frame
    }

    fn packet(sequence: u64, sample_index: u64, length: u32) -> Header {
        let (stream, kind, flags) = (3, Kind::Data as u8, 0);
        Header { sequence, length, stream, kind, flags, sample_index, time_ns: 0, intended_ns: 0, sent_ns: 0 }
    }

    /// Sends frames as one message, and returns it with the message that the receiver restores.
    fn carry(ends: &mut [PlainStream; 2], number: u64, frames: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
        let [sender, receiver] = ends;
        let whole = [&BOUND.prefix(number)[..], frames].concat();
        let message = match sender.payload_of(frames) {
            Some(payload) => [&plain_key(BOUND)[..], payload].concat(),
            None => whole.clone(),
        };
        sender.note(number, frames);
        let mut found = message.clone();
        if BOUND.number_of(&message).is_none() && !receiver.write_whole(BOUND, &message, &mut found) {
            return (message, None);
        }
        receiver.note(BOUND.number_of(&found).unwrap(), &found[PREFIX_BYTES..]);
        assert_eq!(sender, receiver);
        assert_eq!(found, whole);
        (message, Some(found))
    }

    #[test]
    fn the_third_packet_of_a_steady_stream_has_eight_bytes_more_than_its_payload() {
        let mut ends = [PlainStream::default(); 2];
        let lengths: Vec<usize> = (0..5)
            .map(|index| carry(&mut ends, index + 1, &frame(packet(7 + index, 70 + 8 * index, 64))).0.len())
            .collect();
        assert_eq!(lengths, [128, 128, 72, 72, 72]);
    }

    #[test]
    fn what_does_not_continue_the_packet_before_travels_whole() {
        let others = [
            packet(10, 95, 64),
            packet(11, 94, 64),
            packet(10, 94, 60),
            Header { stream: 4, ..packet(10, 94, 64) },
            Header { kind: Kind::Stream as u8, ..packet(10, 94, 64) },
            Header { flags: Header::MORE, ..packet(10, 94, 64) },
            Header { time_ns: 1, ..packet(10, 94, 64) },
            Header { intended_ns: 1, ..packet(10, 94, 64) },
            Header { sent_ns: 1, ..packet(10, 94, 64) },
        ];
        for other in others {
            let mut ends = [PlainStream::default(); 2];
            for index in 0..3 {
                carry(&mut ends, index + 1, &frame(packet(7 + index, 70 + 8 * index, 64)));
            }
            let whole = frame(other);
            assert_eq!(carry(&mut ends, 4, &whole).0.len(), PREFIX_BYTES + whole.len(), "{other:?}");
        }
        // A packet with times does not end the stream's steadiness.
        let mut ends = [PlainStream::default(); 2];
        let stamped = |index| Header { sent_ns: index % 2, ..packet(index, 8 * index, 64) };
        let lengths: Vec<usize> =
            (0..6).map(|index| carry(&mut ends, index + 1, &frame(stamped(index))).0.len()).collect();
        assert_eq!(lengths, [128, 128, 72, 128, 72, 128]);
        let two = [frame(packet(7, 56, 64)), frame(packet(8, 64, 64))].concat();
        assert_eq!(carry(&mut ends, 8, &two).0.len(), PREFIX_BYTES + two.len());
        assert_eq!(ends[0].next(), None);
    }

    #[test]
    fn a_plain_message_that_does_not_fit_is_refused() {
        let mut ends = [PlainStream::default(); 2];
        let plain = |key: u64, payload: usize| [&key.to_le_bytes()[..], &vec![9; payload]].concat();
        let is_taken =
            |ends: &[PlainStream; 2], message: &[u8]| ends[1].write_whole(BOUND, message, &mut Vec::new());
        assert!(!is_taken(&ends, &plain(!BOUND.key, 64)), "before the first packet");
        for index in 0..2 {
            carry(&mut ends, index + 1, &frame(packet(index, 8 * index, 64)));
        }
        assert!(is_taken(&ends, &plain(!BOUND.key, 64)));
        for payload in [0, 1, 63, 65, 1 << 20] {
            assert!(!is_taken(&ends, &plain(!BOUND.key, payload)), "{payload}");
        }
        for key in [BOUND.key, 0, !0, !BOUND.key ^ 1] {
            assert!(!is_taken(&ends, &plain(key, 64)), "{key:x}");
        }
        assert!(!is_taken(&ends, &[]) && !is_taken(&ends, &[1; 7]));
    }

    proptest! {
        #[test]
        fn every_message_arrives_as_it_was(steps in prop::collection::vec((0..3_u64, 0..3_u64, 0..3_u32, 0..4_u64), 1..60)) {
            let mut ends = [PlainStream::default(); 2];
            let (mut sequence, mut sample_index) = (u64::MAX - 5, u64::MAX - 50);
            for (number, (skip, samples, length, sent_ns)) in steps.into_iter().enumerate() {
                // `carry` compares the received message with the sent one.
                let header = Header { sent_ns: sent_ns / 3, ..packet(sequence, sample_index, 8 * length) };
                let frames = frame(header);
                prop_assert!(carry(&mut ends, number as u64 + 1, &frames).1.is_some());
                sequence = sequence.wrapping_add(1 + skip / 2);
                sample_index = sample_index.wrapping_add(samples.min(1));
            }
        }

        #[test]
        fn arbitrary_messages_never_panic(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..9)) {
            let mut stream = PlainStream::default();
            for message in messages {
                let _ = stream.write_whole(BOUND, &message, &mut Vec::new());
                stream.note(1, &message);
                let _ = stream.payload_of(&message);
            }
        }
    }
}
