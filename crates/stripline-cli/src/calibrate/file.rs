//! The path of the calibration file, and how the file is read and written.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use stripline_bench::calibration::{Calibration, FILE_BYTES_MAX};

/// The variable with the path of the file.
const VARIABLE: &str = "STRIPLINE_CALIBRATION";

/// Returns the path of the file: the value of `STRIPLINE_CALIBRATION`, or a path in the user's data
/// folder.
pub(super) fn place() -> Result<PathBuf, String> {
    place_in(|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn place_in(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, String> {
    if let Some(path) = variable(VARIABLE) {
        return Ok(path.into());
    }
    // The XDG specification requires that relative paths are ignored.
    let absolute = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
    data.map(|data| data.join("stripline/calibration.json")).ok_or_else(|| {
        format!("there is no data folder, as neither XDG_DATA_HOME nor HOME is set; set {VARIABLE} to a file")
    })
}

/// Reads the file, up to one byte more than the size limit. Returns `None` if the file is absent.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let is_file = match path.metadata() {
        Ok(metadata) => metadata.is_file(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    // Reading a pipe would make the command wait.
    if !is_file {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// A new file beside the present one. `keep` replaces the present file in one step. A draft that is
/// not kept is removed.
pub(super) struct Draft<'p> {
    path: &'p Path,
    draft: PathBuf,
}

impl<'p> Draft<'p> {
    /// Makes an empty file beside the path, and the folder if it is missing.
    pub(super) fn beside(path: &'p Path) -> Result<Self, String> {
        let failed = |error: io::Error| format!("cannot write {}: {error}", path.display());
        if path.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let mut draft = path.as_os_str().to_os_string();
        draft.push(format!(".{}", std::process::id()));
        let own = Self { path, draft: draft.into() };
        std::fs::write(&own.draft, "").map_err(failed)?;
        Ok(own)
    }

    /// Writes the calibration and replaces the present file.
    pub(super) fn keep(&self, calibration: &Calibration) -> Result<(), String> {
        let failed = |error: io::Error| format!("cannot write {}: {error}", self.path.display());
        let text = serde_json::to_string_pretty(calibration).map_err(|error| failed(error.into()))? + "\n";
        std::fs::write(&self.draft, text).map_err(failed)?;
        std::fs::rename(&self.draft, self.path).map_err(failed)
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // A draft that was kept is absent here.
        let _ = std::fs::remove_file(&self.draft);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_in_the_data_folder_unless_it_is_named() {
        let place = |set: &[(&str, &str)]| {
            place_in(|name| set.iter().find(|(own, _)| *own == name).map(|(_, value)| value.into()))
        };
        let own = [(VARIABLE, "c.json"), ("XDG_DATA_HOME", "/data"), ("HOME", "/home/u")];
        assert_eq!(place(&own), Ok("c.json".into()));
        assert_eq!(place(&own[1..]), Ok("/data/stripline/calibration.json".into()));
        let default = Ok("/home/u/.local/share/stripline/calibration.json".into());
        assert_eq!(place(&own[2..]), default);
        assert_eq!(place(&[("XDG_DATA_HOME", "relative"), ("HOME", "/home/u")]), default);
        assert!(place(&[]).unwrap_err().contains(VARIABLE));
    }
}
