//! `wav-sink`: audio to a WAV file.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stripline::component::kit::{sample_rate, sample_rate_property};
use stripline::component::{
    Component, ComponentSpec, FileLog, FileReport, InvalidProperties, PortTypes, Ports, Properties,
    PropertyFacts, PropertySpec, RateRule,
};
use stripline::{Error, Input, Result, StreamInfo};

use super::output_file::{self, Target, TimedOutput};
use super::property_errors::{self, can_be_made};
use crate::formats::{
    Existing, FormatError, FramePart, FrameSteps, Kept, PassTimer, SamplePlace, WavEncoding, WavFileWriter,
    WavSettings, check_turns, header_ending, is_sigmf, is_special, not_kept, of_ending, shown,
};

/// The default of the property `path`.
const PATH_DEFAULT: &str = "audio.wav";

/// The highest rate of a channel in Hz.
const RATE_MAX: f64 = 1e8;

/// The component `wav-sink`.
pub struct WavSink {
    target: Target,
    encoding: WavEncoding,
    gain: f32,
    sample_rate: f64,
}

impl Component for WavSink {
    fn describe() -> ComponentSpec {
        let path = PropertySpec::path("path", "file to write; unless set, audio.wav in the current folder");
        let spec = ComponentSpec::new("wav-sink", "Writes audio to a WAV file.")
            .input("in", PortTypes::of::<f32>(), "audio, also of several channels; -1 to 1 is full scale")
            .property(path);
        output_file::with_file_properties(spec)
            .property(PropertySpec::choice(
                "encoding",
                &["pcm16", "float32"],
                "pcm16",
                "16-bit numbers, or 32-bit floating point",
            ))
            .property(PropertySpec::float("gain", 1.0, "factor for the audio").range(-1e6, 1e6))
            .property(sample_rate_property())
            .sample_rate(RateRule::property("sample_rate").or_input("in").needed())
            .validated(|properties| {
                can_be_made::<Self>(properties)?;
                let target = Target::required(properties, Some(PATH_DEFAULT))?;
                check_ending(&target.path)?;
                WavFileWriter::check_path(&target.path).map_err(property_errors::file)?;
                target.check(&target.path)
            })
            .facts(facts)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let encoding = match properties.text("encoding") {
            "float32" => WavEncoding::Float32,
            _ => WavEncoding::Pcm16,
        };
        Ok(Self {
            target: Target::required(properties, Some(PATH_DEFAULT))?,
            encoding,
            gain: properties.float("gain") as f32,
            sample_rate: properties.float("sample_rate"),
        })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let input = ports.input::<f32>("in")?;
        let target = self.target.clone().of_run(&ports);
        let files = ports.files();
        let mut audio = Audio { files, file: None, target, problem: None, next: None, last: None };
        let received = self.receive(input, &mut audio);
        if audio.file.is_none() && audio.last.is_none() {
            output_file::report_nothing(&received, "audio", &audio.target.path);
        }
        // Finish the file also after a stop, because the header contains the length.
        output_file::outcome(received, audio.finish())
    }
}

impl WavSink {
    /// Receives audio until the end of the stream. The file is created at the first packet, because
    /// the packet carries the sample rate. If the rate or the number of channels changes, the audio
    /// continues in a numbered file.
    fn receive(&self, mut input: Input<f32>, audio: &mut Audio) -> Result<()> {
        let mut scaled = Vec::new();
        output_file::receive(&mut input, audio, |audio, packet| {
            let rate = sample_rate(self.sample_rate, packet.stream())?;
            let kind = (rate, packet.stream().channels.len().max(1));
            let ordered = check_turns(packet.stream(), &audio.target.path, "WAV", "");
            if let Some(file) = audio.file.as_mut().filter(|file| file.kind != kind || ordered.is_err()) {
                audio.next = Some(file.steps.next_file(kind.1));
                file.steps.end(None);
                audio.finish()?;
                audio.target.existing = Existing::Number;
            }
            if audio.file.is_none() {
                let created = ordered.and_then(|()| self.create(&audio.target, kind));
                let mut created = created.map_err(|error| audio.not_created(error, packet.len() as u64))?;
                if let Some(steps) = audio.next.take() {
                    (created.steps, created.is_next) = (steps, true);
                }
                audio.file = Some(created);
            }
            let Audio { files, file: Some(file), target, problem, .. } = audio else {
                unreachable!("it is there")
            };
            let place = SamplePlace {
                sample_index: packet.sample_index(),
                time_ns: packet.time_ns(),
                samples: packet.len() as u64,
            };
            let FramePart { differs, items, .. } =
                file.steps.push(packet.stream(), place, packet.gap(), packet);
            file.given += items.len() as u64;
            let written = if self.gain == 1.0 {
                file.writer.write(items)
            } else {
                scaled.clear();
                scaled.extend(items.iter().map(|sample| sample * self.gain));
                file.writer.write(&scaled)
            };
            if differs {
                file.keys(packet.stream(), packet.time_ns());
                files.report(file.report(false));
            }
            written
                .and_then(|()| if file.timer.written() { file.pass() } else { Ok(()) })
                .map_err(|error| target.failed(error, problem))
        })?;
        if let Some(file) = &mut audio.file {
            file.steps.end(input.gap_at_end().as_ref());
        }
        Ok(())
    }

    /// Creates a file for `kind`: the rate of all channels together, and the number of channels.
    fn create(&self, target: &Target, kind: (f64, usize)) -> Result<AudioFile, FormatError> {
        let (rate, channels) = kind;
        let own_rate = rate / channels as f64;
        if !(0.5..=RATE_MAX).contains(&own_rate) {
            return Err(FormatError::Recording {
                path: target.path.clone(),
                problem: format!("the rate of a channel is {own_rate} Hz, and WAV has 1 to {RATE_MAX} Hz"),
                remedy: "put a `resampler` before the `wav-sink`, or use a `file-sink`".into(),
            });
        }
        // The cast saturates; the writer checks the number of channels.
        let settings = WavSettings {
            sample_rate_hz: own_rate.round() as u32,
            channels: u16::try_from(channels).unwrap_or(u16::MAX),
            encoding: self.encoding,
        };
        let writer = WavFileWriter::open(&target.path, &settings, target.existing)?;
        let given = writer.samples();
        let mut not_kept = Vec::new();
        if f64::from(settings.sample_rate_hz) * channels as f64 != rate {
            not_kept.push("sample_rate_hz".into());
            let (path, written) = (shown(writer.path()), settings.sample_rate_hz);
            let note = "the header has whole numbers of Hz";
            // The message is only for the user, as the report has the key.
            let _ = writeln!(std::io::stderr(), "{path}: the rate is {written} Hz, not {own_rate}: {note}");
        }
        Ok(AudioFile {
            writer,
            steps: FrameSteps::new(channels, 1),
            kind,
            not_kept,
            timer: PassTimer::new(target.durability),
            given,
            is_next: false,
        })
    }
}

/// The file during writing.
struct Audio {
    files: FileLog,
    file: Option<AudioFile>,
    target: Target,
    /// The reason why the file ended early; `None` if it did not, or if the component fails.
    problem: Option<String>,
    /// The tracker of gaps for the next file of the stream, if there was a file before.
    next: Option<FrameSteps<f32>>,
    /// The report of the last completed file.
    last: Option<FileReport>,
}

struct AudioFile {
    writer: WavFileWriter,
    steps: FrameSteps<f32>,
    /// The rate of all channels together in Hz, and the number of channels.
    kind: (f64, usize),
    not_kept: Vec<String>,
    timer: PassTimer,
    /// The number of samples that the file would have if all received samples were written.
    given: u64,
    /// Whether the stream had a file before this one.
    is_next: bool,
}

impl AudioFile {
    /// Passes the audio on to the system or to the disk.
    fn pass(&mut self) -> Result<(), FormatError> {
        if self.timer.is_to_disk() { self.writer.sync_disk() } else { self.writer.flush() }?;
        self.timer.passed();
        Ok(())
    }

    /// Records the keys of a stream that WAV lacks.
    fn keys(&mut self, stream: &StreamInfo, time_ns: i64) {
        for key in not_kept(stream, time_ns, Kept::Wav) {
            if !self.not_kept.iter().any(|known| known == key) {
                self.not_kept.push(key.into());
            }
        }
    }

    fn path(&self) -> PathBuf {
        std::path::absolute(self.writer.path()).unwrap_or_else(|_| self.writer.path().into())
    }

    fn report(&self, finished: bool) -> FileReport {
        // Count the samples that did not fit on the disk, or that another program has removed.
        let samples = self.writer.samples_found();
        let lost = if self.writer.is_failed() { self.given.saturating_sub(samples) } else { 0 };
        FileReport {
            samples,
            clipped: self.writer.clipped(),
            missing: self.steps.missing().saturating_add(lost),
            places: self.steps.places() + u64::from(lost > 0),
            not_kept: self.not_kept.clone(),
            found: self.writer.found().filter(|_| !self.is_next).map(String::from),
            finished,
            ..FileReport::new(self.path().to_string_lossy())
        }
    }
}

impl TimedOutput for Audio {
    fn wait_time(&self) -> Duration {
        self.file.as_ref().map_or(Duration::MAX, |file| file.timer.left())
    }

    fn pass_due(&mut self) -> Result<()> {
        let Self { files, file: Some(file), target, problem, .. } = self else { return Ok(()) };
        if file.timer.is_due() {
            file.pass().map_err(|error| target.failed(error, problem))?;
            files.report(file.report(false));
        }
        Ok(())
    }
}

impl Audio {
    /// Reports that the samples of a packet are missing, because their file cannot be created.
    fn not_created(&mut self, error: FormatError, samples: u64) -> Error {
        let error = self.target.failed(error, &mut self.problem);
        let path = std::path::absolute(&self.target.path);
        let new = || FileReport::new(path.as_ref().unwrap_or(&self.target.path).to_string_lossy());
        let report = self.last.take().unwrap_or_else(new);
        let report = FileReport {
            missing: report.missing.saturating_add(samples),
            places: report.places + 1,
            problem: self.problem.clone(),
            ..report
        };
        self.files.report(report.clone());
        self.last = Some(report);
        error
    }

    /// Completes the file.
    fn finish(&mut self) -> Result<()> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        let synced = file.writer.complete();
        let failed = |error| self.target.failed(error, &mut self.problem);
        let is_complete = synced.is_ok();
        let synced = synced.map_err(failed);
        let report = file.report(is_complete);
        let report = FileReport { problem: self.problem.clone(), ..report };
        self.files.report(report.clone());
        self.last = Some(report);
        synced?;
        let (frames, path) = (file.writer.frames(), file.path());
        let unit = match file.kind.1 {
            1 => "samples".to_owned(),
            channels => format!("frames of {channels} channels"),
        };
        // The message is only for the user. If printing fails, the file still exists.
        let _ = writeln!(std::io::stderr(), "wrote {frames} {unit} to {}", shown(&path));
        Ok(())
    }
}

/// Checks that the extension of a file does not promise another format.
///
/// # Errors
/// The extension is of another format.
fn check_ending(path: &Path) -> Result<()> {
    let is_other = header_ending(path).is_some_and(|ending| ending != "wav") || is_sigmf(path);
    if is_special(path) || !(is_other || of_ending(path).is_some()) {
        return Ok(());
    }
    let message =
        format!("{}: the name has the ending of another format, and `wav-sink` writes WAV", shown(path));
    Err(InvalidProperties::new(message).property("path").remedy("give the file the ending .wav").into())
}

/// Returns the facts about the file of the component.
fn facts(properties: &Properties) -> PropertyFacts {
    let path = properties.path("path").unwrap_or_else(|| PathBuf::from(PATH_DEFAULT));
    PropertyFacts { writes: vec![path], ..PropertyFacts::default() }
}
