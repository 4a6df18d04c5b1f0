//! `file-source`: plays an I/Q recording.

use num_complex::Complex;
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertySpec,
};
use stripline::{Error, Result, Sample, StreamInfo};

use super::pacing::PacedSource;
use super::property_errors::{self, can_play};
use crate::formats::{IqFileReader, IqReaderOptions, RawSample, SampleFormat};

/// The choice of `format` that uses the file's.
const AUTO: &str = "auto";

/// The component `file-source`.
pub struct FileSource {
    reader: IqFileReader,
    output: SampleFormat,
    properties: Properties,
}

impl Component for FileSource {
    fn describe() -> ComponentSpec {
        let [cu8, cs8, cs16, cf32] = SampleFormat::ALL.map(SampleFormat::name);
        ComponentSpec::new("file-source", "Plays an I/Q recording, raw or SigMF.")
            .output("out", PortTypes::Property("output".into()), "the recorded samples")
            .property(PropertySpec::path("path", "file to play; of SigMF, either file").required())
            .property(PropertySpec::choice(
                "format",
                &[AUTO, cu8, cs8, cs16, cf32],
                AUTO,
                "format in the file; auto: from SigMF metadata, or a file name such as x.cu8",
            ))
            .property(PropertySpec::choice(
                "output",
                &[cf32, cu8, cs8, cs16],
                cf32,
                "type sent: cf32 converts; the file's own format sends samples as they are, which is faster",
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
            .validated(can_play::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let path = properties.path("path").ok_or_else(|| {
            InvalidProperties::new("`path` is empty")
                .property("path")
                .remedy("set it to the recording to play")
        })?;
        let format = match properties.text("format") {
            AUTO => None,
            name => Some(name.parse().map_err(Error::failed)?),
        };
        let options = IqReaderOptions {
            format,
            repeat: properties.count("repeat"),
            truncate_partial: properties.boolean("truncate_partial"),
        };
        let reader = IqFileReader::open(&path, &options).map_err(property_errors::file)?;
        let output: SampleFormat = properties.text("output").parse().map_err(Error::failed)?;
        let found = reader.format();
        if output != SampleFormat::Cf32 && output != found {
            let message =
                format!("{}: holds {found} samples, which cannot be sent as {output}", path.display());
            let remedy = format!("set the property `output` to \"{found}\", or to \"cf32\" to convert them");
            return Err(InvalidProperties::new(message).property("output").remedy(remedy).into());
        }
        Ok(Self { reader, output, properties: properties.clone() })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match self.output {
            SampleFormat::Cu8 => self.run_as::<Complex<u8>>(ports, IqFileReader::read_raw),
            SampleFormat::Cs8 => self.run_as::<Complex<i8>>(ports, IqFileReader::read_raw),
            SampleFormat::Cs16 => self.run_as::<Complex<i16>>(ports, IqFileReader::read_raw),
            SampleFormat::Cf32 => self.run_as(ports, IqFileReader::read_samples),
        }
    }
}

impl FileSource {
    fn run_as<T: Sample + RawSample>(
        mut self,
        mut ports: Ports,
        read: impl Fn(&mut IqFileReader, &mut [T]) -> Result<usize, crate::formats::FormatError>,
    ) -> Result<()> {
        let source = PacedSource::new(&ports, &self.properties, self.properties.float("rate"));
        let mut output = ports.output::<T>("out")?;
        let meta = self.reader.sigmf();
        let said = |name| Some(self.properties.float(name)).filter(|value| *value > 0.0);
        output.set_stream(StreamInfo {
            sample_rate_hz: said("sample_rate").or(meta.and_then(|meta| meta.sample_rate_hz)),
            center_frequency_hz: said("frequency")
                .or(meta.and_then(|meta| meta.captures.first()?.frequency_hz)),
            ..StreamInfo::new(ports.component())
        });
        source.run(output, |samples| read(&mut self.reader, samples).map_err(Error::failed))
    }
}

/// Describes the property `truncate_partial`.
pub(super) fn truncate_partial_property() -> PropertySpec {
    let summary = "whether to drop an incomplete sample at the end of the file instead of refusing it";
    PropertySpec::boolean("truncate_partial", false, summary)
}
