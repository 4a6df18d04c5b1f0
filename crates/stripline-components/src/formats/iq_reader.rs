//! Reading I/Q files, raw or SigMF.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Stdin};
use std::path::{Path, PathBuf};

use num_complex::Complex;

use super::error::FormatError;
use super::sample_format::{RawSample, SampleFormat};
use super::sigmf::{SigMfMeta, SigMfRecording, is_sigmf};

/// The options for reading an I/Q file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IqReaderOptions {
    /// The format of the samples. `None` takes it from SigMF metadata or from the file's extension
    /// (`.cu8` ...).
    pub format: Option<SampleFormat>,
    /// Number of times to play the file; 0: for ever. A pipe or device can be played only once.
    pub repeat: u64,
    /// Whether to drop an incomplete sample at the end of the file instead of refusing the file.
    pub truncate_partial: bool,
}

impl Default for IqReaderOptions {
    /// Returns: once, with the file's own format, whole samples only.
    fn default() -> Self {
        Self { format: None, repeat: 1, truncate_partial: false }
    }
}

/// A reader of samples from an I/Q file, raw or SigMF, a pipe or device, or standard input (`-`).
/// Either file of a SigMF recording names it.
///
/// A regular file is checked when it is opened, and played up to its length at that time. Bytes
/// appended later are left out, and a file that shrinks is an error. From a pipe, each read returns
/// the bytes that have arrived, in whole samples. Opening a FIFO waits for its writer.
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
    /// The file with the samples.
    path: PathBuf,
    format: SampleFormat,
    sigmf: Option<SigMfMeta>,
    input: Input,
    /// Number of bytes returned.
    bytes: u64,
    /// Bytes to be converted.
    scratch: Vec<u8>,
}

#[derive(Debug)]
enum Input {
    Regular(Regular),
    Stream(Stream),
}

/// A file with a fixed length.
#[derive(Debug)]
struct Regular {
    file: File,
    /// Its whole samples in bytes, at least one sample.
    length: u64,
    /// Number of bytes after these.
    left_over: u64,
    /// Number of bytes left in the present pass.
    left: u64,
    /// Number of passes after the present one; `None`: no end.
    passes: Option<u64>,
}

/// A pipe, a device or the standard input.
#[derive(Debug)]
struct Stream {
    source: Source,
    /// The first bytes of a sample that has not arrived completely.
    carry: [u8; 8],
    carried: usize,
    truncate_partial: bool,
    ended: bool,
}

#[derive(Debug)]
pub(super) enum Source {
    File(File),
    Stdin(Stdin),
}

impl Read for Source {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(out),
            Self::Stdin(stdin) => stdin.read(out),
        }
    }
}

/// Number of bytes converted at a time: they stay in the cache.
const SCRATCH_BYTES: usize = 64 << 10;

impl IqFileReader {
    /// Opens a file.
    ///
    /// # Errors
    /// A missing or empty file, or a directory.
    ///
    /// An unknown or conflicting format, or invalid SigMF metadata.
    ///
    /// A length that is no multiple of the sample size (unless `truncate_partial` is set), or a
    /// repetition of a file that is not regular.
    pub fn open(path: impl AsRef<Path>, options: &IqReaderOptions) -> Result<Self, FormatError> {
        let path = path.as_ref();
        let (path, format, sigmf) = if is_sigmf(path) {
            let SigMfRecording { meta, meta_path, data_path } = SigMfRecording::open(path)?;
            if let Some(asked) = options.format.filter(|asked| *asked != meta.format) {
                return Err(FormatError::ConflictingFormat { path: meta_path, found: meta.format, asked });
            }
            (data_path, meta.format, Some(meta))
        } else {
            let format = options.format.or_else(|| SampleFormat::from_extension(path));
            // A missing file is the more useful error.
            if format.is_none() && path != Path::new("-") {
                path.metadata().map_err(|source| FormatError::open(path, "open", source))?;
            }
            let format = format.ok_or_else(|| FormatError::NoSampleFormat { path: path.to_owned() })?;
            (path.to_owned(), format, None)
        };
        let input = open_input(&path, format, options)?;
        Ok(Self { path, format, sigmf, input, bytes: 0, scratch: Vec::new() })
    }

    /// Returns the file with the samples.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the format of the samples.
    pub fn format(&self) -> SampleFormat {
        self.format
    }

    /// Returns the metadata of a SigMF recording.
    pub fn sigmf(&self) -> Option<&SigMfMeta> {
        self.sigmf.as_ref()
    }

    /// Returns the number of samples in one pass; `None` for a pipe or device.
    pub fn samples_per_pass(&self) -> Option<u64> {
        match &self.input {
            Input::Regular(regular) => Some(regular.length / self.format.bytes_per_sample() as u64),
            Input::Stream(_) => None,
        }
    }

    /// Returns the number of samples read, over all passes.
    pub fn samples_read(&self) -> u64 {
        self.bytes / self.format.bytes_per_sample() as u64
    }

    /// Returns the number of bytes at the end that are dropped (see
    /// [`IqReaderOptions::truncate_partial`]). For a pipe it is available at its end.
    pub fn left_over_bytes(&self) -> u64 {
        match &self.input {
            Input::Regular(regular) => regular.left_over,
            Input::Stream(stream) if stream.ended => stream.carried as u64,
            Input::Stream(_) => 0,
        }
    }

    /// Reads whole samples, as they are stored in the file, into `out`. Returns the number of bytes
    /// read; 0 at the end of the last pass. From a regular file it fills `out`, also across two
    /// passes, until the end.
    ///
    /// # Errors
    /// Reading fails, the file has shrunk, or a pipe ended inside a sample (all whole samples
    /// before that are returned first). Also if `out` is smaller than one sample.
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, FormatError> {
        let size = self.format.bytes_per_sample();
        let whole = out.len() - out.len() % size;
        if whole == 0 {
            return Err(FormatError::Buffer {
                path: self.path.clone(),
                bytes: out.len(),
                format: self.format,
            });
        }
        let out = &mut out[..whole];
        let count = match &mut self.input {
            Input::Regular(regular) => regular.read(out, size, self.bytes, &self.path),
            Input::Stream(stream) => stream.read(out, self.format, self.bytes, &self.path),
        }?;
        self.bytes += count as u64;
        Ok(count)
    }

    /// Reads samples in the file's own type, without conversion. Returns their number; 0 at the
    /// end.
    ///
    /// # Errors
    /// As [`read`](Self::read). Also if the file holds another type.
    pub fn read_raw<T: RawSample>(&mut self, out: &mut [T]) -> Result<usize, FormatError> {
        if T::FORMAT != self.format {
            let path = self.path.clone();
            return Err(FormatError::WrongSampleType { path, found: self.format, asked: T::FORMAT });
        }
        let count = self.read(bytemuck::cast_slice_mut(out))? / self.format.bytes_per_sample();
        T::swap_from_little_endian(&mut out[..count]);
        Ok(count)
    }

    /// Reads samples, converted as described for [`SampleFormat`]. Returns their number; 0 at the
    /// end.
    ///
    /// # Errors
    /// As [`read`](Self::read).
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
                    self.format.decode(&scratch[..bytes], &mut out[done..done + count]);
                    done += count;
                    // From a stream, return the samples that have arrived rather than wait for
                    // more.
                    let stream = matches!(self.input, Input::Stream(_));
                    if stream || count < room || done == out.len() {
                        break Ok(done);
                    }
                }
                // The samples before are returned first. The same error comes again, because the
                // file has not advanced.
                Err(_) if done > 0 => break Ok(done),
                Err(error) => break Err(error),
            }
        };
        self.scratch = scratch;
        result
    }
}

fn open_input(path: &Path, format: SampleFormat, options: &IqReaderOptions) -> Result<Input, FormatError> {
    let stream = |source| {
        if options.repeat != 1 {
            return Err(FormatError::RepeatNotSeekable { path: path.to_owned(), repeat: options.repeat });
        }
        let truncate_partial = options.truncate_partial;
        Ok(Input::Stream(Stream { source, carry: [0; 8], carried: 0, truncate_partial, ended: false }))
    };
    if path == Path::new("-") {
        return stream(Source::Stdin(io::stdin()));
    }
    let failed = |source| FormatError::open(path, "open", source);
    // Before opening, because a FIFO that cannot be repeated should not be waited for.
    let metadata = path.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(FormatError::Directory { path: path.to_owned() });
    }
    if !metadata.is_file() && options.repeat != 1 {
        return Err(FormatError::RepeatNotSeekable { path: path.to_owned(), repeat: options.repeat });
    }
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return stream(Source::File(file));
    }
    let (length, size) = (metadata.len(), format.bytes_per_sample() as u64);
    let left_over = length % size;
    if left_over != 0 && !options.truncate_partial {
        return Err(FormatError::PartialSample { path: path.to_owned(), left_over, length, format });
    }
    if length < size {
        return Err(FormatError::Empty { path: path.to_owned() });
    }
    let length = length - left_over;
    Ok(Input::Regular(Regular {
        file,
        length,
        left_over,
        left: length,
        passes: options.repeat.checked_sub(1),
    }))
}

impl Regular {
    /// Reads whole samples of `size` bytes into `out`; `before` bytes have been read over all
    /// passes.
    fn read(&mut self, out: &mut [u8], size: usize, before: u64, path: &Path) -> Result<usize, FormatError> {
        let mut filled = 0;
        while filled < out.len() {
            let failed =
                |source, filled| FormatError::Read { path: path.to_owned(), read: before + filled, source };
            if self.left == 0 {
                match &mut self.passes {
                    Some(0) => break,
                    Some(passes) => *passes -= 1,
                    None => {}
                }
                self.file.rewind().map_err(|source| failed(source, filled as u64))?;
                self.left = self.length;
            }
            let want = usize::try_from(self.left).unwrap_or(usize::MAX).min(out.len() - filled);
            let error = match self.file.read(&mut out[filled..filled + want]) {
                Ok(0) => FormatError::Shrunk {
                    path: path.to_owned(),
                    expected: self.length + self.left_over,
                    actual: self.length - self.left,
                },
                Ok(count) => {
                    filled += count;
                    self.left -= count as u64;
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(source) => failed(source, filled as u64),
            };
            // The whole samples before the error are returned first. The bytes after them are read
            // again, and the error then comes again.
            let partial = filled % size;
            if filled == partial {
                return Err(error);
            }
            self.file
                .seek(SeekFrom::Current(-(partial as i64)))
                .map_err(|source| failed(source, filled as u64))?;
            self.left += partial as u64;
            return Ok(filled - partial);
        }
        Ok(filled)
    }
}

impl Stream {
    /// Reads at least one sample into `out`, or reaches the end; `before` bytes have been read.
    fn read(
        &mut self,
        out: &mut [u8],
        format: SampleFormat,
        before: u64,
        path: &Path,
    ) -> Result<usize, FormatError> {
        let size = format.bytes_per_sample();
        let mut filled = self.carried;
        out[..filled].copy_from_slice(&self.carry[..filled]);
        while filled < size && !self.ended {
            match self.source.read(&mut out[filled..]) {
                Ok(0) => self.ended = true,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    self.keep(&out[..filled]);
                    let read = before + filled as u64;
                    return Err(FormatError::Read { path: path.to_owned(), read, source });
                }
            }
        }
        let partial = filled % size;
        self.keep(&out[filled - partial..filled]);
        if filled == partial && partial != 0 && !self.truncate_partial {
            let left_over = partial as u64;
            return Err(FormatError::PartialSample {
                path: path.to_owned(),
                left_over,
                length: before + left_over,
                format,
            });
        }
        Ok(filled - partial)
    }

    /// Keeps the beginning of a sample for the next read.
    fn keep(&mut self, partial: &[u8]) {
        self.carry[..partial.len()].copy_from_slice(partial);
        self.carried = partial.len();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

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

        /// Creates a FIFO into which a thread writes these bytes, a few at a time.
        fn fifo(dir: &Path, bytes: &'static [u8], step: usize) -> PathBuf {
            let path = dir.join("fifo");
            assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
            let writer = path.clone();
            std::thread::spawn(move || {
                let mut file = File::create(writer).unwrap();
                for part in bytes.chunks(step) {
                    // The reader may be closed.
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
