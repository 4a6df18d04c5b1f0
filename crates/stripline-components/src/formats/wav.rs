//! WAV files of audio.

use std::fs::File;
use std::io::{self, BufWriter, Seek};
use std::path::{Path, PathBuf};

use hound::{SampleFormat as WavSampleFormat, WavSpec, WavWriter};

use super::error::FormatError;

/// The encoding of a sample in a WAV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WavEncoding {
    /// 16-bit PCM: ±1 is full scale. Larger values are clipped, and NaN counts as 0.
    #[default]
    Pcm16,
    /// 32-bit IEEE float, unchanged.
    Float32,
}

/// The settings of a WAV file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WavSettings {
    /// The sample rate in Hz, 1 to 10^8.
    pub sample_rate_hz: u32,
    /// 1 (mono) or 2 (stereo).
    pub channels: u16,
    /// The encoding of the samples.
    pub encoding: WavEncoding,
}

impl Default for WavSettings {
    /// Returns 48 kHz, mono, 16 bits.
    fn default() -> Self {
        Self { sample_rate_hz: 48_000, channels: 1, encoding: WavEncoding::Pcm16 }
    }
}

/// A writer of audio to a WAV file. An existing file is replaced.
///
/// The header is updated with every second of audio, so that a killed process leaves a playable
/// file. It is also updated when the writer is dropped. [`finish`](Self::finish) does the same and
/// reports errors.
///
/// ```
/// use stripline_components::formats::{WavFileWriter, WavSettings};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("audio.wav");
///
/// let mut writer = WavFileWriter::create(&path, &WavSettings::default())?;
/// writer.write(&[0.0, 0.5, -0.5])?;
/// assert_eq!(writer.finish()?, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WavFileWriter {
    path: PathBuf,
    settings: WavSettings,
    writer: WavWriter<BufWriter<File>>,
    /// Number of samples written, all channels counted.
    samples: u64,
    /// Number of samples counted in the header.
    flushed: u64,
}

/// The longest data for the header's 32 bits, less room for the header itself.
const DATA_BYTES_MAX: u64 = u32::MAX as u64 - 128;

impl WavFileWriter {
    /// Creates a file.
    ///
    /// # Errors
    /// A setting is out of range. Also if the file cannot be created, or is a pipe (a WAV header is
    /// written last).
    pub fn create(path: impl AsRef<Path>, settings: &WavSettings) -> Result<Self, FormatError> {
        let path = path.as_ref();
        let refuse = |parameter, value, valid| {
            Err(FormatError::WavSetting { path: path.to_owned(), parameter, value, valid })
        };
        if !(1..=100_000_000).contains(&settings.sample_rate_hz) {
            return refuse("sample_rate_hz", settings.sample_rate_hz.into(), "1 to 100000000 Hz");
        }
        if !(1..=2).contains(&settings.channels) {
            return refuse("channels", settings.channels.into(), "1 (mono) or 2 (stereo)");
        }
        let create = || {
            let mut file = File::create(path)?;
            file.stream_position()?;
            Ok(file)
        };
        let file = create().map_err(|source| FormatError::open(path, "create", source))?;
        let (bits_per_sample, sample_format) = match settings.encoding {
            WavEncoding::Pcm16 => (16, WavSampleFormat::Int),
            WavEncoding::Float32 => (32, WavSampleFormat::Float),
        };
        let spec = WavSpec {
            channels: settings.channels,
            sample_rate: settings.sample_rate_hz,
            bits_per_sample,
            sample_format,
        };
        let writer =
            WavWriter::new(BufWriter::new(file), spec).map_err(|error| failed_write(path, 0, error))?;
        Ok(Self { path: path.to_owned(), settings: *settings, writer, samples: 0, flushed: 0 })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of frames (samples of each channel) written.
    pub fn frames(&self) -> u64 {
        self.samples / u64::from(self.settings.channels)
    }

    /// Writes samples, those of two channels interleaved, left first.
    ///
    /// # Errors
    /// Writing fails, for example on a full disk, or `samples` does not hold whole frames. Also if
    /// the file would exceed 4 GiB (it stays unchanged).
    pub fn write(&mut self, samples: &[f32]) -> Result<(), FormatError> {
        let path = &self.path;
        let channels = usize::from(self.settings.channels);
        if !samples.len().is_multiple_of(channels) {
            return Err(FormatError::WavSetting {
                path: path.clone(),
                parameter: "the number of samples",
                value: samples.len() as u64,
                valid: "a multiple of the number of channels",
            });
        }
        if (self.samples + samples.len() as u64) * self.bytes_per_sample() > DATA_BYTES_MAX {
            return Err(FormatError::WavFull { path: path.clone() });
        }
        for &x in samples {
            match self.settings.encoding {
                // The cast saturates, and takes NaN for 0.
                WavEncoding::Pcm16 => self.writer.write_sample((x * 32_768.0).round_ties_even() as i16),
                WavEncoding::Float32 => self.writer.write_sample(x),
            }
            .map_err(|error| failed_write(path, self.flushed * self.bytes_per_sample(), error))?;
            self.samples += 1;
        }
        if self.samples - self.flushed >= u64::from(self.settings.sample_rate_hz) * channels as u64 {
            self.flush()?;
        }
        Ok(())
    }

    /// Writes all samples to the operating system and updates the header.
    ///
    /// # Errors
    /// Writing fails.
    pub fn flush(&mut self) -> Result<(), FormatError> {
        let written = self.flushed * self.bytes_per_sample();
        self.writer.flush().map_err(|error| failed_write(&self.path, written, error))?;
        self.flushed = self.samples;
        Ok(())
    }

    /// Completes the file. Returns the number of its frames.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self) -> Result<u64, FormatError> {
        self.flush()?;
        Ok(self.frames())
    }

    fn bytes_per_sample(&self) -> u64 {
        match self.settings.encoding {
            WavEncoding::Pcm16 => 2,
            WavEncoding::Float32 => 4,
        }
    }
}

impl std::fmt::Debug for WavFileWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WavFileWriter")
            .field("path", &self.path)
            .field("settings", &self.settings)
            .field("samples", &self.samples)
            .finish_non_exhaustive()
    }
}

/// Returns the error; the file has certainly taken `written` bytes of audio.
fn failed_write(path: &Path, written: u64, error: hound::Error) -> FormatError {
    let source = match error {
        hound::Error::IoError(source) => source,
        other => io::Error::other(other),
    };
    FormatError::Write { path: path.to_owned(), written, source }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pcm_reads_back_clipped_and_rounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wav");
        let mut writer = WavFileWriter::create(&path, &WavSettings::default()).unwrap();
        writer.write(&[0.0, 0.5, -1.0, 1.0, -9.0, f32::NAN, 1.6 / 32_768.0]).unwrap();
        assert_eq!(writer.finish().unwrap(), 7);
        let mut reader = hound::WavReader::open(&path).unwrap();
        assert_eq!((reader.spec().sample_rate, reader.spec().channels), (48_000, 1));
        let samples: Vec<i16> = reader.samples().map(Result::unwrap).collect();
        assert_eq!(samples, [0, 16_384, -32_768, 32_767, -32_768, 0, 2]);
    }

    #[test]
    fn a_dropped_and_a_forgotten_writer_leave_a_file_that_plays() {
        let dir = tempfile::tempdir().unwrap();
        let settings = WavSettings { sample_rate_hz: 8_000, channels: 2, encoding: WavEncoding::Float32 };
        for (name, forget, frames) in [("dropped", false, 9_000), ("killed", true, 8_000)] {
            let path = dir.path().join(name);
            let mut writer = WavFileWriter::create(&path, &settings).unwrap();
            for _ in 0..9 {
                writer.write(&[0.25; 2_000]).unwrap();
            }
            assert_eq!(writer.frames(), 9_000);
            if forget {
                std::mem::forget(writer);
            } else {
                drop(writer);
            }
            let mut reader = hound::WavReader::open(&path).unwrap();
            assert_eq!(reader.duration(), frames, "{name}");
            assert!(reader.samples::<f32>().all(|x| x.unwrap() == 0.25));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_with_its_path() {
        let mut writer = WavFileWriter::create("/dev/full", &WavSettings::default()).unwrap();
        writer.write(&[0.0; 10]).unwrap();
        let message = writer.finish().unwrap_err().to_string();
        assert!(message.starts_with("/dev/full: cannot write after 0 bytes: No space left"), "{message}");
        let mut writer = WavFileWriter::create("/dev/full", &WavSettings::default()).unwrap();
        assert!(writer.write(&[0.0; 100_000]).is_err());
        drop(writer);
    }

    #[test]
    fn misuse_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.wav");
        let default = WavSettings::default();
        for (settings, word) in [
            (WavSettings { channels: 0, ..default }, "channels"),
            (WavSettings { channels: 3, ..default }, "channels"),
            (WavSettings { sample_rate_hz: 0, ..default }, "sample_rate_hz"),
        ] {
            let message = WavFileWriter::create(&path, &settings).unwrap_err().to_string();
            assert!(message.contains(word) && message.contains("a.wav"), "{message}");
        }
        assert!(!path.exists());
        assert!(matches!(WavFileWriter::create(dir.path(), &default), Err(FormatError::Directory { .. })));
        let mut writer = WavFileWriter::create(&path, &WavSettings { channels: 2, ..default }).unwrap();
        assert!(writer.write(&[0.0; 3]).unwrap_err().to_string().contains("multiple"));
        // As if 4 GiB had been written.
        writer.samples = DATA_BYTES_MAX / 2 - 1;
        assert!(matches!(writer.write(&[0.0; 2]), Err(FormatError::WavFull { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn packets_do_not_matter(sizes in prop::collection::vec(0usize..3_000, 0..8)) {
            let dir = tempfile::tempdir().unwrap();
            let settings = WavSettings { sample_rate_hz: 1_000, ..Default::default() };
            let total: usize = sizes.iter().sum();
            let samples: Vec<f32> = (0..total).map(|i| (i as f32 * 0.01).sin()).collect();
            let write = |name: &str, sizes: &[usize]| {
                let path = dir.path().join(name);
                let mut writer = WavFileWriter::create(&path, &settings).unwrap();
                let mut rest = &samples[..];
                for size in sizes {
                    let (packet, after) = rest.split_at(*size);
                    writer.write(packet).unwrap();
                    rest = after;
                }
                writer.finish().unwrap();
                std::fs::read(path).unwrap()
            };
            prop_assert!(write("packets", &sizes) == write("whole", &[total]));
        }
    }
}
