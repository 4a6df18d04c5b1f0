//! BulkIO's descriptions of streams (SRI) and times as received, and their conversion to our own.

use std::collections::BTreeMap;

use stripline::Axis;
use stripline::StreamInfo;
use stripline::carrier::packet::{Number, Scalar};

/// The units of BulkIO, in the order of their codes.
const UNITS: [&str; 14] = ["", "s", "s", "Hz", "", "m", "m/s", "m/s^2", "m/s^3", "Hz", "Hz/s", "J", "W", "g"];
const TIME: i16 = 1;
/// The source of a time: the clock of the processor.
const OF_CPU: i16 = 1;
const VALID: i16 = 1;
/// Keywords with the frequency of 0 Hz: for the channel, and for the collection that contains it.
const FREQUENCIES: [&str; 2] = ["CHAN_RF", "COL_RF"];
/// The keyword with the number of rows in a frame, which BulkIO does not have.
const FRAME_ROWS: &str = "STRIPLINE::FRAME_ROWS";
/// The most bytes of a stream's name.
const NAME_MAX: usize = 1024;
/// The most bytes of all keywords. In JSON, each byte may take six.
const KEYWORDS_MAX: usize = 8 * 1024;
/// The last second that nanoseconds in 64 bits have room for.
const SECONDS_MAX: f64 = 9.2e9;
const NANOSECONDS: i64 = 1_000_000_000;

/// The elements of a data port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BulkioType {
    /// `BULKIO::dataOctet`.
    Octet,
    /// `BULKIO::dataShort`.
    Short,
    /// `BULKIO::dataUshort`.
    UnsignedShort,
    /// `BULKIO::dataLong`, of 32 bits.
    Long,
    /// `BULKIO::dataUlong`, of 32 bits.
    UnsignedLong,
    /// `BULKIO::dataFloat`.
    Float,
    /// `BULKIO::dataDouble`.
    Double,
}

impl BulkioType {
    /// Returns the port type for samples of this kind; `None`: no data port has such elements.
    pub fn of(sample: Scalar) -> Option<Self> {
        Some(match sample.number() {
            Number::Unsigned(1) => Self::Octet,
            Number::Signed(2) => Self::Short,
            Number::Unsigned(2) => Self::UnsignedShort,
            Number::Signed(4) => Self::Long,
            Number::Unsigned(4) => Self::UnsignedLong,
            Number::Float(4) => Self::Float,
            Number::Float(8) => Self::Double,
            _ => return None,
        })
    }

    /// Returns the size of an element in bytes.
    pub fn element_bytes(self) -> usize {
        match self {
            Self::Octet => 1,
            Self::Short | Self::UnsignedShort => 2,
            Self::Long | Self::UnsignedLong | Self::Float => 4,
            Self::Double => 8,
        }
    }
}

/// The value of a keyword.
#[derive(Clone, Debug, PartialEq)]
pub enum BulkioValue {
    /// A number with a fraction.
    Number(f64),
    /// A whole number.
    Whole(i64),
    /// True or false.
    Truth(bool),
    /// A text.
    Text(String),
}

/// The description of a stream as sent or received. Any field may have any value.
#[derive(Clone, Debug, PartialEq)]
pub struct BulkioSri {
    /// The name of the stream.
    pub stream: String,
    /// The first value of the axis from sample to sample.
    pub xstart: f64,
    /// The step of this axis. In time, it is the period of samples in seconds.
    pub xdelta: f64,
    /// The code of the unit of this axis.
    pub xunits: i16,
    /// The number of samples in a row; 0: there are no rows.
    pub subsize: i32,
    /// The first value of the axis from row to row.
    pub ystart: f64,
    /// The step of this axis.
    pub ydelta: f64,
    /// The code of the unit of this axis.
    pub yunits: i16,
    /// 0: the samples are scalars. 1: the samples are complex.
    pub mode: i16,
    /// The keywords of the stream. Keywords with values of other types are left out.
    pub keywords: Vec<(String, BulkioValue)>,
}

impl BulkioSri {
    /// Returns the description of a stream without any details.
    pub fn unknown(stream: &str, is_complex: bool) -> Self {
        Self::of(&StreamInfo::new(stream), is_complex)
    }

    /// Returns the description of a stream.
    pub fn of(info: &StreamInfo, is_complex: bool) -> Self {
        let rows = info.row_length.and_then(|length| i32::try_from(length).ok());
        let period = info.sample_rate_hz.filter(|rate| rate.is_finite() && *rate > 0.0).map(f64::recip);
        // Without a period, the axis has BulkIO's default step and no unit.
        let of_time = |period: Option<f64>| match period {
            Some(period) => (0.0, period, TIME),
            None => (0.0, 1.0, 0),
        };
        let of_axis = |axis: &Axis| (axis.start, axis.step, unit_code(&axis.unit));
        let axes: Vec<_> = info.axes.iter().map(of_axis).collect();
        let (x, y) = match (rows, &axes[..]) {
            (Some(_), [along, across, ..]) => (*along, *across),
            (Some(length), _) => ((0.0, 1.0, 0), of_time(period.map(|period| period * f64::from(length)))),
            (None, [axis, ..]) if period.is_none() => (*axis, (0.0, 0.0, 0)),
            (None, _) => (of_time(period), (0.0, 0.0, 0)),
        };
        let mut keywords: Vec<_> =
            info.keywords.iter().filter_map(|(name, value)| Some((name.clone(), carried(value)?))).collect();
        if let Some(frequency) = info.center_frequency_hz
            && frequency_in(&keywords) != Some(frequency)
        {
            keywords.retain(|(name, _)| name != FREQUENCIES[0]);
            keywords.push((FREQUENCIES[0].into(), BulkioValue::Number(frequency)));
        }
        keywords.retain(|(name, _)| name != FRAME_ROWS);
        if let Some(count) = info.frame_rows.filter(|_| rows.is_some()) {
            keywords.push((FRAME_ROWS.into(), BulkioValue::Number(count.into())));
        }
        Self {
            stream: info.id.replace('\0', ""),
            xstart: x.0,
            xdelta: x.1,
            xunits: x.2,
            subsize: rows.unwrap_or(0),
            ystart: y.0,
            ydelta: y.1,
            yunits: y.2,
            mode: i16::from(is_complex),
            keywords,
        }
    }

    /// Reads the description of a stream with scalar or complex samples.
    ///
    /// # Errors
    /// A description of the fault: another mode, a negative number of samples in a row, or too much
    /// text. A step that is not a number above 0 only means that there is no rate.
    pub fn parse(&self, is_complex: bool) -> Result<StreamInfo, String> {
        if self.stream.len() > NAME_MAX {
            return Err(format!(
                "the name of a stream has {} bytes, more than {NAME_MAX}",
                self.stream.len()
            ));
        }
        let stream = &self.stream;
        if self.mode != i16::from(is_complex) {
            let wanted = if is_complex { "complex samples, the mode 1" } else { "scalars, the mode 0" };
            return Err(format!("the stream `{stream}` has the mode {}; `samples` are {wanted}", self.mode));
        }
        let row_length = u32::try_from(self.subsize)
            .map_err(|_| format!("the stream `{stream}` has rows of {} samples", self.subsize))?;
        let row_length = Some(row_length).filter(|length| *length > 0);
        let text = |value: &BulkioValue| if let BulkioValue::Text(text) = value { text.len() } else { 8 };
        let bytes: usize = self.keywords.iter().map(|(name, value)| name.len() + text(value)).sum();
        if bytes > KEYWORDS_MAX {
            return Err(format!(
                "the keywords of the stream `{stream}` have {bytes} bytes, more than {KEYWORDS_MAX}"
            ));
        }
        let along = axis(self.xstart, self.xdelta, self.xunits);
        let across = axis(self.ystart, self.ydelta, self.yunits);
        let (rate, axes) = match row_length {
            Some(length) => {
                let rows = Some(self.ydelta).filter(|_| self.yunits == TIME).and_then(rate_of);
                (rows.map(|rows| rows * f64::from(length)), along.zip(across).map(|(x, y)| vec![x, y]))
            }
            None if self.xunits == TIME || (self.xunits == 0 && self.xdelta != 1.0) => {
                (rate_of(self.xdelta), None)
            }
            None => (None, along.filter(|axis| !axis.unit.is_empty()).map(|axis| vec![axis])),
        };
        let mut keywords = json(&self.keywords);
        let frame_rows = keywords
            .get(FRAME_ROWS)
            .and_then(serde_json::Value::as_f64)
            .filter(|rows| row_length.is_some() && *rows >= 1.0 && *rows == f64::from(*rows as u32))
            .map(|rows| rows as u32);
        if frame_rows.is_some() {
            keywords.remove(FRAME_ROWS);
        }
        let info = StreamInfo {
            id: stream.clone(),
            sample_rate_hz: rate.filter(|rate| rate.is_finite()),
            center_frequency_hz: frequency_in(&self.keywords),
            row_length,
            frame_rows,
            axes: axes.unwrap_or_default(),
            channels: Vec::new(),
            clock: None,
            keywords,
        };
        info.check().map(|()| info)
    }
}

/// The time of a packet as sent or received. Any field may have any value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BulkioTime {
    /// The source of the time.
    pub mode: i16,
    /// 1: the time is valid.
    pub status: i16,
    /// A fraction of a sample, which is not used.
    pub offset: f64,
    /// Whole seconds since 1970, UTC.
    pub whole: f64,
    /// The fraction of the second, from 0 to 1.
    pub fraction: f64,
}

impl BulkioTime {
    /// Returns the time for a number of nanoseconds since 1970. `None`, or a time before 1970:
    /// unknown.
    pub fn of(time_ns: Option<i64>) -> Self {
        let Some(time_ns) = time_ns.filter(|time_ns| *time_ns > 0) else {
            return Self { mode: OF_CPU, status: 0, offset: 0.0, whole: 0.0, fraction: 0.0 };
        };
        let (whole, fraction) = (time_ns / NANOSECONDS, time_ns % NANOSECONDS);
        Self {
            mode: OF_CPU,
            status: VALID,
            offset: 0.0,
            whole: whole as f64,
            fraction: fraction as f64 / NANOSECONDS as f64,
        }
    }

    /// Returns the nanoseconds since 1970; `None`: the time is not valid, or not after 1970.
    pub fn time_ns(self) -> Option<i64> {
        let is_time = self.status == VALID
            && (0.0..SECONDS_MAX).contains(&self.whole)
            && (0.0..=1.0).contains(&self.fraction);
        if !is_time {
            return None;
        }
        // Some writers leave part of the fraction in the seconds.
        let fraction = (self.whole.fract() + self.fraction) * NANOSECONDS as f64;
        let time_ns = self.whole.trunc() as i64 * NANOSECONDS + fraction.round() as i64;
        Some(time_ns).filter(|time_ns| *time_ns > 0)
    }
}

/// Returns the rate for a period; `None`: the period is not valid.
fn rate_of(period: f64) -> Option<f64> {
    let rate = Some(period.recip()).filter(|rate| rate.is_finite() && *rate > 0.0)?;
    // A period is rounded, so a rate that is nearly whole was whole.
    let whole = rate.round();
    Some(if (rate - whole).abs() <= 1e-12 * whole { whole } else { rate })
}

fn axis(start: f64, step: f64, unit: i16) -> Option<Axis> {
    let unit = usize::try_from(unit).ok().and_then(|code| UNITS.get(code)).unwrap_or(&"");
    let is_axis = start.is_finite() && step.is_finite() && step != 0.0;
    is_axis.then(|| Axis::new(start, step, unit))
}

fn unit_code(unit: &str) -> i16 {
    UNITS.iter().position(|known| *known == unit).and_then(|code| i16::try_from(code).ok()).unwrap_or(0)
}

fn frequency_in(keywords: &[(String, BulkioValue)]) -> Option<f64> {
    let number = |value: &BulkioValue| match value {
        BulkioValue::Number(number) => Some(*number).filter(|number| number.is_finite()),
        BulkioValue::Whole(whole) => Some(*whole as f64),
        _ => None,
    };
    let of = |name: &str| keywords.iter().find(|(key, _)| key == name).and_then(|(_, value)| number(value));
    FREQUENCIES.iter().find_map(|name| of(name))
}

/// Returns keywords as JSON. A number that is not finite cannot be expressed there.
fn json(keywords: &[(String, BulkioValue)]) -> BTreeMap<String, serde_json::Value> {
    let value = |value: &BulkioValue| match value {
        BulkioValue::Number(number) => serde_json::Number::from_f64(*number).map(Into::into),
        BulkioValue::Whole(whole) => Some((*whole).into()),
        BulkioValue::Truth(truth) => Some((*truth).into()),
        BulkioValue::Text(text) => Some(text.clone().into()),
    };
    keywords.iter().filter_map(|(name, key)| Some((name.clone(), value(key)?))).collect()
}

/// Returns the value of a keyword if BulkIO supports it; `None`: it is a list, a table or null.
fn carried(value: &serde_json::Value) -> Option<BulkioValue> {
    match value {
        serde_json::Value::Bool(truth) => Some(BulkioValue::Truth(*truth)),
        serde_json::Value::String(text) => Some(BulkioValue::Text(text.clone())),
        serde_json::Value::Number(number) => {
            number.as_i64().map(BulkioValue::Whole).or(number.as_f64().map(BulkioValue::Number))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sri() -> BulkioSri {
        BulkioSri {
            stream: "antenna".into(),
            xstart: 0.0,
            xdelta: 5e-7,
            xunits: TIME,
            subsize: 0,
            ystart: 0.0,
            ydelta: 0.0,
            yunits: 0,
            mode: 1,
            keywords: vec![("COL_RF".into(), BulkioValue::Number(1.09e9))],
        }
    }

    #[test]
    fn a_description_has_rate_frequency_and_keywords() {
        let info = sri().parse(true).unwrap();
        assert_eq!(info.id, "antenna");
        assert_eq!((info.sample_rate_hz, info.center_frequency_hz), (Some(2e6), Some(1.09e9)));
        assert_eq!(info.keywords["COL_RF"], 1.09e9);
        let mut both = sri();
        both.keywords.push(("CHAN_RF".into(), BulkioValue::Whole(1_090_100_000)));
        assert_eq!(both.parse(true).unwrap().center_frequency_hz, Some(1_090_100_000.0));
        assert_eq!(BulkioSri::of(&info, true), sri());
    }

    #[test]
    fn steps_that_are_no_period_give_no_rate() {
        for xdelta in [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e-320] {
            assert_eq!(BulkioSri { xdelta, ..sri() }.parse(true).unwrap().sample_rate_hz, None, "{xdelta}");
        }
        assert_eq!(BulkioSri::unknown("x", false).parse(false).unwrap(), StreamInfo::new("x"));
        let frequency = BulkioSri { xunits: 3, xdelta: 100.0, ..sri() }.parse(true).unwrap();
        assert_eq!((frequency.sample_rate_hz, &*frequency.axes[0].unit), (None, "Hz"));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let problem = |sri: BulkioSri, is_complex| sri.parse(is_complex).unwrap_err();
        assert!(problem(BulkioSri { mode: 0, ..sri() }, true).contains("the mode 0"));
        assert!(problem(sri(), false).contains("scalars"));
        assert!(problem(BulkioSri { mode: 2, ..sri() }, true).contains("the mode 2"));
        assert!(problem(BulkioSri { subsize: -1, ..sri() }, true).contains("-1 samples"));
        assert!(problem(BulkioSri { stream: "x".repeat(1025), ..sri() }, true).contains("1025 bytes"));
        let keywords = vec![("x".into(), BulkioValue::Text("y".repeat(40_000)))];
        assert!(problem(BulkioSri { keywords, ..sri() }, true).contains("40001 bytes"));
    }

    #[test]
    fn rows_have_two_axes() {
        let rows = BulkioSri {
            xstart: -1e6,
            xdelta: 2e6 / 1024.0,
            xunits: 3,
            subsize: 1024,
            ydelta: 0.01,
            yunits: TIME,
            ..sri()
        };
        let info = rows.parse(true).unwrap();
        assert_eq!((info.row_length, info.sample_rate_hz), (Some(1024), Some(102_400.0)));
        assert_eq!((info.axes[0].at(512), &*info.axes[1].unit), (0.0, "s"));
        assert_eq!(BulkioSri::of(&info, true), rows);
    }

    #[test]
    fn a_time_that_is_not_valid_is_none() {
        let good = BulkioTime::of(Some(1_700_000_000_123_456_789));
        assert_eq!(good.time_ns(), Some(1_700_000_000_123_456_789));
        for bad in [
            BulkioTime { status: 0, ..good },
            BulkioTime { status: -1, ..good },
            BulkioTime { whole: f64::NAN, ..good },
            BulkioTime { whole: -1.0, ..good },
            BulkioTime { whole: 1e300, ..good },
            BulkioTime { fraction: f64::NAN, ..good },
            BulkioTime { fraction: -0.5, ..good },
            BulkioTime { fraction: 1.5, ..good },
            BulkioTime::of(None),
            BulkioTime::of(Some(-5)),
        ] {
            assert_eq!(bad.time_ns(), None, "{bad:?}");
        }
        let seconds = BulkioTime { whole: 12.25, fraction: 0.5, ..good };
        assert_eq!(seconds.time_ns(), Some(12_750_000_000));
    }

    #[test]
    fn samples_have_their_ports() {
        for (name, bytes) in
            [("cu8", 1), ("s16", 2), ("cu16", 2), ("s32", 4), ("u32", 4), ("cf32", 4), ("f64", 8)]
        {
            let kind = BulkioType::of(Scalar::parse(name).unwrap()).unwrap();
            assert_eq!(kind.element_bytes(), bytes, "{name}");
        }
        for name in ["s8", "cs64", "u64"] {
            assert_eq!(BulkioType::of(Scalar::parse(name).unwrap()), None);
        }
    }

    fn any_sri() -> impl Strategy<Value = BulkioSri> {
        let value = prop_oneof![
            any::<f64>().prop_map(BulkioValue::Number),
            any::<i64>().prop_map(BulkioValue::Whole),
            any::<bool>().prop_map(BulkioValue::Truth),
            ".{0,20}".prop_map(BulkioValue::Text),
        ];
        let name = prop_oneof!["CHAN_RF", "COL_RF", ".{0,9}"];
        let keywords = prop::collection::vec((name, value), 0..6);
        let numbers = any::<([f64; 4], i32, [i16; 2])>();
        (".{0,40}", numbers, -1_i16..3, keywords).prop_map(
            |(stream, (axes, subsize, units), mode, keywords)| {
                let ([xstart, xdelta, ystart, ydelta], [xunits, yunits]) = (axes, units);
                BulkioSri { stream, xstart, xdelta, xunits, subsize, ystart, ydelta, yunits, mode, keywords }
            },
        )
    }

    proptest! {
        #[test]
        fn a_time_comes_back(time_ns in 1_i64..9_000_000_000_000_000_000) {
            prop_assert_eq!(BulkioTime::of(Some(time_ns)).time_ns(), Some(time_ns));
        }

        #[test]
        fn arbitrary_times_never_panic(mode: i16, status in -1_i16..3, offset: f64, whole: f64, fraction: f64) {
            let time = BulkioTime { mode, status, offset, whole, fraction };
            prop_assert!(time.time_ns().is_none_or(|time_ns| time_ns > 0 && status == 1));
        }

        #[test]
        fn what_is_read_of_any_description_is_valid(sri in any_sri(), is_complex: bool) {
            if let Ok(info) = sri.parse(is_complex) {
                prop_assert_eq!(info.check(), Ok(()));
                prop_assert!(info.sample_rate_hz.is_none_or(|rate| rate.is_finite() && rate > 0.0));
                prop_assert!(info.center_frequency_hz.is_none_or(f64::is_finite));
                let again = BulkioSri::of(&info, is_complex).parse(is_complex);
                prop_assert!(again.is_ok(), "{again:?}");
            }
        }

        #[test]
        fn a_rate_comes_back(rate in 1.0_f64..1e10, frequency in 0.0_f64..1e11) {
            let info = StreamInfo::new("s").sample_rate_hz(rate.round()).center_frequency_hz(frequency);
            let back = BulkioSri::of(&info, false).parse(false).unwrap();
            prop_assert_eq!(back.sample_rate_hz, info.sample_rate_hz);
            prop_assert_eq!(back.center_frequency_hz, info.center_frequency_hz);
        }
    }
}
