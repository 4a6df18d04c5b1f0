//! The fields of a context packet: the description of a stream.

use super::format::{BadFormat, PayloadFormat};
use super::packet::{BadPacket, Indicators, WORD, Words};

/// The words of each field of the indicator field 0, by its bit from 30 down to 10. Fields of lower
/// bits have no fixed size, and stand behind.
const FIELD_WORDS: [usize; 21] = [1, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 1, 1, 2, 1, 2, 11, 11, 13, 13, 1];
/// The indicator fields 1, 2 and 3, each a word behind the indicator field 0.
const FURTHER: [u32; 3] = [1, 2, 3];
/// The indicator field 7, which gives each field several values.
const ATTRIBUTES: u32 = 7;

/// A frequency of 1 Hz in a field of 64 bits.
const HERTZ: f64 = (1_u64 << 20) as f64;
/// A level of 1 dB in a field of 16 bits.
const DECIBEL: f64 = 128.0;

/// The described part of a stream. `None`: the packet does not have the field, and an earlier value
/// holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Context {
    pub reference_point: Option<u32>,
    pub bandwidth_hz: Option<f64>,
    pub if_frequency_hz: Option<f64>,
    pub rf_frequency_hz: Option<f64>,
    pub rf_offset_hz: Option<f64>,
    pub band_offset_hz: Option<f64>,
    pub reference_level_dbm: Option<f64>,
    /// The gains of both stages.
    pub gain_db: Option<f64>,
    pub over_ranges: Option<u32>,
    pub sample_rate_hz: Option<f64>,
    /// The time from the antenna to the stamp, in femtoseconds.
    pub adjustment_fs: Option<i64>,
    pub temperature_c: Option<f64>,
    /// The maker's number, and the maker's code of the device.
    pub device: Option<(u32, u16)>,
    pub indicators: Option<Indicators>,
    pub format: Option<Result<PayloadFormat, BadFormat>>,
}

impl Context {
    /// Reads the payload of a context packet.
    ///
    /// # Errors
    /// The payload ends within a listed field; the context has attributes.
    pub fn parse(payload: &[u8]) -> Result<Self, BadPacket> {
        let mut words = Words(payload);
        let listed = words.next();
        if listed >> ATTRIBUTES & 1 == 1 {
            return Err(BadPacket::Attributes);
        }
        let has = |bit: u32| listed >> bit & 1 == 1;
        let further = FURTHER.iter().filter(|bit| has(**bit)).count();
        let fields = (0_u32..).zip(FIELD_WORDS).filter(|(index, _)| has(30 - index)).map(|(_, words)| words);
        let needed = WORD * (1 + further + fields.sum::<usize>());
        if needed > payload.len() {
            return Err(BadPacket::Context { bytes: payload.len(), needed });
        }
        words.skip(further);
        let mut context = Self {
            reference_point: has(30).then(|| words.next()),
            bandwidth_hz: has(29).then(|| hertz(&mut words)),
            if_frequency_hz: has(28).then(|| hertz(&mut words)),
            rf_frequency_hz: has(27).then(|| hertz(&mut words)),
            rf_offset_hz: has(26).then(|| hertz(&mut words)),
            band_offset_hz: has(25).then(|| hertz(&mut words)),
            reference_level_dbm: has(24).then(|| decibels(words.next())),
            ..Self::default()
        };
        context.gain_db = has(23).then(|| {
            let gains = words.next();
            decibels(gains) + decibels(gains >> 16)
        });
        context.over_ranges = has(22).then(|| words.next());
        context.sample_rate_hz = has(21).then(|| hertz(&mut words));
        context.adjustment_fs = has(20).then(|| words.next_long().cast_signed());
        // The time of the last calibration.
        words.skip(usize::from(has(19)));
        context.temperature_c = has(18).then(|| f64::from(words.next() as u16 as i16) / 64.0);
        context.device = has(17).then(|| (words.next() & 0xff_ffff, words.next() as u16));
        context.indicators = has(16).then(|| Indicators::of_word(words.next()));
        context.format = has(15).then(|| PayloadFormat::of_words(words.next(), words.next()));
        Ok(context)
    }

    /// Takes over the fields of a later packet.
    pub fn update(&mut self, later: &Self) {
        macro_rules! take {
            ($($field:ident)*) => { $(self.$field = later.$field.or(self.$field);)* };
        }
        take!(reference_point bandwidth_hz if_frequency_hz rf_frequency_hz rf_offset_hz band_offset_hz);
        take!(reference_level_dbm gain_db over_ranges sample_rate_hz adjustment_fs temperature_c device);
        take!(indicators format);
    }
}

/// Reads a frequency of 44 bits before and 20 behind the point.
fn hertz(words: &mut Words<'_>) -> f64 {
    words.next_long().cast_signed() as f64 / HERTZ
}

/// Returns the level in the lower 16 bits: 9 before and 7 behind the point.
fn decibels(word: u32) -> f64 {
    f64::from(word as u16 as i16) / DECIBEL
}

/// Returns the field for a frequency. The cast saturates.
pub(crate) fn hertz_field(frequency: f64) -> [u8; 8] {
    ((frequency * HERTZ).round() as i64).to_be_bytes()
}

/// Returns the lower 16 bits for a level. The cast saturates.
pub(crate) fn decibel_bits(level: f64) -> u16 {
    ((level * DECIBEL).round() as i16).cast_unsigned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::packet::tests::hex;
    use super::*;

    /// Compares a context of DIFI that was derived by hand, field by field.
    #[test]
    fn a_context_by_hand_has_the_meaning_of_the_standard() {
        // Bits 31 (change), 30 to 27, 25 to 23, 21 to 19, 16 and 15 are set: fbb98000.
        let payload = hex(&[
            "fbb98000",
            "00000064",         // reference point 100
            "000001e848000000", // 2,000,000 Hz is 0x1e8480, times 2^20
            "0000000000000000", // intermediate frequency 0
            "00040f8148000000", // 1,090,000,000 Hz is 0x40f81480, times 2^20
            "0000000000000000", // band offset 0
            "0000ff80",         // reference level -1 dBm: -128
            "00001540",         // stage 1: 42.5 dB is 5440
            "000001e848000000", // sample rate
            "0000000000000000", // adjustment
            "00000000",         // calibration
            "a0020000",         // calibrated time and reference lock given; lock (bit 17) set
            "a00003cf00000000", // dense, complex, signed, 16 bits
        ]
        .concat());
        let context = Context::parse(&payload).unwrap();
        assert_eq!((context.reference_point, context.bandwidth_hz), (Some(100), Some(2e6)));
        assert_eq!(context.rf_frequency_hz, Some(1090e6));
        assert_eq!((context.sample_rate_hz, context.gain_db), (Some(2e6), Some(42.5)));
        assert_eq!(context.reference_level_dbm, Some(-1.0));
        let indicators = context.indicators.unwrap();
        assert_eq!((indicators.reference_lock, indicators.calibrated_time), (Some(true), Some(false)));
        assert_eq!(context.format, Some(Ok(PayloadFormat::named("cs16").unwrap())));
        // Cut within the last field, and with attributes.
        let cut = &payload[..payload.len() - 4];
        assert_eq!(Context::parse(cut), Err(BadPacket::Context { bytes: 76, needed: 80 }));
        assert_eq!(Context::parse(&hex("00000080")), Err(BadPacket::Attributes));
        assert_eq!(Context::parse(&[]), Err(BadPacket::Context { bytes: 0, needed: 4 }));
    }

    #[test]
    fn another_library_writes_what_is_read() {
        use vita49::prelude::*;
        let mut packet = Vrt::new_context_packet();
        packet.set_stream_id(Some(3));
        let context = packet.payload_mut().context_mut().unwrap();
        context.set_bandwidth_hz(Some(8e6));
        context.set_rf_ref_freq_hz(Some(100e6));
        context.set_if_ref_freq_hz(Some(-1.5e6));
        context.set_sample_rate_sps(Some(10e6));
        context.set_reference_level_db(Some(-30.5));
        packet.update_packet_size();
        let bytes = packet.to_bytes().unwrap();
        let packet = super::super::packet::Packet::parse(&bytes).unwrap();
        assert_eq!(packet.stream, Some(3));
        let found = super::Context::parse(packet.payload).unwrap();
        assert_eq!((found.bandwidth_hz, found.rf_frequency_hz), (Some(8e6), Some(100e6)));
        assert_eq!((found.if_frequency_hz, found.sample_rate_hz), (Some(-1.5e6), Some(10e6)));
        assert_eq!(found.reference_level_dbm, Some(-30.5));
    }

    #[test]
    fn later_fields_replace_earlier_ones() {
        let mut context = Context { gain_db: Some(1.0), sample_rate_hz: Some(2e6), ..Context::default() };
        context.update(&Context { gain_db: Some(3.0), ..Context::default() });
        assert_eq!((context.gain_db, context.sample_rate_hz), (Some(3.0), Some(2e6)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1000) })]

        #[test]
        fn any_bytes_are_a_context_or_an_error(payload in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Context::parse(&payload);
        }
    }
}
