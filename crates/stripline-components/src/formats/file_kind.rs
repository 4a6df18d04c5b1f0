//! The formats of files, from their first bytes and their names.

use std::path::Path;

use super::encoding;
use super::error::FormatError;

/// The number of bytes at the beginning of a file that identify the format.
pub(super) const HEAD_BYTES: usize = 16;

/// A format with samples, other than raw samples and SigMF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    Wav,
    Numpy,
    Gzip,
}

/// The first bytes of files without plain samples, with a description and the remedy.
const FOREIGN: [(&[u8], &str, &str); 17] = [
    (b"SLREC\r\n\x1a", "a recording of a port", "play it with the component `replay`"),
    (b"RIFX", "a big-endian WAV file", "convert it, as with `sox IN OUT.wav`"),
    (b"FORM", "an AIFF file", "convert it, as with `sox IN OUT.wav`"),
    (b"fLaC", "a FLAC file", "convert it, as with `sox IN OUT.wav`"),
    (b"OggS", "an Ogg file", "convert it, as with `sox IN OUT.wav`"),
    (b"riff\x2e\x91\xcf\x11", "a W64 file", "convert it, as with `sox IN OUT.wav`"),
    (b"caff\0\x01", "a CAF file", "convert it, as with `sox IN OUT.wav`"),
    (b".snd\0\0", "an AU file", "convert it, as with `sox IN OUT.wav`"),
    (b"Creative Voice F", "a VOC file", "convert it, as with `sox IN OUT.wav`"),
    (b"NIST_1A\n", "a NIST SPHERE file", "convert it, as with `sox IN OUT.wav`"),
    (b"BLUE", "an X-Midas BLUE file", "write its samples to a raw file"),
    (b"BZh", "a file compressed with bzip2", "unpack it with `bunzip2`"),
    (b"PK\x03\x04", "a ZIP file", "unpack it, and give the file with the samples"),
    (b"\x28\xb5\x2f\xfd", "a file compressed with zstd", "unpack it with `unzstd`"),
    (b"\xfd7zXZ\0", "a file compressed with xz", "unpack it with `unxz`"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", "write its samples to a raw file"),
    (b"MATLAB 5.0 MAT-f", "a MATLAB file", "write its samples to a raw file"),
];

/// Returns the format from the first bytes; `None`: samples without a header, or too few bytes.
///
/// # Errors
/// The format has no samples or is not supported. The error has its name and the remedy.
pub(super) fn of_head(head: &[u8], path: &Path) -> Result<Option<FileKind>, FormatError> {
    let container = head.get(8..12);
    if head.starts_with(b"RIFF") || head.starts_with(b"RF64") || head.starts_with(b"BW64") {
        if container == Some(b"WAVE") {
            return Ok(Some(FileKind::Wav));
        }
    } else if head.starts_with(b"\x93NUMPY") {
        return Ok(Some(FileKind::Numpy));
    } else if let [0x1f, 0x8b, 8, flags, _, _, _, _, 0 | 2 | 4, 0..=13 | 255, ..] = head
        && *flags < 32
    {
        return Ok(Some(FileKind::Gzip));
    }
    let is_container = |magic: &[u8]| match magic {
        b"RIFX" => container == Some(b"WAVE"),
        b"FORM" => matches!(container, Some(b"AIFF" | b"AIFC")),
        b"BLUE" => matches!(container, Some(b"EEEI" | b"IEEE")),
        b"BZh" => head.get(4..10) == Some(b"1AY&SY"),
        _ => true,
    };
    let found = FOREIGN.iter().find(|(magic, ..)| head.starts_with(magic) && is_container(magic));
    match found {
        Some((_, what, remedy)) => Err(FormatError::Foreign { path: path.into(), what, remedy }),
        None => Ok(None),
    }
}

/// Checks that a file without a header does not have an extension that promises one.
///
/// # Errors
/// The extension promises a header.
pub(super) fn check_name(path: &Path) -> Result<(), FormatError> {
    header_ending(path).map_or(Ok(()), |ending| Err(FormatError::Misnamed { path: path.into(), ending }))
}

/// Returns the extension of a file if it promises a header.
pub(crate) fn header_ending(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?;
    ["wav", "npy", "gz", "slrec"].into_iter().find(|known| ending.eq_ignore_ascii_case(known))
}

/// Returns whether the extension of `path` is `.sigmf-meta` or `.sigmf-data` (a recording),
/// `.sigmf` (an archive), or `.sigmf-collection` (a collection), in capitals or small letters.
pub fn is_sigmf(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    matches!(ending.as_deref(), Some("sigmf-meta" | "sigmf-data" | "sigmf" | "sigmf-collection"))
}

/// Returns a description of a file that is not a recording of a port, and the remedy.
pub(super) fn of_no_recording(head: &[u8], path: &Path) -> (String, String) {
    let plays = "play it with the component `file-source`".to_owned();
    if is_sigmf(path) {
        return ("this is a SigMF recording, and none of a port".into(), plays);
    }
    let what = match of_head(head, path) {
        Ok(Some(FileKind::Wav)) => "a WAV file",
        Ok(Some(FileKind::Numpy)) => "a file of numpy",
        Ok(Some(FileKind::Gzip)) => {
            return ("this is a file compressed with gzip".into(), "unpack it with `gunzip`".into());
        }
        Err(FormatError::Foreign { what, remedy, .. }) => {
            return (format!("this is {what}, not a recording of a port"), remedy.into());
        }
        _ => match encoding::of_ending(path) {
            Some(scalar) => {
                return (format!("by its name, this is a file of {scalar} samples"), plays);
            }
            None => {
                let remedy = "give a file that `stripline record` has written";
                return ("this is not a recording of a port".into(), remedy.into());
            }
        },
    };
    (format!("this is {what}, not a recording of a port"), plays)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_show_the_format() {
        let of = |head: &[u8]| of_head(head, Path::new("x")).map_err(|error| error.to_string());
        for head in [b"RIFF\0\0\0\0WAVEfmt ", b"RF64\xff\xff\xff\xffWAVEds64"] {
            assert_eq!(of(head), Ok(Some(FileKind::Wav)));
        }
        assert_eq!(of(b"\x93NUMPY\x01\0"), Ok(Some(FileKind::Numpy)));
        assert_eq!(of(b"\x1f\x8b\x08\0\0\0\0\0\0\x03abc"), Ok(Some(FileKind::Gzip)));
        for plain in [
            &b"RIFF\0\0\0\0AVI "[..],
            b"\x1f\x8b\x08\xff\0\0\0\0\0\x03",
            b"FORMat of mine",
            b"BLUE sky as text",
            b"BZhang",
            b"",
            b"R",
        ] {
            assert_eq!(of(plain), Ok(None), "{plain:?}");
        }
        for (magic, what, remedy) in FOREIGN {
            let behind: &[u8] = match magic {
                b"FORM" => b"\0\0\0\0AIFF",
                b"RIFX" => b"\0\0\0\0WAVE",
                b"BLUE" => b"EEEIEEEI",
                b"BZh" => b"91AY&SY",
                _ => b"",
            };
            let head = [magic, behind].concat();
            let message = of(&head).unwrap_err();
            assert!(message.contains(what) && message.ends_with(remedy), "{message}");
        }
    }
}
