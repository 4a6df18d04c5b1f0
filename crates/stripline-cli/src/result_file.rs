//! The files to which commands write their results. `-` is standard output.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::Serialize;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use stripline::internal::process;
use stripline_components::formats::{Existing, write_whole};

use crate::Exit;
use crate::show::print;

/// The first bytes of a result in JSON: the key with the version of this program.
const JSON_HEAD: &str = "{\n  \"stripline\": \"";
/// The first bytes of a drawing.
const DRAWING_HEAD: &str = "<!-- stripline ";

/// The form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    /// A page in HTML, or a picture in SVG.
    Drawing,
}

impl Form {
    /// Returns the first bytes of a result of this form.
    fn head(self) -> &'static str {
        match self {
            Self::Json => JSON_HEAD,
            Self::Drawing => DRAWING_HEAD,
        }
    }
}

/// A result with the version of the program that wrote it.
#[derive(Serialize)]
struct Signed<'a, R> {
    stripline: &'static str,
    #[serde(flatten)]
    report: &'a R,
}

/// Reports a file to which results cannot be written, and a file with other content than an earlier
/// result.
pub(crate) fn check_writable(path: &Path, form: Form) -> Result<(), Exit> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    let shown = path.display();
    if is_fifo(path) {
        // The open would wait for a reader of the pipe.
        return Ok(());
    }
    if let Err(error) = OpenOptions::new().append(true).create(true).open(path) {
        report!("error: cannot write {shown}: {error}");
        return Err(Exit::Usage);
    }
    if !is_replaceable(path, form) {
        report!("error: {shown} exists, and is not an earlier result: name another file, or remove it");
        return Err(Exit::Usage);
    }
    Ok(())
}

/// Returns whether the path names no file, a pipe, a device, or an earlier result.
fn is_replaceable(path: &Path, form: Form) -> bool {
    let mut head = Vec::new();
    // A pipe or a device has no earlier content. A file that cannot be read is not replaced.
    let length = form.head().len() as u64;
    let is_read = !path.is_file()
        || File::open(path).is_ok_and(|file| file.take(length).read_to_end(&mut head).is_ok());
    is_read && (head.is_empty() || head == form.head().as_bytes())
}

/// Returns whether a write may wait for a reader: to standard output, a pipe or a device.
pub(crate) fn may_wait(path: &Path) -> bool {
    path.as_os_str() == "-" || path.metadata().is_ok_and(|about| !about.is_file())
}

/// Makes the next SIGINT, SIGTERM or SIGHUP end the process, also while it waits for a reader. A
/// signal that was ignored at the start stays ignored.
///
/// The caller must have written everything that needs no reader.
pub(crate) fn end_at_signals() {
    for signal in process::not_ignored(&[SIGINT, SIGTERM, SIGHUP]) {
        let always = Arc::new(AtomicBool::new(true));
        // Without the handler, only the reader ends the wait.
        let _ = signal_hook::flag::register_conditional_default(signal, always);
    }
}

/// Writes a result as JSON.
pub(crate) fn write_json(path: &Path, report: &impl Serialize) -> Exit {
    let text = serde_json::to_string_pretty(&Signed { stripline: env!("CARGO_PKG_VERSION"), report });
    let text =
        text.map(|text| text + "\n").map_err(|error| format!("the result does not serialise: {error}"));
    write_text(path, Form::Json, text)
}

/// Writes a picture or a page, or reports why it could not be made.
pub(crate) fn write_drawing(path: &Path, drawing: Result<String, String>) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    let text = drawing.map(|drawing| format!("{DRAWING_HEAD}{version} -->\n{drawing}"));
    write_text(path, Form::Drawing, text)
}

fn write_text(path: &Path, form: Form, text: Result<String, String>) -> Exit {
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            report!("error: {error}");
            return Exit::Failure;
        }
    };
    if path.as_os_str() == "-" {
        return print(&text);
    }
    let written = match may_wait(path) {
        true => {
            write_special(path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))
        }
        // Another program may have put a file there since the check.
        false if !is_replaceable(path, form) => {
            let shown = path.display();
            let written = write_whole(path, Existing::Number, text.as_bytes());
            Err(written.map_or_else(
                |error| error.to_string(),
                |other| {
                    format!(
                        "{shown} was replaced by another file meanwhile: the result is in {}",
                        other.display()
                    )
                },
            ))
        }
        false => {
            write_whole(path, Existing::Replace, text.as_bytes()).map(drop).map_err(|error| error.to_string())
        }
    };
    match written {
        Ok(()) => Exit::Clean,
        Err(problem) => {
            report!("error: {problem}");
            Exit::Failure
        }
    }
}

/// Writes to a pipe or a device.
fn write_special(path: &Path, text: &str) -> io::Result<()> {
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let probe = OpenOptions::new().write(true).custom_flags(at_once).open(path);
    let has_no_reader = |error: &io::Error| Errno::from_io_error(error) == Some(Errno::NXIO);
    if probe.as_ref().is_err_and(has_no_reader) && is_fifo(path) {
        report!("waiting for a reader of the pipe {}; Ctrl-C ends it", path.display());
    }
    let mut file = OpenOptions::new().write(true).open(path)?;
    // Closed before, the probe would be the end of the pipe for a reader that has come meanwhile.
    drop(probe);
    file.write_all(text.as_bytes())
}

fn is_fifo(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.file_type().is_fifo())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(path: &Path, form: Form) -> Exit {
        match form {
            Form::Json => write_json(path, &serde_json::json!({ "figure": 7 })),
            Form::Drawing => write_drawing(path, Ok("<svg/>".into())),
        }
    }

    #[test]
    fn a_file_that_another_program_puts_in_place_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        for (other, form) in [("# a thesis", Form::Json), ("{}", Form::Drawing)] {
            check_writable(&path, form).unwrap();
            std::fs::write(&path, other).unwrap();
            assert_eq!(write(&path, form), Exit::Failure);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
            let numbered = folder.path().join("result.2.json");
            assert!(is_replaceable(&numbered, form) && numbered.metadata().unwrap().len() > 0);
            std::fs::remove_file(numbered).unwrap();
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn only_an_earlier_result_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        for form in [Form::Json, Form::Drawing] {
            std::fs::write(&path, "").unwrap();
            assert_eq!(write(&path, form), Exit::Clean);
            let own = std::fs::read_to_string(&path).unwrap();
            std::fs::write(&path, format!("{own} as of last week")).unwrap();
            check_writable(&path, form).unwrap();
            assert_eq!(write(&path, form), Exit::Clean);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), own);
            for other in [
                "{}",
                "\n",
                "{\n  \"waveform\": \"mine\"\n}",
                "<svg/>",
                "<!-- strip",
                "<!DOCTYPE html>",
                "# a waveform",
                "\0\x01",
            ] {
                std::fs::write(&path, other).unwrap();
                assert_eq!(check_writable(&path, form), Err(Exit::Usage), "{other:?}");
                assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
            }
        }
        assert!(check_writable(Path::new("/dev/null"), Form::Json).is_ok());
        assert!(check_writable(&folder.path().join("none/result"), Form::Json).is_err());
    }

    #[test]
    fn a_result_has_its_own_keys_behind_the_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        assert_eq!(write(&path, Form::Json), Exit::Clean);
        let found: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(found, serde_json::json!({ "figure": 7, "stripline": env!("CARGO_PKG_VERSION") }));
    }
}
