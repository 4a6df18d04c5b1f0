//! `zenoh-sink`: packets as publications, for any zenoh program.

use stripline::component::{Component, ComponentSpec, OrderRule, PortTypes, Ports, Properties, PropertySpec};
use stripline::payload::{Dynamic, SampleType, TypeName};
use stripline::{Error, Result};
use zenoh::Wait;
use zenoh::qos::CongestionControl;

use super::{stream_order, zenoh_ends};

/// The component `zenoh-sink`.
pub struct ZenohSink {
    properties: Properties,
}

impl Component for ZenohSink {
    fn describe() -> ComponentSpec {
        let spec =
            ComponentSpec::new("zenoh-sink", "Publishes packets over zenoh: each is a payload, as it is.")
                .input("in", PortTypes::Any, "samples to publish; no messages")
                .sample_order(OrderRule { takes_channels: false, ..OrderRule::default() })
                .property(PropertySpec::choice(
                    "congestion",
                    &["block", "drop"],
                    "block",
                    "what zenoh does when a subscriber is behind; what it drops is not counted",
                ));
        let spec = zenoh_ends::properties().into_iter().fold(spec, ComponentSpec::property);
        spec.validated(zenoh_ends::check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        zenoh_ends::check(properties)?;
        Ok(Self { properties: properties.clone() })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let session = zenoh_ends::open(&self.properties)?;
        let congestion = match self.properties.text("congestion") {
            "drop" => CongestionControl::Drop,
            _ => CongestionControl::Block,
        };
        let key = self.properties.text("key").to_owned();
        let publisher = session.declare_publisher(key.clone()).congestion_control(congestion).wait();
        let publisher = publisher.map_err(|e| Error::failed(format!("cannot publish {key}: {e}")))?;
        let samples = SampleType::parse(ports.payload("in").map_or("cf32", TypeName::as_str))?;
        let mut input = ports.input::<Dynamic>(("in", &samples))?;
        while let Some(packet) = input.receive()? {
            stream_order::check_one_channel(packet.stream(), "a publication")?;
            publisher
                .put(&packet[..])
                .wait()
                .map_err(|e| Error::failed(format!("cannot publish {key}: {e}")))?;
        }
        Ok(())
    }
}
