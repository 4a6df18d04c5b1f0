//! The serialised form of messages received over DDS: `stripline::Frames`, with packets of a
//! connection, and samples.
//!
//! ```text
//! frames:  | encoding (4) | key (8) | number (8) | bytes (4) | frames |
//! samples: | encoding (4) | sample_index (8) | time_ns (8) | rate_hz (8) | frequency_hz (8)
//!          | elements (4) | samples |
//! ```

use std::ops::Range;

/// The fields of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FramesSample {
    /// The number of the connection.
    pub key: u64,
    /// The total number of frames up to the end of this sample.
    pub number: u64,
    /// The place of the frames in the sample.
    pub frames: Range<usize>,
}

impl FramesSample {
    /// The number of bytes before the frames.
    const FRONT: usize = 24;

    /// Reads a sample; `None`: it has another form, or fewer bytes than it announces.
    pub fn parse(sample: &[u8]) -> Option<Self> {
        let front = sample.first_chunk::<{ Self::FRONT }>()?;
        // CDR of version 1 or 2. The last bit of both versions is the byte order.
        let is_little = match front[..2] {
            [0, 0 | 6] => false,
            [0, 1 | 7] => true,
            _ => return None,
        };
        let number = |at: usize, bytes: usize| {
            let field = &front[at..at + bytes];
            let add = |sum: u64, byte: &u8| sum << 8 | u64::from(*byte);
            if is_little { field.iter().rev().fold(0, add) } else { field.iter().fold(0, add) }
        };
        let (key, count, length) = (number(4, 8), number(12, 8), number(20, 4));
        let end = Self::FRONT.checked_add(usize::try_from(length).ok()?)?;
        (end <= sample.len()).then_some(Self { key, number: count, frames: Self::FRONT..end })
    }
}

/// A type of samples in the IDL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DdsSampleType {
    /// `stripline::FloatSamples`.
    Float,
    /// `stripline::ComplexFloatSamples`.
    ComplexFloat,
    /// `stripline::ShortSamples`.
    Short,
    /// `stripline::ComplexShortSamples`.
    ComplexShort,
    /// `stripline::OctetSamples`.
    Octet,
}

impl DdsSampleType {
    /// Returns the type of messages with these samples, by the samples' name in waveform files;
    /// `None` if the IDL has no such type.
    pub fn of_samples(name: &str) -> Option<Self> {
        Some(match name {
            "f32" => Self::Float,
            "cf32" => Self::ComplexFloat,
            "s16" => Self::Short,
            "cs16" => Self::ComplexShort,
            "u8" => Self::Octet,
            _ => return None,
        })
    }

    /// Returns the size in bytes of an element of the type's sequence.
    pub fn element_bytes(self) -> usize {
        self.sizes().0
    }

    /// Returns the size in bytes of an element of the type's sequence, and the elements per sample.
    fn sizes(self) -> (usize, usize) {
        match self {
            Self::Float => (4, 1),
            Self::ComplexFloat => (4, 2),
            Self::Short => (2, 1),
            Self::ComplexShort => (2, 2),
            Self::Octet => (1, 1),
        }
    }
}

/// The fields before the samples of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DdsSampleInfo {
    /// The index of the first sample.
    pub sample_index: u64,
    /// The time at which the first sample was taken, in nanoseconds since 1970 (UTC); 0: unknown.
    pub time_ns: u64,
    /// Samples per second; 0: unknown.
    pub rate_hz: f64,
    /// The centre frequency; 0: unknown.
    pub frequency_hz: f64,
}

/// A message of samples in serialised form: four bytes that name the encoding, and the fields. The
/// fields are in this host's byte order, as the library delivers them.
#[derive(Debug, PartialEq)]
pub struct DdsSampleMessage<'a> {
    /// The fields before the samples.
    pub info: DdsSampleInfo,
    /// The samples.
    pub samples: &'a [u8],
}

impl<'a> DdsSampleMessage<'a> {
    /// Reads a message.
    ///
    /// # Errors
    /// A description of the fault: another encoding, fewer bytes than it announces, or half of a
    /// complex sample.
    pub fn parse(kind: DdsSampleType, bytes: &'a [u8]) -> std::result::Result<Self, String> {
        const FRONT: usize = 40;
        let native = u8::from(cfg!(target_endian = "little"));
        let Some((front, rest)) = bytes.split_first_chunk::<FRONT>() else {
            return Err(format!("a message has {} bytes, less than its first fields", bytes.len()));
        };
        if front[0] != 0 || front[1] & !6 != native || ![0, 6].contains(&(front[1] & 6)) {
            return Err(format!("a message has the encoding {:#04x}{:02x}", front[0], front[1]));
        }
        let word = |at: usize| front[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let elements = front[36..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)) as usize;
        let (element, of_sample) = kind.sizes();
        let samples = elements.checked_mul(element).and_then(|length| rest.get(..length));
        let samples = samples.ok_or_else(|| {
            format!(
                "a message announces {elements} elements of {element} bytes, and has {} bytes",
                rest.len()
            )
        })?;
        if !elements.is_multiple_of(of_sample) {
            return Err(format!("a message has {elements} elements: a complex sample has two"));
        }
        let info = DdsSampleInfo {
            sample_index: word(4),
            time_ns: word(12),
            rate_hz: f64::from_bits(word(20)),
            frequency_hz: f64::from_bits(word(28)),
        };
        Ok(Self { info, samples })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(encoding: [u8; 4], length: [u8; 4], frames: &[u8]) -> Vec<u8> {
        let (key, number) = (0x0102_0304_0506_0708_u64, 9_u64);
        let numbers = match encoding[1] & 1 {
            0 => [key.to_be_bytes(), number.to_be_bytes()],
            _ => [key.to_le_bytes(), number.to_le_bytes()],
        };
        [&encoding[..], &numbers.concat(), &length, frames].concat()
    }

    #[test]
    fn samples_of_both_byte_orders_and_versions_are_read() {
        let expected = FramesSample { key: 0x0102_0304_0506_0708, number: 9, frames: 24..27 };
        for (encoding, length) in [(0, [0, 0, 0, 3]), (6, [0, 0, 0, 3]), (1, [3, 0, 0, 0]), (7, [3, 0, 0, 0])]
        {
            let sample = sample([0, encoding, 0, 1], length, b"abc\0");
            assert_eq!(FramesSample::parse(&sample), Some(expected.clone()), "{encoding}");
        }
    }

    #[test]
    fn a_sample_with_less_than_it_announces_or_of_another_encoding_is_none() {
        let good = sample([0, 1, 0, 0], [4, 0, 0, 0], b"abcd");
        assert!(FramesSample::parse(&good).is_some());
        (0..good.len()).for_each(|cut| assert_eq!(FramesSample::parse(&good[..cut]), None, "{cut}"));
        for length in [[5, 0, 0, 0], [0xff; 4]] {
            assert_eq!(FramesSample::parse(&sample([0, 1, 0, 0], length, b"abcd")), None);
        }
        for encoding in [[0, 2, 0, 0], [0, 3, 0, 0], [1, 1, 0, 0], [0, 9, 0, 0]] {
            assert_eq!(FramesSample::parse(&sample(encoding, [4, 0, 0, 0], b"abcd")), None);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_samples_never_panic(bytes: Vec<u8>) {
            if let Some(sample) = FramesSample::parse(&bytes) {
                prop_assert!(bytes.get(sample.frames).is_some());
            }
        }
    }

    fn message(encoding: u8, elements: u32, samples: &[u8]) -> Vec<u8> {
        let words = [7_u64, 8, 2e6_f64.to_bits(), 1e8_f64.to_bits()].map(u64::to_ne_bytes);
        [&[0, encoding, 0, 0][..], &words.concat(), &elements.to_ne_bytes(), samples].concat()
    }

    #[test]
    fn messages_are_read_and_what_does_not_fit_is_named() {
        let native = u8::from(cfg!(target_endian = "little"));
        let info = DdsSampleInfo { sample_index: 7, time_ns: 8, rate_hz: 2e6, frequency_hz: 1e8 };
        for encoding in [native, native | 6] {
            let bytes = message(encoding, 4, &[5; 8]);
            let read = DdsSampleMessage::parse(DdsSampleType::ComplexShort, &bytes);
            assert_eq!(read, Ok(DdsSampleMessage { info, samples: &[5; 8] }));
            let fault = |kind, bytes: &[u8]| DdsSampleMessage::parse(kind, bytes).unwrap_err();
            assert!(fault(DdsSampleType::Float, &bytes).contains("4 elements of 4 bytes"));
            assert!(fault(DdsSampleType::Octet, &bytes[..39]).contains("39 bytes"));
            assert!(fault(DdsSampleType::ComplexShort, &message(encoding, 3, &[5; 8])).contains("has two"));
            assert!(fault(DdsSampleType::Float, &message(encoding, u32::MAX, &[5; 8])).contains("announces"));
            assert!(fault(DdsSampleType::Octet, &message(encoding ^ 1, 4, &[5; 8])).contains("encoding"));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_messages_never_panic(bytes: Vec<u8>) {
            let _ = DdsSampleMessage::parse(DdsSampleType::ComplexFloat, &bytes);
        }
    }
}
