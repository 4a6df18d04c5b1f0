//! The parser of datagrams: header, ids, stamps, payload and trailer.

use std::fmt;

/// The number of bytes of a word. Packets consist of words.
pub(crate) const WORD: usize = 4;

/// The most bytes before a payload: header, stream id, class id and both stamps.
pub(crate) const PROLOGUE_MAX: usize = 7 * WORD;

/// Picoseconds of a second.
pub(crate) const PS_PER_S: u64 = 1_000_000_000_000;

/// A packet of VITA 49.2 in a datagram.
///
/// ```
/// use stripline_radio::vita49::{BadPacket, Packet, PacketKind};
///
/// // Signal data of stream 5: packet 3 of 16, three words, the samples 0x00010002.
/// let bytes = [0x10, 0x03, 0, 3, 0, 0, 0, 5, 0, 1, 0, 2];
/// let packet = Packet::parse(&bytes)?;
/// assert_eq!((packet.kind, packet.stream, packet.count), (PacketKind::Signal, Some(5), 3));
/// assert_eq!(packet.payload, [0, 1, 0, 2]);
/// assert_eq!(Packet::parse(&bytes[..8]), Err(BadPacket::Size { stated: 12, arrived: 8 }));
/// # Ok::<(), BadPacket>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The kind of packet.
    pub kind: PacketKind,
    /// The number of the packet among the packets of the same kind and stream, modulo 16.
    pub count: u8,
    /// The id of the stream; `None`: signal data without a stream id.
    pub stream: Option<u32>,
    /// The class of the packet.
    pub class: Option<ClassId>,
    /// The time of the first sample, or of the context.
    pub stamp: Stamp,
    /// Whether a context has the stamp of the next signal data, and no stamp of its own.
    pub is_coarse: bool,
    /// The bytes between the stamps and the trailer.
    pub payload: &'a [u8],
    /// The bits at the end of the payload that are not of samples.
    pub pad_bits: u8,
    /// The indicators of signal data.
    pub trailer: Option<Indicators>,
}

/// The kind of a packet.
///
/// ```
/// use stripline_radio::vita49::PacketKind;
///
/// assert_eq!(PacketKind::ExtensionData.to_string(), "extension data");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PacketKind {
    /// Samples.
    Signal,
    /// A spectrum in place of samples.
    Spectrum,
    /// Data with a meaning of its maker's own.
    ExtensionData,
    /// A description of signal data.
    Context,
    /// A description with a meaning of its maker's own, such as DIFI's version.
    ExtensionContext,
    /// A command to a device, or its answer.
    Command,
}

impl fmt::Display for PacketKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signal => "signal data",
            Self::Spectrum => "spectrum data",
            Self::ExtensionData => "extension data",
            Self::Context => "context",
            Self::ExtensionContext => "extension context",
            Self::Command => "command",
        })
    }
}

/// The class of a packet: its maker, and the maker's numbers for it.
///
/// ```
/// use stripline_radio::vita49::ClassId;
///
/// let class = ClassId { oui: 0x6a_621e, information: 0, packet: 1 };
/// assert_eq!((class.to_string().as_str(), class.is_difi()), ("6a621e:0000:0001", true));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassId {
    /// The maker's number, of 24 bits.
    pub oui: u32,
    /// The class of information.
    pub information: u16,
    /// The class of packet.
    pub packet: u16,
}

impl ClassId {
    /// The number of the DIFI Consortium.
    pub const DIFI: u32 = 0x6a_621e;

    /// Returns whether the class is one of DIFI.
    pub fn is_difi(self) -> bool {
        self.oui == Self::DIFI
    }
}

impl fmt::Display for ClassId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}:{:04x}:{:04x}", self.oui, self.information, self.packet)
    }
}

/// The stamps of a packet.
///
/// ```
/// use stripline_radio::vita49::{Fraction, Seconds, Stamp};
///
/// let noon = Stamp { seconds: Seconds::Utc(43_200), fraction: Fraction::Picoseconds(0) };
/// assert_ne!(noon, Stamp::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The whole seconds.
    pub seconds: Seconds,
    /// The fraction of the second, or a counter.
    pub fraction: Fraction,
}

/// The seconds of a stamp, on one of four clocks.
///
/// ```
/// assert_eq!(stripline_radio::vita49::Seconds::default(), stripline_radio::vita49::Seconds::Absent);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seconds {
    /// There are no seconds.
    #[default]
    Absent,
    /// Seconds since 1970 in UTC.
    Utc(u32),
    /// Seconds since 6 January 1980, without leap seconds.
    Gps(u32),
    /// Seconds on a clock that the device documents.
    Other(u32),
}

/// The fraction of a stamp.
///
/// ```
/// assert_eq!(stripline_radio::vita49::Fraction::default(), stripline_radio::vita49::Fraction::Absent);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fraction {
    /// There is no fraction.
    #[default]
    Absent,
    /// Samples since the second began.
    Samples(u64),
    /// Picoseconds since the second began, below 10^12.
    Picoseconds(u64),
    /// Samples since any moment.
    FreeRunning(u64),
}

/// The indicators of a trailer or a context. `None`: the device does not give it.
///
/// ```
/// use stripline_radio::vita49::Indicators;
///
/// // The device gives the reference lock, which is lost, and the over-range.
/// let found = Indicators::of_word(0x2200_2000);
/// assert_eq!((found.reference_lock, found.over_range, found.sample_loss), (Some(false), Some(true), None));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indicators {
    /// Whether the stamps are calibrated to a reference.
    pub calibrated_time: Option<bool>,
    /// Whether the data is valid.
    pub valid_data: Option<bool>,
    /// Whether the oscillators are locked to a reference.
    pub reference_lock: Option<bool>,
    /// Whether the gain is automatic.
    pub automatic_gain: Option<bool>,
    /// Whether a signal was detected.
    pub detected_signal: Option<bool>,
    /// Whether the spectrum is inverted.
    pub spectral_inversion: Option<bool>,
    /// Whether a sample was beyond the range.
    pub over_range: Option<bool>,
    /// Whether the device lost samples.
    pub sample_loss: Option<bool>,
}

impl Indicators {
    /// Reads the word of indicators. The upper bits enable the lower ones.
    pub fn of_word(word: u32) -> Self {
        let bit = |enable: u32| (word >> enable & 1 == 1).then_some(word >> (enable - 12) & 1 == 1);
        Self {
            calibrated_time: bit(31),
            valid_data: bit(30),
            reference_lock: bit(29),
            automatic_gain: bit(28),
            detected_signal: bit(27),
            spectral_inversion: bit(26),
            over_range: bit(25),
            sample_loss: bit(24),
        }
    }

    /// Returns the indicators of a packet, in place of the indicators of the context.
    #[must_use]
    pub fn or(self, context: Self) -> Self {
        Self {
            calibrated_time: self.calibrated_time.or(context.calibrated_time),
            valid_data: self.valid_data.or(context.valid_data),
            reference_lock: self.reference_lock.or(context.reference_lock),
            automatic_gain: self.automatic_gain.or(context.automatic_gain),
            detected_signal: self.detected_signal.or(context.detected_signal),
            spectral_inversion: self.spectral_inversion.or(context.spectral_inversion),
            over_range: self.over_range.or(context.over_range),
            sample_loss: self.sample_loss.or(context.sample_loss),
        }
    }
}

/// The reason why a datagram is no packet.
///
/// ```
/// use stripline_radio::vita49::BadPacket;
///
/// let error = BadPacket::Size { stated: 12, arrived: 8 };
/// assert_eq!(error.to_string(), "the header states 12 bytes, and 8 have arrived");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadPacket {
    /// The datagram has no whole header.
    Short {
        /// The bytes of the datagram.
        arrived: usize,
    },
    /// The header states another size than the datagram has.
    Size {
        /// The bytes by the header.
        stated: usize,
        /// The bytes of the datagram.
        arrived: usize,
    },
    /// The type is reserved: 8 to 15.
    Type(u8),
    /// The fields that the header announces do not fit into its size.
    Fields {
        /// The bytes by the header.
        stated: usize,
        /// The bytes of the fields.
        needed: usize,
    },
    /// The fraction of a second is 10^12 picoseconds or more.
    Picoseconds(u64),
    /// More bits are padding than the payload has.
    Padding(u8),
    /// The fields of a context do not fit into its size.
    Context {
        /// The bytes of the payload.
        bytes: usize,
        /// The bytes of the fields.
        needed: usize,
    },
    /// A context has attributes of fields (the indicator field 7), which change their sizes.
    Attributes,
}

impl BadPacket {
    /// Returns a number from 0 for each reason, below [`BadPacket::REASONS`].
    pub fn reason(self) -> usize {
        match self {
            Self::Short { .. } => 0,
            Self::Size { .. } => 1,
            Self::Type(_) => 2,
            Self::Fields { .. } => 3,
            Self::Picoseconds(_) => 4,
            Self::Padding(_) => 5,
            Self::Context { .. } => 6,
            Self::Attributes => 7,
        }
    }

    /// The number of reasons.
    pub const REASONS: usize = 8;
}

impl std::error::Error for BadPacket {}

impl fmt::Display for BadPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { arrived } => write!(f, "{arrived} bytes are no header, which has 4"),
            Self::Size { stated, arrived } => {
                write!(f, "the header states {stated} bytes, and {arrived} have arrived")
            }
            Self::Type(number) => write!(f, "the packet type {number} is reserved"),
            Self::Fields { stated, needed } => {
                write!(f, "the header states {stated} bytes, and its fields need {needed}")
            }
            Self::Picoseconds(number) => write!(f, "a second has no {number} picoseconds"),
            Self::Padding(bits) => write!(f, "the payload has fewer bits than its padding of {bits}"),
            Self::Context { bytes, needed } => {
                write!(f, "a context of {bytes} bytes lists fields of {needed}")
            }
            Self::Attributes => f.write_str("the context has attributes of fields (indicator field 7)"),
        }
    }
}

impl<'a> Packet<'a> {
    /// Parses a datagram.
    ///
    /// # Errors
    /// The datagram is not exactly one packet, or the packet contradicts itself.
    #[inline]
    pub fn parse(datagram: &'a [u8]) -> Result<Self, BadPacket> {
        let arrived = datagram.len();
        let Some((header, _)) = datagram.split_first_chunk::<WORD>() else {
            return Err(BadPacket::Short { arrived });
        };
        let head = Prologue::of_header(u32::from_be_bytes(*header))?;
        if head.stated != arrived {
            return Err(BadPacket::Size { stated: head.stated, arrived });
        }
        head.split(&datagram[..head.bytes], &datagram[head.bytes..])
    }
}

/// The fields of a header: the layout of the packet.
#[derive(Clone, Copy)]
pub(crate) struct Prologue {
    header: u32,
    kind: PacketKind,
    /// The bytes of the whole packet, by the header.
    pub stated: usize,
    /// The bytes before the payload.
    pub bytes: usize,
}

impl Prologue {
    /// Reads the header. The stated size has room for all fields.
    #[inline]
    pub fn of_header(header: u32) -> Result<Self, BadPacket> {
        let kind = match header >> 28 {
            0 | 1 if header >> 24 & 1 == 1 => PacketKind::Spectrum,
            0 | 1 => PacketKind::Signal,
            2 | 3 => PacketKind::ExtensionData,
            4 => PacketKind::Context,
            5 => PacketKind::ExtensionContext,
            6 | 7 => PacketKind::Command,
            number => return Err(BadPacket::Type(number as u8)),
        };
        let stated = (header & 0xffff) as usize * WORD;
        let mut head = Self { header, kind, stated, bytes: WORD };
        head.bytes += WORD * usize::from(head.has_stream());
        head.bytes += 2 * WORD * usize::from(head.has_class());
        head.bytes += WORD * usize::from(head.seconds() != 0);
        head.bytes += 2 * WORD * usize::from(head.fraction() != 0);
        let needed = head.bytes + WORD * usize::from(head.has_trailer());
        if needed > stated { Err(BadPacket::Fields { stated, needed }) } else { Ok(head) }
    }

    fn has_stream(self) -> bool {
        !matches!(self.header >> 28, 0 | 2)
    }

    fn has_class(self) -> bool {
        self.header >> 27 & 1 == 1
    }

    pub fn has_trailer(self) -> bool {
        self.header >> 28 < 4 && self.header >> 26 & 1 == 1
    }

    fn seconds(self) -> u32 {
        self.header >> 22 & 3
    }

    fn fraction(self) -> u32 {
        self.header >> 20 & 3
    }

    /// Reads a packet from the `bytes` before the payload, and the rest of the stated size.
    #[inline]
    pub fn split<'a>(self, before: &[u8], rest: &'a [u8]) -> Result<Packet<'a>, BadPacket> {
        let (payload, word) = match self.has_trailer() {
            false => (rest, &[][..]),
            true => rest.split_at(rest.len().saturating_sub(WORD)),
        };
        self.join(before, payload, word)
    }

    /// Reads a packet from its parts. The trailer is used if the header announces one.
    #[inline]
    pub fn join<'a>(self, before: &[u8], payload: &'a [u8], trailer: &[u8]) -> Result<Packet<'a>, BadPacket> {
        let mut words = Words(before.get(WORD..).unwrap_or_default());
        let stream = self.has_stream().then(|| words.next());
        let mut pad_bits = 0;
        let class = self.has_class().then(|| {
            let (oui, codes) = (words.next(), words.next());
            pad_bits = (oui >> 27) as u8;
            ClassId { oui: oui & 0xff_ffff, information: (codes >> 16) as u16, packet: codes as u16 }
        });
        let seconds = match self.seconds() {
            0 => Seconds::Absent,
            1 => Seconds::Utc(words.next()),
            2 => Seconds::Gps(words.next()),
            _ => Seconds::Other(words.next()),
        };
        let fraction = match self.fraction() {
            0 => Fraction::Absent,
            1 => Fraction::Samples(words.next_long()),
            2 => match words.next_long() {
                number @ PS_PER_S.. => return Err(BadPacket::Picoseconds(number)),
                number => Fraction::Picoseconds(number),
            },
            _ => Fraction::FreeRunning(words.next_long()),
        };
        if usize::from(pad_bits) > payload.len() * 8 {
            return Err(BadPacket::Padding(pad_bits));
        }
        let is_context = matches!(self.kind, PacketKind::Context | PacketKind::ExtensionContext);
        Ok(Packet {
            kind: self.kind,
            count: (self.header >> 16 & 15) as u8,
            stream,
            class,
            stamp: Stamp { seconds, fraction },
            is_coarse: is_context && self.header >> 24 & 1 == 1,
            payload,
            pad_bits,
            trailer: self.has_trailer().then(|| Indicators::of_word(Words(trailer).next())),
        })
    }
}

/// A reader of big-endian words. Behind the end there are zeros; the callers check sizes before.
pub(crate) struct Words<'a>(pub &'a [u8]);

impl Words<'_> {
    #[inline]
    pub fn next(&mut self) -> u32 {
        let Some((word, rest)) = self.0.split_first_chunk::<WORD>() else { return 0 };
        self.0 = rest;
        u32::from_be_bytes(*word)
    }

    #[inline]
    pub fn next_long(&mut self) -> u64 {
        u64::from(self.next()) << 32 | u64::from(self.next())
    }

    pub fn skip(&mut self, words: usize) {
        self.0 = self.0.get(words * WORD..).unwrap_or_default();
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Parses hexadecimal digits; spaces are left out.
    pub(crate) fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|letter| letter.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    /// Compares packets that were derived by hand from ANSI/VITA 49.2, section 5.1.
    #[test]
    fn packets_by_hand_have_the_meaning_of_the_standard() {
        // DIFI: type 1, class id (bit 27), TSI 01 (UTC), TSF 10 (picoseconds), count 6: 1001_1000
        // is 0x18, 0110_0110 is 0x66; 9 words. Stream 7. No padding, OUI 6a621e; classes 0 and 0.
        // 1,700,000,000 s is 0x6553f100; half a second is 500,000,000,000 ps, 0x746a528800.
        let bytes = hex("18660009 00000007 006a621e 00000000 6553f100 000000746a528800 00010002 fffffffe");
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!(
            packet,
            Packet {
                kind: PacketKind::Signal,
                count: 6,
                stream: Some(7),
                class: Some(ClassId { oui: ClassId::DIFI, information: 0, packet: 0 }),
                stamp: Stamp {
                    seconds: Seconds::Utc(1_700_000_000),
                    fraction: Fraction::Picoseconds(500_000_000_000),
                },
                is_coarse: false,
                payload: &[0, 1, 0, 2, 0xff, 0xff, 0xff, 0xfe],
                pad_bits: 0,
                trailer: None,
            }
        );
        // Type 0 without a stream id, with trailer (bit 26), TSI 10 (GPS), TSF 01 (samples), count
        // 15: 0x04, 1001_1111 is 0x9f; 6 words. Trailer: over-range and sample loss enabled (bits
        // 25, 24), over-range set (bit 13).
        let bytes = hex("049f0006 00000064 00000000000003e8 7fff8000 03002000");
        let packet = Packet::parse(&bytes).unwrap();
        let stamp = Stamp { seconds: Seconds::Gps(100), fraction: Fraction::Samples(1000) };
        assert_eq!((packet.kind, packet.count, packet.stream), (PacketKind::Signal, 15, None));
        assert_eq!((packet.stamp, packet.payload), (stamp, &[0x7f, 0xff, 0x80, 0][..]));
        let trailer = packet.trailer.unwrap();
        assert_eq!((trailer.over_range, trailer.sample_loss), (Some(true), Some(false)));
        assert_eq!((trailer.reference_lock, trailer.detected_signal), (None, None));
        // Type 1 with a class id of another maker, 8 bits of padding (01000 in the upper five bits
        // is 0x40), TSI 11 (other), TSF 11 (free-running), count 0: 0x18, 1111_0000 is 0xf0; 8
        // words.
        let bytes = hex("18f00008 deadbeef 40123456 00010002 00000001 0000000100000000 01020300");
        let packet = Packet::parse(&bytes).unwrap();
        let stamp = Stamp { seconds: Seconds::Other(1), fraction: Fraction::FreeRunning(1 << 32) };
        assert_eq!((packet.stream, packet.pad_bits, packet.stamp), (Some(0xdead_beef), 8, stamp));
        assert_eq!(packet.class.unwrap().to_string(), "123456:0001:0002");
        // Context: type 4, TSM (bit 24, coarse), no stamps, count 1; 3 words.
        let packet_bytes = hex("41010003 00000009 00000000");
        let packet = Packet::parse(&packet_bytes).unwrap();
        assert_eq!((packet.kind, packet.is_coarse, packet.trailer), (PacketKind::Context, true, None));
        // Spectrum data (bit 24 of a data packet), extension data, a command.
        for (bytes, kind) in [
            ("11000002 00000001", PacketKind::Spectrum),
            ("30000002 00000001", PacketKind::ExtensionData),
            ("50000002 00000001", PacketKind::ExtensionContext),
            ("60000002 00000001", PacketKind::Command),
        ] {
            assert_eq!(Packet::parse(&hex(bytes)).unwrap().kind, kind, "{bytes}");
        }
    }

    #[test]
    fn packets_that_lie_are_refused_by_name() {
        let refused = |bytes: &str| Packet::parse(&hex(bytes)).unwrap_err();
        assert_eq!(refused(""), BadPacket::Short { arrived: 0 });
        assert_eq!(refused("100000"), BadPacket::Short { arrived: 3 });
        // Truncated, longer than stated, no whole words, nothing stated.
        assert_eq!(refused("10000003 00000001"), BadPacket::Size { stated: 12, arrived: 8 });
        assert_eq!(refused("10000002 00000001 00000000"), BadPacket::Size { stated: 8, arrived: 12 });
        assert_eq!(refused("10000002 00000001 00"), BadPacket::Size { stated: 8, arrived: 9 });
        assert_eq!(refused("10000000"), BadPacket::Fields { stated: 0, needed: 8 });
        // A class id, stamps or a trailer that are not there.
        assert_eq!(refused("18000003 00000001 00000000"), BadPacket::Fields { stated: 12, needed: 16 });
        assert_eq!(refused("10600002 00000001"), BadPacket::Fields { stated: 8, needed: 20 });
        assert_eq!(refused("14000002 00000001"), BadPacket::Fields { stated: 8, needed: 12 });
        assert_eq!(refused("80000001"), BadPacket::Type(8));
        assert_eq!(refused("f0000001"), BadPacket::Type(15));
        let second = "10600005 00000001 00000000 000000e8d4a51000";
        assert_eq!(refused(second), BadPacket::Picoseconds(1_000_000_000_000));
        assert_eq!(refused("18000004 00000001 40000000 00000000"), BadPacket::Padding(8));
        let all = [BadPacket::Short { arrived: 1 }, BadPacket::Attributes];
        assert!(all.iter().all(|error| error.reason() < BadPacket::REASONS && !error.to_string().is_empty()));
    }

    /// Compares random packets with the meaning that another maker's library gives them.
    #[test]
    fn another_library_reads_the_same() {
        use vita49::prelude::*;
        let theirs = |bytes: &[u8]| Vrt::try_from(bytes).unwrap();
        for bytes in [
            "18660009 00000007 006a621e 00000000 6553f100 000000746a528800 00010002 fffffffe",
            "149f0007 00000001 00000064 00000000000003e8 7fff8000 03002000",
            "10030003 00000005 00010002",
        ] {
            let bytes = hex(bytes);
            let (ours, theirs) = (super::Packet::parse(&bytes).unwrap(), theirs(&bytes));
            assert_eq!(ours.stream, theirs.stream_id());
            assert_eq!(ours.payload, theirs.signal_payload().unwrap());
            assert_eq!(ours.count, theirs.header().packet_count());
            assert_eq!(ours.class.map(|class| class.oui), theirs.class_id().map(|class| class.oui()));
            let trailer = theirs.trailer();
            assert_eq!(
                ours.trailer.and_then(|t| t.over_range),
                trailer.and_then(|t| t.over_range_indicator())
            );
            assert_eq!(
                ours.trailer.and_then(|t| t.sample_loss),
                trailer.and_then(|t| t.sample_loss_indicator())
            );
        }
        // The packets of its examples.
        let mut packet = Vrt::new_signal_data_packet();
        packet.set_stream_id(Some(0xdead_beef));
        packet.set_signal_payload([1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
        packet.update_packet_size();
        let bytes = packet.to_bytes().unwrap();
        let ours = super::Packet::parse(&bytes).unwrap();
        assert_eq!((ours.stream, ours.payload), (Some(0xdead_beef), &[1, 2, 3, 4, 5, 6, 7, 8][..]));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

        #[test]
        fn any_bytes_are_a_packet_or_an_error(mut bytes in proptest::collection::vec(any::<u8>(), 0..64), fits: bool) {
            if fits && bytes.len() >= 4 {
                bytes.truncate(bytes.len() / 4 * 4);
                let words = (bytes.len() / 4) as u16;
                bytes[2..4].copy_from_slice(&words.to_be_bytes());
            }
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.payload.len() <= bytes.len() - 4);
                prop_assert_eq!(packet.payload.len() % 4, 0);
            }
        }
    }
}
