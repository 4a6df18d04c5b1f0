//! `wav-sink`: audio to a WAV file.

use std::io::Write;
use std::path::PathBuf;

use stripline::component::kit::{sample_rate, sample_rate_property};
use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec, Value};
use stripline::{Error, Input, Result};

use super::output_file;
use super::property_errors::can_be_made;
use crate::formats::{FormatError, WavEncoding, WavFileWriter, WavSettings};

/// The component `wav-sink`.
pub struct WavSink {
    path: PathBuf,
    encoding: WavEncoding,
    gain: f32,
    sample_rate: f64,
}

impl Component for WavSink {
    fn describe() -> ComponentSpec {
        let path = PropertySpec {
            default: Some(Value::Text("audio.wav".into())),
            ..PropertySpec::path("path", "file to write; unless set, in the current folder")
        };
        ComponentSpec::new("wav-sink", "Writes audio to a WAV file.")
            .input("in", PortTypes::of::<f32>(), "audio; -1 to 1 is full scale")
            .property(path)
            .property(PropertySpec::choice(
                "encoding",
                &["pcm16", "float32"],
                "pcm16",
                "16-bit numbers, or 32-bit floating point",
            ))
            .property(PropertySpec::float("gain", 1.0, "factor for the audio").range(-1e6, 1e6))
            .property(sample_rate_property())
            .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let encoding = match properties.text("encoding") {
            "float32" => WavEncoding::Float32,
            _ => WavEncoding::Pcm16,
        };
        Ok(Self {
            path: output_file::required_path(properties)?,
            encoding,
            gain: properties.float("gain") as f32,
            sample_rate: properties.float("sample_rate"),
        })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let input = ports.input::<f32>("in")?;
        let mut writer = None;
        let received = self.receive(input, &mut writer);
        // Its header contains the length, so the file is finished also when the waveform is
        // stopped.
        let finished = writer.map_or(Ok(()), |writer| self.finish(writer)).map_err(Error::failed);
        output_file::outcome(received, finished)
    }
}

impl WavSink {
    /// Receives audio until its end. The file is created with the first packet, which has the
    /// sample rate.
    fn receive(&self, mut input: Input<f32>, writer: &mut Option<WavFileWriter>) -> Result<()> {
        let mut scaled = Vec::new();
        while let Some(packet) = input.receive()? {
            let writer = match writer {
                Some(writer) => writer,
                None => {
                    let rate = sample_rate(self.sample_rate, packet.stream())?;
                    writer.insert(self.create(rate).map_err(Error::failed)?)
                }
            };
            if self.gain == 1.0 {
                writer.write(&packet)
            } else {
                scaled.clear();
                scaled.extend(packet.iter().map(|sample| sample * self.gain));
                writer.write(&scaled)
            }
            .map_err(Error::failed)?;
        }
        Ok(())
    }

    fn create(&self, rate: f64) -> Result<WavFileWriter, FormatError> {
        // The cast saturates; the writer checks the range.
        let sample_rate_hz = rate.round() as u32;
        WavFileWriter::create(
            &self.path,
            &WavSettings { sample_rate_hz, channels: 1, encoding: self.encoding },
        )
    }

    fn finish(&self, writer: WavFileWriter) -> Result<(), FormatError> {
        let samples = writer.finish()?;
        let path = std::path::absolute(&self.path).unwrap_or_else(|_| self.path.clone());
        // For the user only; if printing fails, the file exists all the same.
        let _ = writeln!(std::io::stderr(), "wrote {samples} samples to {}", path.display());
        Ok(())
    }
}
