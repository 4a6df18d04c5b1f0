//! Writing I/Q files, raw or SigMF.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use num_complex::Complex;
use stripline::payload::Scalar;

use super::encoding::Encoding;
use super::error::FormatError;
use super::file_kind::is_sigmf;
use super::output::{Existing, OutputFile};
use super::sample_format::{SampleFormat, is_clipped};
use super::sigmf::{Sidecar, SigMfCapture, SigMfMeta, check_sigmf_output};

/// A writer of samples of any type to a raw file, a SigMF recording, a pipe or device, or standard
/// output (`-`).
///
/// Small writes are collected in a buffer. Only [`finish`](Self::finish) reports that everything is
/// on the disk. Dropping a writer attempts the same, without reporting errors. After an error, a
/// writer only repeats the error. On a full disk, the file has the whole samples that fit, and the
/// metadata for them.
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
    output: OutputFile,
    scalar: Scalar,
    /// The size of a frame (a sample of each channel) in a SigMF recording, in bytes.
    frame_bytes: usize,
    sigmf: Option<Sidecar>,
    /// Bytes that are not written to the file yet.
    buffer: Vec<u8>,
    /// The number of bytes in the file when it was opened.
    before: u64,
    /// The index after the last sample of a SigMF recording that is continued.
    index_before: Option<u64>,
    /// The number of bytes written to the file.
    written: u64,
    /// The number of samples that the format could not hold.
    clipped: u64,
    /// The operating system's code, the kind and the text of the error that stopped the writer.
    failed: Option<(Option<i32>, ErrorKind, String)>,
    finished: bool,
}

/// The size of the buffer for small writes, in bytes.
const BUFFER_BYTES: usize = 256 << 10;

impl IqFileWriter {
    /// Creates a file as [`open`](Self::open) does, and replaces an existing one.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: impl AsRef<Path>, format: impl Into<Scalar>) -> Result<Self, FormatError> {
        Self::open(path, format, Existing::Replace)
    }

    /// Opens a raw file. If `path` ends in `.sigmf-meta` or `.sigmf-data`, creates a recording
    /// with only the format in its metadata.
    ///
    /// # Errors
    /// The file exists and `existing` refuses that, or it cannot be created.
    pub fn open(
        path: impl AsRef<Path>,
        format: impl Into<Scalar>,
        existing: Existing,
    ) -> Result<Self, FormatError> {
        let (path, scalar) = (path.as_ref(), format.into());
        if is_sigmf(path) {
            return Self::open_sigmf(path, SigMfMeta::new(scalar), existing);
        }
        Self::new(OutputFile::open(path, existing)?, scalar, 1)
    }

    /// Creates a SigMF recording as [`open_sigmf`](Self::open_sigmf) does, and replaces an existing
    /// one.
    ///
    /// # Errors
    /// A file cannot be created, or the metadata are invalid.
    pub fn create_sigmf(path: impl AsRef<Path>, meta: SigMfMeta) -> Result<Self, FormatError> {
        Self::open_sigmf(path, meta, Existing::Replace)
    }

    /// Opens both files of a SigMF recording, from the path of either. If the path has any other
    /// extension (also `.sigmf`), the extensions of SigMF are appended. A recording that is
    /// continued keeps its metadata, and gets further segments.
    ///
    /// # Errors
    /// A file exists and `existing` refuses that, or a file cannot be created. The metadata are
    /// invalid, or the recording to continue has another format or rate.
    pub fn open_sigmf(
        path: impl AsRef<Path>,
        meta: SigMfMeta,
        existing: Existing,
    ) -> Result<Self, FormatError> {
        let path = path.as_ref();
        let base = if is_sigmf(path) { path.with_extension("") } else { path.to_owned() };
        let with = |suffix| {
            let mut name = base.clone().into_os_string();
            name.push(suffix);
            PathBuf::from(name)
        };
        let meta_path = with(".sigmf-meta");
        // Validate the metadata before any file is created or emptied.
        meta.to_json(&meta_path)?;
        if meta.is_big_endian {
            let found = format!("big-endian {}", meta.format);
            return Err(FormatError::NotIq { path: meta_path, found });
        }
        let (scalar, channels) = (meta.format, meta.channels as usize);
        let replaces = matches!(existing, Existing::Append | Existing::Replace);
        check_sigmf_output(&meta_path, existing)?;
        let continues = existing == Existing::Append && meta_path.exists();
        if continues {
            Sidecar::continued(meta_path, &meta)?;
        }
        let beside = |data: &Path| Some(data.with_extension("sigmf-meta"));
        let data_path = with(".sigmf-data");
        let is_new = !replaces || data_path.symlink_metadata().is_err();
        let output = OutputFile::open_beside(&data_path, existing, beside)?;
        let meta_path = output.path.with_extension("sigmf-meta");
        // An earlier writer may have completed the metadata before the file was locked.
        let mut sidecar = match continues {
            true => Sidecar::continued(meta_path, &meta)?,
            false => Sidecar::new(meta_path, meta, replaces)?,
        };
        let is_checksum_removed = continues && sidecar.remove_checksum();
        let mut writer = Self::new(output, scalar, channels)?;
        if let Some(found) = writer.output.found.as_mut().filter(|_| is_checksum_removed) {
            found.push_str(", without its `core:sha512`");
        }
        writer.index_before = sidecar.last_capture().filter(|_| continues).map(|last| {
            let end = sidecar.offset().saturating_add(writer.before / writer.frame_bytes as u64);
            let frames = end.saturating_sub(last.sample_start);
            let index = last.global_index.unwrap_or(last.sample_start).saturating_add(frames);
            index.saturating_mul(channels as u64)
        });
        // Write the metadata at once, so that an interrupted recording can be read.
        if let Err(error) = sidecar.write(true) {
            // An empty file of samples would refuse the next recording.
            if is_new && writer.output.is_regular && writer.output.is_in_place() {
                let _ = fs::remove_file(&writer.output.path);
            }
            return Err(error);
        }
        writer.sigmf = Some(sidecar);
        Ok(writer)
    }

    fn new(mut output: OutputFile, scalar: Scalar, channels: usize) -> Result<Self, FormatError> {
        let frame_bytes = scalar.size() * channels;
        let length = output.length;
        let before = length - length % frame_bytes as u64;
        output.note_found(before / scalar.size() as u64, "sample", length - before);
        let writer = Self {
            output,
            scalar,
            frame_bytes,
            sigmf: None,
            buffer: Vec::with_capacity(BUFFER_BYTES),
            before,
            index_before: None,
            written: 0,
            clipped: 0,
            failed: None,
            finished: false,
        };
        // Remove an incomplete sample at the end of a file that is continued.
        if length != before {
            writer
                .output
                .cut(before)
                .map_err(|source| FormatError::open(&writer.output.path, "create", source))?;
        }
        Ok(writer)
    }

    /// Returns the path of the file with the samples.
    pub fn path(&self) -> &Path {
        &self.output.path
    }

    /// Returns a note about an earlier file at this path; `None`: there was no file.
    pub fn found(&self) -> Option<&str> {
        self.output.found.as_deref()
    }

    /// Returns the type of the samples.
    pub fn scalar(&self) -> Scalar {
        self.scalar
    }

    /// Returns the path of the metadata for a SigMF recording, and otherwise the path of the file.
    pub fn named_path(&self) -> &Path {
        self.sigmf.as_ref().map_or(&self.output.path, |sidecar| &sidecar.path)
    }

    /// Returns the number of samples in the file once all given samples are written.
    pub fn samples(&self) -> u64 {
        (self.before + self.written + self.buffer.len() as u64) / self.scalar.size() as u64
    }

    /// Returns the number of samples that a reader finds in the file now.
    pub fn samples_kept(&self) -> u64 {
        (self.before + self.written) / self.scalar.size() as u64
    }

    /// Returns the number of samples that a reader finds in the file. Another program may have
    /// shortened it.
    pub(super) fn samples_found(&self) -> u64 {
        self.output.readable(self.before + self.written) / self.scalar.size() as u64
    }

    /// Lets the readers of a pipe come and go.
    pub(super) fn keep_readers(&mut self) {
        self.output.keep_readers();
    }

    /// Returns the number of samples that no reader of a pipe has taken, and the number of readers
    /// that have left.
    pub(super) fn untaken(&self) -> (u64, u64) {
        let (bytes, left) = self.output.untaken();
        (bytes.div_ceil(self.scalar.size() as u64), left)
    }

    /// Returns the index after the last sample of a SigMF recording that is continued.
    pub(super) fn index_before(&self) -> Option<u64> {
        self.index_before
    }

    /// Returns whether the path still names the file with the samples, with metadata for them.
    pub(super) fn is_in_place(&self) -> bool {
        self.output.has_name() && self.sigmf.as_ref().is_none_or(Sidecar::is_in_place)
    }

    /// Returns whether writing has failed: later samples are not in the file.
    pub(super) fn is_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Returns the number of samples that [`write_samples`](Self::write_samples) has clipped,
    /// because they are outside of the format's range.
    pub fn clipped(&self) -> u64 {
        self.clipped
    }

    /// Writes whole samples in the layout of the file.
    ///
    /// # Errors
    /// Writing fails, for example on a full disk, or `bytes` does not hold whole samples.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        if !bytes.len().is_multiple_of(self.frame_bytes) {
            let (path, size) = (self.output.path.clone(), self.frame_bytes);
            return Err(FormatError::Buffer { path, bytes: bytes.len(), format: self.scalar, size });
        }
        let room = self.room();
        if self.buffer.len() + bytes.len() > room {
            self.flush()?;
        }
        if bytes.len() >= room {
            return self.write_through(bytes);
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes samples of type `received` as they are in memory. `cf32` samples are converted to a
    /// type of [`SampleFormat`] if the file has such a type.
    ///
    /// # Errors
    /// The errors of [`write`](Self::write). Also if there is no conversion from this type to the
    /// type of the file.
    pub fn write_native(&mut self, received: Scalar, bytes: &[u8]) -> Result<(), FormatError> {
        if received == self.scalar {
            let encoding = Encoding::raw(received);
            if encoding.is_native() {
                return self.write(bytes);
            }
            let mut swapped = bytes.to_vec();
            encoding.decode(&mut swapped, bytes.len());
            return self.write(&swapped);
        }
        if received != SampleFormat::Cf32.scalar() {
            let path = self.output.path.clone();
            return Err(FormatError::WrongSampleType { path, found: self.scalar, asked: received });
        }
        match bytemuck::try_cast_slice(bytes) {
            Ok(samples) => self.write_samples(samples),
            Err(_) => {
                let samples = bytes.chunks_exact(size_of::<Complex<f32>>()).map(bytemuck::pod_read_unaligned);
                self.write_samples(&samples.collect::<Vec<_>>())
            }
        }
    }

    /// Writes samples, converted as described for [`SampleFormat`].
    ///
    /// # Errors
    /// The errors of [`write`](Self::write).
    pub fn write_samples(&mut self, samples: &[Complex<f32>]) -> Result<(), FormatError> {
        let cf32 = SampleFormat::Cf32.scalar();
        if self.scalar == cf32 {
            return self.write_native(cf32, bytemuck::cast_slice(samples));
        }
        let Some(format) = SampleFormat::of_scalar(self.scalar) else {
            let path = self.output.path.clone();
            return Err(FormatError::WrongSampleType { path, found: self.scalar, asked: cf32 });
        };
        let size = format.bytes_per_sample();
        let is_beyond = |sample: &&Complex<f32>| is_clipped(sample.re) || is_clipped(sample.im);
        self.clipped += samples.iter().filter(is_beyond).count() as u64;
        for part in samples.chunks(BUFFER_BYTES / size) {
            if self.buffer.len() + part.len() * size > self.room() {
                self.flush()?;
            }
            let start = self.buffer.len();
            self.buffer.resize(start + part.len() * size, 0);
            format.encode(part, &mut self.buffer[start..]);
        }
        Ok(())
    }

    /// Adds a segment to the metadata of a SigMF recording, for example after tuning. The segment
    /// begins at the next sample: the given `sample_start` is replaced. A raw file is not changed.
    ///
    /// # Errors
    /// The metadata would be invalid, or have too many segments.
    pub fn begin_capture(&mut self, capture: SigMfCapture) -> Result<(), FormatError> {
        let channels = (self.frame_bytes / self.scalar.size()) as u64;
        let frames = self.samples() / channels;
        self.sigmf.as_mut().map_or(Ok(()), |sidecar| sidecar.begin_capture(frames, capture))
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

    /// Writes all bytes and the metadata of a SigMF recording to the operating system. An
    /// unfinished recording can be read up to here.
    ///
    /// # Errors
    /// Writing fails.
    pub fn sync_metadata(&mut self) -> Result<(), FormatError> {
        self.flush()?;
        self.write_metadata(true)
    }

    /// Writes everything, and waits until a regular file and its metadata are on the disk.
    ///
    /// # Errors
    /// Writing fails.
    pub fn sync_disk(&mut self) -> Result<(), FormatError> {
        self.flush()?;
        self.output.sync_data().map_err(|source| self.failed_write(source))?;
        let is_renamed = self.sigmf.as_ref().is_some_and(Sidecar::is_unsynced);
        self.write_metadata(true)?;
        if is_renamed {
            self.output.forget_names();
        }
        self.output.sync_names().map_err(|source| self.failed_write(source))
    }

    /// Writes everything, waits until a regular file is on the disk, and completes the metadata.
    /// Returns the number of bytes of the samples.
    ///
    /// # Errors
    /// Writing fails.
    pub fn finish(mut self) -> Result<u64, FormatError> {
        self.complete()?;
        Ok(self.written)
    }

    /// Completes the file as [`finish`](Self::finish) does, and keeps it open.
    ///
    /// # Errors
    /// Writing fails.
    pub fn complete(&mut self) -> Result<(), FormatError> {
        // The samples are kept even if another program has spoilt the metadata.
        self.flush()?;
        self.output.forget_names();
        if let Some(sidecar) = &mut self.sigmf {
            sidecar.check_changes();
        }
        self.sync_disk()?;
        self.finished = true;
        Ok(())
    }

    /// Returns the number of bytes up to which small writes are collected. The number grows with
    /// the metadata, so that writing the metadata before each part takes a small share of the time.
    fn room(&self) -> usize {
        BUFFER_BYTES.max(4 * self.sigmf.as_ref().map_or(0, Sidecar::bytes_due))
    }

    fn write_through(&mut self, bytes: &[u8]) -> Result<(), FormatError> {
        if let Some((code, kind, text)) = &self.failed {
            let source = code.map_or_else(|| io::Error::new(*kind, &**text), io::Error::from_raw_os_error);
            return Err(FormatError::Write { path: self.output.path.clone(), written: self.written, source });
        }
        // Write the metadata before the samples that they describe. Otherwise a killed writer could
        // leave samples that seem to belong to the previous segment.
        let frames = self.sigmf.as_ref().map_or(u64::MAX, Sidecar::frames_described);
        let described = frames.saturating_mul(self.frame_bytes as u64);
        let described = described.saturating_sub(self.before + self.written);
        let described = usize::try_from(described).unwrap_or(usize::MAX);
        let (before, after) = bytes.split_at(described.min(bytes.len()));
        let written = self.output.write_all(before, &mut self.written);
        written.map_err(|source| self.failed_write(source))?;
        if after.is_empty() {
            return Ok(());
        }
        self.write_metadata(false)?;
        let written = self.output.write_all(after, &mut self.written);
        written.map_err(|source| self.failed_write(source))
    }

    /// Writes the metadata if necessary. If the file of samples was moved away, the metadata at
    /// this path may be of another recording.
    fn write_metadata(&mut self, sync: bool) -> Result<(), FormatError> {
        let Some(sidecar) = self.sigmf.as_mut().filter(|sidecar| sidecar.is_due(sync)) else { return Ok(()) };
        if !self.output.is_in_place() {
            let problem = "another program has removed, replaced or shortened the file meanwhile";
            return Err(self.failed_write(io::Error::other(problem)));
        }
        sidecar.write(sync).map_err(|error| self.give_up(error))
    }

    /// Ends the file after an error that is not of the file of samples. Returns the error.
    pub(super) fn give_up(&mut self, error: FormatError) -> FormatError {
        match &error {
            FormatError::Write { source, .. } => self.end(source),
            other => self.end(&io::Error::other(other.to_string())),
        }
        error
    }

    fn failed_write(&mut self, source: io::Error) -> FormatError {
        self.end(&source);
        FormatError::Write { path: self.output.path.clone(), written: self.written, source }
    }

    fn end(&mut self, source: &io::Error) {
        self.failed = Some((source.raw_os_error(), source.kind(), source.to_string()));
        // Let the file end with a whole sample.
        self.written -= (self.before + self.written) % self.frame_bytes as u64;
        // Errors of `cut` and `write` cannot be reported beside the error of the first write.
        let _ = self.output.cut(self.before + self.written);
        let frames = (self.before + self.written) / self.frame_bytes as u64;
        if let Some(sidecar) = &mut self.sigmf {
            // Keep the first segment: it describes a recording without samples, too.
            sidecar.cut(frames.max(1));
            if self.output.is_in_place() {
                let _ = sidecar.write(true);
            }
        }
    }
}

impl Drop for IqFileWriter {
    fn drop(&mut self) {
        if !self.finished {
            // Errors cannot be reported here; `finish` reports them.
            let _ = self.sync_metadata();
        }
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
            writer.write_native(SampleFormat::Cu8.scalar(), &[1, 2]),
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
                writer.write_native(SampleFormat::Cs16.scalar(), bytemuck::cast_slice(&packet)).unwrap();
                expected.extend(packet);
            }
            prop_assert_eq!(writer.samples(), expected.len() as u64);
            prop_assert_eq!(writer.finish().unwrap(), expected.len() as u64 * 4);
            prop_assert!(fs::read(&path).unwrap() == bytemuck::cast_slice::<_, u8>(&expected));
        }
    }
}
