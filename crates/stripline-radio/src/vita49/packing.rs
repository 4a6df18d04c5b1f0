//! The packets that a sink sends: DIFI 1.1, or VITA 49.2 without a class.

use stripline::StreamInfo;

use super::context::{decibel_bits, hertz_field};
use super::format::PayloadFormat;
use super::packet::{ClassId, WORD};

/// The fields of DIFI's context, by the bits of the indicator field 0: reference point, bandwidth,
/// frequencies, band offset, level, gain, sample rate, adjustment, calibration, indicators, format.
const FIELDS: u32 = 0x7bb9_8000;
/// The bit of the indicator field 0 for a change.
const CHANGED: u32 = 1 << 31;
/// The reference point that DIFI prescribes.
const REFERENCE_POINT: u32 = 100;
/// The fields of DIFI's version, by the indicator fields 0 and 1, and the version of VITA 49.2.
const VERSION: [u32; 3] = [1 << 1, 0xc, 4];
/// The revision of the sender, by DIFI: years since 2000, day, revision 1, type 0 and version 0.
const BUILD: u32 = 26 << 25 | 1 << 16 | 1 << 10;

/// The words before a payload.
pub(super) struct Prefix {
    /// The type and the indicators of the packet.
    pub header: u32,
    pub count: u8,
    pub stream: u32,
    pub class: Option<ClassId>,
    pub pad_bits: u8,
    /// Seconds since 1970.
    pub seconds: u32,
    /// Picoseconds since the second began.
    pub fraction: u64,
}

impl Prefix {
    /// Returns the number of bytes, with or without a class.
    pub fn bytes(has_class: bool) -> usize {
        WORD * if has_class { 7 } else { 5 }
    }

    /// Appends the words before a payload with this number of bytes. Padding needs a class.
    pub fn write(&self, payload: usize, out: &mut Vec<u8>) {
        let has_class = self.class.is_some() || self.pad_bits > 0;
        let size = (Self::bytes(has_class) + payload) / WORD;
        // Seconds of UTC, and picoseconds.
        let stamps = 1 << 22 | 2 << 20;
        let header = self.header | u32::from(has_class) << 27 | stamps | u32::from(self.count) << 16;
        let mut word = |word: u32| out.extend(word.to_be_bytes());
        word(header | (size as u32 & 0xffff));
        word(self.stream);
        if has_class {
            let class = self.class.unwrap_or(ClassId { oui: 0, information: 0, packet: 0 });
            word(u32::from(self.pad_bits) << 27 | class.oui);
            word(u32::from(class.information) << 16 | u32::from(class.packet));
        }
        word(self.seconds);
        word((self.fraction >> 32) as u32);
        word(self.fraction as u32);
    }
}

/// The values of a context.
pub(super) struct ContextFields {
    has_changed: bool,
    bandwidth_hz: f64,
    frequency_hz: f64,
    reference_level_dbm: f64,
    gain_db: f64,
    rate_hz: f64,
    format: PayloadFormat,
}

impl ContextFields {
    /// Takes the values from a description. An unknown bandwidth is the sample rate, and another
    /// unknown value 0.
    pub fn of(stream: &StreamInfo, rate_hz: f64, format: PayloadFormat, has_changed: bool) -> Self {
        let number = |name: &str| stream.keywords.get(name).and_then(|value| value.as_f64());
        Self {
            has_changed,
            bandwidth_hz: number("bandwidth_hz").unwrap_or(rate_hz),
            frequency_hz: stream.center_frequency_hz.unwrap_or(0.0),
            reference_level_dbm: number("reference_level_dbm").unwrap_or(0.0),
            gain_db: number("gain_db").unwrap_or(0.0),
            rate_hz,
            format,
        }
    }
}

/// Returns a context packet.
pub(super) fn context(prefix: &Prefix, fields: &ContextFields) -> Vec<u8> {
    let mut payload = Vec::new();
    let changed = if fields.has_changed { CHANGED } else { 0 };
    payload.extend((changed | FIELDS).to_be_bytes());
    payload.extend(REFERENCE_POINT.to_be_bytes());
    // Bandwidth, intermediate and radio frequency, band offset.
    for frequency in [fields.bandwidth_hz, 0.0, fields.frequency_hz, 0.0] {
        payload.extend(hertz_field(frequency));
    }
    payload.extend(u32::from(decibel_bits(fields.reference_level_dbm)).to_be_bytes());
    payload.extend(u32::from(decibel_bits(fields.gain_db)).to_be_bytes());
    payload.extend(hertz_field(fields.rate_hz));
    // Adjustment, calibration and indicators: nothing is given.
    payload.extend([0; 16]);
    fields.format.words().iter().for_each(|word| payload.extend(word.to_be_bytes()));
    packet(prefix, &payload)
}

/// Returns DIFI's packet with the version of the sender.
pub(super) fn version(prefix: &Prefix, has_changed: bool) -> Vec<u8> {
    let [first, second, standard] = VERSION;
    let changed = if has_changed { CHANGED } else { 0 };
    let payload: Vec<u8> =
        [changed | first, second, standard, BUILD].iter().flat_map(|word| word.to_be_bytes()).collect();
    packet(prefix, &payload)
}

fn packet(prefix: &Prefix, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(Prefix::bytes(true) + payload.len());
    prefix.write(payload.len(), &mut out);
    out.extend_from_slice(payload);
    out
}
