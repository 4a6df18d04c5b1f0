//! Writing I/Q files, raw or SigMF.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Stdout, Write};
use std::path::{Path, PathBuf};

use num_complex::Complex;

use super::error::FormatError;
use super::sample_format::{RawSample, SampleFormat};
use super::sigmf::{SigMfCapture, SigMfMeta, is_sigmf};

/// A writer of samples to a raw I/Q file, a SigMF recording, a pipe or device, or standard output
/// (`-`). An existing file is replaced.
///
/// Small writes are gathered. Only [`finish`](Self::finish) reports that everything is on the disk.
/// Dropping a writer does as much of that as it can, without reporting errors. After an error a
/// writer only repeats the error.
///
/// ```
/// use num_complex::Complex;
/// use stripline_components::formats::{IqFileWriter, SampleFormat};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("capture.cs16");
///
/// let mut writer = IqFileWriter::create(&path, SampleFormat::Cs16)?;
/// writer.write_samples(&[Complex::new(0.5, -1.0)])?;
/// assert_eq!(writer.finish()?, 4);
/// assert_eq!(std::fs::read(&path)?, [0x00, 0x40, 0x00, 0x80]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct IqFileWriter {
    /// The file with the samples.
    path: PathBuf,
    format: SampleFormat,
    sink: Sink,
    sigmf: Option<Sidecar>,
    /// Bytes that are not written to the file yet.
    buffer: Vec<u8>,
    /// Number of bytes written to the file.
    written: u64,
    /// The operating system's code and the kind of the error that stopped the writer.
    failed: Option<(Option<i32>, ErrorKind)>,
    finished: bool,
}

#[derive(Debug)]
enum Sink {
    File {
        file: File,
        /// Whether it is a regular file, which can be synchronised.
        regular: bool,
    },
    Stdout(Stdout),
}

/// The metadata beside the samples.
#[derive(Debug)]
struct Sidecar {
    path: PathBuf,
    meta: SigMfMeta,
    /// Whether the file lacks the latest additions.
    stale: bool,
}

/// Writes below this size are gathered up to it.
const BUFFER_BYTES: usize = 256 << 10;

impl IqFileWriter {
    /// Creates a raw file. If `path` ends in `.sigmf-meta` or `.sigmf-data`, creates a recording
    /// with only the format in its metadata.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: impl AsRef<Path>, format: SampleFormat) -> Result<Self, FormatError> {
        let path = path.as_ref();
        if is_sigmf(path) {
            return Self::create_sigmf(path, SigMfMeta::new(format));
        }
        Self::new(path.to_owned(), format)
    }

    /// Creates a SigMF recording, both files, from the path of either. To any other extension (also
    /// `.sigmf`) it appends SigMF's own.
    ///
    /// # Errors
    /// A file cannot be created, or the metadata are invalid.
    pub fn create_sigmf(path: impl AsRef<Path>, meta: SigMfMeta) -> Result<Self, FormatError> {
        let path = path.as_ref();
        let base = if is_sigmf(path) { path.with_extension("") } else { path.to_owned() };
        let with = |suffix| {
            let mut name = base.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        let meta_path = with(".sigmf-meta");
        // Before anything is created.
        meta.to_json(&meta_path)?;
        let mut writer = Self::new(with(".sigmf-data"), meta.format)?;
        let mut sidecar = Sidecar { path: meta_path, meta, stale: true };
        // Written at once, so that an interrupted recording can be read.
        sidecar.write()?;
        writer.sigmf = Some(sidecar);
        Ok(writer)
    }

    fn new(path: PathBuf, format: SampleFormat) -> Result<Self, FormatError> {
        let sink = if path == Path::new("-") {
            Sink::Stdout(io::stdout())
        } else {
            let create = || {
                let file = File::create(&path)?;
                let regular = file.metadata()?.is_file();
                Ok(Sink::File { file, regular })
            };
            create().map_err(|source| FormatError::open(&path, "create", source))?
        };
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Ok(Self { path, format, sink, sigmf: None, buffer, written: 0, failed: None, finished: false })
    }

    /// Returns the file with the samples.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the format of the samples.
    pub fn format(&self) -> SampleFormat {
        self.format
    }

    /// Returns the number of samples given to be written.
    pub fn samples(&self) -> u64 {
        (self.written + self.buffer.len() as u64) / self.format.bytes_per_sample() as u64
    }

    /// Writes whole samples in the layout of the file.
    ///
    /// # Errors
    /// Writing fails, for example on a full disk. Also if `bytes` does not hold whole samples.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        if !bytes.len().is_multiple_of(self.format.bytes_per_sample()) {
            let path = self.path.clone();
            return Err(FormatError::Buffer { path, bytes: bytes.len(), format: self.format });
        }
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        if bytes.len() >= BUFFER_BYTES {
            return self.write_through(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes samples in the file's own type, without conversion.
    ///
    /// # Errors
    /// As [`write`](Self::write). Also if the file holds another type.
    pub fn write_raw<T: RawSample>(&mut self, samples: &[T]) -> Result<(), FormatError> {
        if T::FORMAT != self.format {
            let path = self.path.clone();
            return Err(FormatError::WrongSampleType { path, found: self.format, asked: T::FORMAT });
        }
        if cfg!(target_endian = "little") {
            return self.write(bytemuck::cast_slice(samples));
        }
        let mut swapped = samples.to_vec();
        T::swap_from_little_endian(&mut swapped);
        self.write(bytemuck::cast_slice(&swapped))
    }

    /// Writes samples, converted as described for [`SampleFormat`].
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_samples(&mut self, samples: &[Complex<f32>]) -> Result<(), FormatError> {
        if self.format == SampleFormat::Cf32 {
            return self.write_raw(samples);
        }
        let size = self.format.bytes_per_sample();
        for part in samples.chunks(BUFFER_BYTES / size) {
            if self.buffer.len() + part.len() * size > BUFFER_BYTES {
                self.flush()?;
            }
            let start = self.buffer.len();
            self.buffer.resize(start + part.len() * size, 0);
            self.format.encode(part, &mut self.buffer[start..]);
        }
        Ok(())
    }

    /// Adds a segment to the metadata of a SigMF recording, valid from the next sample on, for
    /// example after tuning. Does nothing for a raw file. The given `sample_start` is replaced.
    ///
    /// # Errors
    /// The metadata would be invalid.
    pub fn begin_capture(&mut self, capture: SigMfCapture) -> Result<(), FormatError> {
        let sample_start = self.samples();
        if let Some(sidecar) = &mut self.sigmf {
            let capture = SigMfCapture { sample_start, ..capture };
            // Only the new segment needs a check.
            let only = SigMfMeta { captures: vec![capture.clone()], ..SigMfMeta::new(self.format) };
            only.to_json(&sidecar.path)?;
            // Of two captures at one sample, the later one is valid.
            sidecar.meta.captures.retain(|earlier| earlier.sample_start < sample_start);
            sidecar.meta.captures.push(capture);
            sidecar.stale = true;
        }
        Ok(())
    }

    /// Writes all bytes to the operating system.
    ///
    /// # Errors
    /// Writing fails.
    pub fn flush(&mut self) -> Result<(), FormatError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let result = self.write_through(&buffer);
        buffer.clear();
        self.buffer = buffer;
        result
    }

    /// Writes all bytes to the operating system, and the metadata of a SigMF recording. A recording
    /// that is not finished can be read up to here.
    ///
    /// # Errors
    /// Writing fails.
    pub fn sync_metadata(&mut self) -> Result<(), FormatError> {
        self.flush()?;
        self.sigmf.as_mut().map_or(Ok(()), Sidecar::write)
    }

    /// Writes everything, waits until a regular file is on the disk, and completes the metadata.
    /// Returns the number of bytes of the samples.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self) -> Result<u64, FormatError> {
        self.finished = true;
        self.flush()?;
        let synced = match &mut self.sink {
            Sink::File { file, regular: true } => file.sync_all(),
            Sink::File { file, .. } => file.flush(),
            Sink::Stdout(stdout) => stdout.flush(),
        };
        synced.map_err(|source| self.failed_write(source))?;
        if let Some(sidecar) = &mut self.sigmf {
            sidecar.write()?;
        }
        Ok(self.written)
    }

    fn write_through(&mut self, mut bytes: &[u8]) -> Result<(), FormatError> {
        if let Some((code, kind)) = self.failed {
            let source = code.map_or_else(|| kind.into(), io::Error::from_raw_os_error);
            return Err(FormatError::Write { path: self.path.clone(), written: self.written, source });
        }
        while !bytes.is_empty() {
            let result = match &mut self.sink {
                Sink::File { file, .. } => file.write(bytes),
                Sink::Stdout(stdout) => stdout.write(bytes),
            };
            match result {
                Ok(0) => return Err(self.failed_write(ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.written += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed_write(error)),
            }
        }
        Ok(())
    }

    fn failed_write(&mut self, source: io::Error) -> FormatError {
        self.failed = Some((source.raw_os_error(), source.kind()));
        FormatError::Write { path: self.path.clone(), written: self.written, source }
    }
}

impl Drop for IqFileWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Errors cannot be reported here; `finish` reports them.
            let _ = self.flush();
            if let Some(sidecar) = &mut self.sigmf {
                let _ = sidecar.write();
            }
        }
    }
}

impl Sidecar {
    /// Writes the metadata if necessary, all or nothing.
    fn write(&mut self) -> Result<(), FormatError> {
        if !self.stale {
            return Ok(());
        }
        let json = self.meta.to_json(&self.path)?;
        let mut name = self.path.clone().into_os_string();
        name.push(".partial");
        let partial = PathBuf::from(name);
        let replace = || {
            let mut file = File::create(&partial)?;
            file.write_all(json.as_bytes())?;
            file.sync_all()?;
            fs::rename(&partial, &self.path)
        };
        replace().map_err(|source| FormatError::Write { path: self.path.clone(), written: 0, source })?;
        self.stale = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::iq_reader::{IqFileReader, IqReaderOptions};
    use super::*;

    fn samples(count: usize) -> Vec<Complex<f32>> {
        (0..count).map(|i| Complex::new(i as f32 / 128.0 % 1.0, -0.5)).collect()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_with_path_and_bytes_and_stays_reported() {
        let mut writer = IqFileWriter::create("/dev/full", SampleFormat::Cs8).unwrap();
        writer.write_samples(&samples(10)).unwrap();
        let message = writer.finish().unwrap_err().to_string();
        assert!(
            message.starts_with("/dev/full: cannot write after 0 bytes: No space left on device"),
            "{message}"
        );

        let mut writer = IqFileWriter::create("/dev/full", SampleFormat::Cf32).unwrap();
        let many = samples(100_000);
        let first = writer.write_samples(&many).unwrap_err();
        assert_eq!(io::Error::from(first).kind(), ErrorKind::StorageFull);
        for _ in 0..2 {
            let message = writer.write_samples(&many).unwrap_err().to_string();
            assert!(message.contains("No space left on device"), "{message}");
        }
        assert!(writer.finish().is_err());
    }

    #[test]
    fn a_sigmf_recording_reads_back_with_its_captures() {
        let dir = tempfile::tempdir().unwrap();
        let mut meta = SigMfMeta::new(SampleFormat::Cs8);
        meta.sample_rate_hz = Some(2.4e6);
        meta.author = Some("someone".to_owned());
        let base = dir.path().join("take.1");
        let mut writer = IqFileWriter::create_sigmf(&base, meta).unwrap();
        let (meta_path, data_path) =
            (dir.path().join("take.1.sigmf-meta"), dir.path().join("take.1.sigmf-data"));
        assert!(meta_path.exists() && data_path.exists(), "from the start");
        let tuned = |frequency_hz| SigMfCapture { frequency_hz: Some(frequency_hz), ..Default::default() };
        writer.begin_capture(tuned(99e6)).unwrap();
        writer.begin_capture(tuned(100e6)).unwrap();
        writer.write_samples(&samples(128)).unwrap();
        writer.begin_capture(tuned(101e6)).unwrap();
        assert!(writer.begin_capture(tuned(f64::NAN)).is_err());
        writer.write_samples(&samples(64)).unwrap();
        assert_eq!(writer.finish().unwrap(), 384);

        let mut reader = IqFileReader::open(&data_path, &IqReaderOptions::default()).unwrap();
        let starts: Vec<_> =
            reader.sigmf().unwrap().captures.iter().map(|c| (c.sample_start, c.frequency_hz)).collect();
        assert_eq!(starts, [(0, Some(100e6)), (128, Some(101e6))]);
        assert_eq!(reader.sigmf().unwrap().author.as_deref(), Some("someone"));
        let mut out = samples(200);
        assert_eq!(reader.read_samples(&mut out).unwrap(), 192);
        assert_eq!(out[..128], samples(128));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left behind");
    }

    #[test]
    fn dropping_writes_what_it_can() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.sigmf-meta");
        let mut writer = IqFileWriter::create(&path, SampleFormat::Cu8).unwrap();
        writer.write(&[1, 2, 3, 4]).unwrap();
        writer.begin_capture(SigMfCapture::default()).unwrap();
        drop(writer);
        let reader = IqFileReader::open(&path, &IqReaderOptions::default()).unwrap();
        assert_eq!(reader.samples_per_pass(), Some(2));
        assert_eq!(reader.sigmf().unwrap().captures[0].sample_start, 2);
    }

    #[test]
    fn misuse_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let message = IqFileWriter::create(dir.path(), SampleFormat::Cu8).unwrap_err().to_string();
        assert!(message.contains("directory"), "{message}");
        let path = dir.path().join("no/such/folder.cu8");
        let message = IqFileWriter::create(&path, SampleFormat::Cu8).unwrap_err().to_string();
        assert!(message.contains("folder.cu8: cannot create: No such file"), "{message}");
        let mut writer = IqFileWriter::create(dir.path().join("a"), SampleFormat::Cs16).unwrap();
        assert!(matches!(writer.write(&[1, 2, 3]), Err(FormatError::Buffer { .. })));
        assert!(matches!(
            writer.write_raw(&[Complex::new(1u8, 2)]),
            Err(FormatError::WrongSampleType { .. })
        ));
        let mut meta = SigMfMeta::new(SampleFormat::Cu8);
        meta.sample_rate_hz = Some(-1.0);
        assert!(IqFileWriter::create_sigmf(dir.path().join("b"), meta).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was created");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn packets_do_not_matter(sizes in prop::collection::vec(0usize..80_000, 0..8)) {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("x");
            let mut writer = IqFileWriter::create(&path, SampleFormat::Cs16).unwrap();
            let mut expected = Vec::new();
            for size in sizes {
                let packet: Vec<_> = (0..size).map(|i| Complex::new(i as i16, !(i as i16))).collect();
                writer.write_raw(&packet).unwrap();
                expected.extend(packet);
            }
            prop_assert_eq!(writer.samples(), expected.len() as u64);
            prop_assert_eq!(writer.finish().unwrap(), expected.len() as u64 * 4);
            prop_assert!(fs::read(&path).unwrap() == bytemuck::cast_slice::<_, u8>(&expected));
        }
    }
}
