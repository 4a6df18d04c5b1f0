//! `dds-source` and `dds-sink`: samples of DDS applications, through a topic of Stripline's IDL.

use std::time::{Duration, Instant};

use stripline::component::{ComponentSpec, Properties, PropertySpec, StopSignal};
use stripline::payload::Dynamic;
use stripline::{Error, Packet, Result, StreamInfo};
use stripline_dds_sys::Terms;

use super::ends::DdsPlace;
use super::samples::{SamplesEnd, WRITE_TIME};
use super::security::{DdsEnclave, has_security};
use crate::components::ends::{Setup, Wire, WireOutput, WireReceiver, WireSender, source};
use crate::components::properties::{STOP_CHECK, hertz, one_of, place, refusal, samples, text};
use crate::wire::dds::{DdsSampleInfo, DdsSampleMessage, DdsSampleType};

/// The types of samples, each with a type in the IDL.
const TYPES: [&str; 5] = ["cf32", "f32", "cs16", "s16", "u8"];
/// The period of the search for ends of another type.
const SEARCH_PERIOD: Duration = Duration::from_secs(1);
/// The time for the last samples to arrive.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The maximum number of sample bytes in a message.
const MESSAGE_BYTES: usize = 1 << 20;
/// The choices of `durability`.
const VOLATILE: &str = "volatile";
const TRANSIENT_LOCAL: &str = "transient-local";

/// Topics of samples.
pub(crate) struct TypedTopics;

impl Wire for TypedTopics {
    type Receiver = TopicReader;
    type Sender = TopicWriter;

    const ONE_CHANNEL: Option<&'static str> = Some("the type of the topic");

    fn source() -> ComponentSpec {
        let summary = "Receives the samples of a DDS application by a topic.";
        source("dds-source", summary, "the application's samples")
            .property(samples(&TYPES, "type of the samples, and of the topic"))
            .property(hertz("sample_rate", "where messages have none; 0: unknown"))
    }

    fn sink() -> ComponentSpec {
        let readers = "readers that are waited for before the first message";
        ComponentSpec::new("dds-sink", "Sends samples to DDS applications by a topic.")
            .input("in", one_of(&TYPES), "samples for the applications")
            .property(PropertySpec::integer("readers", 0, 0, 1000, readers))
    }

    fn properties(_is_sink: bool) -> Vec<PropertySpec> {
        let peers = "addresses where others are searched for, with commas; empty: by multicast";
        let reliable = "whether every message arrives, and a writer waits for its readers";
        let late = "transient-local: a reader also gets the messages from before it came";
        let depth = "messages kept for late readers, and waiting in a reader";
        let deadline = "longest time between two messages, offered or asked for; 0: any";
        let security = "folder with the files of DDS Security, as an enclave of ROS 2 has them; empty: none";
        vec![
            place("topic", "name of the topic", "samples"),
            PropertySpec::integer("domain", 0, 0, 232, "number of the DDS domain"),
            PropertySpec::text("interface", "lo", "network interface; `lo` stays on this host"),
            text("peers", peers),
            PropertySpec::boolean("reliable", true, reliable),
            PropertySpec::choice("durability", &[VOLATILE, TRANSIENT_LOCAL], VOLATILE, late),
            PropertySpec::integer("depth", 64, 1, 65_536, depth),
            PropertySpec::float("deadline", 0.0, deadline).range(0.0, 86_400.0).unit("s"),
            text("security", security),
        ]
    }

    fn check(properties: &Properties) -> Result<()> {
        let topic = properties.text("topic");
        let is_name = topic.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_/".contains(&byte));
        if !is_name {
            let problem = format!("`{topic}` is not a valid topic name");
            return Err(refusal(
                "topic",
                problem,
                "begin it with a letter, and use letters, digits, `_` and `/`",
            ));
        }
        let place = place_of(properties);
        if let Err(problem) = place.check() {
            let remedy = "use the name of an interface, and addresses as 192.0.2.7";
            return Err(refusal("interface", problem, remedy));
        }
        if place.stays() && !place.peers.is_empty() {
            let problem = "`peers` are set, and `lo` reaches none";
            return Err(refusal("peers", problem, "set `interface`, or no `peers`"));
        }
        if place.security.is_some() && !has_security() {
            let problem = "DDS Security is asked for, and this Cyclone DDS has no plugins for it";
            let remedy = "install one that has libdds_security_auth.so (Debian: libddsc0debian)";
            return Err(refusal("security", problem, remedy));
        }
        if !place.stays() && place.security.is_none() && !properties.boolean("insecure") {
            let problem =
                format!("`{}` leaves this host, and nothing is authenticated or encrypted", place.interface);
            let remedy = "use lo, name the files of DDS Security in `security`, or set `insecure` to true";
            return Err(refusal("interface", problem, remedy));
        }
        Ok(())
    }
}

/// Returns the place of the topic.
fn place_of(properties: &Properties) -> DdsPlace {
    let peers = properties.text("peers").split(',').map(str::trim).filter(|peer| !peer.is_empty());
    DdsPlace {
        domain: u32::try_from(properties.count("domain")).unwrap_or(u32::MAX),
        interface: properties.text("interface").into(),
        peers: peers.map(String::from).collect(),
        security: Some(properties.text("security"))
            .filter(|folder| !folder.is_empty())
            .map(|folder| DdsEnclave::new(folder.as_ref())),
    }
}

/// Opens an end of the topic.
fn open(setup: &Setup<'_>, is_reader: bool) -> Result<(SamplesEnd, DdsSampleType)> {
    let (properties, name) = (setup.properties, setup.payload);
    let kind = DdsSampleType::of_samples(name.as_str())
        .ok_or_else(|| Error::Configuration(format!("there is no type of a topic for {name}")))?;
    let terms = Terms {
        is_transient_local: (properties.text("durability") == TRANSIENT_LOCAL).into(),
        is_reliable: properties.boolean("reliable").into(),
        depth: u32::try_from(properties.count("depth")).unwrap_or(u32::MAX),
        deadline_ns: (properties.float("deadline") * 1e9) as i64,
        write_ns: WRITE_TIME.as_nanos() as i64,
    };
    let end = SamplesEnd::new(&place_of(properties), (kind, properties.text("topic")), &terms, is_reader)?;
    Ok((end, kind))
}

/// Returns the error for other programs that do not keep the type of the topic.
fn misbehaves(topic: &str, violation: String) -> Error {
    Error::PeerMisbehaved { peer: topic.into(), violation }
}

/// A search for ends of another type, once in a period.
struct TypeSearch(Instant);

impl TypeSearch {
    fn new() -> Self {
        Self(Instant::now() + SEARCH_PERIOD)
    }

    fn is_due(&mut self) -> bool {
        let is_due = Instant::now() > self.0;
        if is_due {
            *self = Self::new();
        }
        is_due
    }
}

/// The reader of a source.
pub(crate) struct TopicReader {
    reader: SamplesEnd,
    kind: DdsSampleType,
    topic: String,
    component: String,
    /// The rate and the frequency of the last message.
    described: Option<[Option<f64>; 2]>,
    /// The search, until the first message.
    search: Option<TypeSearch>,
}

impl WireReceiver for TopicReader {
    fn open(setup: &Setup<'_>) -> Result<Self> {
        let (reader, kind) = open(setup, true)?;
        Ok(Self {
            reader,
            kind,
            topic: setup.properties.text("topic").into(),
            component: setup.ports.component().into(),
            described: None,
            search: Some(TypeSearch::new()),
        })
    }

    fn receive(&mut self, output: &mut WireOutput) -> Result<bool> {
        let Self { reader, kind, topic, component, described, search } = self;
        let received = reader.receive(STOP_CHECK, |bytes| {
            let message = DdsSampleMessage::parse(*kind, bytes).map_err(|fault| misbehaves(topic, fault))?;
            let DdsSampleInfo { sample_index, time_ns, rate_hz, frequency_hz } = message.info;
            let number = |value: f64| Some(value).filter(|value| value.is_finite() && *value > 0.0);
            let [sample_rate_hz, center_frequency_hz] = [rate_hz, frequency_hz].map(number);
            if described.replace([sample_rate_hz, center_frequency_hz])
                != Some([sample_rate_hz, center_frequency_hz])
            {
                let stream = StreamInfo::new(component.as_str());
                output.describe(StreamInfo { sample_rate_hz, center_frequency_hz, ..stream });
            }
            let time_ns = i64::try_from(time_ns).ok().filter(|time_ns| *time_ns > 0);
            output.send(message.samples, Some(sample_index), time_ns)
        });
        if let Some(sent) = received {
            *search = None;
            return sent.map(|()| true);
        }
        let is_due = search.as_mut().is_some_and(TypeSearch::is_due);
        match is_due.then(|| reader.other_type()).flatten() {
            Some(other) => Err(misbehaves(
                topic,
                format!("it is written with the type {other}; `samples` must be the type of the writer"),
            )),
            None => Ok(true),
        }
    }
}

/// The writer of a sink.
pub(crate) struct TopicWriter {
    writer: SamplesEnd,
    sample_bytes: usize,
    topic: String,
    stop: StopSignal,
}

impl WireSender for TopicWriter {
    fn open(setup: &Setup<'_>) -> Result<Self> {
        let Setup { properties, payload, sample_bytes, ports } = *setup;
        let (writer, _) = open(setup, false)?;
        let (topic, stop) = (properties.text("topic"), ports.stop_signal());
        let readers = properties.count("readers") as usize;
        let mut search = TypeSearch::new();
        while writer.readers() < readers {
            stop.sleep(STOP_CHECK)?;
            if search.is_due()
                && let Some(other) = writer.other_type()
            {
                let violation = format!("it is read with the type {other}, and the samples are {payload}");
                return Err(misbehaves(topic, violation));
            }
        }
        Ok(Self { writer, sample_bytes, topic: topic.into(), stop })
    }

    fn send(&mut self, packet: Packet<'_, Dynamic>) -> Result<()> {
        let stream = packet.stream();
        let mut info = DdsSampleInfo {
            sample_index: packet.sample_index(),
            time_ns: u64::try_from(packet.time_ns()).unwrap_or(0),
            rate_hz: stream.sample_rate_hz.unwrap_or(0.0),
            frequency_hz: stream.center_frequency_hz.unwrap_or(0.0),
        };
        for part in packet.chunks(MESSAGE_BYTES / self.sample_bytes * self.sample_bytes) {
            while !self.writer.write(info, part)? {
                if self.stop.is_stopped() {
                    return Err(Error::Stopped);
                }
            }
            // The time of the packet does not hold for later parts.
            info.sample_index += (part.len() / self.sample_bytes) as u64;
            info.time_ns = 0;
        }
        Ok(())
    }

    fn finish(self) -> Result<()> {
        if !self.writer.finish(TIMEOUT) {
            log::warn!(target: "stripline::dds", "{}: not all readers have the last samples", self.topic);
        }
        Ok(())
    }
}
