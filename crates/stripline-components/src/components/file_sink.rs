//! `file-sink`: records samples to an I/Q file.

use std::path::PathBuf;

use bytemuck::Pod;
use num_complex::Complex;
use stripline::component::kit::{Continuity, StreamTracker};
use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec};
use stripline::payload::TypeName;
use stripline::{Error, Input, Packet, Result, Sample, StreamInfo};

use super::line_file::Destination;
use super::output_file;
use super::property_errors::can_be_made;
use crate::formats::{FormatError, IqFileWriter, RawSample, SampleFormat, SigMfCapture, SigMfMeta, is_sigmf};

/// The choice of `format` that uses the input's.
const AS_RECEIVED: &str = "as-received";

/// The component `file-sink`.
pub struct FileSink {
    path: PathBuf,
    format: Option<SampleFormat>,
}

impl Component for FileSink {
    fn describe() -> ComponentSpec {
        let [cu8, cs8, cs16, cf32] = SampleFormat::ALL.map(SampleFormat::name);
        ComponentSpec::new("file-sink", "Records samples of any type to a raw file, or I/Q samples to SigMF.")
            .input("in", PortTypes::Any, "samples to record, also structures; no messages")
            .property(
                PropertySpec::path(
                    "path",
                    "file to write; SigMF when it ends in .sigmf-meta, for cf32, cu8, cs8 and cs16 only",
                )
                .required(),
            )
            .property(PropertySpec::choice(
                "format",
                &[AS_RECEIVED, cu8, cs8, cs16, cf32],
                AS_RECEIVED,
                "format in the file; cf32 samples can be converted to any",
            ))
            .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let format = match properties.text("format") {
            AS_RECEIVED => None,
            name => Some(name.parse().map_err(Error::failed)?),
        };
        Ok(Self { path: output_file::required_path(properties)?, format })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in").map_or("cf32", TypeName::as_str) {
            "cu8" => self.run_as::<Complex<u8>>(ports, IqFileWriter::write_raw),
            "cs8" => self.run_as::<Complex<i8>>(ports, IqFileWriter::write_raw),
            "cs16" => self.run_as::<Complex<i16>>(ports, IqFileWriter::write_raw),
            "cf32" => self.run_as(ports, IqFileWriter::write_samples),
            _ => self.run_raw(ports),
        }
    }
}

impl FileSink {
    /// Records samples of another type: their bytes, one after the other.
    fn run_raw(self, mut ports: Ports) -> Result<()> {
        let payload = ports.payload("in").map(TypeName::to_string).unwrap_or_default();
        let path = self.path.display();
        if payload.starts_with("message/") {
            let remedy = "use a `print-sink`, or `stripline record`";
            return Err(Error::failed(format!(
                "{path}: messages have no samples to record, and `in` has {payload}: {remedy}"
            )));
        }
        let problem = match self.format {
            Some(format) => Some(format!("cannot be converted to {format}: leave `format` out")),
            None if is_sigmf(&self.path) => {
                Some("are no I/Q samples for SigMF: give the file another ending".into())
            }
            None => None,
        };
        if let Some(problem) = problem {
            return Err(Error::failed(format!("{path}: receives {payload} samples, which {problem}")));
        }
        let mut input = ports.raw_input("in")?;
        let mut destination = Destination::open(&self.path)?;
        let mut receive = || {
            while let Some(packet) = input.receive()? {
                destination.write(&packet)?;
            }
            Ok(())
        };
        let received = receive();
        output_file::outcome(received, destination.finish())
    }

    fn run_as<T: Sample + RawSample>(
        self,
        mut ports: Ports,
        write: impl Fn(&mut IqFileWriter, &[T]) -> Result<(), FormatError>,
    ) -> Result<()> {
        let input = ports.input::<T>("in")?;
        let format = self.format.unwrap_or(T::FORMAT);
        if format != T::FORMAT && T::FORMAT != SampleFormat::Cf32 {
            let received = T::FORMAT;
            let message = format!(
                "{}: receives {received} samples, which cannot be converted to {format}: leave `format` out",
                self.path.display()
            );
            return Err(Error::failed(message));
        }
        let mut recording = Recording { path: self.path, format, writer: None };
        let received = recording.receive(input, write);
        output_file::outcome(received, recording.finish().map_err(Error::failed))
    }
}

/// A file that is created with the first packet, which has the values for SigMF metadata.
struct Recording {
    path: PathBuf,
    format: SampleFormat,
    writer: Option<IqFileWriter>,
}

impl Recording {
    fn receive<T: Sample>(
        &mut self,
        mut input: Input<T>,
        write: impl Fn(&mut IqFileWriter, &[T]) -> Result<(), FormatError>,
    ) -> Result<()> {
        let mut tracker = StreamTracker::default();
        while let Some(packet) = input.receive()? {
            let begins_segment = tracker.packet(&packet) != Continuity::Next;
            self.write(&packet, begins_segment, &write).map_err(Error::failed)?;
        }
        Ok(())
    }

    fn write<T: Sample + Pod>(
        &mut self,
        packet: &Packet<'_, T>,
        begins_segment: bool,
        write: impl Fn(&mut IqFileWriter, &[T]) -> Result<(), FormatError>,
    ) -> Result<(), FormatError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => self.writer.insert(create(&self.path, self.format, packet.stream())?),
        };
        if begins_segment {
            writer.begin_capture(SigMfCapture {
                global_index: Some(packet.sample_index()),
                frequency_hz: packet.stream().center_frequency_hz,
                ..Default::default()
            })?;
        }
        write(writer, packet)
    }

    /// Completes the file. Without any packet, it is empty.
    fn finish(self) -> Result<(), FormatError> {
        let writer = match self.writer {
            Some(writer) => writer,
            None => create(&self.path, self.format, &StreamInfo::default())?,
        };
        writer.finish().map(drop)
    }
}

fn create(path: &PathBuf, format: SampleFormat, stream: &StreamInfo) -> Result<IqFileWriter, FormatError> {
    if !is_sigmf(path) {
        return IqFileWriter::create(path, format);
    }
    let meta = SigMfMeta {
        sample_rate_hz: stream.sample_rate_hz,
        recorder: Some("Stripline".into()),
        ..SigMfMeta::new(format)
    };
    IqFileWriter::create_sigmf(path, meta)
}
