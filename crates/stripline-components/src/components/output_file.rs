//! Helpers for sinks that write files.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use stripline::component::{
    ComponentSpec, InvalidProperties, Ports, Properties, PropertyFacts, PropertySpec, StopSignal, Value,
};
use stripline::payload::Content;
use stripline::{Error, Input, Packet, Received, Result};

use crate::formats::{Durability, Existing, FormatError, check_output, shown};
use crate::stoppable::ended;

/// The end of the reason for an early end of the component alone.
const NOT_COUNTED: &str = "; any later packets are missing, too, and not counted";

/// The file of a sink, and the handling of an existing file.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub path: PathBuf,
    pub existing: Existing,
    pub durability: Durability,
    /// Whether a full disk ends only this component.
    pub ends_alone: bool,
    /// Whether the readers of a pipe may come and go.
    pub keeps_readers: bool,
}

impl Target {
    /// Returns the file of the properties `path` and `existing`; `None` without a path.
    pub fn optional(properties: &Properties) -> Option<Self> {
        Some(Self::new(properties.path("path")?, existing(properties), properties))
    }

    fn new(path: PathBuf, existing: Existing, properties: &Properties) -> Self {
        // Some sinks lack these properties.
        let word = |name| match properties.value(name) {
            Some(Value::Text(word)) => word.as_str(),
            _ => "",
        };
        let durability = word("sync").parse().unwrap_or_default();
        let ends_alone = word("disk_full") == DISK_FULL[1];
        Self { path, existing, durability, ends_alone, keeps_readers: word("reader_gone") == READER_GONE[0] }
    }

    /// Returns a target that is not a file.
    pub fn stream(path: impl Into<PathBuf>) -> Self {
        let (existing, durability) = (Existing::default(), Durability::default());
        Self { path: path.into(), existing, durability, ends_alone: false, keeps_readers: false }
    }

    /// Returns the file as [`Target::optional`] does. Without a path, the file is `default` in the
    /// current folder, or the next free number of this name.
    ///
    /// # Errors
    /// There is no path and no default.
    pub fn required(properties: &Properties, default: Option<&str>) -> Result<Self> {
        if let Some(target) = Self::optional(properties) {
            return Ok(target);
        }
        let path = default.ok_or_else(|| {
            InvalidProperties::new("`path` is empty").property("path").remedy("set it to the file to write")
        })?;
        Ok(Self::new(path.into(), existing(properties).without_path(), properties))
    }

    /// Returns the file for a running component. If the component was started again in this run, it
    /// keeps the file of its earlier start.
    pub fn of_run(mut self, ports: &Ports) -> Self {
        if ports.restarts() > 0 {
            self.existing = self.existing.after_restart();
        }
        self
    }

    /// Returns the error for the component after an error of a file. The component ends in order if
    /// a full disk is to end only this component, or if the reader of a pipe has closed it.
    /// `problem` gets the reason for the report.
    pub fn failed(&self, error: FormatError, problem: &mut Option<String>) -> Error {
        if self.ends_alone && error.is_full() {
            problem.get_or_insert_with(|| format!("{error}{NOT_COUNTED}"));
            return Error::Stopped;
        }
        let is_ending = StopSignal::of_this_thread().is_some_and(|stop| stop.is_ending());
        let error = ended(error);
        if matches!(error, Error::Stopped) && !is_ending {
            problem.get_or_insert_with(|| format!("its reader has closed it{NOT_COUNTED}"));
        }
        error
    }

    /// Checks a file that the component will write, as far as possible without changing it.
    ///
    /// # Errors
    /// The errors of [`check_output`].
    pub fn check(&self, path: &Path) -> Result<()> {
        check_output(path, self.existing).map_err(super::property_errors::file)
    }
}

fn existing(properties: &Properties) -> Existing {
    properties.text("existing").parse().unwrap_or_default()
}

/// Describes the property `existing`.
pub(super) fn existing_property() -> PropertySpec {
    PropertySpec::choice(
        "existing",
        &Existing::ALL.map(Existing::as_str),
        Existing::default().as_str(),
        "treatment of a file that exists: an error; further data at its end; another file, NAME.2; a new file",
    )
}

/// The choices of the property `disk_full`.
const DISK_FULL: [&str; 2] = ["fail", "end"];

/// Describes the properties of a file that is written while packets arrive.
pub(super) fn with_file_properties(spec: ComponentSpec) -> ComponentSpec {
    spec.property(existing_property())
        .property(PropertySpec::choice(
            "sync",
            &Durability::ALL.map(Durability::as_str),
            Durability::default().as_str(),
            "when data is on the disk, also if the machine fails: at the end, a second later at most, with each packet",
        ))
        .property(PropertySpec::choice(
            "disk_full",
            &DISK_FULL,
            DISK_FULL[0],
            "effect of a full disk: the component fails; or it ends in order, alone, and the report has the reason",
        ))
}

/// The choices of the property `reader_gone`.
pub(super) const READER_GONE: [&str; 2] = ["wait", "end"];

/// Describes the property `reader_gone`.
pub(super) fn reader_property(what: &str) -> PropertySpec {
    let summary = format!(
        "effect of {what} that leaves: samples are dropped and counted until the next one comes; or the component ends"
    );
    PropertySpec::choice("reader_gone", &READER_GONE, READER_GONE[0], &summary)
}

/// Returns the facts about a sink that writes the file of the property `path`, or uses standard
/// output exclusively.
pub(super) fn facts(properties: &Properties) -> PropertyFacts {
    PropertyFacts { writes: properties.path("path").into_iter().collect(), ..PropertyFacts::default() }
}

/// Returns whether the property `path` is standard output.
pub(super) fn is_printed(properties: &Properties) -> bool {
    properties.path("path").is_some_and(|path| path == Path::new("-"))
}

/// An output that passes data on in time, also while no packet arrives.
pub(super) trait TimedOutput {
    /// Returns the longest time to wait for the next packet before `pass_due` must be called.
    fn wait_time(&self) -> Duration;

    /// Passes all data on, if the oldest was written a second ago.
    fn pass_due(&mut self) -> Result<()>;
}

impl<O: TimedOutput> TimedOutput for Option<O> {
    fn wait_time(&self) -> Duration {
        self.as_ref().map_or(Duration::MAX, O::wait_time)
    }

    fn pass_due(&mut self) -> Result<()> {
        self.as_mut().map_or(Ok(()), O::pass_due)
    }
}

/// Receives packets until the end of the stream, and calls `write` with the output and each packet.
pub(super) fn receive<T: Content, O: TimedOutput>(
    input: &mut Input<T>,
    output: &mut O,
    mut write: impl FnMut(&mut O, &Packet<'_, T>) -> Result<()>,
) -> Result<()> {
    loop {
        match input.receive_timeout(output.wait_time())? {
            Received::Packet(packet) => write(output, &packet)?,
            Received::Empty => output.pass_due()?,
            Received::Ended => return Ok(()),
        }
    }
}

/// Warns that a sink has not written its file, because nothing arrived. A sink that fails reports
/// its error instead.
pub(super) fn report_nothing(received: &Result<()>, unit: &str, path: &Path) {
    if matches!(received, Ok(()) | Err(Error::Stopped)) {
        // The message is only for the user.
        let _ = writeln!(std::io::stderr(), "warning: no {unit} arrived: {} is not written", shown(path));
    }
}

/// Returns the result of a sink: the error that ended receiving, or else the error of finishing the
/// file.
pub(super) fn outcome(received: Result<()>, finished: Result<()>) -> Result<()> {
    match received {
        Ok(()) | Err(Error::Stopped) => finished.and(received),
        failed => failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_finished_outweighs_a_clean_end_only() {
        let failed = || Err(Error::failed("disk full"));
        assert!(matches!(outcome(Err(Error::Stopped), Ok(())), Err(Error::Stopped)));
        assert!(matches!(outcome(Err(Error::Stopped), failed()), Err(Error::Failed(_))));
        assert!(matches!(outcome(Ok(()), failed()), Err(Error::Failed(_))));
        let first = outcome(Err(Error::failed("first")), failed()).unwrap_err();
        assert_eq!(first.to_string(), "first");
    }
}
