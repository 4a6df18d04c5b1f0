//! The files that commands write their results to. `-` is standard output.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::path::Path;

use serde::Serialize;

use crate::Exit;
use crate::show::print;

/// So many bytes show whether a file is an earlier result.
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

/// Reports a file that results cannot be written to, and one that holds something else than an
/// earlier result.
pub(crate) fn check_writable(path: &Path, form: Form) -> Result<(), Exit> {
    if path.as_os_str() == "-" {
        return Ok(());
    }
    let shown = path.display();
    if let Err(error) = OpenOptions::new().append(true).create(true).open(path) {
        complain!("error: cannot write {shown}: {error}");
        return Err(Exit::Usage);
    }
    let mut head = Vec::new();
    // A pipe or a device has no earlier content, and a file that cannot be read is not replaced.
    let is_read = !path.is_file()
        || File::open(path).is_ok_and(|file| file.take(HEAD_BYTES).read_to_end(&mut head).is_ok());
    if !is_read || !form.replaces(&head) {
        complain!("error: {shown} exists, and is no earlier result: name another file, or remove it");
        return Err(Exit::Usage);
    }
    Ok(())
}

/// Writes a result as JSON.
pub(crate) fn write_json(path: &Path, report: &impl Serialize) -> Exit {
    let text = serde_json::to_string_pretty(report).map(|text| text + "\n");
    write_text(path, text.map_err(|error| format!("the result does not serialise: {error}")))
}

/// Writes a result, or reports why it could not be made.
pub(crate) fn write_text(path: &Path, text: Result<String, String>) -> Exit {
    let text = match text {
        Ok(text) => text,
        Err(error) => {
            complain!("error: {error}");
            return Exit::Failure;
        }
    };
    if path.as_os_str() == "-" {
        return print(&text);
    }
    match std::fs::write(path, text) {
        Ok(()) => Exit::Clean,
        Err(error) => {
            complain!("error: cannot write {}: {error}", path.display());
            Exit::Failure
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
