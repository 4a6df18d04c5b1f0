//! `wav-sink`: audio to a WAV file.

use std::io::Write;
use std::path::PathBuf;

use stripline::component::kit::{sample_rate, sample_rate_property};
use stripline::component::{
    Component, ComponentSpec, FileLog, FileReport, PortTypes, Ports, Properties, PropertyFacts, PropertySpec,
    RateRule,
};
use stripline::{Error, Input, Result};

use super::output_file::{self, Target};
use super::property_errors::{self, can_be_made};
use crate::formats::{FormatError, SamplePlace, StepTracker, WavEncoding, WavFileWriter, WavSettings};
use crate::stoppable::ended;

/// The file without the property `path`.
const PATH_DEFAULT: &str = "audio.wav";

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
        ComponentSpec::new("wav-sink", "Writes audio to a WAV file.")
            .input("in", PortTypes::of::<f32>(), "audio; -1 to 1 is full scale")
            .property(path)
            .property(output_file::existing_property())
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
                WavFileWriter::check_path(&target.path).map_err(property_errors::file)?;
                target.check_existing(output_file::alone)
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
        let mut audio =
            Audio { files: ports.files(), writer: None, steps: StepTracker::default(), rate: 0.0 };
        let received = self.receive(input, &target, &mut audio);
        // Its header contains the length, so the file is finished also when the waveform is
        // stopped.
        let finished = audio.finish().map_err(ended);
        output_file::outcome(received, finished)
    }
}

impl WavSink {
    /// Receives audio until its end. The file is created with the first packet, which has the
    /// sample rate.
    fn receive(&self, mut input: Input<f32>, target: &Target, audio: &mut Audio) -> Result<()> {
        let mut scaled = Vec::new();
        while let Some(packet) = input.receive()? {
            let rate = sample_rate(self.sample_rate, packet.stream())?;
            if audio.writer.is_none() {
                audio.create(self, target, rate).map_err(ended)?;
            }
            let place = SamplePlace {
                sample_index: packet.sample_index(),
                time_ns: packet.time_ns(),
                samples: packet.len() as u64,
            };
            if audio.steps.packet(packet.stream(), place, packet.gap()) {
                audio.report(false);
            }
            let Some(writer) = &mut audio.writer else { continue };
            if rate != audio.rate {
                let (path, before) = (writer.path().display(), audio.rate);
                return Err(Error::failed(format!(
                    "{path}: WAV has one sample rate, {before} samples/s, and that of the stream is now {rate}"
                )));
            }
            if self.gain == 1.0 {
                writer.write(&packet)
            } else {
                scaled.clear();
                scaled.extend(packet.iter().map(|sample| sample * self.gain));
                writer.write(&scaled)
            }
            .map_err(ended)?;
        }
        if let Some(gap) = input.gap_at_end() {
            audio.steps.gap_at_end(&gap);
        }
        Ok(())
    }
}

/// The file while it is written.
struct Audio {
    files: FileLog,
    writer: Option<WavFileWriter>,
    steps: StepTracker,
    /// The sample rate in Hz.
    rate: f64,
}

impl Audio {
    fn create(&mut self, sink: &WavSink, target: &Target, rate: f64) -> Result<(), FormatError> {
        // The cast saturates; the writer checks the range.
        let sample_rate_hz = rate.round() as u32;
        let settings = WavSettings { sample_rate_hz, channels: 1, encoding: sink.encoding };
        self.writer = Some(WavFileWriter::open(&target.path, &settings, target.existing)?);
        self.rate = rate;
        Ok(())
    }

    fn report(&self, finished: bool) {
        let Some(writer) = &self.writer else { return };
        let path = std::path::absolute(writer.path()).unwrap_or_else(|_| writer.path().into());
        self.files.report(FileReport {
            samples: writer.samples(),
            clipped: writer.clipped(),
            missing: self.steps.missing(),
            places: self.steps.places(),
            finished,
            ..FileReport::new(path.to_string_lossy())
        });
    }

    fn finish(mut self) -> Result<(), FormatError> {
        self.report(true);
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let path = std::path::absolute(writer.path()).unwrap_or_else(|_| writer.path().into());
        let samples = writer.finish()?;
        // For the user only; if printing fails, the file exists all the same.
        let _ = writeln!(std::io::stderr(), "wrote {samples} samples to {}", path.display());
        Ok(())
    }
}

/// Returns the facts about its file.
fn facts(properties: &Properties) -> PropertyFacts {
    let path = properties.path("path").unwrap_or_else(|| PathBuf::from(PATH_DEFAULT));
    PropertyFacts { writes: vec![path], ..PropertyFacts::default() }
}
