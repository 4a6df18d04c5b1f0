//! `adsb-sink`: frames to a file, aircraft to standard output.

use std::fmt::Write as _;

use stripline::component::{
    Component, ComponentSpec, FileReport, PortTypes, Ports, Properties, PropertyFacts, PropertySpec,
};
use stripline::{Error, Input, Result};

use super::record::FrameRecord;
use crate::adsb::{Tracker, TrackerConfig};
use crate::components::line_file::{Destination, Screen, Unit};
use crate::components::output_file::{self, Target};
use crate::components::property_errors::can_be_made;
use crate::terminal;

/// The component `adsb-sink`.
pub struct AdsbSink {
    target: Option<Target>,
    table: bool,
}

impl Component for AdsbSink {
    fn describe() -> ComponentSpec {
        let spec = ComponentSpec::new(
            "adsb-sink",
            "Prints the aircraft received, and writes their frames to a file.",
        )
        .input("in", PortTypes::of::<FrameRecord>(), "frames")
        .property(PropertySpec::path(
            "path",
            "file for the frames, a line of AVR format each; none: no file",
        ));
        output_file::with_file_properties(spec)
            .property(PropertySpec::boolean(
                "table",
                true,
                "whether to print the aircraft to standard output; with --quiet they are not",
            ))
            .validated(|properties| {
                can_be_made::<Self>(properties)?;
                Target::optional(properties).map_or(Ok(()), |target| target.check(&target.path))
            })
            .facts(|properties| PropertyFacts {
                prints: properties.boolean("table") && !output_file::is_printed(properties),
                ..output_file::facts(properties)
            })
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { target: Target::optional(properties), table: properties.boolean("table") })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let is_open = self.table && !ports.is_quiet();
        let input = ports.input::<FrameRecord>("in")?;
        let target = self.target.map(|target| target.of_run(&ports));
        let files = ports.files();
        let mut file = target.map(|target| Destination::open(&target, Unit::Line, &files)).transpose()?;
        // If messages go to standard output, nothing else is printed there.
        let is_open = is_open && !file.as_ref().is_some_and(Destination::is_printed);
        let mut screen = Screen::new(is_open, file.is_none())?;
        let mut tracker = Tracker::new(TrackerConfig::default());
        let received = receive(input, &mut file, &mut screen, &mut tracker);
        // Print the table also when the waveform is stopped: the user wants the aircraft up to
        // then.
        let finished = file.map_or(Ok(()), |file| file.finish(&files, FileReport::default()));
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

/// Receives frames until the end of the stream.
fn receive(
    mut input: Input<FrameRecord>,
    file: &mut Option<Destination>,
    screen: &mut Screen,
    tracker: &mut Tracker,
) -> Result<()> {
    let mut lines = String::new();
    output_file::receive(&mut input, file, |file, packet| {
        lines.clear();
        for record in packet.iter() {
            let Some(accepted) = record.accepted() else { continue };
            if file.is_some() {
                // Writing to a string does not fail.
                let _ = writeln!(lines, "{}", accepted.frame);
            }
            let aircraft = tracker.update(&accepted);
            if aircraft.messages == 1 {
                let (seconds, address, level) = (record.seconds(), aircraft.address, record.level_dbfs);
                screen.print(format_args!("{seconds:>9.3} s  {address:06x} received, {level:.1} dBFS\n"))?;
            }
        }
        file.as_mut().map_or(Ok(()), |file| file.write(lines.as_bytes()))
    })
}
