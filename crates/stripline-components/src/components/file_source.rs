//! `file-source`: plays a recording.

use num_complex::Complex;
use stripline::component::kit::{Pace, PacedSource};
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertyFacts, PropertySpec,
    RateRule,
};
use stripline::payload::Scalar;
use stripline::{Error, Result, Sample, StreamInfo};

use super::property_errors::{self, can_play};
use crate::formats::{
    FormatError, IqFileReader, IqReaderOptions, RawFileReader, RawSample, SampleFormat, SigMfMeta, is_sigmf,
};

/// The choice of `format` that uses the file's.
const AUTO: &str = "auto";

/// The types that are sent as they are in the file, beside those of I/Q recordings.
const RAW: [&str; 16] = [
    "f32", "f64", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "cf64", "cu16", "cu32", "cu64",
    "cs32", "cs64",
];

/// The component `file-source`.
pub struct FileSource {
    reader: Reader,
    properties: Properties,
}

enum Reader {
    Iq(IqFileReader, SampleFormat),
    /// Of samples of so many bytes.
    Raw(RawFileReader, usize),
}

impl Component for FileSource {
    fn describe() -> ComponentSpec {
        let [cu8, cs8, cs16, cf32] = SampleFormat::ALL.map(SampleFormat::name);
        let types: Vec<&str> = [cf32, cu8, cs8, cs16].into_iter().chain(RAW).collect();
        ComponentSpec::new(
            "file-source",
            "Plays a recording: I/Q, raw or SigMF, or raw samples of another type.",
        )
        .sample_rate(RateRule::property("sample_rate"))
        .output("out", PortTypes::Property("output".into()), "the recorded samples")
        .property(PropertySpec::path("path", "file to play; of SigMF, either file").required())
        .property(PropertySpec::choice(
            "format",
            &[AUTO, cu8, cs8, cs16, cf32],
            AUTO,
            "I/Q format in the file; auto: from SigMF metadata, or a file name such as x.cu8",
        ))
        .property(PropertySpec::choice(
            "output",
            &types,
            cf32,
            "type sent: cf32 converts I/Q formats; any other sends the file's samples as they are",
        ))
        .property(
            PropertySpec::float("sample_rate", 0.0, "sample rate; 0: from SigMF metadata")
                .range(0.0, 1e12)
                .unit("Hz"),
        )
        .property(
            PropertySpec::float("frequency", 0.0, "centre frequency; 0: from SigMF metadata")
                .range(0.0, 1e12)
                .unit("Hz"),
        )
        .property(truncate_partial_property())
        .property(PropertySpec::integer("repeat", 1, 0, i64::MAX, "times to play the file; 0: for ever"))
        .property(PacedSource::rate_property())
        .property(PacedSource::packet_property(16 << 10))
        .facts(facts)
        .validated(can_play::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let path = properties.path("path").ok_or_else(|| {
            InvalidProperties::new("`path` is empty")
                .property("path")
                .remedy("set it to the recording to play")
        })?;
        let (repeat, truncate_partial) = (properties.count("repeat"), properties.boolean("truncate_partial"));
        let (format, output) = (properties.text("format"), properties.text("output"));
        let properties = properties.clone();
        if let Some(scalar) = Scalar::parse(output).filter(|_| RAW.contains(&output)) {
            let problem = match format {
                AUTO if !is_sigmf(&path) => None,
                AUTO => Some("a SigMF recording".to_owned()),
                format => Some(format!("a file of {format} samples")),
            };
            if let Some(problem) = problem {
                let message = format!("{}: {problem} cannot be sent as {output}", path.display());
                let remedy = "set the property `output` to the format of the file, or to \"cf32\"";
                return Err(InvalidProperties::new(message).property("output").remedy(remedy).into());
            }
            let reader = RawFileReader::open(&path, scalar, repeat, truncate_partial);
            let reader = Reader::Raw(reader.map_err(property_errors::file)?, scalar.size());
            return Ok(Self { reader, properties });
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        if let Some(raw) = ending.filter(|ending| format == AUTO && RAW.contains(ending)) {
            let message = format!("{}: its name is that of {raw} samples", path.display());
            let remedy = format!("set the property `output` to \"{raw}\", or `format` to that of the file");
            return Err(InvalidProperties::new(message).property("output").remedy(remedy).into());
        }
        let format = match format {
            AUTO => None,
            name => Some(name.parse().map_err(Error::failed)?),
        };
        let options = IqReaderOptions { format, repeat, truncate_partial };
        let reader = IqFileReader::open(&path, &options).map_err(property_errors::file)?;
        let output: SampleFormat = output.parse().map_err(Error::failed)?;
        let found = reader.format();
        if output != SampleFormat::Cf32 && output != found {
            let message =
                format!("{}: holds {found} samples, which cannot be sent as {output}", path.display());
            let remedy = format!("set the property `output` to \"{found}\", or to \"cf32\" to convert them");
            return Err(InvalidProperties::new(message).property("output").remedy(remedy).into());
        }
        Ok(Self { reader: Reader::Iq(reader, output), properties })
    }

    fn run(self, ports: Ports) -> Result<()> {
        let Self { reader, properties } = self;
        match reader {
            Reader::Raw(reader, sample_bytes) => run_raw(reader, sample_bytes, &properties, ports),
            Reader::Iq(reader, SampleFormat::Cu8) => {
                run_iq::<Complex<u8>>(reader, &properties, ports, IqFileReader::read_raw)
            }
            Reader::Iq(reader, SampleFormat::Cs8) => {
                run_iq::<Complex<i8>>(reader, &properties, ports, IqFileReader::read_raw)
            }
            Reader::Iq(reader, SampleFormat::Cs16) => {
                run_iq::<Complex<i16>>(reader, &properties, ports, IqFileReader::read_raw)
            }
            Reader::Iq(reader, SampleFormat::Cf32) => {
                run_iq(reader, &properties, ports, IqFileReader::read_samples)
            }
        }
    }
}

fn run_iq<T: Sample + RawSample>(
    mut reader: IqFileReader,
    properties: &Properties,
    mut ports: Ports,
    read: impl Fn(&mut IqFileReader, &mut [T]) -> Result<usize, FormatError>,
) -> Result<()> {
    let source = PacedSource::new(&ports, properties, properties.float("rate"));
    let mut output = ports.output::<T>("out")?;
    output.set_stream(stream(&ports, properties, reader.sigmf()));
    source.run(output, |samples| read(&mut reader, samples).map_err(Error::failed))
}

/// Sends packets of whole samples as bytes.
fn run_raw(
    mut reader: RawFileReader,
    sample_bytes: usize,
    properties: &Properties,
    mut ports: Ports,
) -> Result<()> {
    let mut pace = Pace::new(ports.stop_signal(), properties.float("rate"));
    let packet = usize::try_from(properties.count("packet")).unwrap_or(usize::MAX);
    let mut output = ports.raw_output("out")?;
    output.set_stream(stream(&ports, properties, None));
    let mut sent = 0;
    loop {
        let mut bytes = output.loan(packet.saturating_mul(sample_bytes))?;
        let count = reader.read(&mut bytes).map_err(Error::failed)?;
        if count == 0 {
            return Ok(());
        }
        bytes.truncate(count);
        let next = sent + (count / sample_bytes) as u64;
        let due_ns = pace.wait_for(next)?;
        bytes.at_sample(sent).intended_ns(due_ns).send()?;
        sent = next;
    }
}

/// Returns the sample rate in SigMF metadata.
fn facts(properties: &Properties) -> PropertyFacts {
    let path = properties.path("path").filter(|path| is_sigmf(path));
    let made = path
        .filter(|_| property_errors::is_regular_file(properties))
        .and_then(|_| FileSource::new(properties).ok());
    match made.map(|made| made.reader) {
        Some(Reader::Iq(reader, _)) => PropertyFacts {
            sample_rate_hz: reader.sigmf().and_then(|meta| meta.sample_rate_hz),
            ..PropertyFacts::default()
        },
        _ => PropertyFacts::default(),
    }
}

/// Returns the description of the stream.
fn stream(ports: &Ports, properties: &Properties, meta: Option<&SigMfMeta>) -> StreamInfo {
    let said = |name| Some(properties.float(name)).filter(|value| *value > 0.0);
    StreamInfo {
        sample_rate_hz: said("sample_rate").or(meta.and_then(|meta| meta.sample_rate_hz)),
        center_frequency_hz: said("frequency").or(meta.and_then(|meta| meta.captures.first()?.frequency_hz)),
        ..StreamInfo::new(ports.component())
    }
}

/// Describes the property `truncate_partial`.
pub(super) fn truncate_partial_property() -> PropertySpec {
    let summary = "whether to drop an incomplete sample at the end of the file instead of refusing it";
    PropertySpec::boolean("truncate_partial", false, summary)
}
