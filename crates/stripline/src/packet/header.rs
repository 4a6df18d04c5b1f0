//! The header of a frame, described in `docs/wire.md`.

use bytemuck::{Pod, Zeroable};

use super::Order;

/// The number of bytes of a [`Header`] on every transport.
pub const HEADER_BYTES: usize = size_of::<Header>();

/// The header in front of every payload: 48 bytes, little-endian on byte streams.
///
/// | offset | bytes | field |
/// | --- | --- | --- |
/// | 0 | 8 | `sequence` |
/// | 8 | 4 | `length` |
/// | 12 | 2 | `stream` |
/// | 14 | 1 | `kind` |
/// | 15 | 1 | `flags` |
/// | 16 | 8 | `sample_index` |
/// | 24 | 8 | `time_ns` |
/// | 32 | 8 | `intended_ns` |
/// | 40 | 8 | `sent_ns` |
///
/// A packet larger than a frame travels in fragments. [`Header::MORE`] marks a fragment that is
/// followed by another one. [`Header::CONTINUED`] marks every fragment but the first. All fragments
/// have the packet's `sequence`. The first fragment carries the fields of the packet. In later
/// fragments, `sample_index` is the offset of the fragment in the packet, in bytes. `length` always
/// refers to the frame.
///
/// A packet forwarded by one of several threads carries the order: with [`Header::ORDERED`], the
/// field `intended_ns` contains the packet's [`Order`].
///
/// A packet of scope `server` or `target` is marked with [`Header::SERVER`] or [`Header::TARGET`]:
/// the sender waits for an acknowledgement.
///
/// In a ring where no reader may miss a frame, a plain packet has only the first
/// [`Header::SHORT_BYTES`] of the header, marked by [`Header::SHORT`]. A plain packet continues the
/// previous packet: the `sample_index` is the next one due, and the times are 0.
///
/// With up to [`Header::BESIDE_MAX`] bytes, the frame is one cache line. More bytes begin on a line
/// of their own, in the place behind a whole header: a reader polls the line of the header, and
/// each poll would take the line from a writer that fills it.
///
/// An end with [`Header::MOVED`] ends a path of the connection, but not the stream. All other flags
/// are refused, and so are a packet's flags on a frame that is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Header {
    /// The number of this packet among the packets of the sending port, from 0. Other frames have
    /// the number of the next packet.
    pub sequence: u64,
    /// The size of this frame's payload in bytes.
    pub length: u32,
    /// The number of the stream among the streams of the sender.
    pub stream: u16,
    /// A [`Kind`].
    pub kind: u8,
    /// [`Header::SHORT`] alone, or any of the other flags.
    pub flags: u8,
    /// The number of the packet's first sample within the stream, from 0.
    pub sample_index: u64,
    /// The time of the first sample, in nanoseconds since the Unix epoch; 0: unknown.
    pub time_ns: i64,
    /// The time at which the packet should have been sent, in monotonic nanoseconds of the host; 0:
    /// the time at which it was sent. With [`Header::ORDERED`], the packet's [`Order`].
    pub intended_ns: u64,
    /// The time at which the packet was sent, in monotonic nanoseconds of the host; 0: not
    /// measured.
    pub sent_ns: u64,
}

impl Header {
    /// Flag: another fragment of the same packet follows.
    pub const MORE: u8 = 1;
    /// Flag: this is not the first fragment of the packet.
    pub const CONTINUED: u8 = 2;
    /// Flag: the header has only [`Header::SHORT_BYTES`].
    pub const SHORT: u8 = 4;
    /// Flag: `intended_ns` is the packet's [`Order`].
    pub const ORDERED: u8 = 8;
    /// Flag: the sender waits until the packet is in the port's queue.
    pub const SERVER: u8 = 16;
    /// Flag: the sender waits until the component has finished with the packet.
    pub const TARGET: u8 = 32;
    /// Flag of an end: the stream continues over another path, which the receiver has connected.
    pub const MOVED: u8 = 64;
    /// The number of bytes of a short header.
    pub const SHORT_BYTES: usize = 16;
    /// The largest payload right after a short header, on the same cache line.
    pub const BESIDE_MAX: usize = 32;

    /// Reads the header at the start of a frame; `None` if the frame is too short.
    #[inline]
    pub fn read(frame: &[u8]) -> Option<Self> {
        frame.get(..HEADER_BYTES).map(bytemuck::pod_read_unaligned)
    }

    /// Returns the header's first two words, read from the start of a frame.
    #[inline]
    pub fn outline(frame: &[u8]) -> Outline {
        // Read as whole words, as they were written: see `Header::write_words`.
        let word = |at: usize| frame[at..].first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        let second = word(8);
        Outline { sequence: word(0), kind: (second >> 48) as u8, flags: (second >> 56) as u8 }
    }

    /// Returns the payload length of the frame that starts here; `None` if the header is
    /// incomplete.
    #[inline]
    pub fn length_of(frame: &[u8]) -> Option<u32> {
        let header: &[u8; HEADER_BYTES] = frame.first_chunk()?;
        Some(u32::from_le_bytes([header[8], header[9], header[10], header[11]]))
    }

    /// Returns the order of the packet, if it carries one.
    pub fn order(&self) -> Option<Order> {
        (self.flags & Self::ORDERED != 0).then_some(Order(self.intended_ns))
    }

    /// Returns the time at which the packet should have been sent, if the header carries it.
    pub fn intended(&self) -> Option<u64> {
        Some(self.intended_ns).filter(|ns| *ns != 0 && self.flags & Self::ORDERED == 0)
    }

    /// Returns whether the frame continues a packet that an earlier frame began.
    pub fn is_continued(&self) -> bool {
        self.flags & Self::CONTINUED != 0
    }

    /// Returns the same number as [`Outline::next_sequence`].
    pub fn next_sequence(&self) -> u64 {
        Outline { sequence: self.sequence, kind: self.kind, flags: self.flags }.next_sequence()
    }

    /// Writes the header to the start of a frame.
    #[inline]
    pub fn write(&self, frame: &mut [u8]) {
        let second = Self::second_word(self.length, self.stream, self.kind, self.flags);
        let time = self.time_ns.cast_unsigned();
        let words = [self.sequence, second, self.sample_index, time, self.intended_ns, self.sent_ns];
        Self::write_words(frame, words);
    }

    /// Writes the words of a header, in order, to the start of a frame.
    ///
    /// If a header were built on the stack and then copied, it would be read in chunks that differ
    /// from the chunks in which it was written, which stalls the processor. The same applies to
    /// reading a header.
    #[inline]
    pub fn write_words(frame: &mut [u8], words: [u64; 6]) {
        for (place, word) in frame[..HEADER_BYTES].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Returns the second word of a packet's short header without the length. The first word is the
    /// sequence number.
    #[inline]
    pub fn short_word(stream: u16) -> u64 {
        Self::second_word(0, stream, Kind::Data as u8, Self::SHORT)
    }

    /// Returns `length`, `stream`, `kind` and `flags` as they are laid out in memory.
    #[inline]
    pub fn second_word(length: u32, stream: u16, kind: u8, flags: u8) -> u64 {
        u64::from(length) | u64::from(stream) << 32 | u64::from(kind) << 48 | u64::from(flags) << 56
    }

    /// Returns the offset of a payload behind a short header.
    #[inline]
    pub fn short_offset(payload: usize) -> usize {
        if payload <= Self::BESIDE_MAX { Self::SHORT_BYTES } else { HEADER_BYTES }
    }

    /// Parses a frame with a short header: fills in the header and returns the payload. `follows`
    /// is the sample index due. `None`: the frame has no short header, or is malformed.
    #[inline(always)]
    pub fn split_short<'a>(&mut self, frame: &'a [u8], follows: u64) -> Option<&'a [u8]> {
        let head = frame.first_chunk::<{ Self::SHORT_BYTES }>()?;
        let [sequence, second]: [u64; 2] = bytemuck::pod_read_unaligned(head);
        let marks = Self::second_word(0, 0, Kind::Data as u8, Self::SHORT);
        if second >> 48 != marks >> 48 {
            return None;
        }
        // A sender may shorten a packet after it has chosen the offset.
        let payload = match frame.len().wrapping_sub(second as u32 as usize) {
            Self::SHORT_BYTES => &frame[Self::SHORT_BYTES..],
            HEADER_BYTES => frame.get(HEADER_BYTES..)?,
            _ => return None,
        };
        // Stores the second word, without the mark, in one store.
        *self =
            bytemuck::cast([sequence, second ^ Self::second_word(0, 0, 0, Self::SHORT), follows, 0, 0, 0]);
        Some(payload)
    }

    /// Parses a frame: fills in the header and returns the payload. `is_short`: the header may be
    /// short. `follows` is the sample index due. `None`: the frame is malformed.
    #[inline]
    pub fn split<'a>(&mut self, frame: &'a [u8], is_short: bool, follows: u64) -> Option<&'a [u8]> {
        if is_short && let Some(payload) = self.split_short(frame, follows) {
            return Some(payload);
        }
        let (header, payload) = frame.split_at_checked(HEADER_BYTES)?;
        *self = bytemuck::pod_read_unaligned(header);
        let is_sound = payload.len() == self.length as usize
            && self.flags != Self::SHORT
            && Kind::parse(self.kind).is_some();
        is_sound.then_some(payload)
    }
}

/// The fields of a sent frame that an outlet needs.
#[derive(Clone, Copy)]
pub struct Outline {
    pub sequence: u64,
    pub kind: u8,
    pub flags: u8,
}

impl Outline {
    /// Returns the number of the packet that is due after this frame. A packet with missing
    /// fragments is still due.
    #[inline]
    pub fn next_sequence(self) -> u64 {
        let completes = self.kind == Kind::Data as u8 && self.flags & Header::MORE == 0;
        self.sequence.wrapping_add(u64::from(completes))
    }
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Samples or a message.
    Data = 1,
    /// The `StreamInfo` of `stream`, in JSON.
    Stream = 2,
    /// The end of the stream: nothing follows.
    End = 3,
}

impl Kind {
    /// Returns the kind with that number.
    #[inline]
    pub fn parse(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Data),
            2 => Some(Self::Stream),
            3 => Some(Self::End),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the example of `docs/wire.md`: the first lines of 16 hexadecimal numbers.
    /// `transport/stream/acks.rs` tests the lines that follow them.
    #[test]
    fn docs_match_the_code() {
        let document = include_str!("../../../../docs/wire.md");
        let bytes = |line: &str| -> Option<Vec<u8>> {
            line.split_whitespace().map(|word| u8::from_str_radix(word, 16).ok()).collect()
        };
        let lines = document.lines().filter_map(bytes).filter(|bytes| bytes.len() == 16);
        let example: Vec<u8> = lines.take(4).flatten().collect();
        let header = Header {
            sequence: 7,
            length: 6,
            stream: 0,
            kind: Kind::Data as u8,
            flags: 0,
            sample_index: 21,
            time_ns: 0,
            intended_ns: 0,
            sent_ns: 0,
        };
        let mut frame = vec![0; 64];
        header.write(&mut frame);
        frame[HEADER_BYTES..][..6].copy_from_slice(bytemuck::cast_slice(&[1i16, 2, 3]));
        assert_eq!(frame, example);
    }

    /// Checks the table of cache lines in `docs/performance.md`: the bytes of a packet and the
    /// cache lines of the frame. A packet that is small enough has the short header.
    #[test]
    fn the_lines_of_a_frame_are_those_of_the_table() {
        let document = include_str!("../../../../docs/performance.md");
        let (_, table) = document.split_once("| bytes | lines of the frame |").unwrap();
        let row = |line: &str| -> Option<Vec<usize>> {
            let cells = line.strip_prefix('|')?.strip_suffix('|')?.split('|');
            cells.map(|cell| cell.trim().replace(',', "").parse().ok()).collect()
        };
        let rows: Vec<Vec<usize>> =
            table.lines().skip(2).take_while(|line| !line.is_empty()).filter_map(row).collect();
        let sizes: Vec<usize> = rows.iter().map(|row| row[0]).collect();
        assert_eq!(sizes, [8, 32, 64, 256, 1024, 8192, 65_536]);
        for row in rows {
            let header = Header::short_offset(row[0]);
            let lines = |bytes: usize| stripline_ring::frame_stride(bytes) / stripline_ring::LINE;
            // The minimal ring has only the ring's own header.
            assert_eq!(row[1..], [lines(header + row[0]), lines(row[0])], "{} B", row[0]);
        }
    }

    #[test]
    fn kinds_parse_back_and_unknown_ones_do_not() {
        for kind in [Kind::Data, Kind::Stream, Kind::End] {
            assert_eq!(Kind::parse(kind as u8), Some(kind));
        }
        assert_eq!(Kind::parse(0), None);
        assert_eq!(Kind::parse(4), None);
    }

    #[test]
    fn a_short_header_stands_beside_the_payload_or_on_a_line_of_its_own() {
        let mut header = Header::zeroed();
        let mut split = |len: usize, length: u32, flags: u8| {
            let mut frame: Vec<u8> = (0..len).map(|byte| byte as u8).collect();
            let words = [9, Header::second_word(length, 3, Kind::Data as u8, flags)];
            frame[..16].copy_from_slice(bytemuck::cast_slice(&words));
            let payload = header.split_short(&frame, 70).map(|payload| payload.first().copied().unwrap_or(0));
            let fields = (header.sequence, header.length, header.stream, header.flags, header.sample_index);
            payload.map(|first| (first, fields))
        };
        assert_eq!([0, 32, 33].map(Header::short_offset), [16, 16, 48]);
        assert_eq!(split(16, 0, Header::SHORT), Some((0, (9, 0, 3, 0, 70))));
        assert_eq!(split(48, 32, Header::SHORT), Some((16, (9, 32, 3, 0, 70))));
        assert_eq!(split(81, 33, Header::SHORT), Some((48, (9, 33, 3, 0, 70))));
        // A packet that was shortened after its place was chosen.
        assert_eq!(split(49, 1, Header::SHORT), Some((48, (9, 1, 3, 0, 70))));
        for (len, length) in [(16, 1), (47, 32), (80, 33), (100, 33), (16, u32::MAX)] {
            assert_eq!(split(len, length, Header::SHORT), None, "{length} of {len}");
        }
        assert_eq!(split(48, 32, Header::SHORT | Header::MORE), None);
        assert!(header.split_short(&[0; 15], 0).is_none());
    }

    #[test]
    fn a_short_frame_has_no_header() {
        assert!(Header::read(&[0; 47]).is_none());
        assert!(Header::read(&[0; 48]).is_some());
    }
}
