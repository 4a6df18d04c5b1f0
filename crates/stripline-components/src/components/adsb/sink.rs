//! `adsb-sink`: frames to a file, aircraft to standard output.

use std::fmt::{Display, Write as _};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec};
use stripline::{Error, Input, Result};

use super::record::FrameRecord;
use crate::adsb::{Tracker, TrackerConfig};
use crate::components::output_file;
use crate::components::property_errors::can_be_made;
use crate::formats::FormatError;
use crate::terminal;

/// The component `adsb-sink`.
pub struct AdsbSink {
    path: Option<PathBuf>,
    table: bool,
}

impl Component for AdsbSink {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("adsb-sink", "Prints the aircraft received, and writes their frames to a file.")
            .input("in", PortTypes::of::<FrameRecord>(), "frames")
            .property(PropertySpec::path(
                "path",
                "file for the frames, a line of AVR format each; none: no file",
            ))
            .property(PropertySpec::boolean(
                "table",
                true,
                "whether to print the aircraft to standard output; with --quiet they are not",
            ))
            .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let path = properties.path("path");
        if let Some(path) = &path {
            output_file::check(path)?;
        }
        Ok(Self { path, table: properties.boolean("table") })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let is_open = self.table && !ports.is_quiet();
        let input = ports.input::<FrameRecord>("in")?;
        let mut file = self.path.map(AvrFile::create).transpose().map_err(Error::failed)?;
        let mut screen = Screen { is_open, is_all: file.is_none() };
        let mut tracker = Tracker::new(TrackerConfig::default());
        let received = receive(input, file.as_mut(), &mut screen, &mut tracker);
        // Also when the waveform is stopped: the user wants the aircraft received up to then.
        let finished = file.map_or(Ok(()), |file| file.finish().map_err(Error::failed));
        let printed = match &received {
            Ok(()) | Err(Error::Stopped) if tracker.is_empty() => screen.print("no aircraft received\n"),
            Ok(()) | Err(Error::Stopped) => {
                screen.print(format_args!("\n{}", tracker.table(terminal::width())))
            }
            Err(_) => Ok(()),
        };
        output_file::outcome(received, finished.and(printed))
    }
}

/// Receives frames until their end.
fn receive(
    mut input: Input<FrameRecord>,
    mut file: Option<&mut AvrFile>,
    screen: &mut Screen,
    tracker: &mut Tracker,
) -> Result<()> {
    let mut lines = String::new();
    while let Some(packet) = input.receive()? {
        lines.clear();
        for record in packet.iter() {
            let Some(accepted) = record.accepted() else { continue };
            if file.is_some() {
                // Writing to a text does not fail.
                let _ = writeln!(lines, "{}", accepted.frame);
            }
            let aircraft = tracker.update(&accepted);
            if aircraft.messages == 1 {
                let (seconds, address, level) = (record.seconds(), aircraft.address, record.level_dbfs);
                screen.print(format_args!("{seconds:>9.3} s  {address:06x} received, {level:.1} dBFS\n"))?;
            }
        }
        if let Some(file) = &mut file {
            file.write(lines.as_bytes()).map_err(Error::failed)?;
        }
    }
    Ok(())
}

/// Standard output.
struct Screen {
    is_open: bool,
    /// Whether printing is the component's only task.
    is_all: bool,
}

impl Screen {
    /// Prints. A closed reader is an error only if printing is the component's only task.
    fn print(&mut self, text: impl Display) -> Result<()> {
        if !self.is_open {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        match write!(out, "{text}").and_then(|()| out.flush()) {
            Err(error) => {
                self.is_open = false;
                if self.is_all || error.kind() != ErrorKind::BrokenPipe {
                    return Err(Error::failed(format!("cannot print to the standard output: {error}")));
                }
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// A file of AVR lines. A packet's lines are written at once, so that the file can be followed.
struct AvrFile {
    path: PathBuf,
    file: File,
    written: u64,
}

impl AvrFile {
    fn create(path: PathBuf) -> Result<Self, FormatError> {
        match File::create(&path) {
            Ok(file) => Ok(Self { path, file, written: 0 }),
            Err(source) => Err(FormatError::open(&path, "create", source)),
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> Result<(), FormatError> {
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(self.failed(ErrorKind::WriteZero.into())),
                Ok(count) => {
                    self.written += count as u64;
                    bytes = &bytes[count..];
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(())
    }

    /// Waits until a regular file is on the disk. Some file systems report only then that it is
    /// full.
    fn finish(self) -> Result<(), FormatError> {
        let is_regular = self.file.metadata().is_ok_and(|metadata| metadata.is_file());
        let synced = if is_regular { self.file.sync_all() } else { Ok(()) };
        synced.map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> FormatError {
        FormatError::Write { path: self.path.clone(), written: self.written, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_the_file_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("frames.avr");
        let mut file = AvrFile::create(path.clone()).unwrap();
        file.write(b"*02e19838bf1a56;\n").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "*02e19838bf1a56;\n");
        file.finish().unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_with_path_and_bytes() {
        let mut file = AvrFile::create("/dev/full".into()).unwrap();
        let message = file.write(b"*02e19838bf1a56;\n").unwrap_err().to_string();
        assert!(message.starts_with("/dev/full: cannot write after 0 bytes: No space left"), "{message}");
    }
}
