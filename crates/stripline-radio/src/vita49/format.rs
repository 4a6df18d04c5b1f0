//! The formats of payloads, and their conversion to samples of the library.

use std::fmt;

use stripline::payload::{Number, Scalar};

/// The property text for samples that a context describes.
pub(crate) const BY_CONTEXT: &str = "context";

/// The formats that a property can name, beside the ones that a context gives.
pub(crate) const FORMATS: [&str; 15] = [
    BY_CONTEXT, "cs4", "cs8", "cs12", "cs16", "cs24", "cs32", "cf32", "s4", "s8", "s12", "s16", "s24", "s32",
    "f32",
];

/// The types of samples that payloads become.
pub(crate) const OUTPUTS: [&str; 8] = ["cs16", "cs8", "cs32", "cf32", "s16", "s8", "s32", "f32"];

/// The item format of IEEE 754 numbers of 32 bits.
const SINGLE: u32 = 0b01110;

/// The format of a payload: numbers in fields, packed into words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PayloadFormat {
    /// Whether fields follow each other without regard to words (link-efficient).
    is_dense: bool,
    is_complex: bool,
    is_float: bool,
    /// Bits of a number, 1 to 32.
    item_bits: u32,
    /// Bits of its field, at most 32: the number is at the upper end.
    field_bits: u32,
}

/// The reason why a format cannot be carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadFormat {
    Polar,
    Item(u32),
    Repeat,
    Vector(u32),
    Sizes { item: u32, field: u32, tags: u32 },
}

impl fmt::Display for BadFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Polar => f.write_str("complex numbers as amplitude and phase"),
            Self::Item(number) => write!(f, "numbers of the item format {number:#x}"),
            Self::Repeat => f.write_str("repeated samples"),
            Self::Vector(length) => write!(f, "vectors of {length} samples"),
            Self::Sizes { item, field, tags } => {
                write!(f, "numbers of {item} bits with {tags} bits of tags in fields of {field}")
            }
        }
    }
}

impl PayloadFormat {
    /// Returns the format that a name stands for, dense; `None`: [`BY_CONTEXT`].
    pub fn named(name: &str) -> Option<Self> {
        let (is_complex, real) = name.strip_prefix('c').map_or((false, name), |real| (true, real));
        let (is_float, bits) = match real.strip_prefix('f') {
            Some(bits) => (true, bits),
            None => (false, real.strip_prefix('s')?),
        };
        let item_bits = bits.parse().ok()?;
        Some(Self { is_dense: true, is_complex, is_float, item_bits, field_bits: item_bits })
    }

    /// Reads the two words of a context.
    pub fn of_words(first: u32, second: u32) -> Result<Self, BadFormat> {
        let is_complex = match first >> 29 & 3 {
            0 => false,
            1 => true,
            _ => return Err(BadFormat::Polar),
        };
        let item_format = first >> 24 & 31;
        if item_format != 0 && item_format != SINGLE {
            return Err(BadFormat::Item(item_format));
        }
        if first >> 23 & 1 == 1 || second >> 16 != 0 {
            return Err(BadFormat::Repeat);
        }
        if second & 0xffff != 0 {
            return Err(BadFormat::Vector((second & 0xffff) + 1));
        }
        let (field_bits, item_bits) = ((first >> 6 & 63) + 1, (first & 63) + 1);
        let tags = (first >> 20 & 7) + (first >> 16 & 15);
        let is_float = item_format == SINGLE;
        if field_bits > 32 || item_bits + tags > field_bits || is_float && item_bits != 32 {
            return Err(BadFormat::Sizes { item: item_bits, field: field_bits, tags });
        }
        Ok(Self { is_dense: first >> 31 == 1, is_complex, is_float, item_bits, field_bits })
    }

    /// Returns the words for a context: dense, without tags.
    pub fn words(self) -> [u32; 2] {
        let item_format = if self.is_float { SINGLE } else { 0 };
        let sizes = (self.field_bits - 1) << 6 | (self.item_bits - 1);
        [u32::from(self.is_dense) << 31 | u32::from(self.is_complex) << 29 | item_format << 24 | sizes, 0]
    }

    /// Returns the smallest type of the library that has all values.
    pub fn natural(self) -> Option<Scalar> {
        let name = match (self.is_float, self.item_bits) {
            (true, _) => "f32",
            (false, 1..=8) => "s8",
            (false, 9..=16) => "s16",
            (false, _) => "s32",
        };
        Scalar::parse(&format!("{}{name}", if self.is_complex { "c" } else { "" }))
    }

    /// Returns whether payloads can become samples of this type.
    pub fn can_become(self, output: Scalar) -> bool {
        let is_float = matches!(output.number(), Number::Float(4)) && output.is_complex() == self.is_complex;
        is_float || self.natural() == Some(output)
    }

    /// Returns whether samples of this type are the payload with the bytes of each number swapped.
    pub fn is_in_place(self, output: Scalar) -> bool {
        let bytes = self.item_bits / 8;
        self.item_bits == self.field_bits
            && matches!(self.item_bits, 8 | 16 | 32)
            && self.natural() == Some(output)
            && output.align() == bytes as usize
    }

    /// Returns the bits of a sample in a dense payload.
    pub fn sample_bits(self) -> usize {
        self.field_bits as usize * if self.is_complex { 2 } else { 1 }
    }

    /// Returns the number of samples in a payload; `None`: it ends within a sample.
    pub fn samples(self, bytes: usize, pad_bits: u8) -> Option<usize> {
        let (bits, field_bits) = (bytes * 8, self.field_bits as usize);
        let fields = match self.is_dense {
            true => (bits - usize::from(pad_bits).min(bits)) / field_bits,
            false => {
                let in_word = 32 / field_bits;
                (bits / 32 * in_word).saturating_sub(usize::from(pad_bits) / field_bits)
            }
        };
        let numbers = if self.is_complex { 2 } else { 1 };
        // A dense payload may end with less than a word that belongs to no sample.
        let is_whole = fields.is_multiple_of(numbers) || self.is_dense && field_bits < 32;
        is_whole.then_some(fields / numbers)
    }

    /// Swaps the bytes of each number, in place.
    pub fn swap(self, samples: &mut [u8]) {
        match self.item_bits {
            16 => samples.as_chunks_mut::<2>().0.iter_mut().for_each(|x| x.reverse()),
            32 => samples.as_chunks_mut::<4>().0.iter_mut().for_each(|x| x.reverse()),
            _ => {}
        }
    }

    /// Converts a payload to samples: integers as they are, or as floats from -1 to below 1.
    pub fn convert(self, payload: &[u8], output: Scalar, out: &mut [u8]) {
        if self.is_in_place(output) {
            let bytes = out.len().min(payload.len());
            out[..bytes].copy_from_slice(&payload[..bytes]);
            return self.swap(out);
        }
        let scale = 1.0 / (1_u64 << (self.item_bits - 1)) as f64;
        let (size, is_float) = (output.align(), matches!(output.number(), Number::Float(_)));
        for (index, place) in out.chunks_exact_mut(size).enumerate() {
            let bits = self.field(payload, index);
            let value = match (self.is_float, is_float) {
                (true, _) => bits.cast_unsigned(),
                (false, true) => ((f64::from(bits) * scale) as f32).to_bits(),
                (false, false) => bits.cast_unsigned(),
            };
            place.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }

    /// Returns whether the numbers are floats.
    pub fn is_float(self) -> bool {
        self.is_float
    }

    /// Appends complex samples of the library as a payload of whole bytes: samples of the payload's
    /// own type, or floats up to `full_scale` as integers. Returns the number of samples beyond
    /// the range.
    pub fn pack(self, samples: &[u8], from: Scalar, full_scale: f32, out: &mut Vec<u8>) -> u64 {
        let place = out.len();
        if self.natural() == Some(from) {
            out.extend_from_slice(samples);
            self.swap(&mut out[place..]);
            return 0;
        }
        let max = ((1_u32 << (self.item_bits - 1)) - 1) as f32;
        let (is_small, scale) = (self.item_bits == 8, max / full_scale);
        let mut clipped = 0;
        for pair in samples.as_chunks::<8>().0 {
            let mut is_beyond = false;
            for number in pair.as_chunks::<4>().0 {
                let value = f32::from_le_bytes(*number) * scale;
                // A value that is no number becomes 0.
                is_beyond |= value.is_nan() || value.abs() > max;
                let value = value.round().clamp(-max, max) as i16;
                let bytes = value.to_be_bytes();
                out.extend_from_slice(if is_small { &bytes[1..] } else { &bytes });
            }
            clipped += u64::from(is_beyond);
        }
        clipped
    }

    /// Returns the number in a field, with its sign.
    fn field(self, payload: &[u8], index: usize) -> i32 {
        let field_bits = self.field_bits as usize;
        let bit = match self.is_dense {
            true => index * field_bits,
            false => {
                let in_word = 32 / field_bits;
                index / in_word * 32 + index % in_word * field_bits
            }
        };
        let mut window = [0; 8];
        let bytes = payload.get(bit / 8..).unwrap_or_default();
        let count = bytes.len().min(window.len());
        window[..count].copy_from_slice(&bytes[..count]);
        let upper = u64::from_be_bytes(window) << (bit % 8);
        (upper.cast_signed() >> (64 - self.item_bits)) as i32
    }
}

impl fmt::Display for PayloadFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (complex, letter) =
            (if self.is_complex { "c" } else { "" }, if self.is_float { 'f' } else { 's' });
        write!(f, "{complex}{letter}{}", self.item_bits)?;
        if !self.is_dense && self.field_bits < 32 && 32 % self.field_bits != 0
            || self.field_bits != self.item_bits
        {
            write!(f, " in fields of {}", self.field_bits)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::packet::tests::hex;
    use super::*;

    fn scalar(name: &str) -> Scalar {
        Scalar::parse(name).unwrap()
    }

    fn numbers(format: PayloadFormat, payload: &str, output: &str) -> Vec<i32> {
        let (payload, output) = (hex(payload), scalar(output));
        let mut out = vec![0; format.samples(payload.len(), 0).unwrap() * output.size()];
        format.convert(&payload, output, &mut out);
        out.chunks(output.align())
            .map(|bytes| match bytes {
                [a] => i32::from(a.cast_signed()),
                [a, b] => i32::from(i16::from_le_bytes([*a, *b])),
                [a, b, c, d] => i32::from_le_bytes([*a, *b, *c, *d]),
                _ => unreachable!("a number has 1, 2 or 4 bytes"),
            })
            .collect()
    }

    #[test]
    fn numbers_of_all_sizes_keep_their_values() {
        let named = |name| PayloadFormat::named(name).unwrap();
        assert_eq!(numbers(named("cs4"), "7f80", "cs8"), [7, -1, -8, 0]);
        assert_eq!(numbers(named("s8"), "7f80ff00", "s8"), [127, -128, -1, 0]);
        assert_eq!(numbers(named("cs12"), "7ff800 001fff", "cs16"), [2047, -2048, 1, -1]);
        assert_eq!(numbers(named("cs16"), "00018000", "cs16"), [1, -32_768]);
        assert_eq!(
            numbers(named("s24"), "7fffff 800000 000001 000000", "s32"),
            [8_388_607, -8_388_608, 1, 0]
        );
        assert_eq!(numbers(named("s32"), "80000000", "s32"), [i32::MIN]);
        // Fields of 12 bits, two in a word: 8 bits of each word are empty.
        let sparse = PayloadFormat { is_dense: false, ..named("cs12") };
        assert_eq!(numbers(sparse, "7ff80000 001fff00", "cs16"), [2047, -2048, 1, -1]);
        // Numbers of 14 bits at the upper end of fields of 16.
        let wide = PayloadFormat { item_bits: 14, ..named("cs16") };
        assert_eq!(numbers(wide, "7ffc8000", "cs16"), [8191, -8192]);
        let floats = |format: PayloadFormat, payload: &str, output| -> Vec<f32> {
            numbers(format, payload, output)
                .into_iter()
                .map(|bits| f32::from_bits(bits.cast_unsigned()))
                .collect()
        };
        assert_eq!(floats(named("cs4"), "48", "cf32"), [0.5, -1.0]);
        assert_eq!(floats(named("cs16"), "4000c000", "cf32"), [0.5, -0.5]);
        assert_eq!(floats(named("cf32"), "3f800000c0000000", "cf32"), [1.0, -2.0]);
    }

    #[test]
    fn formats_that_cannot_be_carried_are_refused_by_name() {
        // DIFI's words for complex numbers of 16 and 8 bits.
        for (word, name) in [(0xa000_03cf, "cs16"), (0xa000_01c7, "cs8"), (0xae00_07df, "cf32")] {
            let format = PayloadFormat::of_words(word, 0).unwrap();
            assert_eq!((format, format.words()), (PayloadFormat::named(name).unwrap(), [word, 0]));
            assert_eq!(format.to_string(), name);
        }
        for (words, reason) in [
            ((0xc000_03cf, 0), "amplitude and phase"),
            ((0xb000_03cf, 0), "item format 0x10"),
            ((0xa080_03cf, 0), "repeated"),
            ((0xa000_03cf, 1 << 16), "repeated"),
            ((0xa000_03cf, 3), "vectors of 4"),
            ((0xa000_01cf, 0), "numbers of 16 bits with 0 bits of tags in fields of 8"),
            ((0xa010_03cf, 0), "1 bits of tags"),
            ((0xa000_0fff, 0), "fields of 64"),
            ((0xae00_03cf, 0), "numbers of 16 bits"),
        ] {
            let error = PayloadFormat::of_words(words.0, words.1).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert_eq!(PayloadFormat::named(BY_CONTEXT), None);
        for name in &FORMATS[1..] {
            let format = PayloadFormat::named(name).unwrap();
            assert!(format.natural().is_some_and(|natural| OUTPUTS.contains(&natural.to_string().as_str())));
        }
    }

    #[test]
    fn payloads_that_end_within_a_sample_are_refused() {
        let named = |name| PayloadFormat::named(name).unwrap();
        assert_eq!(named("cs16").samples(12, 0), Some(3));
        assert_eq!(named("cs8").samples(4, 16), Some(1));
        assert_eq!(named("cs32").samples(12, 0), None);
        assert_eq!(named("cs12").samples(4, 0), Some(1));
        assert_eq!(named("s24").samples(8, 0), Some(2));
        assert!(!named("cs16").can_become(scalar("s16")) && !named("cs16").can_become(scalar("cs8")));
        assert!(named("cs12").can_become(scalar("cs16")) && named("cs12").can_become(scalar("cf32")));
        assert!(named("cs16").is_in_place(scalar("cs16")) && !named("cs12").is_in_place(scalar("cs16")));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        #[test]
        fn any_words_are_a_format_or_an_error(first: u32, second in 0_u32..2, payload in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(format) = PayloadFormat::of_words(first, second) {
                let output = format.natural().unwrap();
                if let Some(samples) = format.samples(payload.len(), 0) {
                    let mut out = vec![0; samples * output.size()];
                    format.convert(&payload, output, &mut out);
                }
            }
        }
    }
}
