//! The metadata file of a SigMF recording while it is written.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};

use super::super::file_kind::is_sigmf;
use super::super::output::{Existing, folder};
use super::super::output_check::check_replaced;
use super::super::whole_file::{behind_links, replace_file};
use super::document::Document;
use super::{FormatError, SIGMF_META_BYTES_MAX, SigMfCapture, SigMfMeta, json, read_text};

/// The space that is reserved for metadata, in bytes.
const RESERVE_BYTES: u64 = 64 << 10;
/// The maximum number of segments in the metadata, within the limit of readers.
const CAPTURES_MAX: usize = 50_000;

/// The metadata file beside the samples.
///
/// Another program may edit the file meanwhile: additions are kept. A file that no longer describes
/// the samples stays as it is, and writing fails.
#[derive(Debug)]
pub(in super::super) struct Sidecar {
    /// The path as it was given, and the path of the file behind symbolic links.
    pub(in super::super) path: PathBuf,
    target: PathBuf,
    /// The metadata as written, including keys of other programs.
    document: Document,
    /// The metadata as created, or as found.
    meta: SigMfMeta,
    /// The number of first segments that the file has, too.
    settled: usize,
    /// The file as it was found or last written; `None`: there was no file.
    last: Option<FileState>,
    /// Whether the file lacks the latest additions.
    stale: bool,
    /// Whether the latest additions may not be on the disk.
    unsynced: bool,
    /// The size of the metadata at the last write, in bytes.
    length: usize,
    /// A file without a name, which is deleted on a full disk when the metadata need the space.
    reserve: Option<File>,
}

/// The device, the number, the length and the time of change of a file.
type FileState = (u64, u64, u64, i64, i64);

impl Sidecar {
    /// Creates metadata, which replace the file at this path if `replaces` is set.
    ///
    /// # Errors
    /// The metadata are invalid.
    pub(in super::super) fn new(path: PathBuf, meta: SigMfMeta, replaces: bool) -> Result<Self, FormatError> {
        let text = meta.to_json(&path)?;
        let document = Document::read(text.as_bytes(), &meta, &path)?;
        Ok(Self::of_document(path, document, meta, replaces))
    }

    /// Reads the metadata of a recording that is to be continued with samples as `meta` describes
    /// them. Checksums of the samples are removed.
    ///
    /// # Errors
    /// The metadata cannot be read or have another data file, format or rate.
    pub(in super::super) fn continued(path: PathBuf, meta: &SigMfMeta) -> Result<Self, FormatError> {
        let (document, before) = read(&path)?;
        if kind(&before) != kind(meta) {
            let text = |meta: &SigMfMeta| {
                let rate =
                    meta.sample_rate_hz.map_or("an unknown rate".into(), |hz| format!("{hz} samples/s"));
                let order = if meta.is_big_endian { "big-endian " } else { "" };
                match meta.channels {
                    1 => format!("{order}{} at {rate}", meta.format),
                    channels => format!("{channels} channels of {order}{} at {rate}", meta.format),
                }
            };
            return Err(FormatError::Recording {
                problem: format!("it has {}, and is to be continued with {}", text(&before), text(meta)),
                remedy: "set `existing` to number".into(),
                path,
            });
        }
        Ok(Self::of_document(path, document, before, true))
    }

    fn of_document(path: PathBuf, document: Document, meta: SigMfMeta, replaces: bool) -> Self {
        let target = behind_links(&path);
        let last = target.symlink_metadata().ok().filter(|_| replaces).map(|about| state(&about));
        let (settled, stale, unsynced, length, reserve) = (0, true, true, 0, None);
        Self { path, target, document, meta, settled, last, stale, unsynced, length, reserve }
    }

    /// Removes the checksum of the samples. Returns whether there was one.
    pub(in super::super) fn remove_checksum(&mut self) -> bool {
        self.document.remove_checksum()
    }

    /// Returns the last segment that was found.
    pub(in super::super) fn last_capture(&self) -> Option<&SigMfCapture> {
        self.meta.captures.last()
    }

    /// Returns the index of the first sample of the file. Segments count from this index.
    pub(in super::super) fn offset(&self) -> u64 {
        self.meta.offset
    }

    /// Returns the size of the metadata if the file lacks additions; otherwise 0.
    pub(in super::super) fn bytes_due(&self) -> usize {
        if self.stale { self.length } else { 0 }
    }

    /// Returns whether [`write`](Self::write) would write.
    pub(in super::super) fn is_due(&self, sync: bool) -> bool {
        self.stale || (sync && self.unsynced)
    }

    /// Returns whether the latest additions may not be on the disk.
    pub(in super::super) fn is_unsynced(&self) -> bool {
        self.unsynced
    }

    /// Adds a segment that begins after this number of samples of each channel.
    ///
    /// # Errors
    /// The segment is invalid, or there would be too many.
    pub(in super::super) fn begin_capture(
        &mut self,
        frames: u64,
        capture: SigMfCapture,
    ) -> Result<(), FormatError> {
        let sample_start = self.meta.offset.saturating_add(frames);
        let capture = SigMfCapture { sample_start, ..capture };
        // Validate only the new segment.
        let only = SigMfMeta { captures: vec![capture], ..SigMfMeta::new(self.meta.format) };
        let only = Document::read(only.to_json(&self.path)?.as_bytes(), &only, &self.path)?;
        // Of two captures at one sample, the later one is valid. A killed writer may have left
        // captures after the end of the samples.
        self.cut(frames);
        if self.document.captures.len() >= CAPTURES_MAX {
            return Err(FormatError::Captures { path: self.path.clone(), limit: CAPTURES_MAX });
        }
        self.document.captures.extend(only.captures);
        (self.stale, self.unsynced) = (true, true);
        Ok(())
    }

    /// Returns the number of first samples of each channel that the written file describes.
    pub(in super::super) fn frames_described(&self) -> u64 {
        let next = self.document.captures.get(self.settled);
        next.map_or(u64::MAX, |next| next.start.saturating_sub(self.meta.offset))
    }

    /// Removes the segments that begin after this number of samples of each channel, or later.
    pub(in super::super) fn cut(&mut self, frames: u64) {
        let end = self.meta.offset.saturating_add(frames);
        let all = &mut self.document.captures;
        while all.pop_if(|last| last.start >= end).is_some() {}
        self.settled = self.settled.min(all.len());
        (self.stale, self.unsynced) = (true, true);
    }

    /// Checks whether another program has changed the file. If so, the next write completes it.
    pub(in super::super) fn check_changes(&mut self) {
        self.stale |= self.found() != self.last;
        self.unsynced |= self.stale;
    }

    /// Returns whether the file still describes the samples.
    pub(in super::super) fn is_in_place(&self) -> bool {
        let found = self.found();
        found == self.last || (found.is_some() && self.changed().is_some())
    }

    /// Writes the metadata if necessary, all or nothing. With `sync`, waits until they are on the
    /// disk.
    ///
    /// # Errors
    /// The file is no longer of these samples, would be too long for readers, or writing fails.
    pub(in super::super) fn write(&mut self, sync: bool) -> Result<(), FormatError> {
        if !self.is_due(sync) {
            return Ok(());
        }
        let about = self.target.symlink_metadata().ok().filter(|_| self.last.is_some());
        if about.as_ref().is_some_and(|about| Some(state(about)) != self.last) {
            self.document = self.changed().ok_or_else(|| FormatError::Recording {
                path: self.path.clone(),
                problem: "another program has changed or replaced the metadata meanwhile, and they stay so"
                    .into(),
                remedy: format!("describe {} anew", self.path.with_extension("sigmf-data").display()),
            })?;
        }
        let text = self.document.text();
        if text.len() as u64 > SIGMF_META_BYTES_MAX {
            return Err(FormatError::MetaTooLong { path: self.path.clone(), limit: SIGMF_META_BYTES_MAX });
        }
        // Free the reserved space for the new metadata.
        self.reserve = None;
        let written = replace_file(&self.target, about.as_ref(), text.as_bytes(), sync);
        let written = written.map_err(|source| match source.kind() {
            ErrorKind::AlreadyExists => FormatError::Exists { path: self.path.clone() },
            _ => FormatError::Write { path: self.path.clone(), written: 0, source },
        })?;
        (self.last, self.settled) = (Some(state(&written)), self.document.captures.len());
        (self.stale, self.unsynced, self.length) = (false, !sync, text.len());
        // There is no reserve on a full disk or on a file system without unnamed files.
        self.reserve = reserve(&self.target, RESERVE_BYTES.max(2 * text.len() as u64)).ok();
        Ok(())
    }

    fn found(&self) -> Option<FileState> {
        self.target.symlink_metadata().ok().as_ref().map(state)
    }

    /// Returns the metadata that another program has changed, with the segments that they lack.
    /// `None`: the file is not about these samples.
    fn changed(&self) -> Option<Document> {
        if !self.target.symlink_metadata().ok()?.is_file() {
            return None;
        }
        let (mut document, meta) = read(&self.path).ok()?;
        let own = &self.document.captures;
        let count = self.settled.min(meta.captures.len());
        let starts = meta.captures[..count].iter().map(|capture| capture.sample_start);
        let is_same = (kind(&meta), meta.offset) == (kind(&self.meta), self.meta.offset);
        if !is_same || !starts.eq(own[..count].iter().map(|capture| capture.start)) {
            return None;
        }
        document.captures.truncate(count);
        document.captures.extend_from_slice(&own[count..]);
        document.remove_checksum();
        Some(document)
    }
}

/// Checks that a SigMF recording at the path of its metadata or its samples can be continued or
/// replaced, as far as that is possible before the first sample. Other files are not checked.
///
/// # Errors
/// The metadata are not a regular file, or are a hard link: the other name would lead to metadata
/// that do not describe the samples. The folder takes no other metadata. The metadata of a
/// recording to be continued are missing beside samples, cannot be read, or name another data file.
///
/// ```
/// use stripline_components::formats::{Existing, check_sigmf_output};
///
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("samples.sigmf-meta");
/// check_sigmf_output(&path, Existing::Append)?;
/// std::fs::write(&path, "no metadata")?;
/// assert!(check_sigmf_output(&path, Existing::Append).is_err());
/// check_sigmf_output(&path, Existing::Replace)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn check_sigmf_output(path: &Path, existing: Existing) -> Result<(), FormatError> {
    if !is_sigmf(path) || !matches!(existing, Existing::Append | Existing::Replace) {
        return Ok(());
    }
    let path = path.with_extension("sigmf-meta");
    let unfit = |problem: &str, remedy: &str| {
        Err(FormatError::Recording { path: path.clone(), problem: problem.into(), remedy: remedy.into() })
    };
    match path.metadata() {
        Ok(about) if about.is_dir() => Err(FormatError::Directory { path }),
        Ok(about) if !about.is_file() => {
            unfit("this is a pipe or a device, and metadata need a regular file", "remove it")
        }
        Ok(about) if about.nlink() > 1 => {
            unfit("the metadata have another name (a hard link)", "set `existing` to number")
        }
        // The metadata are replaced, and not written in place.
        Ok(_) => check_replaced(&behind_links(&path)).and_then(|()| match existing {
            Existing::Append => read(&path).map(drop),
            _ => Ok(()),
        }),
        // The samples may be of any type and rate.
        Err(_) if existing == Existing::Append && has_bytes(&path.with_extension("sigmf-data")) => {
            unfit("the metadata of the samples are missing", "restore them, or set `existing` to number")
        }
        Err(_) => Ok(()),
    }
}

fn has_bytes(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.is_file() && about.len() > 0)
}

/// Reads metadata beside a data file of the usual name. Returns them with keys of other programs,
/// and as they are understood.
fn read(path: &Path) -> Result<(Document, SigMfMeta), FormatError> {
    let text = read_text(path)?;
    let parsed = json::parse(&text, path)?;
    let data = path.with_extension("sigmf-data");
    let name = parsed.data_name.as_ref().filter(|name| data.file_name() != Some(name.as_ref()));
    if let Some(name) = name.filter(|name| path.with_file_name(name).exists()) {
        return Err(FormatError::Recording {
            path: path.into(),
            problem: format!("its samples are in {name:?} (`core:dataset`), which is not continued"),
            remedy: "set `existing` to number".into(),
        });
    }
    if name.is_some() || !data.exists() {
        return Err(parsed.data_missing(path, data));
    }
    Ok((Document::read(&text, &parsed.meta, path)?, parsed.meta))
}

/// Returns the values that all samples of a recording share.
fn kind(meta: &SigMfMeta) -> impl PartialEq {
    (meta.format, meta.sample_rate_hz, meta.channels, meta.is_big_endian)
}

fn state(about: &Metadata) -> FileState {
    (about.dev(), about.ino(), about.len(), about.mtime(), about.mtime_nsec())
}

/// Returns a file without a name in the folder of `path` that reserves this number of bytes on the
/// disk.
fn reserve(path: &Path, bytes: u64) -> io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = rustix::fs::open(folder(path), flags, Mode::RUSR | Mode::WUSR)?;
    fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::super::SigMfRecording;
    use super::*;
    use crate::formats::{IqFileWriter, SampleFormat};

    const FORMAT: SampleFormat = SampleFormat::Cu8;

    fn tuned(frequency_hz: f64) -> SigMfCapture {
        SigMfCapture { frequency_hz: Some(frequency_hz), ..SigMfCapture::default() }
    }

    /// Returns a folder, and the paths of metadata and data in it.
    fn folder_and_paths() -> (TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let meta = folder.path().join("x.sigmf-meta");
        let data = meta.with_extension("sigmf-data");
        (folder, meta, data)
    }

    /// Writes two samples at each of these frequencies.
    fn record(path: &Path, existing: Existing, frequencies: &[f64]) -> Result<IqFileWriter, FormatError> {
        let mut writer = IqFileWriter::open(path, FORMAT, existing)?;
        for frequency in frequencies {
            writer.begin_capture(tuned(*frequency))?;
            writer.write(&[1, 2, 3, 4])?;
        }
        writer.sync_metadata()?;
        Ok(writer)
    }

    /// Returns start and frequency of each segment.
    fn segments(path: &Path) -> Vec<(u64, Option<f64>)> {
        let captures = SigMfRecording::open(path).unwrap().meta.captures;
        captures.iter().map(|it| (it.sample_start, it.frequency_hz)).collect()
    }

    fn edit(path: &Path, change: impl Fn(&mut serde_json::Value)) {
        let mut json = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        change(&mut json);
        fs::write(path, serde_json::to_string(&json).unwrap()).unwrap();
    }

    #[test]
    fn no_file_of_another_program_is_touched() {
        let (folder, meta, data) = folder_and_paths();
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        let part = meta.with_extension("sigmf-part");
        symlink("precious", &part).unwrap();
        record(&meta, Existing::Refuse, &[1e6]).unwrap().finish().unwrap();
        assert!(part.is_symlink());
        assert_eq!(fs::read(&precious).unwrap(), b"precious");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4, "nothing is left behind");
        for path in [&meta, &data] {
            fs::remove_file(path).unwrap();
        }
        // Metadata that replace nothing do not replace a file that appears meanwhile.
        let mut sidecar = Sidecar::new(meta.clone(), SigMfMeta::new(FORMAT), false).unwrap();
        fs::write(&meta, "mine").unwrap();
        let taken = sidecar.write(true).unwrap_err();
        assert!(matches!(taken, FormatError::Exists { .. }), "{taken}");
        assert_eq!(fs::read(&meta).unwrap(), b"mine");
    }

    #[test]
    fn metadata_that_cannot_be_a_file_are_refused_before_the_samples_change() {
        let (_folder, meta, data) = folder_and_paths();
        symlink("/dev/null", &meta).unwrap();
        fs::write(&data, "kept").unwrap();
        for existing in [Existing::Append, Existing::Replace] {
            let refused = record(&meta, existing, &[1e6]).unwrap_err().to_string();
            assert!(refused.contains("x.sigmf-meta: this is a pipe or a device"), "{refused}");
        }
        fs::remove_file(&meta).unwrap();
        fs::write(&meta, SigMfMeta::new(FORMAT).to_json(&meta).unwrap()).unwrap();
        fs::hard_link(&meta, meta.with_extension("other")).unwrap();
        for existing in [Existing::Append, Existing::Replace] {
            let refused = record(&meta, existing, &[1e6]).unwrap_err().to_string();
            assert!(refused.contains("x.sigmf-meta: the metadata have another name"), "{refused}");
            assert_eq!(check_sigmf_output(&data, existing).unwrap_err().to_string(), refused);
        }
        assert_eq!(fs::read(&data).unwrap(), b"kept");
    }

    #[test]
    fn a_folder_that_takes_no_metadata_leaves_the_samples_as_they_are() {
        let (folder, meta, data) = folder_and_paths();
        record(&meta, Existing::Refuse, &[1e6]).unwrap().finish().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o555)).unwrap();
        for existing in [Existing::Replace, Existing::Append] {
            let refused = check_sigmf_output(&meta, existing).map_err(|error| error.to_string());
            // An administrator may write there anyway.
            assert_eq!(refused.is_err(), File::create(folder.path().join("new")).is_err(), "{refused:?}");
            if let Err(refused) = refused {
                assert_eq!(record(&meta, existing, &[2e6]).unwrap_err().to_string(), refused);
                assert_eq!(fs::read(&data).unwrap(), [1, 2, 3, 4]);
            }
        }
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn samples_without_metadata_are_not_continued() {
        let (_folder, meta, data) = folder_and_paths();
        fs::write(&data, "text").unwrap();
        let refused = record(&meta, Existing::Append, &[1e6]).unwrap_err().to_string();
        assert!(refused.contains("are missing: restore them, or set `existing`"), "{refused}");
        assert_eq!(check_sigmf_output(&data, Existing::Append).unwrap_err().to_string(), refused);
        assert_eq!(fs::read(&data).unwrap(), b"text");
        // A writer that was killed early leaves an empty file.
        fs::write(&data, "").unwrap();
        record(&meta, Existing::Append, &[1e6]).unwrap().finish().unwrap();
        assert_eq!(segments(&meta), [(0, Some(1e6))]);
    }

    #[test]
    fn metadata_that_cannot_be_written_leave_no_samples_alone() {
        let (_folder, meta, data) = folder_and_paths();
        symlink("none/x.sigmf-meta", &meta).unwrap();
        let failed = record(&meta, Existing::Replace, &[1e6]).unwrap_err().to_string();
        assert!(failed.contains("x.sigmf-meta: cannot write") && !data.exists(), "{failed}");
    }

    #[test]
    fn metadata_are_written_only_if_readers_take_them() {
        let (_folder, meta, data) = folder_and_paths();
        record(&meta, Existing::Refuse, &[1e6]).unwrap().finish().unwrap();
        let plain = fs::read_to_string(&meta).unwrap();
        // With line breaks, each number would take a line with a long indentation.
        let (depth, count) = (50, 200_000);
        let nested = "[".repeat(depth) + &"0,".repeat(count) + "0" + &"]".repeat(depth);
        let text = format!("\"{}\"", "x".repeat(SIGMF_META_BYTES_MAX as usize - 1200));
        for (extra, fits) in [(nested, true), (text, false)] {
            fs::write(&meta, plain.replacen('{', &format!("{{\"mine:extra\": {extra},"), 1)).unwrap();
            fs::write(&data, [1, 2, 3, 4]).unwrap();
            match record(&meta, Existing::Append, &[2e6; 40]) {
                Ok(writer) => writer.finish().map(drop).unwrap(),
                Err(error) => assert!(!fits && error.to_string().contains("longer than"), "{error}"),
            }
            assert_eq!(segments(&meta).len(), if fits { 41 } else { 1 });
            assert_eq!(fs::read(&data).unwrap().len(), if fits { 4 * 41 } else { 4 });
        }
    }

    #[test]
    fn samples_before_a_segment_are_kept_when_its_metadata_cannot_be_written() {
        let (folder, meta, _) = folder_and_paths();
        let mut writer = record(&meta, Existing::Refuse, &[1e6]).unwrap();
        writer.write(&[5, 6]).unwrap();
        writer.begin_capture(tuned(2e6)).unwrap();
        writer.write(&[7, 8]).unwrap();
        let moved = folder.path().join("moved");
        fs::create_dir(&moved).unwrap();
        for name in ["x.sigmf-meta", "x.sigmf-data"] {
            fs::rename(folder.path().join(name), moved.join(name)).unwrap();
        }
        let problem = writer.complete().unwrap_err().to_string();
        assert!(problem.contains("x.sigmf-data") && problem.contains("removed, replaced"), "{problem}");
        assert_eq!(fs::read(moved.join("x.sigmf-data")).unwrap(), [1, 2, 3, 4, 5, 6]);
        assert_eq!(segments(&moved.join("x.sigmf-meta")), [(0, Some(1e6))]);
        assert!(!meta.exists());
    }

    #[test]
    fn a_recording_that_takes_the_name_of_a_moved_one_stays() {
        for drops in [false, true] {
            let (folder, meta, data) = folder_and_paths();
            let mut writer = record(&meta, Existing::Refuse, &[1e6]).unwrap();
            for path in [&meta, &data] {
                fs::rename(path, path.with_file_name("y").with_extension(path.extension().unwrap())).unwrap();
            }
            fs::write(&meta, "my metadata").unwrap();
            fs::write(&data, "my samples").unwrap();
            writer.begin_capture(tuned(2e6)).unwrap();
            writer.write(&[5, 6]).unwrap();
            if drops {
                drop(writer);
            } else {
                let problem = writer.finish().unwrap_err().to_string();
                assert!(problem.contains("x.sigmf-data") && problem.contains("meanwhile"), "{problem}");
            }
            assert_eq!(fs::read(&meta).unwrap(), b"my metadata");
            assert_eq!(fs::read(&data).unwrap(), b"my samples");
            assert_eq!(segments(&folder.path().join("y.sigmf-meta")), [(0, Some(1e6))]);
        }
    }

    #[test]
    fn what_another_program_adds_meanwhile_is_kept() {
        let (_folder, meta, _) = folder_and_paths();
        let mut writer = record(&meta, Existing::Refuse, &[1e6, 2e6]).unwrap();
        let add = |name: &str| {
            edit(&meta, |json| {
                json["global"]["core:author"] = name.into();
                json["captures"][0]["mine:note"] = "here".into();
                json["annotations"] = serde_json::json!([{"core:sample_start": 1}]);
            });
        };
        add("someone");
        assert!(writer.is_in_place());
        writer.begin_capture(tuned(3e6)).unwrap();
        writer.write(&[5, 6]).unwrap();
        writer.sync_metadata().unwrap();
        let text = fs::read_to_string(&meta).unwrap();
        assert!(["someone", "here", "annotations"].iter().all(|it| text.contains(it)), "{text}");
        add("someone else");
        writer.finish().unwrap();
        assert_eq!(segments(&meta), [(0, Some(1e6)), (2, Some(2e6)), (4, Some(3e6))]);
        let author = SigMfRecording::open(&meta).unwrap().meta.author;
        assert_eq!(author.as_deref(), Some("someone else"));
    }

    #[test]
    fn an_editor_that_stores_earlier_segments_loses_none() {
        let (_folder, meta, _) = folder_and_paths();
        let mut writer = record(&meta, Existing::Refuse, &[1e6]).unwrap();
        let earlier = fs::read(&meta).unwrap();
        writer.begin_capture(tuned(2e6)).unwrap();
        writer.write(&[5, 6]).unwrap();
        writer.sync_metadata().unwrap();
        fs::write(&meta, earlier).unwrap();
        writer.finish().unwrap();
        assert_eq!(segments(&meta), [(0, Some(1e6)), (2, Some(2e6))]);
    }

    #[test]
    fn metadata_that_another_program_spoils_are_an_error_and_stay() {
        let other = SigMfMeta::new(SampleFormat::Cs16).to_json(Path::new("")).unwrap();
        for content in [Some(""), Some("{"), Some(&*other), None] {
            for begins in [false, true] {
                let (_folder, meta, data) = folder_and_paths();
                let mut writer = record(&meta, Existing::Refuse, &[1e6]).unwrap();
                fs::remove_file(&meta).unwrap();
                match content {
                    Some(text) => fs::write(&meta, text).unwrap(),
                    None => fs::create_dir(&meta).unwrap(),
                }
                assert!(!writer.is_in_place(), "{content:?}");
                if begins {
                    writer.begin_capture(tuned(2e6)).unwrap();
                }
                writer.write(&[5, 6]).unwrap();
                let problem = writer.complete().unwrap_err().to_string();
                assert!(problem.contains("x.sigmf-meta: another program has changed"), "{problem}");
                assert!(problem.contains("describe"), "{problem}");
                let again = writer.complete().unwrap_err().to_string();
                assert!(again.contains("another program has changed"), "{again}");
                drop(writer);
                assert_eq!(fs::read(&meta).ok().as_deref(), content.map(str::as_bytes));
                // Samples of a further segment would seem to be of the first one.
                let kept = if begins { 4 } else { 6 };
                assert_eq!(fs::read(&data).unwrap(), [1, 2, 3, 4, 5, 6][..kept]);
            }
        }
    }

    #[test]
    fn metadata_that_were_removed_are_written_again() {
        let (_folder, meta, _) = folder_and_paths();
        let writer = record(&meta, Existing::Refuse, &[1e6]).unwrap();
        fs::remove_file(&meta).unwrap();
        writer.finish().unwrap();
        assert_eq!(segments(&meta), [(0, Some(1e6))]);
    }

    #[test]
    fn samples_elsewhere_are_not_continued() {
        let (folder, meta, data) = folder_and_paths();
        record(&meta, Existing::Refuse, &[1e6]).unwrap().finish().unwrap();
        edit(&meta, |json| json["global"]["core:dataset"] = "other.bin".into());
        let renamed = record(&meta, Existing::Append, &[2e6]).unwrap_err().to_string();
        assert!(renamed.contains("`core:dataset` is \"other.bin\", but there is no such file"), "{renamed}");
        fs::write(folder.path().join("other.bin"), [7; 8]).unwrap();
        let before = fs::read(&meta).unwrap();
        let refused = record(&meta, Existing::Append, &[2e6]).unwrap_err().to_string();
        assert!(refused.contains("other.bin") && refused.contains("set `existing` to number"), "{refused}");
        assert_eq!(check_sigmf_output(&meta, Existing::Append).unwrap_err().to_string(), refused);
        assert_eq!((fs::read(&meta).unwrap(), fs::read(&data).unwrap()), (before, vec![1, 2, 3, 4]));
        edit(&meta, |json| json["global"]["core:dataset"] = "x.sigmf-data".into());
        record(&meta, Existing::Append, &[2e6]).unwrap().finish().unwrap();
        assert_eq!(segments(&meta), [(0, Some(1e6)), (2, Some(2e6))]);
    }

    #[test]
    fn a_checksum_of_fewer_samples_does_not_stay() {
        let (_folder, meta, _) = folder_and_paths();
        record(&meta, Existing::Refuse, &[1e6]).unwrap().finish().unwrap();
        edit(&meta, |json| json["global"]["core:sha512"] = "00".into());
        let writer = record(&meta, Existing::Append, &[2e6]).unwrap();
        let found = writer.found().unwrap();
        assert!(found.ends_with("and continued it, without its `core:sha512`"), "{found}");
        writer.finish().unwrap();
        assert!(!fs::read_to_string(&meta).unwrap().contains("sha512"));
    }

    #[test]
    fn keys_and_numbers_of_another_program_stay_as_they_are() {
        let (_folder, meta, data) = folder_and_paths();
        let numbers = "[1e400, 123456789012345678901234567890, 0.10, -0, 1E5]";
        let capture =
            r#"{"z:a": NUMBERS, "core:sample_start": 0.0, "é": "\u00e9"}"#.replace("NUMBERS", numbers);
        let text = |checksum: &str, captures: &str| {
            let text = r#"{
  "z:first": {"b": NUMBERS,  "a": 1},
  "captures": [
    CAPTURES
  ],
  "annotations": [{"z":1,"a":2}],
  "global": {
    "z:a": NUMBERS,
    CHECKSUM"core:datatype": "cu8",
    "a:b": {"b":   1, "a": 2}
  },
  "a:last": NUMBERS
}
"#;
            let text = text.replace("NUMBERS", numbers).replace("CAPTURES", captures);
            text.replace("CHECKSUM", checksum)
        };
        fs::write(&meta, text("\"core:sha512\": \"00\",\n    ", &capture)).unwrap();
        fs::write(&data, [1, 2, 3, 4]).unwrap();
        record(&meta, Existing::Append, &[2e6]).unwrap().finish().unwrap();
        let added = ",\n    {\n      \"core:sample_start\": 2,\n      \"core:frequency\": 2000000.0\n    }";
        assert_eq!(fs::read_to_string(&meta).unwrap(), text("", &(capture + added)));
    }

    #[test]
    fn links_stay_links_and_permissions_stay() {
        let (folder, meta, data) = folder_and_paths();
        record(&meta, Existing::Refuse, &[1e6]).unwrap().finish().unwrap();
        fs::set_permissions(&meta, fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir(folder.path().join("links")).unwrap();
        let (link, other) =
            (folder.path().join("links/l.sigmf-meta"), folder.path().join("links/l.sigmf-data"));
        symlink("../x.sigmf-meta", &link).unwrap();
        symlink(&data, &other).unwrap();
        record(&link, Existing::Append, &[2e6]).unwrap().finish().unwrap();
        assert_eq!(segments(&meta), [(0, Some(1e6)), (2, Some(2e6))]);
        record(&link, Existing::Replace, &[3e6]).unwrap().finish().unwrap();
        assert!(link.is_symlink() && other.is_symlink());
        assert_eq!(segments(&meta), [(0, Some(3e6))]);
        assert_eq!(meta.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        for path in [&meta, &data] {
            fs::remove_file(path).unwrap();
        }
        record(&link, Existing::Replace, &[4e6]).unwrap().finish().unwrap();
        assert_eq!(segments(&meta), [(0, Some(4e6))], "links to nothing lead to new files");
    }

    #[test]
    fn metadata_that_are_read_leniently_are_continued() {
        let global = r#""global": {"core:datatype": "cu8"}"#;
        for (captures, expected) in [
            (r#", "captures": null"#, &[(2, Some(2e6))][..]),
            ("", &[(2, Some(2e6))]),
            (r#", "captures": [{}, {"core:sample_start": 500.0}]"#, &[(0, None), (2, Some(2e6))]),
            (r#", "captures": [{"core:sample_start": "1"}]"#, &[(1, None), (2, Some(2e6))]),
            (r#", "capture": [{"core:sample_start": 1}]"#, &[(1, None), (2, Some(2e6))]),
        ] {
            for mark in ["", "\u{feff}"] {
                let (_folder, meta, data) = folder_and_paths();
                fs::write(&meta, format!("{mark}{{{global}{captures}}}")).unwrap();
                fs::write(&data, [1, 2, 3, 4]).unwrap();
                record(&meta, Existing::Append, &[2e6]).unwrap().finish().unwrap();
                assert_eq!(segments(&meta), expected, "{captures}");
            }
        }
    }
}
