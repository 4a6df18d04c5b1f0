//! Reading files of I/Q samples.

use std::path::Path;

use num_complex::Complex;

use super::error::FormatError;
use super::file_reader::{FileReader, FileReaderOptions};
use super::sample_format::{RawSample, SampleFormat};
use super::segments::FilePlace;
use super::sigmf::SigMfMeta;

/// The options for reading an I/Q file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IqReaderOptions {
    /// The format of the samples. `None`: from the SigMF metadata, or from the extension of the
    /// file (`.cu8` ...).
    pub format: Option<SampleFormat>,
    /// The number of times to play the file; 0: for ever. A pipe or device can be played only once.
    pub repeat: u64,
    /// Whether to drop an incomplete sample at the end of the file instead of refusing the file.
    pub truncate_partial: bool,
}

impl Default for IqReaderOptions {
    /// Returns: play once, with the format of the file, whole samples only.
    fn default() -> Self {
        Self { format: None, repeat: 1, truncate_partial: false }
    }
}

/// A reader of complex samples from a file of any format of [`FileReader`], a pipe or device, or
/// standard input (`-`). The path of a SigMF recording may be either of its files. Two channels of
/// a WAV file are I and Q.
///
/// A regular file is checked when it is opened, and played up to its length at that time. Bytes
/// that are appended later are left out, and a file that shrinks is an error. From a pipe, each
/// read returns the bytes that have arrived, in whole samples. Opening a FIFO waits for a writer.
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::formats::{IqFileReader, IqReaderOptions};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("capture.cs8");
/// # std::fs::write(&path, [0, 64, 128, 0])?;
///
/// let mut reader = IqFileReader::open(&path, &IqReaderOptions { repeat: 3, ..Default::default() })?;
/// let mut samples = [Complex::default(); 100];
/// assert_eq!(reader.read_samples(&mut samples)?, 6);
/// assert_eq!(samples[..2], [Complex::new(0.0, 0.5), Complex::new(-1.0, 0.0)]);
/// assert_eq!(reader.read_samples(&mut samples)?, 0, "the end");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct IqFileReader {
    reader: FileReader,
    format: SampleFormat,
    /// The bytes to be converted.
    scratch: Vec<u8>,
}

/// The number of bytes converted at a time: they stay in the cache.
const SCRATCH_BYTES: usize = 64 << 10;

impl IqFileReader {
    /// Opens a file.
    ///
    /// # Errors
    /// The errors of [`FileReader::open`]. Also if the file has samples of another type, or several
    /// channels of complex samples.
    pub fn open(path: impl AsRef<Path>, options: &IqReaderOptions) -> Result<Self, FormatError> {
        let path = path.as_ref();
        let mut reader = FileReader::open(
            path,
            &FileReaderOptions {
                format: options.format.map(SampleFormat::scalar),
                fallback: None,
                channels: None,
                repeat: options.repeat,
                truncate_partial: options.truncate_partial,
            },
        )?;
        reader.join_channels();
        let format = SampleFormat::of_scalar(reader.scalar()).filter(|_| reader.channels() == 1);
        let not_iq = || FormatError::NotIq { path: reader.path().to_owned(), found: reader.describe() };
        let format = format.ok_or_else(not_iq)?;
        Ok(Self { reader, format, scratch: Vec::new() })
    }

    /// Returns the path of the file with the samples.
    pub fn path(&self) -> &Path {
        self.reader.path()
    }

    /// Returns the format of the samples.
    pub fn format(&self) -> SampleFormat {
        self.format
    }

    /// Returns the sample rate in Hz, if the file states it.
    pub fn sample_rate_hz(&self) -> Option<f64> {
        self.reader.sample_rate_hz()
    }

    /// Returns the index, time and frequency of the next sample.
    pub fn place(&self) -> FilePlace {
        self.reader.place()
    }

    /// Returns the underlying reader of the file.
    pub(crate) fn into_reader(self) -> FileReader {
        self.reader
    }

    /// Returns the metadata of a SigMF recording.
    pub fn sigmf(&self) -> Option<&SigMfMeta> {
        self.reader.sigmf()
    }

    /// Returns the number of samples in one pass; `None` for a pipe or device.
    pub fn samples_per_pass(&self) -> Option<u64> {
        self.reader.samples_per_pass()
    }

    /// Returns the number of samples read, over all passes.
    pub fn samples_read(&self) -> u64 {
        self.reader.samples_read()
    }

    /// Returns the number of bytes at the end that are dropped (see
    /// [`IqReaderOptions::truncate_partial`]). For a pipe, the number is available at the end.
    pub fn left_over_bytes(&self) -> u64 {
        self.reader.left_over_bytes()
    }

    /// Reads whole samples in their layout in memory into `out`. Returns the number of bytes read;
    /// 0 after the last pass. From a regular file, a read fills `out` until the end of the last
    /// pass, also across two passes.
    ///
    /// # Errors
    /// Reading fails, the file has shrunk, or a pipe ended inside a sample (all whole samples
    /// before that are returned first). Also if `out` is smaller than one sample.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, FormatError> {
        let size = self.format.bytes_per_sample();
        let (path, bytes) = (self.reader.path(), out.len());
        if bytes < size {
            let (path, size) = (path.to_owned(), self.format.bytes_per_sample());
            return Err(FormatError::Buffer { path, bytes, format: self.format.scalar(), size });
        }
        let mut filled = self.reader.read(out)?;
        // A single read stops where the SigMF metadata change.
        while !self.reader.is_stream() && out.len() - filled >= size {
            match self.reader.read(&mut out[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                // Return the samples before the error first. The next read returns the same error.
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }

    /// Reads samples in the format of the file, without conversion. Returns the number of samples;
    /// 0 at the end.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read). Also if the file has another format.
    pub fn read_raw<T: RawSample>(&mut self, out: &mut [T]) -> Result<usize, FormatError> {
        if T::FORMAT != self.format {
            let path = self.path().to_owned();
            let (found, asked) = (self.format.scalar(), T::FORMAT.scalar());
            return Err(FormatError::WrongSampleType { path, found, asked });
        }
        Ok(self.read(bytemuck::cast_slice_mut(out))? / self.format.bytes_per_sample())
    }

    /// Reads samples, converted as described for [`SampleFormat`]. Returns the number of samples; 0
    /// at the end.
    ///
    /// # Errors
    /// The errors of [`read`](Self::read).
    pub fn read_samples(&mut self, out: &mut [Complex<f32>]) -> Result<usize, FormatError> {
        if self.format == SampleFormat::Cf32 {
            return self.read_raw(out);
        }
        let size = self.format.bytes_per_sample();
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(SCRATCH_BYTES, 0);
        let mut done = 0;
        let result = loop {
            let room = (out.len() - done).min(SCRATCH_BYTES / size);
            match self.read(&mut scratch[..room * size]) {
                Ok(bytes) => {
                    let count = bytes / size;
                    let numbers = bytemuck::cast_slice_mut(&mut out[done..done + count]);
                    self.reader.to_f32(&scratch[..bytes], numbers);
                    done += count;
                    // From a stream, return the samples that have arrived rather than wait for
                    // more.
                    if self.reader.is_stream() || count < room || done == out.len() {
                        break Ok(done);
                    }
                }
                // Return the samples before the error first. The next read returns the same error,
                // because the file has not advanced.
                Err(_) if done > 0 => break Ok(done),
                Err(error) => break Err(error),
            }
        };
        self.scratch = scratch;
        result
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::path::PathBuf;

    use proptest::prelude::*;

    use super::*;

    fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn options(format: SampleFormat) -> IqReaderOptions {
        IqReaderOptions { format: Some(format), ..Default::default() }
    }

    fn refused(path: impl AsRef<Path>, options: &IqReaderOptions, words: &[&str]) {
        let path = path.as_ref();
        let message = IqFileReader::open(path, options).unwrap_err().to_string();
        for word in words.iter().chain([&path.to_str().unwrap()]) {
            assert!(message.contains(word), "`{word}` in {message}");
        }
    }

    #[test]
    fn what_is_no_recording_is_refused_with_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name| dir.path().join(name);
        std::fs::write(path("empty.cu8"), []).unwrap();
        std::fs::write(path("odd.cs16"), [0; 11]).unwrap();
        std::fs::write(path("short"), [0; 3]).unwrap();
        let default = IqReaderOptions::default();
        refused(path("missing.cu8"), &default, &["no such file"]);
        refused(path("missing"), &default, &["no such file"]);
        refused(dir.path(), &options(SampleFormat::Cu8), &["directory"]);
        refused(path("empty.cu8"), &default, &["empty"]);
        refused(path("odd.cs16"), &default, &["3 of its 11 bytes", "cs16", "has 4", "truncate_partial"]);
        refused(path("short"), &default, &["unknown", "cu8, cs8"]);
        let truncate = IqReaderOptions { truncate_partial: true, ..options(SampleFormat::Cs16) };
        refused(path("short"), &truncate, &["empty"]);
        let reader = IqFileReader::open(path("odd.cs16"), &truncate).unwrap();
        assert_eq!((reader.samples_per_pass(), reader.left_over_bytes()), (Some(2), 3));
    }

    #[test]
    fn a_sigmf_recording_tells_its_format_and_disagreement_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.sigmf-meta");
        let mut meta = SigMfMeta::new(SampleFormat::Cs16);
        meta.sample_rate_hz = Some(1e6);
        std::fs::write(&path, meta.to_json(&path).unwrap()).unwrap();
        std::fs::write(dir.path().join("r.sigmf-data"), [0, 64, 0, 128]).unwrap();
        let mut reader = IqFileReader::open(&path, &IqReaderOptions::default()).unwrap();
        assert_eq!(reader.sigmf().unwrap().sample_rate_hz, Some(1e6));
        let mut samples = [Complex::default(); 2];
        assert_eq!(reader.read_samples(&mut samples).unwrap(), 1);
        assert_eq!(samples[0], Complex::new(0.5, -1.0));
        refused(&path, &options(SampleFormat::Cu8), &["cs16", "cu8"]);
    }

    #[test]
    fn it_repeats_for_ever_across_seams_and_counts() {
        let file = file_of(&[1, 2, 3, 4, 5, 6]);
        let options = IqReaderOptions { repeat: 0, ..options(SampleFormat::Cs8) };
        let mut reader = IqFileReader::open(file.path(), &options).unwrap();
        let mut out = [Complex::<i8>::default(); 1000];
        assert_eq!(reader.read_raw(&mut out).unwrap(), 1000);
        assert!(out.iter().zip([1, 3, 5].iter().cycle()).all(|(z, re)| z.re == *re && z.im == re + 1));
        assert_eq!(reader.samples_read(), 1000);
        let error = reader.read_raw(&mut [Complex::<i16>::default()]).unwrap_err().to_string();
        assert!(error.contains("holds cs8 samples, not cs16"), "{error}");
        let error = reader.read(&mut [0]).unwrap_err().to_string();
        assert!(error.contains("1 bytes"), "{error}");
    }

    #[test]
    fn a_file_that_shrinks_is_an_error_after_its_last_whole_sample() {
        let file = file_of(&[7; 1000]);
        let mut reader = IqFileReader::open(file.path(), &options(SampleFormat::Cs16)).unwrap();
        let mut out = [0; 400];
        assert_eq!(reader.read(&mut out).unwrap(), 400);
        file.as_file().set_len(403).unwrap();
        let error = reader.read(&mut out).unwrap_err().to_string();
        assert!(error.contains("had 1000 bytes and ends after 40"), "{error}");

        let mut reader = IqFileReader::open(
            file.path(),
            &IqReaderOptions { truncate_partial: true, ..options(SampleFormat::Cs16) },
        )
        .unwrap();
        file.as_file().set_len(202).unwrap();
        assert_eq!(reader.read(&mut out).unwrap(), 200);
        assert!(matches!(reader.read(&mut out), Err(FormatError::Shrunk { .. })));
        assert!(matches!(reader.read(&mut out), Err(FormatError::Shrunk { .. })));
    }

    #[cfg(unix)]
    mod pipes {
        use std::process::Command;

        use super::*;

        /// Creates a FIFO. A thread writes these bytes to it, a few at a time.
        fn fifo(dir: &Path, bytes: &'static [u8], step: usize) -> PathBuf {
            let path = dir.join("fifo");
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            let writer = path.clone();
            std::thread::spawn(move || {
                let mut file = File::create(writer).unwrap();
                for part in bytes.chunks(step) {
                    // The reader may already be closed.
                    if file.write_all(part).is_err() {
                        return;
                    }
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
            });
            path
        }

        const BYTES: [u8; 91] = {
            let mut bytes = [0; 91];
            let mut i = 0;
            while i < 91 {
                bytes[i] = i as u8;
                i += 1;
            }
            bytes
        };

        #[test]
        fn a_pipe_gives_whole_samples_and_reports_what_is_left_over() {
            for truncate_partial in [false, true] {
                let dir = tempfile::tempdir().unwrap();
                let path = fifo(dir.path(), &BYTES, 7);
                let options = IqReaderOptions { truncate_partial, ..options(SampleFormat::Cf32) };
                let mut reader = IqFileReader::open(&path, &options).unwrap();
                let (mut got, mut out) = (Vec::new(), [0; 32]);
                let end = loop {
                    match reader.read(&mut out) {
                        Ok(0) => break Ok(()),
                        Ok(count) => {
                            assert_eq!(count % 8, 0);
                            got.extend_from_slice(&out[..count]);
                        }
                        Err(error) => break Err(error.to_string()),
                    }
                };
                assert_eq!(got, BYTES[..88]);
                assert_eq!(reader.samples_per_pass(), None);
                match end {
                    Ok(()) => assert!(truncate_partial && reader.left_over_bytes() == 3),
                    Err(message) => {
                        assert!(!truncate_partial && message.contains("3 of its 91 bytes"), "{message}");
                    }
                }
            }
        }

        #[test]
        fn a_pipe_or_device_cannot_be_repeated() {
            for path in ["/dev/zero", "-"] {
                let options = IqReaderOptions { repeat: 0, ..options(SampleFormat::Cu8) };
                refused(path, &options, &["repeat"]);
            }
            let mut zeros = IqFileReader::open(
                "/dev/zero",
                &IqReaderOptions { repeat: 1, ..options(SampleFormat::Cs16) },
            )
            .unwrap();
            let mut out = [Complex::new(1.0, 1.0); 50_000];
            let count = zeros.read_samples(&mut out).unwrap();
            assert!(count > 0 && out[..count].iter().all(|z| *z == Complex::new(0.0, 0.0)));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn buffers_do_not_matter(
            samples in 1usize..50,
            repeat in 1u64..5,
            sizes in prop::collection::vec(1usize..90, 1..20),
        ) {
            let bytes: Vec<u8> = (0..samples * 4).map(|i| (i * 7) as u8).collect();
            let file = file_of(&bytes);
            let options = IqReaderOptions { repeat, ..options(SampleFormat::Cs16) };
            let mut reader = IqFileReader::open(file.path(), &options).unwrap();
            let mut got = Vec::new();
            for size in sizes.iter().cycle() {
                let mut out = vec![Complex::<i16>::default(); *size];
                let count = reader.read_raw(&mut out).unwrap();
                if count == 0 {
                    break;
                }
                got.extend_from_slice(&out[..count]);
            }
            let got: &[u8] = bytemuck::cast_slice(&got);
            prop_assert_eq!(got, bytes.repeat(repeat as usize));

            let mut converter = IqFileReader::open(file.path(), &options).unwrap();
            let mut converted = vec![Complex::default(); samples * repeat as usize + 1];
            prop_assert_eq!(converter.read_samples(&mut converted).unwrap(), samples * repeat as usize);
        }
    }
}
