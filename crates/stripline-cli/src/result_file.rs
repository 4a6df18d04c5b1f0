//! The files to which commands write their results. `-` is standard output.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
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

/// The number of bytes that show whether a file is an earlier result.
const HEAD_BYTES: u64 = 64;

/// The form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    /// A page in HTML, or a picture in SVG.
    Drawing,
}

impl Form {
    /// Returns whether a file that begins with these bytes may be an earlier result of this form.
    fn replaces(self, head: &[u8]) -> bool {
        let first = head.iter().find(|byte| !byte.is_ascii_whitespace());
        match self {
            Self::Json => first.is_none_or(|byte| *byte == b'{'),
            Self::Drawing => first.is_none_or(|byte| *byte == b'<'),
        }
    }
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
        report!("error: {shown} exists, and is no earlier result: name another file, or remove it");
        return Err(Exit::Usage);
    }
    Ok(())
}

/// Returns whether the path names no file, a pipe, a device, or an earlier result.
fn is_replaceable(path: &Path, form: Form) -> bool {
    let mut head = Vec::new();
    // A pipe or a device has no earlier content. A file that cannot be read is not replaced.
    let is_read = !path.is_file()
        || File::open(path).is_ok_and(|file| file.take(HEAD_BYTES).read_to_end(&mut head).is_ok());
    is_read && form.replaces(&head)
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
    let text = serde_json::to_string_pretty(report).map(|text| text + "\n");
    write_text(path, Form::Json, text.map_err(|error| format!("the result does not serialise: {error}")))
}

/// Writes a result, or reports why the result could not be made.
pub(crate) fn write_text(path: &Path, form: Form, text: Result<String, String>) -> Exit {
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
fn write_special(path: &Path, text: &str) -> std::io::Result<()> {
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let probe = OpenOptions::new().write(true).custom_flags(at_once).open(path);
    if probe.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::NXIO)) && is_fifo(path) {
        report!("waiting for a reader of the pipe {}; Ctrl-C ends it", path.display());
    }
    OpenOptions::new().write(true).open(path)?.write_all(text.as_bytes())
}

fn is_fifo(path: &Path) -> bool {
    path.metadata().is_ok_and(|about| about.file_type().is_fifo())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_program_puts_in_place_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result.json");
        for (other, form) in [("# a thesis", Form::Json), ("{}", Form::Drawing)] {
            check_writable(&path, form).unwrap();
            std::fs::write(&path, other).unwrap();
            assert_eq!(write_text(&path, form, Ok("7".into())), Exit::Failure);
            assert_eq!(std::fs::read_to_string(&path).unwrap(), other);
            let numbered = folder.path().join("result.2.json");
            assert_eq!(std::fs::read_to_string(&numbered).unwrap(), "7");
            std::fs::remove_file(numbered).unwrap();
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!(write_text(&path, Form::Json, Ok("{}".into())), Exit::Clean);
        assert_eq!(write_text(&path, Form::Json, Ok("{} ".into())), Exit::Clean);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{} ");
    }

    #[test]
    fn only_an_earlier_result_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("result");
        let check = |content: &str, form| {
            std::fs::write(&path, content).unwrap();
            let checked = check_writable(&path, form).is_ok();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
            checked
        };
        for (content, is_json, is_drawing) in [
            ("", true, true),
            ("\n {\"waveform\": 1}", true, false),
            ("<svg", false, true),
            ("[waveform]", false, false),
            ("# a waveform", false, false),
            ("\0\x01", false, false),
        ] {
            let replaced = (check(content, Form::Json), check(content, Form::Drawing));
            assert_eq!(replaced, (is_json, is_drawing), "{content:?}");
        }
        assert!(check_writable(Path::new("/dev/null"), Form::Json).is_ok());
        assert!(check_writable(&folder.path().join("none/result"), Form::Json).is_err());
    }
}
