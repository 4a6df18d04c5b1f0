//! Mode S frames as transmitted, including the parity.

use std::fmt;
use std::str::FromStr;

/// The size of a short frame in bytes.
pub const SHORT_BYTES: usize = 7;
/// The size of a long frame in bytes.
pub const LONG_BYTES: usize = 14;
/// The generator polynomial of the Mode S parity, without the leading term (ICAO Annex 10, volume
/// IV, 3.1.2.3.3).
const GENERATOR: u32 = 0x00ff_f409;
/// Characters in the longest AVR line: `*`, 28 digits and `;`.
const AVR_CHARS_MAX: usize = 2 + 2 * LONG_BYTES;

const PARITY_TABLE: [u32; 256] = parity_table();
const SYNDROMES: [u32; 8 * LONG_BYTES] = syndromes();

/// A Mode S frame of 56 or 112 bits.
///
/// The downlink format in the first five bits determines the length: formats 0 to 15 are short, 16
/// to 31 long. A value of this type always has the length of its format. The parity is not checked.
///
/// ```
/// use stripline_components::adsb::frame::Frame;
///
/// let frame: Frame = "*8d4840d6202cc371c32ce0576098;".parse()?;
/// assert_eq!(frame.downlink_format(), 17);
/// assert_eq!(frame.remainder(), 0);
/// assert_eq!(frame.to_string(), "*8d4840d6202cc371c32ce0576098;");
/// # Ok::<(), stripline_components::adsb::frame::FrameError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    /// The frame. In a short frame, the last seven bytes are zero.
    bytes: [u8; LONG_BYTES],
}

impl Frame {
    /// Creates a frame from `bytes`, which must have the length of the downlink format.
    ///
    /// # Errors
    ///
    /// [`FrameError::Length`] if the length is another one.
    pub fn new(bytes: &[u8]) -> Result<Self, FrameError> {
        let Some(&first) = bytes.first() else { return Err(FrameError::Length { format: None, bytes: 0 }) };
        let format = format_of(first);
        if bytes.len() != bytes_of_format(format) {
            return Err(FrameError::Length { format: Some(format), bytes: bytes.len() });
        }
        let mut frame = Self { bytes: [0; LONG_BYTES] };
        frame.bytes[..bytes.len()].copy_from_slice(bytes);
        Ok(frame)
    }

    /// Creates the frame at the start of `bytes`, with the length of the downlink format.
    #[must_use]
    pub fn from_start_of(bytes: &[u8; LONG_BYTES]) -> Self {
        let mut bytes = *bytes;
        let end = bytes_of_format(format_of(bytes[0]));
        bytes[end..].fill(0);
        Self { bytes }
    }

    /// Returns the bytes: 7 or 14.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..bytes_of_format(self.format_bits())]
    }

    /// Returns the number of bits: 56 or 112.
    #[must_use]
    pub fn bits(&self) -> usize {
        8 * self.as_bytes().len()
    }

    /// Returns the downlink format, 0 to 24. Only the first two bits indicate format 24; the other
    /// three belong to the message.
    #[must_use]
    pub fn downlink_format(&self) -> u8 {
        self.format_bits().min(24)
    }

    /// Returns the remainder of the whole frame after division by the generator polynomial, 24
    /// bits.
    ///
    /// The remainder is zero for an intact extended squitter (17, 18), the interrogator's code for
    /// an all-call reply (11), and the aircraft's address for the other formats.
    #[must_use]
    pub fn remainder(&self) -> u32 {
        remainder(self.as_bytes())
    }

    /// Returns the address in the clear, 24 bits. Only formats 11, 17 and 18 contain it.
    #[must_use]
    pub fn announced_address(&self) -> Option<u32> {
        matches!(self.downlink_format(), 11 | 17 | 18)
            .then(|| u32::from_be_bytes([0, self.bytes[1], self.bytes[2], self.bytes[3]]))
    }

    /// Returns the address in the clear, or else the address that is overlaid on the parity.
    ///
    /// An overlaid address is correct only if the frame was received without error. The frame alone
    /// cannot show that.
    #[must_use]
    pub fn address(&self) -> u32 {
        self.announced_address().unwrap_or_else(|| self.remainder())
    }

    /// Returns the seven bytes of the message in an extended squitter (17, 18).
    #[must_use]
    pub fn extended_message(&self) -> Option<[u8; 7]> {
        let b = &self.bytes;
        matches!(self.downlink_format(), 17 | 18).then_some([b[4], b[5], b[6], b[7], b[8], b[9], b[10]])
    }

    /// Sets the parity field so that the frame leaves `remainder` (24 bits).
    ///
    /// ```
    /// # use stripline_components::adsb::frame::Frame;
    /// // A surveillance reply (DF4) of aircraft 4d2023.
    /// let frame = Frame::new(&[0x20, 0, 0x05, 0x38, 0, 0, 0])?.with_remainder(0x4d2023);
    /// assert_eq!(frame.address(), 0x4d2023);
    /// # Ok::<(), stripline_components::adsb::frame::FrameError>(())
    /// ```
    #[must_use]
    pub fn with_remainder(mut self, remainder: u32) -> Self {
        let end = self.as_bytes().len();
        let [_, change @ ..] = (self.remainder() ^ remainder).to_be_bytes();
        for (byte, change) in self.bytes[end - 3..end].iter_mut().zip(change) {
            *byte ^= change;
        }
        self
    }

    /// Returns the frame with one bit flipped, counted from 0 at the start of the frame.
    ///
    /// Returns `None` beyond the frame, and for the first five bits, which would change the format.
    #[must_use]
    pub fn with_bit_flipped(mut self, bit: usize) -> Option<Self> {
        if !(5..self.bits()).contains(&bit) {
            return None;
        }
        self.bytes[bit / 8] ^= 0x80 >> (bit % 8);
        Some(self)
    }

    /// Returns the shortest run of wrong bits, at most `longest`, that explains `syndrome`: the
    /// first bit and the length.
    ///
    /// The run begins after the downlink format: a frame of another format would have another
    /// length or another parity.
    pub(super) fn run_of_syndrome(&self, syndrome: u32, longest: usize) -> Option<(usize, usize)> {
        // A short frame equals the end of a long frame, because leading zeros do not change the
        // remainder.
        let single = &SYNDROMES[SYNDROMES.len() - self.bits()..];
        let mut runs = [0; SYNDROMES.len()];
        (1..=longest).find_map(|length| {
            // Extend the run that starts at each bit by one.
            let starts = 5..=self.bits().checked_sub(length)?;
            let last = single.get(4 + length..)?;
            for (run, last) in runs[starts.clone()].iter_mut().zip(last) {
                *run ^= last;
            }
            runs[starts].iter().position(|&run| run == syndrome).map(|offset| (5 + offset, length))
        })
    }

    fn format_bits(&self) -> u8 {
        format_of(self.bytes[0])
    }
}

impl fmt::Display for Frame {
    /// Writes an AVR raw line without the end of line: `*`, lower-case hexadecimal, `;`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("*")?;
        for byte in self.as_bytes() {
            write!(f, "{byte:02x}")?;
        }
        f.write_str(";")
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Frame({self})")
    }
}

impl FromStr for Frame {
    type Err = FrameError;

    /// Parses an AVR raw line. Digits of either case are accepted, and white space around the line.
    fn from_str(line: &str) -> Result<Self, FrameError> {
        let line = line.trim_ascii();
        if line.len() > AVR_CHARS_MAX {
            return Err(FrameError::LineTooLong { chars: line.len() });
        }
        let digits =
            line.strip_prefix('*').and_then(|rest| rest.strip_suffix(';')).ok_or(FrameError::Delimiters)?;
        let mut bytes = [0; LONG_BYTES];
        let mut count = 0;
        for (pair, byte) in digits.as_bytes().chunks(2).zip(&mut bytes) {
            let &[high, low] = pair else { return Err(FrameError::OddDigits) };
            *byte = 16 * digit(high)? + digit(low)?;
            count += 1;
        }
        Self::new(&bytes[..count])
    }
}

/// An error in bytes or text given as a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameError {
    /// The number of bytes does not match the downlink format.
    Length {
        /// The format in the first five bits, 0 to 31; `None` if there was no byte at all.
        format: Option<u8>,
        /// The number of bytes given.
        bytes: usize,
    },
    /// An AVR line is longer than the line of a long frame.
    LineTooLong {
        /// The length of the line in bytes.
        chars: usize,
    },
    /// An AVR line does not start with `*` or does not end with `;`.
    Delimiters,
    /// An AVR line has an odd number of digits.
    OddDigits,
    /// An AVR line has a byte that is not a hexadecimal digit.
    Digit {
        /// The offending byte.
        byte: u8,
    },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Length { format: None, .. } => write!(f, "a Mode S frame cannot be empty"),
            Self::Length { format: Some(format), bytes } => {
                let right = bytes_of_format(format);
                write!(f, "a Mode S frame of downlink format {format} has {right} bytes, not {bytes}")
            }
            Self::LineTooLong { chars } => {
                write!(f, "an AVR line has at most {AVR_CHARS_MAX} characters, not {chars}")
            }
            Self::Delimiters => write!(f, "an AVR line starts with '*' and ends with ';'"),
            Self::OddDigits => write!(f, "an AVR line has an even number of hexadecimal digits"),
            Self::Digit { byte } => {
                write!(f, "'{}' is not a hexadecimal digit", byte.escape_ascii())
            }
        }
    }
}

impl std::error::Error for FrameError {}

/// Returns the 24-bit remainder of `bytes`, including the parity field, after division by the
/// generator polynomial.
///
/// `bytes` may have any length. Each byte takes one table access.
#[must_use]
pub fn remainder(bytes: &[u8]) -> u32 {
    // Dividing the message and adding the parity field equals dividing the whole frame, with three
    // table accesses fewer.
    let (message, parity) = bytes.split_at(bytes.len().saturating_sub(3));
    let divided = message.iter().fold(0u32, |register, &byte| {
        (register << 8 ^ PARITY_TABLE[usize::from((register >> 16) as u8 ^ byte)]) & 0x00ff_ffff
    });
    divided ^ parity.iter().fold(0, |field, &byte| field << 8 | u32::from(byte))
}

/// Returns the number of bytes of a frame with this downlink format.
pub(super) const fn bytes_of_format(format: u8) -> usize {
    if format & 0x10 == 0 { SHORT_BYTES } else { LONG_BYTES }
}

const fn format_of(first_byte: u8) -> u8 {
    first_byte >> 3
}

fn digit(byte: u8) -> Result<u8, FrameError> {
    match byte {
        b'0'..=b'9' => Ok(byte - b'0'),
        b'a'..=b'f' => Ok(byte - b'a' + 10),
        b'A'..=b'F' => Ok(byte - b'A' + 10),
        _ => Err(FrameError::Digit { byte }),
    }
}

/// Returns the generator applied to each value of the register's top byte.
const fn parity_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut register = (byte as u32) << 16;
        let mut bit = 0;
        while bit < 8 {
            register = times_x(register);
            bit += 1;
        }
        table[byte] = register;
        byte += 1;
    }
    table
}

/// Returns, for each bit of a long frame, the remainder of an error in this bit: a power of x.
const fn syndromes() -> [u32; 8 * LONG_BYTES] {
    let mut table = [0; 8 * LONG_BYTES];
    let mut power = 1;
    let mut bit = table.len();
    while bit > 0 {
        bit -= 1;
        table[bit] = power;
        power = times_x(power);
    }
    table
}

const fn times_x(register: u32) -> u32 {
    let shifted = register << 1;
    if shifted & 0x0100_0000 == 0 { shifted } else { (shifted ^ GENERATOR) & 0x00ff_ffff }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn published_frames_have_right_parity_and_address() {
        // From "The 1090 Megahertz Riddle" (J. Sun), 2nd edition.
        for (line, format, address) in [
            ("*8d406b902015a678d4d220aa4bda;", 17, 0x0040_6b90),
            ("*8d485020994409940838175b284f;", 17, 0x0048_5020),
            ("*a0001838ca3e51f0a8000047a36a;", 20, 0x0047_c36e_u32),
        ] {
            let frame: Frame = line.parse().unwrap();
            assert_eq!(frame.downlink_format(), format);
            if format == 17 {
                assert_eq!((frame.remainder(), frame.address()), (0, address));
            }
        }
    }

    #[test]
    fn every_single_error_has_its_own_syndrome() {
        for line in ["*8d406b902015a678d4d220aa4bda;", "*5d4d20237a55a6;"] {
            let frame: Frame = line.parse().unwrap();
            let right = frame.remainder();
            for bit in 5..frame.bits() {
                let wrong = frame.with_bit_flipped(bit).unwrap();
                assert_eq!(wrong.run_of_syndrome(wrong.remainder() ^ right, 8), Some((bit, 1)));
            }
            assert_eq!(frame.with_bit_flipped(4), None);
            assert_eq!(frame.with_bit_flipped(frame.bits()), None);
        }
    }

    #[test]
    fn bad_lines_are_refused_with_the_reason() {
        let error = |line: &str| line.parse::<Frame>().unwrap_err();
        assert_eq!(error(""), FrameError::Delimiters);
        assert_eq!(error("*;"), FrameError::Length { format: None, bytes: 0 });
        assert_eq!(error("5d4d20237a55a6;"), FrameError::Delimiters);
        assert_eq!(error("*5d4d20237a55a;"), FrameError::OddDigits);
        assert_eq!(error("*5d4d20237a55ag;"), FrameError::Digit { byte: b'g' });
        assert_eq!(error("*8d4d20237a55a6;"), FrameError::Length { format: Some(17), bytes: 7 });
        assert_eq!(error(&"*".repeat(1 << 20)), FrameError::LineTooLong { chars: 1 << 20 });
    }

    proptest! {
        #[test]
        fn bytes_and_text_round_trip(bytes: [u8; LONG_BYTES], remainder in 0u32..1 << 24) {
            let frame = Frame::from_start_of(&bytes);
            prop_assert_eq!(Frame::new(frame.as_bytes()), Ok(frame));
            prop_assert_eq!(frame.to_string().parse(), Ok(frame));
            prop_assert_eq!(frame.to_string().to_uppercase().parse(), Ok(frame));
            prop_assert_eq!(frame.with_remainder(remainder).remainder(), remainder);
        }

        #[test]
        fn no_text_or_bytes_panic(text in ".*", bytes: Vec<u8>) {
            let _ = text.parse::<Frame>();
            let _ = format!("*{text};").parse::<Frame>();
            let _ = Frame::new(&bytes);
            let _ = remainder(&bytes);
        }
    }
}
