//! The description of a stream, from its contexts and its packets.

use stripline::{ClockReference, StreamClock, StreamInfo};

use super::context::Context;
use super::packet::{ClassId, Fraction, Indicators, Seconds, Stamp};

/// The facts that a description is made of.
pub(super) struct Facts<'a> {
    pub id: &'a str,
    pub stream: Option<u32>,
    pub class: Option<ClassId>,
    pub context: &'a Context,
    pub indicators: Indicators,
    pub stamp: Stamp,
}

impl Facts<'_> {
    /// Returns the description.
    pub fn describe(&self) -> StreamInfo {
        let Self { id, context, .. } = self;
        let mut stream = StreamInfo {
            sample_rate_hz: context.sample_rate_hz.filter(|rate| *rate > 0.0),
            center_frequency_hz: context.rf_frequency_hz.map(|frequency| {
                // A signal at the intermediate frequency was at the radio frequency.
                frequency + context.rf_offset_hz.unwrap_or(0.0) - context.if_frequency_hz.unwrap_or(0.0)
            }),
            clock: self.clock(),
            ..StreamInfo::new(id)
        };
        let texts = [
            ("stream_id", self.stream.map(|number| format!("0x{number:08x}"))),
            ("class_id", self.class.map(|class| class.to_string())),
            ("device_id", context.device.map(|(oui, code)| format!("{oui:06x}:{code:04x}"))),
        ];
        for (name, text) in texts {
            stream = text.into_iter().fold(stream, |stream, text| stream.keyword(name, text));
        }
        let numbers = [
            ("bandwidth_hz", context.bandwidth_hz),
            ("if_frequency_hz", context.if_frequency_hz),
            ("band_offset_hz", context.band_offset_hz),
            ("gain_db", context.gain_db),
            ("reference_level_dbm", context.reference_level_dbm),
            ("temperature_c", context.temperature_c),
            ("reference_point", context.reference_point.map(f64::from)),
            ("over_range_samples", context.over_ranges.map(f64::from)),
            ("adjustment_ns", context.adjustment_fs.filter(|fs| *fs != 0).map(|fs| fs as f64 * 1e-6)),
        ];
        for (name, number) in numbers {
            stream = number.into_iter().fold(stream, |stream, number| stream.keyword(name, number));
        }
        let given = self.indicators;
        let indicators = [
            ("calibrated_time", given.calibrated_time),
            ("valid_data", given.valid_data),
            ("reference_lock", given.reference_lock),
            ("automatic_gain", given.automatic_gain),
            ("detected_signal", given.detected_signal),
            ("spectral_inversion", given.spectral_inversion),
            ("over_range", given.over_range),
            ("sample_loss", given.sample_loss),
        ];
        for (name, value) in indicators {
            stream = value.into_iter().fold(stream, |stream, value| stream.keyword(name, value));
        }
        stream
    }

    /// Returns the clock of the times. A reference counts unless the device reports that the
    /// oscillators are not locked to it.
    fn clock(&self) -> Option<StreamClock> {
        let lock = self.indicators.reference_lock;
        let reference = match (self.stamp.seconds, self.stamp.fraction) {
            (Seconds::Absent, Fraction::Absent) => return None,
            (Seconds::Gps(_), _) if lock != Some(false) => ClockReference::Gps,
            (Seconds::Utc(_), _) if lock == Some(true) => ClockReference::Pps,
            _ => ClockReference::Device,
        };
        Some(StreamClock::new(reference))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_become_descriptions() {
        let context = Context {
            sample_rate_hz: Some(2e6),
            rf_frequency_hz: Some(1090e6),
            if_frequency_hz: Some(10e6),
            gain_db: Some(42.5),
            device: Some((0xff_5654, 1)),
            ..Context::default()
        };
        let lock = |reference_lock| Indicators { reference_lock, ..Indicators::default() };
        let facts = |indicators, seconds| Facts {
            id: "receiver",
            stream: Some(7),
            class: None,
            context: &context,
            indicators,
            stamp: Stamp { seconds, fraction: Fraction::Picoseconds(0) },
        };
        let stream = facts(lock(Some(true)), Seconds::Utc(1)).describe();
        assert_eq!((stream.sample_rate_hz, stream.center_frequency_hz), (Some(2e6), Some(1080e6)));
        assert_eq!(stream.keywords["stream_id"], "0x00000007");
        assert_eq!(stream.keywords["device_id"], "ff5654:0001");
        assert_eq!(stream.keywords["gain_db"], 42.5);
        assert_eq!(stream.keywords["reference_lock"], true);
        assert!(!stream.keywords.contains_key("over_range"));
        assert_eq!(stream.check(), Ok(()));
        let clock = |indicators, seconds| facts(indicators, seconds).clock().map(|clock| clock.reference);
        assert_eq!(clock(lock(Some(true)), Seconds::Utc(1)), Some(ClockReference::Pps));
        assert_eq!(clock(lock(None), Seconds::Utc(1)), Some(ClockReference::Device));
        assert_eq!(clock(lock(None), Seconds::Gps(1)), Some(ClockReference::Gps));
        assert_eq!(clock(lock(Some(false)), Seconds::Gps(1)), Some(ClockReference::Device));
        let bare = Facts { stamp: Stamp::default(), ..facts(lock(None), Seconds::Absent) };
        assert_eq!(bare.clock(), None);
    }
}
