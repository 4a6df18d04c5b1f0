//! `dds-source`: samples from a DDS application, through a topic of Stripline's IDL.

use std::time::{Duration, Instant};

use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec, RateRule};
use stripline::node::Publisher;
use stripline::payload::{Dynamic, SampleType};
use stripline::{Error, Result, StreamInfo};
use stripline_middleware::internal::{DdsSampleInfo, DdsSampleMessage, DdsSampleReader};

use super::dds;

/// The period of the search for writers of another type while no message arrives.
const SEARCH_PERIOD: Duration = Duration::from_secs(1);

/// The component `dds-source`.
pub struct DdsSource {
    properties: Properties,
}

impl Component for DdsSource {
    fn describe() -> ComponentSpec {
        let spec = ComponentSpec::new("dds-source", "Receives the samples of a DDS application by a topic.")
            .sample_rate(RateRule::property("sample_rate"))
            .output("out", PortTypes::Property("samples".into()), "the application's samples")
            .property(PropertySpec::choice(
                "samples",
                &dds::TYPES,
                "cf32",
                "type of the samples, and of the topic",
            ))
            .property(
                PropertySpec::float("sample_rate", 0.0, "where messages have none; 0: unknown")
                    .range(0.0, 1e12)
                    .unit("Hz"),
            );
        let spec = dds::properties().into_iter().fold(spec, ComponentSpec::property);
        spec.validated(dds::check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        dds::check(properties)?;
        Ok(Self { properties: properties.clone() })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let (topic, samples) = (self.properties.text("topic"), self.properties.text("samples"));
        let Some(kind) = dds::type_of(samples) else {
            return Err(Error::failed(format!("there is no type of a topic for {samples}")));
        };
        let terms = dds::terms(&self.properties);
        let reader = DdsSampleReader::new(&dds::place(&self.properties), kind, topic, terms)?;
        let stop = ports.stop_signal();
        let samples = SampleType::parse(samples)?;
        let known = Some(self.properties.float("sample_rate")).filter(|rate| *rate > 0.0);
        let stream = StreamInfo { sample_rate_hz: known, ..StreamInfo::new(ports.component()) };
        let output = ports.output::<Dynamic>(("out", &samples))?;
        let mut source =
            TopicSource { output, stream, known, is_described: false, sample_bytes: samples.size() };
        let misbehaves = |violation: String| Error::PeerMisbehaved { peer: topic.into(), violation };
        let mut has_come = false;
        let mut search = Instant::now() + SEARCH_PERIOD;
        while !stop.is_stopped() {
            let received = reader.receive(dds::STOP_CHECK, |bytes| {
                let message = DdsSampleMessage::parse(kind, bytes).map_err(misbehaves)?;
                source.send(&message)
            });
            match received {
                Some(sent) => {
                    sent?;
                    has_come = true;
                }
                None if !has_come && Instant::now() > search => {
                    search = Instant::now() + SEARCH_PERIOD;
                    if let Some(other) = reader.other_type() {
                        return Err(misbehaves(format!(
                            "it is written with the type {other}; `samples` must be that of its writer"
                        )));
                    }
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// The output, and the description of the stream.
struct TopicSource {
    output: Publisher<Dynamic>,
    stream: StreamInfo,
    /// The rate for messages without one.
    known: Option<f64>,
    is_described: bool,
    sample_bytes: usize,
}

impl TopicSource {
    /// Sends a message as a packet.
    fn send(&mut self, message: &DdsSampleMessage<'_>) -> Result<()> {
        let DdsSampleInfo { sample_index, time_ns, rate_hz, frequency_hz } = message.info;
        let number = |value: f64| Some(value).filter(|value| value.is_finite() && *value > 0.0);
        let (rate, frequency) = (number(rate_hz).or(self.known), number(frequency_hz));
        if !self.is_described
            || rate != self.stream.sample_rate_hz
            || frequency != self.stream.center_frequency_hz
        {
            (self.stream.sample_rate_hz, self.stream.center_frequency_hz) = (rate, frequency);
            self.output.set_stream(self.stream.clone());
            self.is_described = true;
        }
        let samples = message.samples.len() / self.sample_bytes;
        if samples == 0 {
            return Ok(());
        }
        let mut loan = self.output.loan(samples)?;
        loan.copy_from_slice(message.samples);
        let loan = loan.at_sample(sample_index);
        match i64::try_from(time_ns) {
            Ok(time_ns) if time_ns > 0 => loan.at_time_ns(time_ns).send(),
            _ => loan.send(),
        }
    }
}
