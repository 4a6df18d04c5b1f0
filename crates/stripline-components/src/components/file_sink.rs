//! `file-sink`: records samples to a raw file or SigMF.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stripline::component::{
    Component, ComponentSpec, FileLog, FileReport, InvalidProperties, PortTypes, Ports, Properties,
    PropertyFacts, PropertySpec,
};
use stripline::payload::{Dynamic, Scalar, TypeName};
use stripline::{Error, Input, Packet, Result};

use super::line_file::{Destination, Unit};
use super::output_file::{self, Target, TimedOutput};
use crate::formats::{
    FormatError, Kept, SampleFormat, SamplePlace, StepTracker, StreamFileWriter, check_sigmf_output,
    header_ending, is_sigmf, is_special, not_kept, of_ending, shown,
};

/// The choice of `format` that keeps the type of the input.
const AS_RECEIVED: &str = "as-received";

/// The period at which the counts of a file are reported.
const REPORT_TIME: Duration = Duration::from_secs(1);

/// The component `file-sink`.
pub struct FileSink {
    target: Target,
    format: Option<SampleFormat>,
}

impl Component for FileSink {
    fn describe() -> ComponentSpec {
        let [cu8, cs8, cs16, cf32] = SampleFormat::ALL.map(SampleFormat::name);
        let spec = ComponentSpec::new(
            "file-sink",
            "Records samples of any type to a raw file, or numbers to SigMF.",
        )
        .input("in", PortTypes::Any, "samples to record, also structures; no messages")
        .property(
            PropertySpec::path(
                "path",
                "file to write; SigMF when it ends in .sigmf-meta, for all types of numbers; an ending such as .cs16 must be the type",
            )
            .required(),
        );
        output_file::with_file_properties(spec)
            .property(PropertySpec::choice(
                "format",
                &[AS_RECEIVED, cu8, cs8, cs16, cf32],
                AS_RECEIVED,
                "format in the file; cf32 samples can be converted to any",
            ))
            .property(output_file::reader_property("a reader of a pipe"))
            .validated(|properties| {
                let Self { target, format } = Self::new(properties)?;
                check_ending(&target.path, format)?;
                files(&target.path).iter().try_for_each(|path| target.check(path))?;
                check_sigmf_output(&target.path, target.existing).map_err(super::property_errors::file)
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
        match ports.payload("in").and_then(|payload| Scalar::parse(payload.as_str())) {
            Some(received) => self.run_as(ports, received),
            None => self.run_structures(ports),
        }
    }
}

impl FileSink {
    /// Records structures: the bytes of one after the other.
    fn run_structures(self, mut ports: Ports) -> Result<()> {
        let payload = ports.payload("in").map(TypeName::to_string).unwrap_or_default();
        let sample_bytes = ports.payload("in").and_then(TypeName::sample_bytes).filter(|bytes| *bytes > 0);
        let path = shown(&self.target.path);
        if payload.starts_with("message/") {
            let remedy = "use a `print-sink`, or `stripline record`";
            return Err(Error::failed(format!(
                "{path}: messages have no samples to record, and `in` has {payload}: {remedy}"
            )));
        }
        let problem = match self.format {
            Some(format) => Some(format!("cannot be converted to {format}: leave `format` out")),
            None if is_sigmf(&self.target.path) => {
                Some("are not numbers for SigMF: give the file another ending".into())
            }
            None => None,
        };
        if let Some(problem) = problem {
            return Err(Error::failed(format!("{path}: receives {payload} samples, which {problem}")));
        }
        let target = self.target.of_run(&ports);
        let mut input = ports.input::<Dynamic>("in")?;
        let files = ports.files();
        let unit = Unit::Sample(sample_bytes.map_or(1, |bytes| bytes as u64));
        let destination = Destination::open(&target, unit, &files)?;
        write_samples(&mut input, destination, sample_bytes, &files)
    }

    /// Records numbers, real or complex.
    fn run_as(self, mut ports: Ports, received: Scalar) -> Result<()> {
        let mut input = ports.input::<Dynamic>("in")?;
        let scalar = self.format.map_or(received, SampleFormat::scalar);
        let target = self.target.of_run(&ports);
        if scalar != received && received != SampleFormat::Cf32.scalar() {
            let message = format!(
                "{}: receives {received} samples, which cannot be converted to {scalar}: leave `format` out",
                shown(&target.path)
            );
            return Err(Error::failed(message));
        }
        let files = ports.files();
        let writer =
            StreamFileWriter::new(&target.path, received, scalar, target.existing).durable(target.durability);
        let writer = writer.keep_readers(target.keeps_readers);
        let (problem, completed, reported) = (None, 0, None);
        let mut output = NumbersOutput { writer, target, files, problem, completed, reported };
        let received = output_file::receive(&mut input, &mut output, |output, packet| {
            let place = place(packet, packet.samples() as u64);
            let written = output.writer.packet(packet.stream(), place, packet.gap(), packet);
            output.report_complete();
            written.map_err(|error| output.failed(error))?;
            // After a kill, the last report is at most this old.
            if output.reported.is_none_or(|at| at.elapsed() >= REPORT_TIME) {
                output.report();
                output.reported = Some(Instant::now());
            }
            Ok(())
        });
        let NumbersOutput { mut writer, target, files, mut problem, .. } = output;
        let finished = writer.finish(input.gap_at_end().as_ref()).map(drop);
        let last = writer.complete().last().filter(|_| finished.is_ok());
        let report = last.cloned().unwrap_or_else(|| writer.report());
        let finished = finished.map_err(|error| target.failed(error, &mut problem));
        files.report(FileReport { problem, ..report });
        output_file::outcome(received, finished)
    }
}

/// Writes the bytes of all packets one after the other, until the end of the stream, and reports
/// the samples that are missing.
pub(super) fn write_samples(
    input: &mut Input<Dynamic>,
    mut destination: Destination,
    sample_bytes: Option<usize>,
    files: &FileLog,
) -> Result<()> {
    let found =
        |destination: &Destination| sample_bytes.map_or(0, |bytes| destination.bytes_found() / bytes as u64);
    // The number of samples in the file if none is lost.
    let mut given = found(&destination);
    let mut report = FileReport::default();
    let mut steps = StepTracker::default();
    let received = output_file::receive(input, &mut destination, |destination, packet| {
        let place = place(packet, sample_bytes.map_or(0, |bytes| (packet.len() / bytes) as u64));
        if steps.packet(packet.stream(), place, packet.gap()) {
            let lost = not_kept(packet.stream(), packet.time_ns(), Kept::Samples);
            let lost = lost.into_iter().filter(|key| !report.not_kept.iter().any(|known| known == key));
            report.not_kept.extend(lost.map(String::from).collect::<Vec<_>>());
        }
        given += place.samples;
        destination.write(packet)
    });
    if received.is_ok() {
        input.gap_at_end().iter().for_each(|gap| steps.gap_at_end(gap));
    }
    report.samples = found(&destination);
    let lost = given.saturating_sub(report.samples);
    report.missing = steps.missing().saturating_add(lost);
    report.places = steps.places() + destination.readers_left().max(u64::from(lost > 0));
    output_file::outcome(received, destination.finish(files, report))
}

/// A file of numbers while it is written, or standard output.
struct NumbersOutput {
    writer: StreamFileWriter,
    target: Target,
    files: FileLog,
    /// The reason why the file ended early; `None` if it did not, or if the component fails.
    problem: Option<String>,
    /// The number of completed files that were reported.
    completed: usize,
    /// The time of the last report.
    reported: Option<Instant>,
}

impl NumbersOutput {
    fn failed(&mut self, error: FormatError) -> Error {
        self.target.failed(error, &mut self.problem)
    }

    /// Reports the files that were completed because the stream goes on in another one.
    fn report_complete(&mut self) {
        let complete = self.writer.complete();
        for report in &complete[self.completed..] {
            self.files.report(report.clone());
            self.reported = None;
        }
        self.completed = complete.len();
    }

    fn report(&self) {
        self.files.report(self.writer.report());
    }
}

impl TimedOutput for NumbersOutput {
    fn wait_time(&self) -> Duration {
        self.writer.wait_time()
    }

    fn pass_due(&mut self) -> Result<()> {
        self.writer.pass_due().map_err(|error| self.failed(error))?;
        self.report();
        Ok(())
    }
}

/// Returns the position of a packet in its stream. `samples` is the length of the packet.
pub(super) fn place(packet: &Packet<'_, Dynamic>, samples: u64) -> SamplePlace {
    SamplePlace { sample_index: packet.sample_index(), time_ns: packet.time_ns(), samples }
}

/// Returns both files of a SigMF recording, or the single file.
fn files(path: &Path) -> Vec<PathBuf> {
    if is_sigmf(path) {
        return ["sigmf-meta", "sigmf-data"].map(|extension| path.with_extension(extension)).into();
    }
    vec![path.into()]
}

/// Returns the type that the extension of a file states; `None`: any type, or no regular file.
fn named_type(path: &Path) -> Option<Scalar> {
    (!is_special(path)).then(|| of_ending(path)).flatten()
}

/// Checks that the extension of a file does not promise a header, or a type other than `format`.
///
/// # Errors
/// The extension promises a header or another type.
fn check_ending(path: &Path, format: Option<SampleFormat>) -> Result<()> {
    let invalid =
        |problem: String| InvalidProperties::new(format!("{}: {problem}", shown(path))).property("path");
    let extension = path.extension().map(|extension| extension.to_string_lossy().to_ascii_lowercase());
    if is_sigmf(path) && !matches!(extension.as_deref(), Some("sigmf-meta" | "sigmf-data")) {
        return Err(invalid("archives and collections of SigMF are not written".into())
            .remedy("give the file the ending .sigmf-meta")
            .into());
    }
    if let Some(ending) = header_ending(path).filter(|_| !is_special(path)) {
        let remedy = if ending == "wav" { "use a `wav-sink`, or" } else { "" };
        return Err(invalid(format!("a .{ending} file has a header, and `file-sink` writes samples alone"))
            .remedy(format!("{remedy} give the file another ending, as .cf32").trim_start())
            .into());
    }
    if is_sigmf(path) && path.extension().is_some_and(|ending| ending.to_ascii_lowercase() != ending) {
        return Err(invalid("files of SigMF are written with an ending in small letters".into())
            .remedy("let the name end in .sigmf-meta")
            .into());
    }
    let wanted = format.map(SampleFormat::scalar);
    match named_type(path).filter(|named| wanted.is_some_and(|wanted| wanted != *named)) {
        Some(named) => {
            let written = wanted.map_or_else(String::new, |wanted| wanted.to_string());
            let or_convert = match SampleFormat::ALL.iter().any(|format| format.scalar() == named) {
                true => format!(", or set `format` to {named}"),
                false => String::new(),
            };
            Err(invalid(format!("the name of the file is of {named} samples, and `format` is {written}"))
                .remedy(format!("give the file another ending, as .{written}{or_convert}"))
                .into())
        }
        None => Ok(()),
    }
}

/// Returns the facts about the files of the component.
fn facts(properties: &Properties) -> PropertyFacts {
    let facts = output_file::facts(properties);
    let named = facts.writes.first().filter(|_| properties.text("format") == AS_RECEIVED);
    let named_payload = named.and_then(|path| TypeName::parse(&named_type(path)?.to_string()).ok());
    let writes = facts.writes.iter().flat_map(|path| files(path)).collect();
    PropertyFacts { writes, named_payload, ..facts }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_in_capitals_is_no_recording_that_is_written() {
        for name in ["a.SIGMF-META", "a.sigmf-Data"] {
            let refused = check_ending(name.as_ref(), None).unwrap_err().to_string();
            assert!(refused.contains(name) && refused.contains("small letters"), "{refused}");
        }
        for name in ["A.sigmf-meta", "A.sigmf-data", "A.CF32"] {
            check_ending(name.as_ref(), None).unwrap();
        }
    }
}
