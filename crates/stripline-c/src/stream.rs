//! The description of a stream.

use stripline::{ClockReference as RustReference, StreamClock, StreamInfo};

use crate::border::{Ref, Str};
use crate::error::{Failure, missing};
use crate::sized;
use crate::text::Text;

/// Members of a stream's description that are set, as bits.
#[repr(u64)]
#[derive(Clone, Copy)]
pub enum StreamSet {
    /// `sample_rate_hz`.
    SampleRate = 1,
    /// `center_frequency_hz`.
    CenterFrequency = 2,
    /// `row_length`.
    RowLength = 4,
    /// `frame_rows`.
    FrameRows = 8,
    /// `clock_error_ns`.
    ClockError = 16,
}

const ALL: u64 = StreamSet::SampleRate as u64
    | StreamSet::CenterFrequency as u64
    | StreamSet::RowLength as u64
    | StreamSet::FrameRows as u64
    | StreamSet::ClockError as u64;

/// The clock on which the times of a stream stand.
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum ClockReference {
    /// The stream does not state its clock.
    None = 0,
    /// The clock of the host that received the samples from the device.
    Host = 1,
    /// A clock that follows the Precision Time Protocol.
    Ptp = 2,
    /// A clock of the device that follows a pulse per second.
    Pps = 3,
    /// A clock of the device that follows GPS.
    Gps = 4,
    /// A counter of the device that follows nothing.
    Device = 5,
}

/// The references of the library and of the header.
const REFERENCES: [(RustReference, ClockReference); 5] = [
    (RustReference::Host, ClockReference::Host),
    (RustReference::Ptp, ClockReference::Ptp),
    (RustReference::Pps, ClockReference::Pps),
    (RustReference::Gps, ClockReference::Gps),
    (RustReference::Device, ClockReference::Device),
];

/// An axis of a stream's description, for a publisher: evenly spaced values for the samples of a
/// row, for the rows, or for the frames.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Axis {
    /// The value at the first place.
    pub start: f64,
    /// The distance to the next value.
    pub step: f64,
    /// The unit; NULL: none.
    pub unit: Str,
}

/// An axis of a received stream.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct AxisView {
    /// `sizeof(stripline_axis_view)`, set by the caller.
    pub size: usize,
    /// The value at the first place.
    pub start: f64,
    /// The distance to the next value.
    pub step: f64,
    /// The unit; empty: none.
    pub unit: Text,
}

sized::sized!(AxisView, "stripline_axis_view", size: usize, start: f64, step: f64, unit: Text);

/// The description of a stream, for a publisher. Receivers get it with every packet.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StreamDescription {
    /// `sizeof(stripline_stream_description)`.
    pub size: usize,
    /// The members that are set: `STRIPLINE_STREAM_SET_…`, combined with `|`. Texts count as set if
    /// they are not NULL.
    pub set: u64,
    /// The name of the stream; NULL: no name.
    pub id: Str,
    /// Samples a second, of all channels together.
    pub sample_rate_hz: f64,
    /// The frequency that 0 Hz of the samples corresponds to.
    pub center_frequency_hz: f64,
    /// The number of samples in a row, if the samples are rows of a table.
    pub row_length: u32,
    /// A JSON object with the further members of `docs/wire.md`: `axes`, `channels`, `keywords`.
    /// NULL: none.
    pub more: Str,
    /// The number of rows in a frame, if the rows are frames: pulses of samples, for example.
    pub frame_rows: u32,
    /// The number of axes, at most 3.
    pub axis_count: u32,
    /// The axes along a row, from row to row, and from frame to frame, in place of `axes` in
    /// `more`.
    pub axes: *const Axis,
    /// The clock of the packets' times: a `stripline_clock_reference`.
    pub clock_reference: u32,
    /// The largest difference between a time and UTC, in nanoseconds; only with a clock.
    pub clock_error_ns: u64,
}

sized::sized!(
    StreamDescription, "stripline_stream_description",
    size: usize, set: u64, id: Str, sample_rate_hz: f64, center_frequency_hz: f64, row_length: u32,
    more: Str, frame_rows: u32, axis_count: u32, axes: *const Axis,
    clock_reference: u32, clock_error_ns: u64,
);

/// The description of the stream that a packet belongs to.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct StreamView {
    /// `sizeof(stripline_stream_view)`, set by the caller.
    pub size: usize,
    /// The members that are set: `STRIPLINE_STREAM_SET_…`, combined with `|`.
    pub set: u64,
    /// The name of the stream.
    pub id: Text,
    /// Samples a second, of all channels together.
    pub sample_rate_hz: f64,
    /// The frequency that 0 Hz of the samples corresponds to.
    pub center_frequency_hz: f64,
    /// The number of samples in a row, if the samples are rows of a table.
    pub row_length: u32,
    /// The number of rows in a frame, if the rows are frames: pulses of samples, for example.
    pub frame_rows: u32,
    /// The number of axes, for `stripline_packet_get_axis`.
    pub axis_count: u32,
    /// The clock of the packets' times: a `stripline_clock_reference`, 0 if the stream does not
    /// state it.
    pub clock_reference: u32,
    /// The largest difference between a time and UTC, in nanoseconds.
    pub clock_error_ns: u64,
}

sized::sized!(
    StreamView, "stripline_stream_view",
    size: usize, set: u64, id: Text, sample_rate_hz: f64, center_frequency_hz: f64, row_length: u32,
    frame_rows: u32, axis_count: u32, clock_reference: u32, clock_error_ns: u64,
);

impl Ref<StreamDescription> {
    /// Returns the description that the program has passed.
    pub(crate) fn stream(&self) -> Result<StreamInfo, Failure> {
        read(self.read_given("stream")?)
    }
}

fn read(given: StreamDescription) -> Result<StreamInfo, Failure> {
    let id = given.id.optional("stream->id")?;
    let more = given.more.optional("stream->more")?;
    if given.set & !ALL != 0 {
        return Err(Failure::argument(format!(
            "`stream->set` has the bits {:#x}, which this library does not have; update the library",
            given.set & !ALL
        )));
    }
    let has = |member: StreamSet| given.set & member as u64 != 0;
    let mut stream = match more {
        None => StreamInfo::default(),
        Some(more) => parse(more)?,
    };
    if let Some(id) = id {
        stream.id = id.into();
    }
    if has(StreamSet::SampleRate) {
        stream.sample_rate_hz = Some(given.sample_rate_hz);
    }
    if has(StreamSet::CenterFrequency) {
        stream.center_frequency_hz = Some(given.center_frequency_hz);
    }
    if has(StreamSet::RowLength) {
        stream.row_length = Some(given.row_length);
    }
    if has(StreamSet::FrameRows) {
        stream.frame_rows = Some(given.frame_rows);
    }
    stream.clock = clock(&given)?;
    if given.axis_count != 0 {
        if !stream.axes.is_empty() {
            return Err(Failure::argument("`stream` has axes in `axes` and in `more`; leave one out"));
        }
        stream.axes = axes(given)?;
    }
    stream.check().map_err(|problem| Failure::argument(format!("`stream`: {problem}")))?;
    Ok(stream)
}

/// Returns the clock that the program has passed.
fn clock(given: &StreamDescription) -> Result<Option<StreamClock>, Failure> {
    let has_error = given.set & StreamSet::ClockError as u64 != 0;
    if given.clock_reference == ClockReference::None as u32 {
        return match has_error {
            true => Err(Failure::argument(
                "`stream->clock_error_ns` is set without a clock; set `stream->clock_reference`, too",
            )),
            false => Ok(None),
        };
    }
    let found = REFERENCES.into_iter().find(|(_, number)| *number as u32 == given.clock_reference);
    let (reference, _) = found.ok_or_else(|| {
        Failure::argument(format!(
            "`stream->clock_reference` is {}, which is not a `stripline_clock_reference`",
            given.clock_reference
        ))
    })?;
    Ok(Some(StreamClock { reference, error_ns: has_error.then_some(given.clock_error_ns) }))
}

/// Returns the axes that the program has passed.
fn axes(given: StreamDescription) -> Result<Vec<stripline::Axis>, Failure> {
    let (count, most) = (given.axis_count as usize, StreamInfo::AXES_MAX);
    if count > most {
        return Err(Failure::argument(format!("`stream->axis_count` is {count}; at most {most}")));
    }
    if given.axes.is_null() {
        return Err(missing("stream->axes"));
    }
    // SAFETY: the pointer is not NULL, and points to that many axes by the header's rule.
    let axes = unsafe { std::slice::from_raw_parts(given.axes, count) };
    let axis = |axis: &Axis| {
        let unit = axis.unit.optional("stream->axes->unit")?.unwrap_or("");
        Ok(stripline::Axis::new(axis.start, axis.step, unit))
    };
    axes.iter().map(axis).collect()
}

fn parse(more: &str) -> Result<StreamInfo, Failure> {
    const MEMBERS: [&str; 3] = ["axes", "channels", "keywords"];
    let refused = |problem: String| Failure::argument(format!("`stream->more`: {problem}"));
    let value: serde_json::Value = serde_json::from_str(more).map_err(|error| refused(error.to_string()))?;
    let serde_json::Value::Object(mut members) = value else {
        return Err(refused("it is not a JSON object".into()));
    };
    if let Some(other) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(refused(format!("`{other}` is not one of {}", MEMBERS.join(", "))));
    }
    members.insert("id".into(), "".into());
    serde_json::from_value(members.into()).map_err(|error| refused(error.to_string()))
}

/// Returns the description of a packet's stream.
pub(crate) fn view(stream: &StreamInfo) -> StreamView {
    let bit = |is_set: bool, member: StreamSet| if is_set { member as u64 } else { 0 };
    let error_ns = stream.clock.and_then(|clock| clock.error_ns);
    StreamView {
        size: 0,
        set: bit(stream.sample_rate_hz.is_some(), StreamSet::SampleRate)
            | bit(stream.center_frequency_hz.is_some(), StreamSet::CenterFrequency)
            | bit(stream.row_length.is_some(), StreamSet::RowLength)
            | bit(stream.frame_rows.is_some(), StreamSet::FrameRows)
            | bit(error_ns.is_some(), StreamSet::ClockError),
        id: Text::of(&stream.id),
        sample_rate_hz: stream.sample_rate_hz.unwrap_or(0.0),
        center_frequency_hz: stream.center_frequency_hz.unwrap_or(0.0),
        row_length: stream.row_length.unwrap_or(0),
        frame_rows: stream.frame_rows.unwrap_or(0),
        // At most `AXES_MAX`.
        axis_count: stream.axes.len() as u32,
        clock_reference: reference_number(stream.clock),
        clock_error_ns: error_ns.unwrap_or(0),
    }
}

/// Returns the number of a clock's reference.
pub(crate) fn reference_number(clock: Option<StreamClock>) -> u32 {
    let found = |clock: StreamClock| REFERENCES.into_iter().find(|(own, _)| *own == clock.reference);
    clock.and_then(found).map_or(ClockReference::None, |(_, number)| number) as u32
}

/// Returns an axis of a packet's stream.
pub(crate) fn axis_view(stream: &StreamInfo, index: usize) -> Result<AxisView, Failure> {
    let axis = stream.axes.get(index).ok_or_else(|| {
        let count = stream.axes.len();
        Failure::argument(format!("there is no axis {index}: the stream has {count}, counted from 0"))
    })?;
    Ok(AxisView { size: 0, start: axis.start, step: axis.step, unit: Text::of(&axis.unit) })
}
