//! The description of a stream: rate, frequency, and the order of samples.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::StreamClock;

/// The description of a stream of samples, like BulkIO's SRI. The description is sent before the
/// stream's first packet and when it changes.
///
/// ```
/// use stripline::StreamInfo;
///
/// let stream = StreamInfo::new("antenna-1").sample_rate_hz(2e6).center_frequency_hz(1090e6);
/// assert_eq!(stream.sample_rate_hz, Some(2e6));
/// ```
///
/// For samples that are not simply a sequence of values, it describes their order. A receiver can
/// then plot or store a stream that it was not written for:
///
/// ```
/// use stripline::{Axis, StreamInfo};
///
/// // 100 spectra a second of 1024 bins each, of two antennas in turn.
/// let spectra = StreamInfo::new("spectra")
///     .sample_rate_hz(102_400.0)
///     .rows(1024, Axis::new(-1e6, 2e6 / 1024.0, "Hz"), Axis::new(0.0, 0.01, "s"))
///     .channels(["left", "right"]);
/// assert_eq!(spectra.check(), Ok(()));
/// assert_eq!((spectra.row_of(3 * 1024 + 512), spectra.channel_of(3 * 1024 + 512)), (3, Some("right")));
/// assert_eq!(spectra.axes[0].at(512), 0.0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StreamInfo {
    /// The name of the stream.
    pub id: String,
    /// The number of samples per second, of all channels together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sample_rate_hz: Option<f64>,
    /// The frequency that 0 Hz of the samples corresponds to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub center_frequency_hz: Option<f64>,
    /// The number of samples in a row, if the samples are rows of a table: a spectrum, or the cells
    /// of a range. Row `n` begins at the sample with index `n` times this length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub row_length: Option<u32>,
    /// The number of rows in a frame, if the rows are frames: pulses × range, Doppler × range. The
    /// axis from row to row begins again with each frame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frame_rows: Option<u32>,
    /// The axes on which the samples are values: the axis along a row, the axis from row to row,
    /// and the axis from frame to frame. Without rows there is only the axis from sample to sample.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub axes: Vec<Axis>,
    /// The names of channels that take turns: after `frame_rows` rows, after each row if there are
    /// no frames, and after each sample if there are no rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// The clock on which the times of the packets stand; `None` if the stream does not state it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<StreamClock>,
    /// Any other properties.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keywords: BTreeMap<String, serde_json::Value>,
}

impl StreamInfo {
    /// The largest description of a stream as JSON, in bytes.
    pub const ENCODED_MAX: usize = 64 * 1024;

    /// The most axes.
    pub const AXES_MAX: usize = 3;
    /// The most channels.
    pub const CHANNELS_MAX: usize = 256;
    /// The longest name of a channel, in bytes.
    pub const CHANNEL_NAME_MAX: usize = 64;

    /// Returns a stream with only a name.
    pub fn new(id: &str) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Sets the sample rate.
    #[must_use]
    pub fn sample_rate_hz(mut self, rate: f64) -> Self {
        self.sample_rate_hz = Some(rate);
        self
    }

    /// Sets the centre frequency.
    #[must_use]
    pub fn center_frequency_hz(mut self, frequency: f64) -> Self {
        self.center_frequency_hz = Some(frequency);
        self
    }

    /// Sets a keyword.
    ///
    /// ```
    /// let stream = stripline::StreamInfo::new("antenna-1").keyword("gain_db", 38.6);
    /// assert_eq!(stream.keywords["gain_db"], 38.6);
    /// ```
    #[must_use]
    pub fn keyword(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.keywords.insert(name.into(), value.into());
        self
    }

    /// Sets the length of a row, the axis along a row, and the axis from row to row.
    #[must_use]
    pub fn rows(mut self, length: u32, along: Axis, across: Axis) -> Self {
        self.row_length = Some(length);
        self.axes = vec![along, across];
        self
    }

    /// Divides the rows into frames, after [`StreamInfo::rows`], and sets the axis from frame to
    /// frame.
    ///
    /// ```
    /// use stripline::{Axis, StreamInfo};
    ///
    /// // Four antennas, 256 pulses of 64 range cells each, 100 times a second.
    /// let pulses = StreamInfo::new("pulses")
    ///     .rows(64, Axis::new(0.0, 15.0, "m"), Axis::new(0.0, 2e-5, "s"))
    ///     .frames(256, Axis::new(0.0, 0.01, "s"))
    ///     .channels(["a", "b", "c", "d"]);
    /// assert_eq!(pulses.check(), Ok(()));
    /// assert_eq!(pulses.frame_samples(), 4 * 256 * 64);
    /// assert_eq!(pulses.channel_of(256 * 64), Some("b"));
    /// ```
    #[must_use]
    pub fn frames(mut self, rows: u32, across: Axis) -> Self {
        self.frame_rows = Some(rows);
        self.axes.push(across);
        self
    }

    /// Sets the axis from sample to sample, for a stream without rows.
    ///
    /// ```
    /// use stripline::{Axis, StreamInfo};
    ///
    /// let profile = StreamInfo::new("echo").axis(Axis::new(0.0, 15.0, "m"));
    /// assert_eq!(profile.axes[0].at(4), 60.0);
    /// ```
    #[must_use]
    pub fn axis(mut self, axis: Axis) -> Self {
        self.axes = vec![axis];
        self
    }

    /// Sets the names of the channels.
    #[must_use]
    pub fn channels<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.channels = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the clock on which the times of the packets stand.
    ///
    /// ```
    /// use stripline::{ClockReference, StreamClock, StreamInfo};
    ///
    /// let stream = StreamInfo::new("antenna-1").clock(StreamClock::new(ClockReference::Pps));
    /// assert_eq!(stream.clock.unwrap().error_ns, None);
    /// ```
    #[must_use]
    pub fn clock(mut self, clock: StreamClock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Returns the stream without the description of the order of samples: rows, frames, axes and
    /// channels.
    /// A component that sends a different number of samples than it receives passes this on.
    ///
    /// ```
    /// let stereo = stripline::StreamInfo::new("audio").sample_rate_hz(96e3).channels(["left", "right"]);
    /// assert_eq!(stereo.without_order(), stripline::StreamInfo::new("audio").sample_rate_hz(96e3));
    /// ```
    #[must_use]
    pub fn without_order(mut self) -> Self {
        (self.row_length, self.frame_rows) = (None, None);
        self.axes.clear();
        self.channels.clear();
        self
    }

    /// Returns the row of the sample with this index. Without rows, each sample counts as a row.
    pub fn row_of(&self, sample_index: u64) -> u64 {
        sample_index / u64::from(self.row_length.unwrap_or(1).max(1))
    }

    /// Returns the channel of the sample with this index; `None` for a stream without channels.
    pub fn channel_of(&self, sample_index: u64) -> Option<&str> {
        let turn = (sample_index / self.turn_samples()).checked_rem(self.channels.len() as u64)?;
        self.channels.get(turn as usize).map(String::as_str)
    }

    /// Returns the number of samples of a channel before the samples of the next channel: the
    /// samples of `frame_rows` rows, of a row, or 1.
    pub fn turn_samples(&self) -> u64 {
        let rows = u64::from(self.frame_rows.unwrap_or(1).max(1));
        rows * u64::from(self.row_length.unwrap_or(1).max(1))
    }

    /// Returns the number of samples in a frame, with all channels: after that number, the order of
    /// rows and channels begins again. Without rows and channels, the number is 1.
    pub fn frame_samples(&self) -> u64 {
        // The product of the largest values that `check` allows fits in 64 bits.
        self.turn_samples().saturating_mul(self.channels.len().max(1) as u64)
    }

    /// Returns the number of frames that lie completely within these samples, such as the missing
    /// samples of a gap.
    ///
    /// ```
    /// let spectra = stripline::StreamInfo { row_length: Some(4), ..Default::default() };
    /// // Samples 3 to 12 contain the rows 4 to 7 and 8 to 11, and parts of two others.
    /// assert_eq!(spectra.whole_frames(3..13), 2);
    /// ```
    pub fn whole_frames(&self, samples: std::ops::Range<u64>) -> u64 {
        let frame = self.frame_samples();
        (samples.end / frame).saturating_sub(samples.start.div_ceil(frame))
    }

    /// Checks the numbers and the order of samples. Senders check the description before they send
    /// it, and receivers when they get it.
    ///
    /// # Errors
    /// The problem and the remedy.
    ///
    /// ```
    /// use stripline::{Axis, StreamInfo};
    ///
    /// let error = StreamInfo::new("echo").axis(Axis::new(0.0, 0.0, "m")).check().unwrap_err();
    /// assert_eq!(error, "the axis in `m` has the step 0; it must be finite and not 0");
    /// let error = StreamInfo::new("echo").sample_rate_hz(0.0).check().unwrap_err();
    /// assert!(error.starts_with("`sample_rate_hz` is 0; it must be finite and above 0"));
    /// ```
    pub fn check(&self) -> Result<(), String> {
        if let Some(rate) = self.sample_rate_hz.filter(|rate| !rate.is_finite() || *rate <= 0.0) {
            let rule = "it must be finite and above 0; leave it out if the rate is unknown";
            return Err(format!("`sample_rate_hz` is {rate}; {rule}"));
        }
        if let Some(frequency) = self.center_frequency_hz.filter(|frequency| !frequency.is_finite()) {
            let rule = "it must be finite; leave it out if the frequency is unknown";
            return Err(format!("`center_frequency_hz` is {frequency}; {rule}"));
        }
        self.clock.map_or(Ok(()), StreamClock::check)?;
        if self.row_length == Some(0) {
            return Err("its rows have no samples; leave `row_length` out for a stream without rows".into());
        }
        let axes_max = match (self.row_length, self.frame_rows) {
            (_, Some(0)) => {
                return Err(
                    "its frames have no rows; leave `frame_rows` out for a stream without frames".into()
                );
            }
            (None, Some(_)) => return Err("it has frames without rows; set `row_length`, too".into()),
            (Some(_), Some(_)) => Self::AXES_MAX,
            (Some(_), None) => 2,
            (None, None) => 1,
        };
        if self.axes.len() > axes_max {
            let rule = "one along a row, one from row to row with `row_length`, and one from frame to frame with \
                        `frame_rows`";
            return Err(format!("it has {} axes; there may be {rule}", self.axes.len()));
        }
        self.axes.iter().try_for_each(Axis::check)?;
        if self.channels.len() > Self::CHANNELS_MAX {
            return Err(format!("it has {} channels; at most {}", self.channels.len(), Self::CHANNELS_MAX));
        }
        let mut names = BTreeSet::new();
        for name in &self.channels {
            if name.is_empty() || name.len() > Self::CHANNEL_NAME_MAX || name.contains(char::is_control) {
                let max = Self::CHANNEL_NAME_MAX;
                return Err(format!("the channel {name:?} needs a name of 1 to {max} printable bytes"));
            }
            if !names.insert(name) {
                return Err(format!("two channels have the name `{name}`"));
            }
        }
        Ok(())
    }
}

/// The values that samples or rows stand for: evenly spaced, in a unit.
///
/// ```
/// let frequency = stripline::Axis::new(88e6, 50e3, "Hz");
/// assert_eq!(frequency.at(10), 88.5e6);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// The value at the first place.
    pub start: f64,
    /// The distance to the next value, which may be negative.
    pub step: f64,
    /// The unit, for example `Hz`, `s` or `m`; empty for plain numbers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
}

impl Axis {
    /// The longest unit, in bytes.
    pub const UNIT_MAX: usize = 32;

    /// Returns an axis.
    pub fn new(start: f64, step: f64, unit: &str) -> Self {
        Self { start, step, unit: unit.into() }
    }

    /// Returns the value at a place: the place of a sample in its row, or of a row.
    pub fn at(&self, place: u64) -> f64 {
        self.start + place as f64 * self.step
    }

    fn check(&self) -> Result<(), String> {
        let Self { start, step, unit } = self;
        if unit.len() > Self::UNIT_MAX || unit.contains(char::is_control) {
            return Err(format!(
                "the unit {unit:?} of an axis has more than {} printable bytes",
                Self::UNIT_MAX
            ));
        }
        if !start.is_finite() {
            return Err(format!("the axis in `{unit}` starts at {start}; it must be finite"));
        }
        if !step.is_finite() || *step == 0.0 {
            return Err(format!("the axis in `{unit}` has the step {step}; it must be finite and not 0"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ClockReference;

    fn refused(stream: &StreamInfo) -> String {
        stream.check().unwrap_err()
    }

    #[test]
    fn the_order_of_samples_is_checked() {
        let hz = || Axis::new(0.0, 1.0, "Hz");
        let stream = || StreamInfo::new("s");
        assert_eq!(stream().check(), Ok(()));
        assert_eq!(stream().rows(4, hz(), hz()).check(), Ok(()));
        assert!(refused(&stream().rows(0, hz(), hz())).contains("leave `row_length` out"));
        assert!(refused(&StreamInfo { axes: vec![hz(), hz()], ..stream() }).contains("it has 2 axes"));
        let three = StreamInfo { axes: vec![hz(), hz(), hz()], row_length: Some(4), ..stream() };
        assert!(refused(&three).contains("it has 3 axes"));
        let framed = StreamInfo { frame_rows: Some(8), ..three };
        assert_eq!(framed.check(), Ok(()));
        assert!(refused(&framed.clone().frames(8, hz())).contains("it has 4 axes"));
        assert!(refused(&StreamInfo { frame_rows: Some(0), ..framed }).contains("leave `frame_rows` out"));
        assert!(refused(&StreamInfo { frame_rows: Some(8), ..stream() }).contains("set `row_length`"));
        for (axis, problem) in [
            (Axis::new(f64::NAN, 1.0, "Hz"), "starts at NaN"),
            (Axis::new(0.0, f64::INFINITY, "Hz"), "the step inf"),
            (Axis::new(0.0, 0.0, ""), "the step 0"),
            (Axis::new(0.0, 1.0, "\n"), "printable"),
            (Axis::new(0.0, 1.0, &"m".repeat(33)), "more than 32"),
        ] {
            assert!(refused(&stream().axis(axis.clone())).contains(problem), "{axis:?}");
        }
        let many = (0..257).map(|n| n.to_string());
        assert!(refused(&stream().channels(many)).contains("257 channels; at most 256"));
        for bad in ["", "a\tb", &"c".repeat(65)] {
            assert!(refused(&stream().channels([bad])).contains("1 to 64 printable bytes"), "{bad}");
        }
        assert!(refused(&stream().channels(["a", "a"])).contains("two channels have the name `a`"));
    }

    proptest! {
        #[test]
        fn a_description_that_is_checked_has_usable_numbers(
            numbers in prop::array::uniform4(prop_oneof![prop::num::f64::ANY, Just(0.0), -1e9..1e9]),
            has_axis: bool,
        ) {
            let [rate, frequency, start, step] = numbers;
            let mut stream = StreamInfo::new("s").sample_rate_hz(rate).center_frequency_hz(frequency);
            if has_axis {
                stream = stream.axis(Axis::new(start, step, "s"));
            }
            let is_usable = rate.is_finite() && rate > 0.0 && frequency.is_finite();
            let fits = !has_axis || start.is_finite() && step.is_finite() && step != 0.0;
            let found = stream.check();
            prop_assert_eq!(found.is_ok(), is_usable && fits, "{:?}", found);
            if found.is_ok() {
                // No number becomes `null` on the way.
                let text = serde_json::to_string(&stream).unwrap();
                prop_assert_eq!(serde_json::from_str::<StreamInfo>(&text).unwrap(), stream);
            }
        }
    }

    #[test]
    fn rows_and_channels_follow_from_the_sample_index() {
        let plain = StreamInfo::new("s");
        assert_eq!((plain.row_of(7), plain.channel_of(7)), (7, None));
        let stereo = plain.clone().channels(["left", "right"]);
        assert_eq!((stereo.channel_of(6), stereo.channel_of(7)), (Some("left"), Some("right")));
        let rows = StreamInfo { row_length: Some(4), ..stereo };
        assert_eq!([3, 4, 7, 8].map(|index| rows.row_of(index)), [0, 1, 1, 2]);
        assert_eq!(
            [3, 4, 7, 8].map(|index| rows.channel_of(index).unwrap()),
            ["left", "right", "right", "left"]
        );
        assert_eq!((rows.turn_samples(), rows.frame_samples()), (4, 8));
        let frames = StreamInfo { frame_rows: Some(2), ..rows };
        assert_eq!([7, 8, 15, 16].map(|index| frames.row_of(index)), [1, 2, 3, 4]);
        assert_eq!(
            [7, 8, 15, 16].map(|index| frames.channel_of(index).unwrap()),
            ["left", "right", "right", "left"]
        );
        assert_eq!(
            [0..16, 1..32, 0..15, 17..31, 3..9].map(|lost| frames.whole_frames(lost)),
            [1, 1, 0, 0, 0]
        );
        // There is no division by zero, even for an unchecked length.
        assert_eq!(StreamInfo { row_length: Some(0), frame_rows: Some(0), ..frames }.row_of(5), 5);
    }

    /// Checks that the example of `docs/wire.md` has every key and describes this stream.
    #[test]
    fn docs_match_the_code() {
        let document = include_str!("../../../../docs/wire.md");
        let example = &document[document.find("{\"id\": \"spectra\"").unwrap()..];
        let mut values = serde_json::Deserializer::from_str(example).into_iter::<StreamInfo>();
        let expected = StreamInfo::new("spectra")
            .sample_rate_hz(102_400.0)
            .center_frequency_hz(1090e6)
            .rows(1024, Axis::new(-1e6, 1953.125, "Hz"), Axis::new(0.0, 0.01, "s"))
            .frames(50, Axis::new(0.0, 1.0, "s"))
            .channels(["left", "right"])
            .clock(StreamClock::new(ClockReference::Gps).error_ns(100))
            .keyword("window", "hann");
        assert_eq!(values.next().unwrap().unwrap(), expected);
        let serde_json::Value::Object(keys) = serde_json::to_value(&expected).unwrap() else { panic!() };
        for key in keys.keys() {
            assert!(document.contains(&format!("\n- `{key}`: ")), "{key}");
        }
        let words = document.split_whitespace().collect::<Vec<_>>().join(" ");
        for limit in
            [StreamInfo::AXES_MAX, StreamInfo::CHANNELS_MAX, StreamInfo::CHANNEL_NAME_MAX, Axis::UNIT_MAX]
        {
            assert!(words.contains(&format!("at most {limit} ")), "{limit}");
        }
    }

    #[test]
    fn a_stream_without_order_is_encoded_as_before() {
        let text = serde_json::to_string(&StreamInfo::new("audio").sample_rate_hz(48e3)).unwrap();
        assert_eq!(text, r#"{"id":"audio","sample_rate_hz":48000.0}"#);
    }
}
