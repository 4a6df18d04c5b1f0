//! SigMF archives: a tar file with the metadata and the samples of recordings.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

use tar::Archive;

use super::super::file_kind::{self, FileKind, HEAD_BYTES};
use super::{FormatError, SIGMF_META_BYTES_MAX, SigMfRecording, ending, json, listed};

/// The maximum number of bytes of tar headers that are read. Each file has 512 or more.
const HEADER_BYTES_MAX: u64 = 32 << 20;

/// A file in an archive.
struct Member {
    path: PathBuf,
    /// The byte range of the file in the archive.
    range: Range<u64>,
}

impl Member {
    /// Returns whether the file has this extension and is not a macOS attribute file.
    fn is(&self, wanted: &str) -> bool {
        let name = self.path.file_name().unwrap_or_default();
        ending(&self.path).as_deref() == Some(wanted) && !name.as_encoded_bytes().starts_with(b"._")
    }
}

/// Finds the recording in an archive, without reading the samples.
pub(super) fn open(path: &Path) -> Result<SigMfRecording, FormatError> {
    let failed = |source| FormatError::open(path, "open", source);
    let foreign = |what, remedy| FormatError::Foreign { path: path.to_owned(), what, remedy };
    let kind = path.metadata().map_err(failed)?;
    if kind.is_dir() {
        return Err(FormatError::Directory { path: path.to_owned() });
    }
    if !kind.is_file() {
        return Err(foreign("a SigMF archive in a pipe", "give the path of a regular file"));
    }
    let mut file = File::open(path).map_err(failed)?;
    let members = members(&file).map_err(|source| match source.kind() {
        ErrorKind::FileTooLarge => foreign(
            "a SigMF archive of too many files",
            "unpack it with `tar`, and give its .sigmf-meta file",
        ),
        ErrorKind::Other | ErrorKind::UnexpectedEof | ErrorKind::InvalidData => {
            let mut head = [0; HEAD_BYTES];
            let what = match file.read_exact_at(&mut head, 0).map(|()| file_kind::of_head(&head, path)) {
                Ok(Ok(Some(FileKind::Gzip))) => "a file compressed with gzip",
                Ok(Err(FormatError::Foreign { what, .. })) => what,
                _ => "not a SigMF archive, which is a tar file without compression",
            };
            foreign(what, "unpack it, and give its .sigmf-meta file")
        }
        _ => failed(source),
    })?;
    let mut metas = members.iter().filter(|member| member.is("sigmf-meta"));
    let (meta, more) = (metas.next(), metas.next());
    let Some(meta) = meta else {
        return Err(foreign(
            "a SigMF archive without a .sigmf-meta file",
            "unpack it with `tar`, and set the property `format` to the type of its samples",
        ));
    };
    let unique = |member: &Member| {
        if members.iter().filter(|other| other.path == member.path).count() == 1 {
            return Ok(());
        }
        Err(FormatError::Several {
            path: path.to_owned(),
            what: "a SigMF archive with several files of one name",
            remedy: "unpack it with `tar`, which keeps the last one of",
            names: listed(&[member.path.display().to_string()]),
        })
    };
    unique(meta)?;
    if more.is_some() {
        let names = members.iter().filter(|member| member.is("sigmf-meta"));
        let names: Vec<String> = names.map(|meta| meta.path.display().to_string()).collect();
        return Err(FormatError::Several {
            path: path.to_owned(),
            what: "a SigMF archive of several recordings",
            remedy: "unpack it with `tar`, and play one of",
            names: listed(&names),
        });
    }
    let length = (meta.range.end - meta.range.start).min(SIGMF_META_BYTES_MAX + 1);
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(meta.range.start)).map_err(failed)?;
    file.take(length).read_to_end(&mut text).map_err(failed)?;
    let parsed = json::parse(&text, path)?;
    let name = parsed.data_name.as_deref();
    let wanted = meta.path.with_file_name(name.unwrap_or_default());
    let data = members.iter().find(|member| match name {
        Some(_) => member.path == wanted,
        None => member.is("sigmf-data") && member.path.with_extension("") == meta.path.with_extension(""),
    });
    let Some(data) = data else {
        let data = if name.is_some() { wanted } else { meta.path.with_extension("sigmf-data") };
        return Err(parsed.data_missing(path, data));
    };
    unique(data)?;
    let (meta_path, data_path) = (path.to_owned(), path.to_owned());
    let json::Parsed { meta, notes, .. } = parsed;
    Ok(SigMfRecording { meta, meta_path, data_path, archived: Some(data.range.clone()), notes })
}

/// Returns the regular files in a tar file, without reading their content.
fn members(file: &File) -> io::Result<Vec<Member>> {
    let mut archive = Archive::new(Headers { file, left: HEADER_BYTES_MAX });
    let mut members = Vec::new();
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let start = entry.raw_file_position();
        let end = start.checked_add(entry.size()).ok_or(ErrorKind::InvalidData)?;
        if entry.header().entry_type().is_file() {
            // `./NAME` is the file `NAME`.
            let path = entry.path()?.components().filter(|part| *part != Component::CurDir).collect();
            members.push(Member { path, range: start..end });
        }
    }
    Ok(members)
}

/// A tar file that is read up to a limit. The tar reader seeks over the content of files.
struct Headers<'a> {
    file: &'a File,
    left: u64,
}

impl Read for Headers<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(out)?;
        self.left = self.left.checked_sub(count as u64).ok_or(ErrorKind::FileTooLarge)?;
        Ok(count)
    }
}

impl Seek for Headers<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const META: &[u8] = br#"{"global": {"core:datatype": "ri16_le"}}"#;

    /// Writes an archive with these files.
    fn archived(folder: &Path, files: &[(&str, &[u8])]) -> PathBuf {
        let path = folder.join("a.sigmf");
        let mut archive = tar::Builder::new(File::create(&path).unwrap());
        for (name, content) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            header.set_mode(0o644);
            if name.starts_with("./") {
                // `append_data` would leave out the dot.
                header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
                header.set_cksum();
                archive.append(&header, *content).unwrap();
            } else {
                archive.append_data(&mut header, name, *content).unwrap();
            }
        }
        archive.finish().unwrap();
        path
    }

    fn refused(path: &Path, words: &[&str]) {
        let message = open(path).unwrap_err().to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }

    #[test]
    fn the_samples_of_the_only_recording_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let long = "x".repeat(150);
        let (meta, data) = (format!("{long}/r.Sigmf-meta"), format!("{long}/r.SIGMF-DATA"));
        let files: [(&str, &[u8]); 4] = [
            ("._r.sigmf-meta", b"attributes"),
            (&data, b"abcdef"),
            ("other.sigmf-data", b"1"),
            (&meta, META),
        ];
        let path = archived(folder.path(), &files);
        let found = open(&path).unwrap();
        assert_eq!((found.meta.format.to_string(), &found.data_path), ("s16".to_owned(), &path));
        let Range { start, end } = found.archived.unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[start as usize..end as usize], *b"abcdef");
        let named = br#"{"global": {"core:datatype": "ru8", "core:dataset": "b.bin"}}"#;
        let path = archived(folder.path(), &[("r/a.sigmf-meta", named), ("b.bin", b"1"), ("r/b.bin", b"12")]);
        let range = open(&path).unwrap().archived.unwrap();
        assert_eq!(range.end - range.start, 2);
    }

    #[test]
    fn what_is_not_one_recording_is_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let several = [("r/a.sigmf-meta", META), ("r/b.sigmf-meta", META)];
        let words = ["of several recordings", "play one of `r/a.sigmf-meta`, `r/b.sigmf-meta`"];
        refused(&archived(folder.path(), &several), &words);
        for (again, twice) in [
            ("a.sigmf-meta", "a.sigmf-meta"),
            ("a.sigmf-data", "a.sigmf-data"),
            ("./a.sigmf-data", "a.sigmf-data"),
        ] {
            let files: [(&str, &[u8]); 3] = [("a.sigmf-meta", META), ("a.sigmf-data", b"12"), (again, META)];
            let words = ["several files of one name: unpack it", &format!("the last one of `{twice}`")];
            refused(&archived(folder.path(), &files), &words);
        }
        let readme: [(&str, &[u8]); 4] =
            [("a.sigmf-meta", META), ("README", b"1"), ("a.sigmf-data", b"12"), ("README", b"2")];
        open(&archived(folder.path(), &readme)).unwrap();
        refused(&archived(folder.path(), &[("a.txt", b"text")]), &["without a .sigmf-meta file"]);
        refused(&archived(folder.path(), &several[..1]), &["its data file r/a.sigmf-data is missing"]);
        refused(&archived(folder.path(), &[("a.sigmf-meta", b"{")]), &["a.sigmf", "not SigMF metadata"]);
        let packed = folder.path().join("packed.sigmf");
        std::fs::write(&packed, [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &[7; 600]].concat()).unwrap();
        refused(&packed, &["a file compressed with gzip: unpack it, and give its .sigmf-meta file"]);
        for (magic, what) in [
            (&b"\xfd7zXZ\0"[..], "a file compressed with xz"),
            (b"PK\x03\x04", "a ZIP file"),
            (b"text", "not a SigMF archive, which is a tar file without compression"),
        ] {
            std::fs::write(&packed, [magic, &[7; 600]].concat()).unwrap();
            refused(&packed, &[&format!("this is {what}: unpack it")]);
        }
        let elsewhere = br#"{"global": {"core:datatype": "ru8", "core:dataset": "b.bin"}}"#;
        let path = archived(folder.path(), &[("a.sigmf-meta", elsewhere), ("a.sigmf-data", b"1")]);
        refused(&path, &["`core:dataset` is \"b.bin\", but there is no such file"]);
        refused(folder.path(), &["directory"]);
        refused(Path::new("/dev/null"), &["a SigMF archive in a pipe"]);
        refused(&folder.path().join("none.sigmf"), &["there is no such file"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn hostile_archives_are_refused_or_have_a_part_for_samples(
            sizes in prop::collection::vec(prop_oneof![0u64..2000, any::<u64>()], 2),
            kinds in prop::collection::vec(prop::sample::select(b"0LxgSK5\0".to_vec()), 2),
            noise in prop::collection::vec(any::<u8>(), 0..600),
            cut in 0usize..4000,
        ) {
            let folder = tempfile::tempdir().unwrap();
            let mut bytes = Vec::new();
            for ((name, size), kind) in ["a.sigmf-meta", "a.sigmf-data"].iter().zip(sizes).zip(kinds) {
                let mut header = tar::Header::new_gnu();
                header.set_path(name).unwrap();
                header.set_size(size);
                header.set_entry_type(tar::EntryType::new(kind));
                header.set_cksum();
                let content = if *name == "a.sigmf-meta" { META } else { &noise };
                bytes.extend_from_slice(header.as_bytes());
                bytes.extend_from_slice(content);
                bytes.resize(bytes.len().next_multiple_of(512), b' ');
            }
            bytes.truncate(cut.max(512));
            let path = folder.path().join("a.sigmf");
            std::fs::write(&path, bytes).unwrap();
            match open(&path) {
                Ok(found) => prop_assert!(found.archived.is_some_and(|range| range.start <= range.end)),
                Err(error) => prop_assert!(error.to_string().contains("a.sigmf")),
            }
        }
    }
}
