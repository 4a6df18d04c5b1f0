//! The record of the files that a component writes, and of its connections to other programs, which
//! the report of a run shows.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::kit::{counted, grouped};
use crate::error::printable;
use crate::sys::fork::LocalMutex;

/// The most files of a component in a report. The first files are kept.
const FILES_MAX: usize = 1000;

/// The state of a file that a component writes, including missing samples and lines.
///
/// ```
/// use stripline::component::FileReport;
///
/// let file = FileReport { samples: 48_000, clipped: 43_000, ..FileReport::new("audio.wav") };
/// assert_eq!(file.to_string(), "audio.wav: 43,000 of 48,000 samples clipped");
/// assert_eq!(FileReport::new("audio.wav").to_string(), "");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReport {
    /// The path of the file.
    pub path: String,
    /// Samples in the file; 0 for a file of another kind.
    pub samples: u64,
    /// Samples altered to fit the file's format: beyond the range, or not a number.
    pub clipped: u64,
    /// Samples that the component has received or found missing, and that are not in the file.
    pub missing: u64,
    /// Places in the file at which samples are missing.
    pub places: u64,
    /// Lines that the reader at the other end of a pipe did not take.
    #[serde(default)]
    pub lines_missing: u64,
    /// Datagrams that did not become packets: dropped, refused, or unsent at the end.
    #[serde(default)]
    pub datagrams_missing: u64,
    /// A note about an earlier file at this path; `None`: there was none.
    #[serde(default)]
    pub found: Option<String>,
    /// Keys of the stream's description that the file's format cannot store.
    pub not_kept: Vec<String>,
    /// Whether the component has completed the file.
    pub finished: bool,
    /// The reason for an early end of the file, if only the component has ended. The packets that
    /// are sent after this end are not counted.
    #[serde(default)]
    pub problem: Option<String>,
}

impl FileReport {
    /// Creates the report of an empty file.
    pub fn new(path: impl Into<String>) -> Self {
        Self { path: path.into(), ..Self::default() }
    }

    /// Returns the path, or `standard output` for `-`.
    ///
    /// ```
    /// use stripline::component::FileReport;
    ///
    /// assert_eq!(FileReport::new("-").name(), "standard output");
    /// ```
    pub fn name(&self) -> &str {
        if self.path == "-" { "standard output" } else { &self.path }
    }
}

/// Writes a sentence about missing and altered samples. Writes nothing for a complete, unaltered
/// file.
impl fmt::Display for FileReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lacks = Vec::new();
        if self.clipped > 0 {
            lacks.push(format!("{} of {} clipped", grouped(self.clipped), counted(self.samples, "sample")));
        }
        let places = counted(self.places, "place");
        match (self.missing, self.places) {
            (0, 0) => {}
            (0, _) => lacks.push(format!("an unknown number of samples missing in {places}")),
            (missing, _) => lacks.push(format!("{} missing in {places}", counted(missing, "sample"))),
        }
        if self.lines_missing > 0 {
            lacks.push(format!("{} missing", counted(self.lines_missing, "line")));
        }
        if self.datagrams_missing > 0 {
            lacks.push(format!("{} missing", counted(self.datagrams_missing, "datagram")));
        }
        lacks.extend(self.problem.clone());
        if lacks.is_empty() { Ok(()) } else { write!(f, "{}: {}", printable(self.name()), lacks.join(", ")) }
    }
}

/// The reports of a component's files. Copies share the same reports.
///
/// A component reports a file when it has created the file, from time to time, and when the file is
/// complete. The report of the run then lists the file even if the component is killed.
///
/// ```no_run
/// # fn run(ports: stripline::component::Ports) -> stripline::Result<()> {
/// use stripline::component::FileReport;
///
/// let files = ports.files();
/// files.report(FileReport::new("audio.wav"));
/// files.report(FileReport { samples: 48_000, finished: true, ..FileReport::new("audio.wav") });
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct FileLog(Arc<LocalMutex<Vec<FileReport>>>);

impl FileLog {
    /// Replaces the report of the file with that path, or adds it. The call takes a lock, so do not
    /// call it for each packet.
    pub fn report(&self, report: FileReport) {
        let Some(mut files) = self.0.lock() else { return };
        let known = files.iter().position(|file| file.path == report.path);
        match known {
            Some(index) => files[index] = report,
            None if files.len() < FILES_MAX => files.push(report),
            None => {}
        }
    }

    /// Returns the reports so far.
    pub(super) fn reports(&self) -> Vec<FileReport> {
        self.0.lock().map_or_else(Vec::new, |files| files.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_report_and_says_what_it_lacks() {
        let log = FileLog::default();
        log.report(FileReport::new("a"));
        log.report(FileReport::new("b"));
        let holes = FileReport { samples: 10, missing: 3, places: 1, ..FileReport::new("a") };
        log.report(holes.clone());
        assert_eq!(log.reports(), [holes.clone(), FileReport::new("b")]);
        assert_eq!(holes.to_string(), "a: 3 samples missing in 1 place");
        let both = FileReport { clipped: 1, places: 2, ..holes };
        assert_eq!(both.to_string(), "a: 1 of 10 samples clipped, 3 samples missing in 2 places");
        let evil = FileReport { places: 1, ..FileReport::new("a\n\x1b") };
        assert!(evil.to_string().starts_with("a\\n\\u{1b}: "), "{evil}");
        let full = FileReport { problem: Some("the disk is full".into()), ..FileReport::new("a") };
        assert_eq!(full.to_string(), "a: the disk is full");
        let unread = FileReport { lines_missing: 2, ..FileReport::new("a") };
        assert_eq!(unread.to_string(), "a: 2 lines missing");
        let datagrams = FileReport { datagrams_missing: 1, ..FileReport::new("udp://a") };
        assert_eq!(datagrams.to_string(), "udp://a: 1 datagram missing");
        let unknown = FileReport { missing: 0, places: 2, ..FileReport::new("a") };
        assert_eq!(unknown.to_string(), "a: an unknown number of samples missing in 2 places");
    }
}
