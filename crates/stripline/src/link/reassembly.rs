//! Reassembly of packets that arrive in fragments. Every field from the sender is validated.

use crate::packet::{HEADER_BYTES, Header, Kind};
use crate::sys::aligned_buffer::AlignedBuffer;

use crate::terms::LinkOptions;

/// The offset of a payload in the buffer: on a cache line, with the header right before it.
const PAYLOAD: usize = 64;
/// Flags of the whole packet, independent of the fragments.
const OF_PACKET: u8 = Header::ORDERED | Header::SERVER | Header::TARGET;

/// The reassembly of a connection's packet. The memory grows with the arriving bytes, and is
/// reused.
pub(crate) struct Reassembler {
    /// Whether frames may be missing, because the writer may overtake the receiver.
    lossy: bool,
    /// 1 while a packet is open.
    open: u8,
    /// The header of the first fragment. `length` counts the bytes so far.
    header: Header,
    buffer: AlignedBuffer,
    bytes_max: usize,
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reassembly {
    /// A whole packet.
    Unfragmented,
    /// A fragment: the packet is not complete yet, or was lost.
    Partial,
    /// The last fragment of a packet with other fragments lost.
    Lost,
    /// The last fragment. The packet is in the reassembler until the next frame.
    Complete,
}

impl Reassembler {
    /// Returns a reassembler. `lossy`: the connection may lose frames.
    pub(crate) fn new(lossy: bool) -> Self {
        let (header, buffer) = (bytemuck::Zeroable::zeroed(), AlignedBuffer::default());
        Self { lossy, open: 0, header, buffer, bytes_max: LinkOptions::PACKET_MAX }
    }

    /// Returns whether [`Reassembler::add`] has to process a frame. On the hot path, with small
    /// packets, this is the only test.
    #[inline]
    pub(crate) fn wants(&self, header: &Header) -> bool {
        header.flags | self.open != 0
    }

    /// Adds a frame. If the sender gave up a packet, the packet's fragments are dropped. The
    /// sequence numbers show that the packet is missing.
    ///
    /// # Errors
    /// A description of the sender's violation.
    #[cold]
    pub(crate) fn add(&mut self, header: &Header, fragment: &[u8]) -> Result<Reassembly, String> {
        let Header { sequence, mut flags, .. } = *header;
        if header.kind == Kind::End as u8 {
            flags &= !Header::MOVED;
        }
        if flags & !(Header::MORE | Header::CONTINUED | OF_PACKET) != 0 {
            return Err(format!("sent a frame with unknown flags {flags:#04x}"));
        }
        if flags != 0 && header.kind != Kind::Data as u8 {
            return Err(format!("sent a frame of kind {} as a piece of a packet", header.kind));
        }
        let stamp = flags & OF_PACKET;
        let flags = flags - stamp;
        if flags != 0 && fragment.is_empty() {
            return Err(format!("sent an empty piece of packet {sequence}"));
        }
        let open = (self.open == 1).then_some(self.header.sequence);
        if let Some(open) =
            open.filter(|open| sequence < *open || sequence == *open && !header.is_continued())
        {
            return Err(format!("sent a frame numbered {sequence} inside packet {open}"));
        }
        if flags == 0 {
            self.open = 0;
            return Ok(Reassembly::Unfragmented);
        }
        if !header.is_continued() {
            (self.open, self.header) = (1, Header { length: 0, flags: stamp, ..*header });
            return self.append(fragment).map(|()| Reassembly::Partial);
        }
        if open != Some(sequence) {
            self.open = 0;
            return self.missing(flags, || format!("continued packet {sequence} without its beginning"));
        }
        let (offset, have) = (header.sample_index, u64::from(self.header.length));
        if offset != have {
            self.open = 0;
            let violation = || format!("continued packet {sequence} at byte {offset} after {have} bytes");
            return if offset < have { Err(violation()) } else { self.missing(flags, violation) };
        }
        if header.stream != self.header.stream {
            return Err(format!("changed the stream inside packet {sequence}"));
        }
        self.append(fragment)?;
        if flags & Header::MORE != 0 {
            return Ok(Reassembly::Partial);
        }
        self.open = 0;
        Ok(Reassembly::Complete)
    }

    /// Adds a frame including the header, like [`Reassembler::add`]. A malformed frame is left to
    /// the code that parses frames.
    ///
    /// # Errors
    /// The errors of [`Reassembler::add`].
    pub(crate) fn add_frame(&mut self, frame: &[u8]) -> Result<Reassembly, String> {
        match Header::read(frame) {
            Some(header) if self.wants(&header) && frame.len() == HEADER_BYTES + header.length as usize => {
                self.add(&header, &frame[HEADER_BYTES..])
            }
            _ => Ok(Reassembly::Unfragmented),
        }
    }

    /// Returns the header of the packet reassembled last, as if the packet had arrived in one
    /// frame.
    pub(crate) fn header(&self) -> Header {
        self.header
    }

    /// Returns the payload of that packet.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.buffer.bytes()[PAYLOAD..][..self.header.length as usize]
    }

    /// Returns the header and the payload as one frame.
    pub(crate) fn frame(&mut self) -> &[u8] {
        let bytes = HEADER_BYTES + self.header.length as usize;
        let frame = &mut self.buffer.bytes_mut()[PAYLOAD - HEADER_BYTES..][..bytes];
        frame[..HEADER_BYTES].copy_from_slice(bytemuck::bytes_of(&self.header));
        frame
    }

    /// Drops the fragments collected so far.
    pub(crate) fn forget(&mut self) {
        self.open = 0;
    }

    fn append(&mut self, fragment: &[u8]) -> Result<(), String> {
        let have = self.header.length as usize;
        if fragment.len() > self.bytes_max - have {
            let (sequence, max) = (self.header.sequence, self.bytes_max);
            return Err(format!("sent more than {max} bytes as packet {sequence}"));
        }
        self.buffer.grow(PAYLOAD + have + fragment.len());
        self.buffer.bytes_mut()[PAYLOAD + have..][..fragment.len()].copy_from_slice(fragment);
        // The sum is at most `bytes_max`, far below `u32::MAX`.
        self.header.length += fragment.len() as u32;
        Ok(())
    }

    fn missing(&self, flags: u8, violation: impl FnOnce() -> String) -> Result<Reassembly, String> {
        match self.lossy {
            false => Err(violation()),
            true if flags & Header::MORE != 0 => Ok(Reassembly::Partial),
            true => Ok(Reassembly::Lost),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(sequence: u64, offset: u64, flags: u8, length: usize) -> Header {
        Header {
            sequence,
            sample_index: offset,
            time_ns: 5,
            intended_ns: 6,
            sent_ns: 7,
            length: length as u32,
            stream: 8,
            kind: Kind::Data as u8,
            flags,
        }
    }

    const MORE: u8 = Header::MORE;
    const LAST: u8 = Header::CONTINUED;
    const MIDDLE: u8 = Header::MORE | Header::CONTINUED;

    fn add(
        reassembler: &mut Reassembler,
        sequence: u64,
        offset: u64,
        flags: u8,
        fragment: &[u8],
    ) -> Result<Reassembly, String> {
        reassembler.add(&header(sequence, offset, flags, fragment.len()), fragment)
    }

    fn begun(lossy: bool) -> Reassembler {
        let mut reassembler = Reassembler::new(lossy);
        assert_eq!(add(&mut reassembler, 4, 100, MORE, &[1, 2, 3]), Ok(Reassembly::Partial));
        assert_eq!(add(&mut reassembler, 4, 3, MIDDLE, &[4]), Ok(Reassembly::Partial));
        reassembler
    }

    #[test]
    fn a_packet_comes_out_as_if_it_had_come_in_one() {
        let mut reassembler = begun(false);
        assert_eq!(add(&mut reassembler, 4, 4, LAST, &[5, 6]), Ok(Reassembly::Complete));
        assert_eq!(
            (reassembler.header(), reassembler.payload()),
            (header(4, 100, 0, 6), &[1, 2, 3, 4, 5, 6][..])
        );
        assert_eq!(reassembler.payload().as_ptr().addr() % 64, 0);
        let frame = reassembler.frame();
        assert_eq!(Header::read(frame), Some(header(4, 100, 0, 6)));
        assert_eq!(frame[HEADER_BYTES..], [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn every_misdeed_is_named() {
        let lies: [(u64, u64, u8, &[u8], &str); 9] = [
            (4, 4, 0x40, &[5], "unknown flags 0x40"),
            (4, 4, LAST, &[], "empty piece of packet 4"),
            (3, 4, LAST, &[5], "numbered 3 inside packet 4"),
            (4, 0, MORE, &[5], "numbered 4 inside packet 4"),
            (4, 0, 0, &[5], "numbered 4 inside packet 4"),
            (5, 4, LAST, &[5], "continued packet 5 without its beginning"),
            (4, 3, LAST, &[5], "continued packet 4 at byte 3 after 4 bytes"),
            (4, 5, LAST, &[5], "continued packet 4 at byte 5 after 4 bytes"),
            (4, 4, LAST, &[5; 4093], "sent more than 4096 bytes as packet 4"),
        ];
        for (sequence, offset, flags, fragment, violation) in lies {
            let mut reassembler = begun(false);
            reassembler.bytes_max = 4096;
            let told = add(&mut reassembler, sequence, offset, flags, fragment).unwrap_err();
            assert!(told.contains(violation), "{told}");
        }
        let other = Header { stream: 9, ..header(4, 4, LAST, 1) };
        assert!(begun(false).add(&other, &[5]).unwrap_err().contains("changed the stream"));
        let end = Header { kind: Kind::End as u8, ..header(4, 0, 0, 0) };
        assert!(begun(false).add(&end, &[]).unwrap_err().contains("inside packet 4"));
        let fragment = Header { kind: Kind::Stream as u8, ..header(5, 0, MORE, 1) };
        assert!(Reassembler::new(false).add(&fragment, b"{").unwrap_err().contains("kind 2"));
        assert!(
            add(&mut Reassembler::new(false), 0, 0, LAST, &[1])
                .unwrap_err()
                .contains("without its beginning")
        );
    }

    #[test]
    fn a_packet_given_up_is_dropped() {
        for kind in [Kind::Data, Kind::Stream, Kind::End] {
            let mut reassembler = begun(false);
            let next = Header { kind: kind as u8, ..header(5, 0, 0, 1) };
            assert!(reassembler.wants(&next));
            assert_eq!(reassembler.add(&next, &[9]), Ok(Reassembly::Unfragmented));
            assert!(!reassembler.wants(&header(6, 0, 0, 1)));
        }
        let mut reassembler = begun(false);
        assert_eq!(add(&mut reassembler, 5, 0, MORE, &[7]), Ok(Reassembly::Partial));
        assert_eq!(add(&mut reassembler, 5, 1, LAST, &[8]), Ok(Reassembly::Complete));
        assert_eq!(reassembler.payload(), [7, 8]);
    }

    proptest! {
        /// Checks that packets cut anywhere arrive whole and unchanged, or not at all, if a lossy
        /// receiver misses any frames.
        #[test]
        fn what_is_not_whole_does_not_come(
            packets in proptest::collection::vec((1usize..60, 1usize..20), 1..12),
            misses in proptest::collection::vec(proptest::bool::weighted(0.2), 1..40),
        ) {
            let mut reassembler = Reassembler::new(true);
            let mut misses = misses.iter().cycle();
            for (sequence, (bytes, fragment)) in packets.iter().enumerate() {
                let (sequence, payload) = (sequence as u64, vec![sequence as u8; *bytes]);
                let (mut outcome, mut missed, mut has_end) = (Reassembly::Partial, false, false);
                for (index, part) in payload.chunks(*fragment).enumerate() {
                    let offset = index * fragment;
                    let more = offset + part.len() < *bytes;
                    let flags = (u8::from(more) * MORE) | (u8::from(index > 0) * LAST);
                    if *misses.next().unwrap() {
                        missed = true;
                    } else {
                        outcome = add(&mut reassembler, sequence, offset as u64, flags, part).unwrap();
                        has_end = !more;
                    }
                }
                // The end of a packet, once received, decides the packet's outcome.
                prop_assert_eq!(has_end, outcome != Reassembly::Partial);
                match outcome {
                    Reassembly::Complete => {
                        prop_assert!(!missed);
                        prop_assert_eq!(reassembler.payload(), &payload[..]);
                    }
                    Reassembly::Unfragmented => prop_assert!(bytes <= fragment && !missed),
                    Reassembly::Partial | Reassembly::Lost => prop_assert!(missed),
                }
            }
        }

        /// Checks that any input gives a result and no panic, and that the buffer holds no more
        /// than the arrived bytes.
        #[test]
        fn anything_may_come(
            frames in proptest::collection::vec((0u64..3, 0u64..20, 0u8..6, 0usize..9, 0u8..5), 0..60),
            lossy in any::<bool>(),
        ) {
            let mut reassembler = Reassembler::new(lossy);
            let mut arrived_while = 0;
            for (sequence, offset, flags, length, kind) in frames {
                arrived_while += length;
                let header = Header { kind, ..header(sequence, offset, flags, length) };
                match reassembler.add(&header, &vec![1; length]) {
                    Ok(Reassembly::Complete) => prop_assert!(reassembler.payload().len() <= arrived_while),
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
    }
}
