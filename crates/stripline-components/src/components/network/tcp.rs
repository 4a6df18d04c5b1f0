//! `tcp-sink` and `tcp-source`.

use std::io::{self, ErrorKind, Read};

use stripline::component::kit::PacedSource;
use stripline::component::{
    Component, ComponentSpec, FileReport, PortTypes, Ports, Properties, PropertySpec,
};
use stripline::payload::Dynamic;
use stripline::{Error, Result};

use super::connector::{Connector, not_connected};
use super::{
    Conversion, address_property, check, check_source, insecure_property, sample_bytes, source, stream,
};
use crate::components::file_sink::write_samples;
use crate::components::line_file::{Destination, LineFile, Unit};
use crate::components::output_file::{READER_GONE, Target, reader_property};
use crate::formats::{FormatError, OutputFile};
use crate::stoppable::{Readers, StoppableFile};
use crate::text::counted;

/// The choices of the property `sender_gone`.
const SENDER_GONE: [&str; 2] = ["end", "wait"];

fn bind_property(default: bool) -> PropertySpec {
    PropertySpec::boolean("bind", default, "whether this side listens, and the other program connects")
}

/// The component `tcp-sink`.
pub struct TcpSink {
    properties: Properties,
    connector: Connector,
}

impl Component for TcpSink {
    fn describe() -> ComponentSpec {
        let summary = "Sends raw samples over TCP, to one program at a time.";
        ComponentSpec::new("tcp-sink", summary)
            .input("in", PortTypes::Any, "samples to send, also structures; no messages")
            .property(address_property("where this side listens, or the other program does"))
            .property(bind_property(true))
            .property(reader_property("a program"))
            .property(insecure_property())
            .validated(check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        check(properties)?;
        Ok(Self { properties: properties.clone(), connector: Connector::open(properties)? })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let Self { properties, mut connector } = self;
        let bytes = sample_bytes(&ports)?;
        let target = Target::stream(format!("tcp://{}", properties.text("address")));
        let mut input = ports.input::<Dynamic>("in")?;
        let (files, unit) = (ports.files(), Unit::Sample(bytes as u64));
        let opened = connector.wait();
        let keeps_readers = properties.text("reader_gone") == READER_GONE[0];
        let readers = keeps_readers.then(|| Readers::new(move || connector.next()));
        let opened = opened
            .map(|connection| {
                LineFile::of(OutputFile::connected(&target.path, connection, readers), &target, unit)
            })
            .map_err(|source| FormatError::open(&target.path, "connect", source));
        let destination = Destination::of(opened, &target, unit, &files)?;
        write_samples(&mut input, destination, Some(bytes), &files)
    }
}

/// The component `tcp-source`.
pub struct TcpSource {
    properties: Properties,
    connector: Connector,
}

impl Component for TcpSource {
    fn describe() -> ComponentSpec {
        let summary = "Receives raw samples over TCP, from one program at a time.";
        let choice =
            "effect of a sender that ends or is killed: the stream ends; or the next one continues it";
        source("tcp-source", summary, "where the other program listens, or this side does")
            .property(bind_property(false))
            .property(PropertySpec::choice("sender_gone", &SENDER_GONE, SENDER_GONE[0], choice))
            .property(PacedSource::packet_property(16 << 10))
            .property(insecure_property())
            .property(PropertySpec::integer("connections", 0, 0, i64::MAX, "connections so far").read_only())
            .property(
                PropertySpec::integer("partial", 0, 0, i64::MAX, "incomplete samples at ends of connections")
                    .read_only(),
            )
            .validated(check_source)
    }

    fn new(properties: &Properties) -> Result<Self> {
        check_source(properties)?;
        Ok(Self { properties: properties.clone(), connector: Connector::open(properties)? })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let Self { properties, connector } = self;
        let mut conversion = Conversion::new(&properties)?;
        let mut counts = ReceivedCounts::default();
        let received = receive(&mut ports, (&properties, connector), &mut conversion, &mut counts);
        ports.files().report(FileReport {
            samples: counts.sent,
            clipped: conversion.clipped,
            missing: counts.missing,
            places: counts.places,
            finished: true,
            ..FileReport::new(format!("tcp://{}", properties.text("address")))
        });
        received
    }
}

/// The counts of a source, in samples.
#[derive(Default)]
struct ReceivedCounts {
    sent: u64,
    /// Samples that had arrived and were not sent at a stop, and incomplete ones.
    missing: u64,
    places: u64,
}

impl ReceivedCounts {
    fn miss(&mut self, samples: u64) {
        (self.missing, self.places) = (self.missing + samples, self.places + u64::from(samples > 0));
    }
}

/// Receives until the end.
fn receive(
    ports: &mut Ports,
    (properties, mut connector): (&Properties, Connector),
    conversion: &mut Conversion,
    counts: &mut ReceivedCounts,
) -> Result<()> {
    let size = conversion.size();
    let samples = usize::try_from(properties.count("packet")).unwrap_or(usize::MAX);
    let ends = properties.text("sender_gone") == SENDER_GONE[0];
    let connections = ports.status::<u64>("connections")?;
    let partials = ports.status::<u64>("partial")?;
    let mut output = ports.output::<Dynamic>("out")?;
    output.set_stream(stream(ports, properties));
    loop {
        let mut connection =
            Samples { connection: connector.wait().map_err(not_connected)?, size, carried: Vec::new() };
        connections.add(1);
        // The next stream starts anew: an unknown number of samples is missing before it.
        let mut index = 0;
        let end = loop {
            let mut unsent = 0;
            let passed = output.loan(samples).and_then(|mut loan| {
                let read = conversion.read(&mut loan, |out| connection.read(out));
                if let Ok(count @ 1..) = read {
                    unsent = count as u64;
                    loan.truncate(count);
                    loan.at_sample(index).send()?;
                }
                match read {
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(Error::Stopped),
                    read => Ok(read),
                }
            });
            match passed {
                Ok(Ok(0)) => break None,
                Ok(Ok(count)) => (index, counts.sent) = (index + count as u64, counts.sent + count as u64),
                Ok(Err(error)) => break Some(error.to_string()),
                Err(error) => {
                    counts.miss(unsent + connection.waiting());
                    return Err(error);
                }
            }
        };
        let left_over = connection.carried.len();
        partials.add(u64::from(left_over > 0));
        counts.miss(u64::from(left_over > 0));
        let problem = match (left_over, end) {
            (0, None) if ends => return Ok(()),
            (0, None) => "the sender has ended".into(),
            (0, Some(error)) => error,
            (bytes, _) => {
                format!("the sender has ended within a sample, behind {}", counted(bytes as u64, "byte"))
            }
        };
        let problem = format!("{}: {problem}", properties.text("address"));
        if ends {
            return Err(Error::failed(problem));
        }
        log::warn!(target: "stripline::tcp-source", "{problem}; waiting for the next one");
    }
}

/// The samples of a connection.
struct Samples {
    connection: StoppableFile,
    size: usize,
    /// The bytes of an incomplete sample.
    carried: Vec<u8>,
}

impl Samples {
    /// Returns the number of samples that have arrived and were not read, also an incomplete one.
    fn waiting(&self) -> u64 {
        (self.carried.len() as u64 + self.connection.waiting()).div_ceil(self.size as u64)
    }

    /// Waits for whole samples, and returns the number of bytes; 0 at the end.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut filled = self.carried.len();
        out[..filled].copy_from_slice(&self.carried);
        loop {
            let count = match self.connection.read(&mut out[filled..]) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            filled += count;
            let whole = filled - filled % self.size;
            if whole > 0 || count == 0 {
                self.carried = out[whole..filled].to_vec();
                return Ok(whole);
            }
        }
    }
}
