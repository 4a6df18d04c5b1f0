//! The protocol of `rtl_tcp`, byte by byte. All numbers are big-endian.
//!
//! The server sends a header of 12 bytes, and then complex samples of two unsigned bytes without
//! end. The client sends commands of 5 bytes, without replies.

/// The first bytes of a header.
const MAGIC: &[u8; 4] = b"RTL0";

/// The header that a server sends once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The kind of tuner: 1 to 6, or another number.
    pub tuner: u32,
    /// The number of gains in the tuner's table.
    pub gains: u32,
}

impl Header {
    pub const BYTES: usize = 12;

    /// The kind of tuner in most dongles.
    pub const R820T: Self = Self { tuner: 5, gains: R820T_GAINS.len() as u32 };

    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(MAGIC);
        bytes[4..8].copy_from_slice(&self.tuner.to_be_bytes());
        bytes[8..].copy_from_slice(&self.gains.to_be_bytes());
        bytes
    }

    /// Returns the header; `None`: these are not the bytes of an `rtl_tcp` server.
    pub fn decode(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let [m0, m1, m2, m3, t0, t1, t2, t3, g0, g1, g2, g3] = bytes;
        let header =
            Self { tuner: u32::from_be_bytes([t0, t1, t2, t3]), gains: u32::from_be_bytes([g0, g1, g2, g3]) };
        ([m0, m1, m2, m3] == *MAGIC).then_some(header)
    }

    /// Returns the name of the tuner.
    pub fn name(self) -> &'static str {
        match self.tuner {
            1 => "E4000",
            2 => "FC0012",
            3 => "FC0013",
            4 => "FC2580",
            5 => "R820T",
            6 => "R828D",
            _ => "an unknown tuner",
        }
    }

    /// Returns the gains of the tuner in tenths of dB. Empty: the table is unknown, or has another
    /// length than the server's.
    pub fn gain_table(self) -> &'static [i32] {
        let table = match self.tuner {
            1 => E4000_GAINS,
            2 => FC0012_GAINS,
            3 => FC0013_GAINS,
            5 | 6 => R820T_GAINS,
            _ => &[],
        };
        if table.len() == self.gains as usize { table } else { &[] }
    }
}

// The tables of librtlsdr, in tenths of dB.
const E4000_GAINS: &[i32] = &[-10, 15, 40, 65, 90, 115, 140, 165, 190, 215, 240, 290, 340, 420];
const FC0012_GAINS: &[i32] = &[-99, -40, 71, 179, 192];
const FC0013_GAINS: &[i32] = &[
    -99, -73, -65, -63, -60, -58, -54, 58, 61, 63, 65, 67, 68, 70, 71, 179, 181, 182, 184, 186, 188, 191, 197,
];
const R820T_GAINS: &[i32] = &[
    0, 9, 14, 27, 37, 77, 87, 125, 144, 157, 166, 197, 207, 229, 254, 280, 297, 328, 338, 364, 372, 386, 402,
    421, 434, 439, 445, 480, 496,
];

/// A command of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// The centre frequency in Hz.
    Frequency(u32),
    /// The sample rate in Hz.
    Rate(u32),
    /// Whether the gain of the tuner is set by [`Command::Gain`], and not by the tuner.
    ManualGain(bool),
    /// The gain of the tuner in tenths of dB.
    Gain(i32),
    /// The correction of the crystal in parts per million.
    Correction(i32),
    /// Whether the converter sets its own gain.
    Agc(bool),
    /// The gain of the tuner, as the place in its table.
    GainIndex(u32),
    /// Whether the antenna gets power.
    BiasTee(bool),
    /// A command that this version does not have.
    Other { number: u8, value: u32 },
}

impl Command {
    pub const BYTES: usize = 5;

    pub fn encode(self) -> [u8; Self::BYTES] {
        let (number, value) = match self {
            Self::Frequency(hz) => (0x01, hz),
            Self::Rate(hz) => (0x02, hz),
            Self::ManualGain(is_on) => (0x03, u32::from(is_on)),
            Self::Gain(tenths) => (0x04, tenths.cast_unsigned()),
            Self::Correction(ppm) => (0x05, ppm.cast_unsigned()),
            Self::Agc(is_on) => (0x08, u32::from(is_on)),
            Self::GainIndex(place) => (0x0d, place),
            Self::BiasTee(is_on) => (0x0e, u32::from(is_on)),
            Self::Other { number, value } => (number, value),
        };
        let [a, b, c, d] = value.to_be_bytes();
        [number, a, b, c, d]
    }

    pub fn decode([number, value @ ..]: [u8; Self::BYTES]) -> Self {
        let value = u32::from_be_bytes(value);
        match number {
            0x01 => Self::Frequency(value),
            0x02 => Self::Rate(value),
            0x03 => Self::ManualGain(value != 0),
            0x04 => Self::Gain(value.cast_signed()),
            0x05 => Self::Correction(value.cast_signed()),
            0x08 => Self::Agc(value != 0),
            0x0d => Self::GainIndex(value),
            0x0e => Self::BiasTee(value != 0),
            _ => Self::Other { number, value },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the header with its bytes, and refuses another magic.
    #[test]
    fn a_header_has_these_bytes() {
        let bytes = *b"RTL0\0\0\0\x05\0\0\0\x1d";
        assert_eq!(Header::R820T.encode(), bytes);
        assert_eq!(Header::decode(bytes), Some(Header::R820T));
        assert_eq!(Header::R820T.gain_table().last(), Some(&496));
        assert_eq!(Header::decode(*b"HTTP/1.1 400"), None);
        for (tuner, gains, name) in [(1, 14, "E4000"), (2, 5, "FC0012"), (3, 23, "FC0013"), (6, 29, "R828D")]
        {
            let header = Header { tuner, gains };
            assert_eq!((header.name(), header.gain_table().len()), (name, gains as usize));
        }
        // A server of another device may have any number of gains.
        assert_eq!(Header { tuner: 5, gains: 10 }.gain_table(), [0; 0]);
        assert_eq!(Header { tuner: u32::MAX, gains: u32::MAX }.gain_table(), [0; 0]);
    }

    /// Compares each command with its bytes.
    #[test]
    fn a_command_has_these_bytes() {
        for (command, bytes) in [
            (Command::Frequency(1_090_000_000), [1, 0x40, 0xf8, 0x14, 0x80]),
            (Command::Rate(2_000_000), [2, 0, 0x1e, 0x84, 0x80]),
            (Command::ManualGain(true), [3, 0, 0, 0, 1]),
            (Command::Gain(-10), [4, 0xff, 0xff, 0xff, 0xf6]),
            (Command::Correction(-2), [5, 0xff, 0xff, 0xff, 0xfe]),
            (Command::Agc(false), [8, 0, 0, 0, 0]),
            (Command::GainIndex(28), [0x0d, 0, 0, 0, 28]),
            (Command::BiasTee(true), [0x0e, 0, 0, 0, 1]),
            (Command::Other { number: 0x40, value: 7 }, [0x40, 0, 0, 0, 7]),
        ] {
            assert_eq!(command.encode(), bytes);
            assert_eq!(Command::decode(bytes), command);
        }
    }
}
