//! `file-source`: plays a recording.

use std::num::NonZeroU16;

use stripline::component::kit::{Pace, PacedSource};
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertyFacts, PropertySpec,
    RateRule,
};
use stripline::payload::{Dynamic, Scalar};
use stripline::{Error, Result, StreamInfo};

use super::property_errors::{self, can_play};
use super::sent_type;
use crate::formats::encoding::{TYPES, beyond_f32};
use crate::formats::{FileReader, FileReaderOptions, FormatError, shown};
use crate::stoppable::ended;
use crate::text::counted;

/// The choice of `format` that takes the type from the file.
const AUTO: &str = "auto";

/// The component `file-source`.
pub struct FileSource {
    reader: FileReader,
    /// The type of the sent samples.
    output: Scalar,
    properties: Properties,
}

impl Component for FileSource {
    fn describe() -> ComponentSpec {
        let formats: Vec<&str> = [AUTO].into_iter().chain(TYPES).collect();
        ComponentSpec::new(
            "file-source",
            "Plays a file of samples: raw, SigMF, WAV or numpy, also compressed with gzip.",
        )
        .sample_rate(RateRule::property("sample_rate").or_none())
        .output("out", PortTypes::Property("output".into()), "the recorded samples")
        .property(
            PropertySpec::path("path", "file to play; of SigMF, either file, or the archive").required(),
        )
        .property(PropertySpec::choice(
            "format",
            &formats,
            AUTO,
            "type in the file; auto: from its header, SigMF metadata, or a name such as x.cu8",
        ))
        .property(sent_type::property("the file"))
        .property(PropertySpec::integer(
            "channels",
            1,
            1,
            StreamInfo::CHANNELS_MAX as i64,
            "channels in a raw file, which take turns sample by sample; other files have their own",
        ))
        .property(
            PropertySpec::float("sample_rate", 0.0, "sample rate, of all channels; 0: from the file")
                .range(0.0, 1e12)
                .unit("Hz"),
        )
        .property(
            PropertySpec::float("frequency", 0.0, "centre frequency; 0: from the file")
                .range(0.0, 1e12)
                .unit("Hz"),
        )
        .property(truncate_partial_property())
        .property(PropertySpec::integer("repeat", 1, 0, i64::MAX, "times to play the file; 0: for ever"))
        .property(PacedSource::rate_property())
        .property(PacedSource::packet_property(16 << 10))
        .facts(facts)
        .validated(check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let path = properties.path("path").ok_or_else(|| {
            InvalidProperties::new("`path` is empty")
                .property("path")
                .remedy("set it to the recording to play")
        })?;
        let output = sent_type::scalar(properties, "output")?;
        let converts = output.to_string() == TYPES[0];
        let channels = u16::try_from(properties.count("channels")).ok().and_then(NonZeroU16::new);
        let options = FileReaderOptions {
            format: Scalar::parse(properties.text("format")),
            // If a raw file has no type in its name, assume the type that is sent.
            fallback: (!converts).then_some(output),
            // 1 is the default of the property, so it does not contradict any file.
            channels: channels.filter(|channels| channels.get() > 1),
            repeat: properties.count("repeat"),
            truncate_partial: properties.boolean("truncate_partial"),
        };
        let mut reader = FileReader::open(&path, &options).map_err(property_errors::file)?;
        if output.is_complex() {
            reader.join_channels();
        }
        let found = reader.scalar();
        sent_type::check(found, output, || {
            format!("{}: it holds {} samples, not {output}", path.display(), reader.describe())
        })?;
        Ok(Self { reader, output, properties: properties.clone() })
    }

    fn run(self, ports: Ports) -> Result<()> {
        let Self { mut reader, output, properties } = self;
        let described = stream(ports.component(), &properties, &reader);
        let frequency = Some(properties.float("frequency")).filter(|frequency| *frequency > 0.0);
        let described =
            |in_file| StreamInfo { center_frequency_hz: frequency.or(in_file), ..described.clone() };
        play(ports, &properties, properties.float("rate"), &mut reader, output, described)
    }
}

/// Sends the samples of a file as a type, with index, frequency and time of each segment.
/// `described` returns the stream for a segment with a frequency in the file.
pub(super) fn play(
    ports: Ports,
    properties: &Properties,
    rate: f64,
    reader: &mut FileReader,
    scalar: Scalar,
    described: impl Fn(Option<f64>) -> StreamInfo,
) -> Result<()> {
    let name = format!("{}: {}", ports.component(), shown(reader.path()));
    for note in reader.notes() {
        eprintln!("{name}: {note}");
    }
    let mut clipped = 0;
    let played = send(ports, properties, rate, reader, scalar, described, &mut clipped);
    if clipped > 0 {
        eprintln!("{name}: {} beyond the range of {scalar}, sent as infinite", counted(clipped, "sample"));
    }
    played
}

/// Sends the samples, and adds the number of samples that do not fit into the sent type to
/// `clipped`, also on error.
fn send(
    mut ports: Ports,
    properties: &Properties,
    rate: f64,
    reader: &mut FileReader,
    scalar: Scalar,
    described: impl Fn(Option<f64>) -> StreamInfo,
    clipped: &mut u64,
) -> Result<()> {
    let mut pace = Pace::new(ports.stop_signal(), rate);
    let packet = usize::try_from(properties.count("packet")).unwrap_or(usize::MAX);
    // Keep the samples of all channels in one packet.
    let samples = packet.max(reader.channels());
    let mut output = ports.output::<Dynamic>("out")?;
    let (mut sent_place, mut sent, mut scratch) = (None, 0, Vec::new());
    loop {
        let place = reader.place();
        let described_by = (place.frequency_hz, place.clock);
        if sent_place != Some(described_by) {
            sent_place = Some(described_by);
            output.set_stream(StreamInfo { clock: place.clock, ..described(place.frequency_hz) });
        }
        let mut loan = output.loan(samples)?;
        let count = read(reader, scalar, &mut loan, &mut scratch).map_err(ended)?;
        if count == 0 {
            return reader.truncation().map_or(Ok(()), |truncation| Err(Error::failed(truncation)));
        }
        *clipped += beyond_f32(reader.scalar(), &scratch);
        loan.truncate(count / scalar.size());
        sent += (count / scalar.size()) as u64;
        let due_ns = pace.wait_for(sent)?;
        let loan = loan.at_sample(place.sample_index).intended_ns(due_ns);
        match place.time_ns {
            Some(time_ns) => loan.at_time_ns(time_ns).send()?,
            None => loan.send()?,
        };
    }
}

/// Reads samples in the type of the file, or converted to floats. Returns the number of bytes; 0 at
/// the end.
fn read(
    reader: &mut FileReader,
    scalar: Scalar,
    out: &mut [u8],
    scratch: &mut Vec<u8>,
) -> std::result::Result<usize, FormatError> {
    let found = reader.scalar();
    if found == scalar {
        return reader.read(out);
    }
    scratch.resize(out.len() / scalar.size() * found.size(), 0);
    let bytes = reader.read(scratch)?;
    scratch.truncate(bytes);
    let count = bytes / found.size() * scalar.size();
    reader.to_f32(scratch, out[..count].as_chunks_mut().0);
    Ok(count)
}

/// Checks the properties. The samples of a pipe have the type of the property `format`.
fn check(properties: &Properties) -> Result<()> {
    can_play::<FileSource>(properties)?;
    let format = Scalar::parse(properties.text("format"));
    let Some(format) = format.filter(|_| !property_errors::is_regular_file(properties)) else {
        return Ok(());
    };
    let output = sent_type::scalar(properties, "output")?;
    sent_type::check(format, output, || format!("a pipe of {format} samples cannot be sent as {output}"))
}

/// Returns the sample rate and the channels of the file.
fn facts(properties: &Properties) -> PropertyFacts {
    let made =
        property_errors::is_regular_file(properties).then(|| FileSource::new(properties).ok()).flatten();
    PropertyFacts {
        sample_rate_hz: made.as_ref().and_then(|made| rate(&made.reader)),
        channels: made.as_ref().map(|made| made.reader.channels()),
        // The metadata of SigMF may name any file.
        reads: made.iter().map(|made| made.reader.path().to_owned()).collect(),
        ..PropertyFacts::default()
    }
}

/// Returns the rate of all channels together in the file.
fn rate(reader: &FileReader) -> Option<f64> {
    reader.sample_rate_hz().map(|rate| rate * reader.channels() as f64)
}

/// Returns the description of the stream, without a frequency.
fn stream(name: &str, properties: &Properties, reader: &FileReader) -> StreamInfo {
    let given = Some(properties.float("sample_rate")).filter(|rate| *rate > 0.0);
    let info = StreamInfo { sample_rate_hz: given.or(rate(reader)), ..StreamInfo::new(name) };
    match reader.channels() {
        1 => info,
        channels => info.channels((1..=channels).map(|channel| channel.to_string())),
    }
}

/// Describes the property `truncate_partial`.
pub(super) fn truncate_partial_property() -> PropertySpec {
    let summary = "whether to drop an incomplete sample at the end of the file instead of refusing it";
    PropertySpec::boolean("truncate_partial", false, summary)
}
