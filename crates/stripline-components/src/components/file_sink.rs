//! `file-sink`: records samples to an I/Q file.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use num_complex::Complex;
use stripline::component::{
    Component, ComponentSpec, FileReport, PortTypes, Ports, Properties, PropertyFacts, PropertySpec,
};
use stripline::payload::TypeName;
use stripline::{Error, Packet, Result, Sample};

use super::line_file::Destination;
use super::output_file::{self, Target};
use super::property_errors::can_be_made;
use crate::formats::{
    FormatError, IqFileWriter, RawSample, SampleFormat, SamplePlace, StepTracker, StreamFileWriter, is_sigmf,
    not_kept,
};

use crate::stoppable::ended;

/// The choice of `format` that uses the input's.
const AS_RECEIVED: &str = "as-received";

/// So often the counts of a file are reported.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// The component `file-sink`.
pub struct FileSink {
    target: Target,
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
            .property(output_file::existing_property())
            .property(PropertySpec::choice(
                "format",
                &[AS_RECEIVED, cu8, cs8, cs16, cf32],
                AS_RECEIVED,
                "format in the file; cf32 samples can be converted to any",
            ))
            .validated(|properties| {
                can_be_made::<Self>(properties)?;
                Target::required(properties, None)?.check_existing(files)
            })
            .facts(facts)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let format = match properties.text("format") {
            AS_RECEIVED => None,
            name => Some(name.parse().map_err(Error::failed)?),
        };
        Ok(Self { target: Target::required(properties, None)?, format })
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
        let sample_bytes = ports.payload("in").and_then(TypeName::sample_bytes).filter(|bytes| *bytes > 0);
        let path = self.target.path.display();
        if payload.starts_with("message/") {
            let remedy = "use a `print-sink`, or `stripline record`";
            return Err(Error::failed(format!(
                "{path}: messages have no samples to record, and `in` has {payload}: {remedy}"
            )));
        }
        let problem = match self.format {
            Some(format) => Some(format!("cannot be converted to {format}: leave `format` out")),
            None if is_sigmf(&self.target.path) => {
                Some("are no I/Q samples for SigMF: give the file another ending".into())
            }
            None => None,
        };
        if let Some(problem) = problem {
            return Err(Error::failed(format!("{path}: receives {payload} samples, which {problem}")));
        }
        let target = self.target.of_run(&ports);
        let mut input = ports.raw_input("in")?;
        let files = ports.files();
        let mut destination = Destination::open(&target, false, &files)?;
        let mut report = destination
            .path()
            .map_or_else(FileReport::default, |path| FileReport::new(path.to_string_lossy()));
        let mut steps = StepTracker::default();
        let mut lost = 0;
        let mut receive = || {
            while let Some(packet) = input.receive()? {
                let place = place(&packet, sample_bytes.map_or(0, |bytes| (packet.len() / bytes) as u64));
                if steps.packet(packet.stream(), place, packet.gap()) {
                    let lost = not_kept(packet.stream(), packet.time_ns(), false);
                    let lost =
                        lost.into_iter().filter(|key| !report.not_kept.iter().any(|known| known == key));
                    report.not_kept.extend(lost.map(String::from).collect::<Vec<_>>());
                }
                destination.write(&packet).inspect_err(|_| lost = place.samples)?;
                report.samples += place.samples;
            }
            input.gap_at_end().iter().for_each(|gap| steps.gap_at_end(gap));
            Ok(())
        };
        let received = receive();
        let is_file = destination.path().is_some();
        let finished = destination.finish();
        report.missing = steps.missing().saturating_add(lost);
        report.places = steps.places() + u64::from(lost > 0);
        report.finished = finished.is_ok();
        if is_file {
            files.report(report);
        }
        output_file::outcome(received, finished)
    }

    fn run_as<T: Sample + RawSample>(
        self,
        mut ports: Ports,
        write: impl Fn(&mut IqFileWriter, &[T]) -> Result<(), FormatError>,
    ) -> Result<()> {
        let mut input = ports.input::<T>("in")?;
        let format = self.format.unwrap_or(T::FORMAT);
        let target = self.target.of_run(&ports);
        if format != T::FORMAT && T::FORMAT != SampleFormat::Cf32 {
            let received = T::FORMAT;
            let message = format!(
                "{}: receives {received} samples, which cannot be converted to {format}: leave `format` out",
                target.path.display()
            );
            return Err(Error::failed(message));
        }
        let files = ports.files();
        let is_file = target.path != Path::new("-");
        let mut writer = StreamFileWriter::new(target.path, format, target.existing);
        let mut reported = None;
        let mut receive = || {
            while let Some(packet) = input.receive()? {
                let file = writer.packet(packet.stream(), place(&packet, packet.len() as u64), packet.gap());
                write(file.map_err(ended)?, &packet).map_err(ended)?;
                // The report of a killed process is as old.
                if is_file && reported.is_none_or(|at: Instant| at.elapsed() >= REPORT_TIME) {
                    files.report(writer.report());
                    reported = Some(Instant::now());
                }
            }
            Ok(())
        };
        let received = receive();
        let finished = writer.finish(input.gap_at_end().as_ref());
        if is_file {
            files.report(finished.as_ref().map_or_else(|_| writer.report(), Clone::clone));
        }
        output_file::outcome(received, finished.map(drop).map_err(ended))
    }
}

/// Returns the place of a packet in its stream. `samples`: the length of the packet.
fn place<T: Sample>(packet: &Packet<'_, T>, samples: u64) -> SamplePlace {
    SamplePlace { sample_index: packet.sample_index(), time_ns: packet.time_ns(), samples }
}

/// Returns both files of a SigMF recording, or the file alone.
fn files(path: &Path) -> Vec<PathBuf> {
    if is_sigmf(path) {
        return ["sigmf-meta", "sigmf-data"].map(|extension| path.with_extension(extension)).into();
    }
    vec![path.into()]
}

/// Returns the facts about its files.
fn facts(properties: &Properties) -> PropertyFacts {
    let facts = output_file::facts(properties);
    PropertyFacts { writes: facts.writes.iter().flat_map(|path| files(path)).collect(), ..facts }
}
