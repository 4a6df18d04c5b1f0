//! `dds-sink`: samples to DDS applications, through a topic of Stripline's IDL.

use std::time::{Duration, Instant};

use stripline::component::{Component, ComponentSpec, OrderRule, PortTypes, Ports, Properties, PropertySpec};
use stripline::payload::{Dynamic, SampleType, TypeName};
use stripline::{Error, Packet, Result};
use stripline_middleware::internal::{DdsSampleInfo, DdsSampleWriter};

use super::{dds, stream_order};

/// The time for the last samples to arrive.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum number of sample bytes in a message.
const MESSAGE_BYTES: usize = 1 << 20;

/// The component `dds-sink`.
pub struct DdsSink {
    properties: Properties,
}

impl Component for DdsSink {
    fn describe() -> ComponentSpec {
        let spec = ComponentSpec::new("dds-sink", "Sends samples to DDS applications by a topic.")
            .input("in", PortTypes::OneOf(dds::type_names()), "samples for the applications")
            .sample_order(OrderRule { takes_channels: false, ..OrderRule::default() })
            .property(PropertySpec::integer(
                "readers",
                0,
                0,
                1000,
                "readers that are waited for before the first message",
            ));
        let spec = dds::properties().into_iter().fold(spec, ComponentSpec::property);
        spec.validated(dds::check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        dds::check(properties)?;
        Ok(Self { properties: properties.clone() })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let topic = self.properties.text("topic");
        let samples = SampleType::parse(ports.payload("in").map_or("cf32", TypeName::as_str))?;
        let Some(kind) = dds::type_of(samples.name().as_str()) else {
            return Err(Error::failed(format!("there is no type of a topic for {}", samples.name())));
        };
        let terms = dds::terms(&self.properties);
        let writer = DdsSampleWriter::new(&dds::place(&self.properties), kind, topic, terms)?;
        let stop = ports.stop_signal();
        let mut input = ports.input::<Dynamic>(("in", &samples))?;
        let readers = self.properties.count("readers") as usize;
        let mut search = Instant::now() + Duration::from_secs(1);
        while writer.readers() < readers {
            if stop.is_stopped() {
                return Err(Error::Stopped);
            }
            if Instant::now() > search {
                search = Instant::now() + Duration::from_secs(1);
                if let Some(other) = writer.other_type() {
                    return Err(Error::PeerMisbehaved {
                        peer: topic.into(),
                        violation: format!(
                            "it is read with the type {other}, and the samples are {}",
                            samples.name()
                        ),
                    });
                }
            }
            std::thread::sleep(dds::STOP_CHECK);
        }
        let most = MESSAGE_BYTES / samples.size() * samples.size();
        while let Some(packet) = input.receive()? {
            stream_order::check_one_channel(packet.stream(), "the type of the topic")?;
            let mut info = info_of(&packet);
            for part in packet.chunks(most) {
                while !writer.write(info, part)? {
                    if stop.is_stopped() {
                        return Err(Error::Stopped);
                    }
                }
                // The time of the packet does not hold for later parts.
                info.sample_index += (part.len() / samples.size()) as u64;
                info.time_ns = 0;
            }
        }
        if !writer.finish(PATIENCE) {
            log::warn!(target: "stripline::dds", "{topic}: not all readers have the last samples");
        }
        Ok(())
    }
}

/// Returns the information that precedes the samples of a packet.
fn info_of(packet: &Packet<'_, Dynamic>) -> DdsSampleInfo {
    let stream = packet.stream();
    DdsSampleInfo {
        sample_index: packet.sample_index(),
        time_ns: u64::try_from(packet.time_ns()).unwrap_or(0),
        rate_hz: stream.sample_rate_hz.unwrap_or(0.0),
        frequency_hz: stream.center_frequency_hz.unwrap_or(0.0),
    }
}
