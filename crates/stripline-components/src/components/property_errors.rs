//! Errors about a component's properties, made from errors of a file or a filter.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use stripline::component::{Component, InvalidProperties, Properties};
use stripline::{Error, Result};

use crate::dsp::DspError;
use crate::formats::{FormatError, SigMfRecording, is_sigmf};

/// Checks whether a component can be created with these properties. Use it only for components with
/// a `new` that has no side effects.
pub(super) fn can_be_made<C: Component>(properties: &Properties) -> Result<()> {
    C::new(properties).map(drop)
}

/// Checks whether a component that plays the file `path` can be created. A pipe or a device is not
/// opened, because that would take data from it.
pub(super) fn can_play<C: Component>(properties: &Properties) -> Result<()> {
    match samples(properties).map(|path| path.metadata()) {
        Some(Ok(metadata)) if !metadata.is_file() && !metadata.is_dir() => Ok(()),
        _ => can_be_made::<C>(properties),
    }
}

/// Returns whether the property `path` names a regular file, which can be read before the component
/// runs.
pub(super) fn is_regular_file(properties: &Properties) -> bool {
    samples(properties).is_some_and(|path| path.is_file())
}

/// Returns the file with the samples of the property `path`, which the metadata of SigMF name.
/// `None`: standard input, or metadata that cannot be used.
fn samples(properties: &Properties) -> Option<PathBuf> {
    let path = properties.path("path").filter(|path| path != Path::new("-"))?;
    if is_sigmf(&path) { SigMfRecording::open(&path).ok().map(|it| it.data_path) } else { Some(path) }
}

/// Converts an error about the file of the property `path`.
pub(super) fn file(error: FormatError) -> Error {
    let text = error.to_string();
    let system =
        matches!(error, FormatError::Open { .. } | FormatError::Read { .. } | FormatError::Write { .. });
    let is_denied =
        matches!(&error, FormatError::Open { source, .. } if source.kind() == ErrorKind::PermissionDenied);
    // The remedy, if there is one, comes last.
    let invalid = match text.rsplit_once(": ").filter(|_| !system) {
        Some((message, remedy)) => InvalidProperties::new(message).remedy(remedy),
        None if is_denied => {
            InvalidProperties::new(text).remedy("change its permissions, or name another file")
        }
        None => InvalidProperties::new(text),
    };
    invalid.property("path").into()
}

/// Converts an error about a setting of signal processing.
pub(super) fn setting(error: DspError) -> Error {
    let DspError::OutOfRange { block, parameter, value, valid, remedy } = error else {
        return Error::failed(error);
    };
    // The parameters have the names of the properties, with the unit last.
    let property = parameter.rsplit_once('_').map_or(parameter, |(name, _)| name);
    InvalidProperties::new(format!("{block}: `{property}` is {value}, but must be {valid}"))
        .property(property)
        .remedy(remedy)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_and_the_property_are_found() {
        let missing = InvalidProperties::from(file(FormatError::NotFound { path: "x.cu8".into() }));
        assert_eq!(
            (missing.message.as_str(), missing.remedy.as_str()),
            ("x.cu8: there is no such file", "check the path")
        );
        assert_eq!(missing.property.as_deref(), Some("path"));
        let denied = FormatError::Open {
            path: "x.cu8".into(),
            doing: "open",
            source: std::io::ErrorKind::PermissionDenied.into(),
        };
        let remedy = "change its permissions, or name another file";
        assert_eq!(InvalidProperties::from(file(denied)).remedy, remedy);
        let failed = FormatError::Open {
            path: "x.cu8".into(),
            doing: "open",
            source: std::io::ErrorKind::StorageFull.into(),
        };
        assert_eq!(InvalidProperties::from(file(failed)).remedy, "");
        let error = crate::dsp::FmDemodulator::new(240e3, -5.0).map(drop).unwrap_err();
        let invalid = InvalidProperties::from(setting(error));
        assert_eq!(invalid.property.as_deref(), Some("deviation"));
        // The error has the name in the waveform file, not the name of the field in Rust.
        let words = "FM demodulator: `deviation` is -5, but must be above 0 Hz";
        assert!(invalid.message.starts_with(words), "{}", invalid.message);
    }
}
