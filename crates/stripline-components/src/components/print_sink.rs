//! `print-sink`: prints packets of any type.

use stripline::component::{
    Component, ComponentSpec, Direction, FileReport, PortSpec, PortTypes, Ports, Properties, PropertyFacts,
    PropertySpec, Value,
};
use stripline::payload::Dynamic;
use stripline::{Input, Result};

use super::line_file::{Destination, Unit};
use super::output_file::{self, Target};
use super::packet_lines::PacketLines;
use super::property_errors::can_be_made;

/// The maximum number of samples of a packet in a line.
const SAMPLES_MAX: i64 = 1 << 20;

/// The component `print-sink`.
pub struct PrintSink {
    target: Target,
    json: bool,
    samples: usize,
    every: u64,
    packets: u64,
}

impl Component for PrintSink {
    fn describe() -> ComponentSpec {
        let path = PropertySpec {
            default: Some(Value::Text("-".into())),
            ..PropertySpec::path("path", "file to write; `-`: standard output, with --quiet as well")
        };
        let summary =
            "Prints packets of any type, a line each: samples, structures by their layout, messages.";
        let spec = ComponentSpec::new("print-sink", summary)
            .port(
                PortSpec::new("in", Direction::Input, PortTypes::Any, "anything, of any number of senders")
                    .many_writers(),
            )
            .property(path);
        output_file::with_file_properties(spec)
            .property(PropertySpec::choice(
                "format",
                &["text", "json"],
                "text",
                "lines of text, or an object of JSON in each, as of `stripline echo`",
            ))
            .property(
                PropertySpec::integer("samples", 8, 0, SAMPLES_MAX, "the most samples of a packet to print")
                    .unit("samples"),
            )
            .property(
                PropertySpec::integer(
                    "every",
                    1,
                    1,
                    i64::MAX,
                    "prints one packet out of this number; new streams and gaps always",
                )
                .unit("packets"),
            )
            .property(
                PropertySpec::integer(
                    "packets",
                    0,
                    0,
                    i64::MAX,
                    "prints this number of packets, and takes the rest unprinted; 0: no end",
                )
                .unit("packets"),
            )
            .validated(|properties| {
                can_be_made::<Self>(properties)?;
                let target = Target::required(properties, None)?;
                target.check(&target.path)
            })
            .facts(|properties| match output_file::is_printed(properties) {
                // Lines of several components may share standard output.
                true => PropertyFacts { prints: true, ..PropertyFacts::default() },
                false => output_file::facts(properties),
            })
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self {
            target: Target::required(properties, None)?,
            json: properties.text("format") == "json",
            samples: usize::try_from(properties.count("samples")).unwrap_or(usize::MAX),
            every: properties.count("every"),
            packets: properties.count("packets"),
        })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let Some(payload) = ports.payload("in").cloned() else { return Ok(()) };
        let input = ports.input::<Dynamic>("in")?;
        let mut lines = PacketLines::new(payload, self.json, self.samples);
        let (target, files) = (self.target.clone().of_run(&ports), ports.files());
        let mut destination = Destination::open(&target, Unit::Line, &files)?;
        let received = self.receive(input, &mut lines, &mut destination);
        let finished = destination.finish(&files, FileReport::default());
        output_file::outcome(received, finished)
    }
}

impl PrintSink {
    fn receive(
        &self,
        mut input: Input<Dynamic>,
        lines: &mut PacketLines,
        destination: &mut Destination,
    ) -> Result<()> {
        let (mut received, mut printed) = (0, 0);
        output_file::receive(&mut input, destination, |destination, packet| {
            let is_open = self.packets == 0 || printed < self.packets;
            let text = match received % self.every {
                0 if is_open => {
                    printed += 1;
                    lines.packet(packet)
                }
                _ if is_open => lines.before(packet),
                _ => String::new(),
            };
            received += 1;
            destination.write(text.as_bytes())
        })?;
        let gap = input.gap_at_end().map(|gap| lines.gap(&gap)).unwrap_or_default();
        destination.write((gap + &lines.event("end", "the sender has ended")).as_bytes())
    }
}
