//! The component `vita49-source`.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use stripline::component::{
    Component, ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertySpec, RateRule, Status,
};
use stripline::payload::{Dynamic, Scalar};
use stripline::{Error, Result};

use super::address::{self, Address};
use super::batch::{BATCH_MAX, Batch};
use super::format::{BY_CONTEXT, FORMATS, OUTPUTS, PayloadFormat};
use super::intake::{Intake, IntakeSettings};
use crate::queue_memory::QueueMemory;

/// The leap seconds between GPS and UTC since 2017.
const LEAP_SECONDS: i64 = 18;
/// The turns between two updates of the read-only properties.
const STATUS_TURNS: u32 = 64;
/// The most stream ids that `ids` lists: a text of a read-only property has at most 4096 bytes.
const IDS_MAX: usize = 256;
/// The time between two questions to the system for dropped datagrams.
const QUEUE_INTERVAL: Duration = Duration::from_millis(100);

/// The counts that are read-only properties, and their summaries.
const COUNTS: [(&str, &str); 10] = [
    ("refused", "datagrams left out: no packets, or of a format that cannot be carried"),
    ("waiting", "datagrams left out before a context with their format"),
    ("late", "datagrams left out that came twice, or behind the gap that counts them"),
    ("others", "packets of other streams, senders and kinds"),
    ("streams", "stream ids so far; 1024: or more"),
    ("dropped", "datagrams that this system dropped, because the component was late"),
    ("restarts", "places where an unknown number of samples is missing"),
    ("inexact", "gaps that may be longer by a multiple of 16 packets: there are no stamps"),
    ("over_range", "packets with samples beyond the range"),
    ("detected", "packets with a detected signal"),
];

/// The component `vita49-source`.
pub struct Vita49Source {
    properties: Properties,
    address: Address,
    socket: UdpSocket,
}

impl Component for Vita49Source {
    fn describe() -> ComponentSpec {
        let summary = "Receives signal data of VITA 49.2 or DIFI over UDP, with exact gaps and descriptions.";
        let hertz = |name, summary| PropertySpec::float(name, 0.0, summary).range(0.0, 1e12).unit("Hz");
        let stream = "stream id to take, as 0x1234; -1: the first that arrives";
        let samples = "format of payloads until a context has one; context: wait for it";
        let output = "type sent: the smallest with all values of the payload, or floats";
        let spec = ComponentSpec::new("vita49-source", summary)
            .sample_rate(RateRule::property("sample_rate").or_none())
            .output("out", PortTypes::Property("output".into()), "the samples");
        let spec = address::properties("where this side receives, as a member of a multicast group")
            .into_iter()
            .fold(spec, ComponentSpec::property)
            .property(PropertySpec::integer("stream", -1, -1, i64::from(u32::MAX), stream))
            .property(PropertySpec::choice("samples", &FORMATS, BY_CONTEXT, samples))
            .property(PropertySpec::choice("output", &OUTPUTS, OUTPUTS[0], output))
            .property(hertz("sample_rate", "sample rate until a context has one; 0: unknown"))
            .property(hertz("frequency", "centre frequency until a context has one; 0: unknown"))
            .property(
                PropertySpec::integer(
                    "leap_seconds",
                    LEAP_SECONDS,
                    0,
                    255,
                    "seconds that GPS is ahead of UTC",
                )
                .unit("s"),
            );
        let count = |(name, summary)| PropertySpec::integer(name, 0, 0, i64::MAX, summary).read_only();
        let ids = format!("stream ids so far, as 0x00001234; of more than {IDS_MAX}, the smallest");
        let spec = spec.property(PropertySpec::text("ids", "", &ids).read_only());
        COUNTS.into_iter().map(count).fold(spec, ComponentSpec::property).validated(|p| check(p).map(drop))
    }

    fn new(properties: &Properties) -> Result<Self> {
        let address = check(properties)?;
        let socket = address.receiver()?;
        Ok(Self { properties: properties.clone(), address, socket })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let Self { properties, address, socket } = self;
        let statuses = COUNTS.map(|(name, _)| ports.status::<u64>(name));
        let statuses = statuses.into_iter().collect::<Result<Vec<Status<u64>>>>()?;
        let ids = ports.status::<String>("ids")?;
        let positive = |name| Some(properties.float(name)).filter(|value| *value > 0.0);
        let mut intake = Intake::new(IntakeSettings {
            id: ports.component().into(),
            address: address.to_string(),
            output: scalar(&properties)?,
            format: PayloadFormat::named(properties.text("samples")),
            stream: u32::try_from(properties.integer("stream")).ok(),
            leap_seconds: properties.integer("leap_seconds"),
            sample_rate_hz: positive("sample_rate"),
            frequency_hz: positive("frequency"),
        });
        let mut batch = Batch::new();
        let stop = ports.stop_signal();
        let mut output = ports.output::<Dynamic>("out")?;
        let (mut turns, mut dropped, mut seen, mut listed) = (0_u32, 0, 0, 0);
        let mut asked = Instant::now();
        let mut update = |intake: &Intake, asks_system: bool| {
            if (asks_system || asked.elapsed() > QUEUE_INTERVAL)
                && let Ok(memory) = QueueMemory::of(&socket)
            {
                dropped += u64::from(memory.dropped.wrapping_sub(seen));
                (seen, asked) = (memory.dropped, Instant::now());
            }
            let counts = &intake.counts;
            let streams = intake.ids.len() as u64;
            if streams != listed {
                ids.set(intake.list_of_ids(IDS_MAX));
                listed = streams;
            }
            let values = [
                counts.refused(),
                counts.waiting,
                counts.late,
                counts.others,
                streams,
                dropped,
                counts.restarts,
                counts.inexact,
                counts.over_range,
                counts.detected,
            ];
            statuses.iter().zip(values).for_each(|(status, value)| status.set(value));
        };
        let ended = loop {
            if stop.is_stopped() {
                break Error::Stopped;
            }
            let before = intake.counts.samples;
            match intake.turn(&socket, &mut batch, &mut output, false) {
                Ok(true) => {}
                Ok(false) => update(&intake, false),
                Err(error) => break error,
            }
            intake.note_time(before);
            turns = turns.wrapping_add(1);
            if turns % STATUS_TURNS == 0 {
                update(&intake, false);
            }
        };
        if matches!(ended, Error::Stopped) {
            take_rest(&mut intake, &socket, &mut batch, &mut output);
        }
        update(&intake, true);
        ports.files().report(intake.report());
        Err(ended)
    }
}

/// Sends, or counts as missing, at least all datagrams that have arrived so far.
fn take_rest(
    intake: &mut Intake,
    socket: &UdpSocket,
    batch: &mut Batch,
    output: &mut stripline::Output<Dynamic>,
) {
    let Ok(memory) = QueueMemory::of(socket) else { return };
    for _ in 0..=memory.datagrams_max as usize / BATCH_MAX {
        if !matches!(intake.turn(socket, batch, output, true), Ok(true) | Err(Error::Stopped)) {
            break;
        }
    }
}

/// Checks the properties.
fn check(properties: &Properties) -> Result<Address> {
    let output = scalar(properties)?;
    if let Some(format) = PayloadFormat::named(properties.text("samples")).filter(|f| !f.can_become(output)) {
        let natural = format.natural().map_or(String::new(), |natural| natural.to_string());
        let invalid = InvalidProperties::new(format!("samples of {format} cannot be sent as {output}"));
        return Err(invalid.property("output").remedy(format!("set `output` to \"{natural}\"")).into());
    }
    Address::new(properties)
}

/// Returns the type of the output.
fn scalar(properties: &Properties) -> Result<Scalar> {
    let invalid = || InvalidProperties::new("`output` is not a type of samples").property("output");
    Scalar::parse(properties.text("output")).ok_or_else(|| invalid().into())
}

#[cfg(test)]
#[path = "source_tests.rs"]
mod tests;
