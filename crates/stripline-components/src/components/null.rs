//! `null-source` and `null-sink`: ends for a waveform that tests other parts.

use stripline::component::kit::{Pace, PacedSource};
use stripline::component::{
    Component, ComponentSpec, Direction, OrderRule, PortSpec, PortTypes, Ports, Properties, PropertySpec,
    RateRule,
};
use stripline::payload::builtin;
use stripline::{Error, Result, StreamInfo};

/// The component `null-source`.
pub struct NullSource {
    sample_bytes: usize,
    packet: usize,
    packets: u64,
    rate: f64,
    sample_rate: Option<f64>,
}

impl Component for NullSource {
    fn describe() -> ComponentSpec {
        let types = ["cf32", "cs16", "cs8", "cu8", "f32", "s16", "u8"];
        ComponentSpec::new("null-source", "Sends zeros.")
            .output("out", PortTypes::Property("output".into()), "zeros")
            .property(PropertySpec::choice("output", &types, types[0], "type of the samples"))
            .property(PropertySpec::integer("packets", 0, 0, i64::MAX, "packets to send; 0: no end"))
            .property(
                PropertySpec::float("sample_rate", 0.0, "sample rate of the stream; 0: none")
                    .range(0.0, 1e12)
                    .unit("Hz"),
            )
            .sample_rate(RateRule::property("sample_rate").or_none())
            .sample_order(OrderRule { one_channel: true, ..OrderRule::default() })
            .property(PacedSource::rate_property())
            .property(PacedSource::packet_property(4096))
    }

    fn new(properties: &Properties) -> Result<Self> {
        let name = properties.text("output");
        let (sample_bytes, _) = builtin(name)
            .ok_or_else(|| Error::failed(format!("`{name}` has no zeros: choose another `output`")))?;
        Ok(Self {
            sample_bytes,
            packet: usize::try_from(properties.count("packet")).unwrap_or(usize::MAX),
            packets: properties.count("packets"),
            rate: properties.float("rate"),
            sample_rate: Some(properties.float("sample_rate")).filter(|rate| *rate > 0.0),
        })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut pace = Pace::new(ports.stop_signal(), self.rate);
        let mut output = ports.raw_output("out")?;
        output.set_stream(StreamInfo {
            sample_rate_hz: self.sample_rate,
            ..StreamInfo::new(ports.component())
        });
        let mut sent = 0;
        let mut packets = 0;
        while self.packets == 0 || packets < self.packets {
            let mut zeros = output.loan(self.packet.saturating_mul(self.sample_bytes))?;
            zeros.fill(0);
            let due_ns = pace.wait_for(sent + self.packet as u64)?;
            zeros.at_sample(sent).intended_ns(due_ns).send()?;
            sent += self.packet as u64;
            packets += 1;
        }
        Ok(())
    }
}

/// The component `null-sink`.
pub struct NullSink;

impl Component for NullSink {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("null-sink", "Takes anything and does nothing with it.")
            .port(
                PortSpec::new("in", Direction::Input, PortTypes::Any, "anything, of any number of senders")
                    .many_writers(),
            )
            .property(PropertySpec::integer("packets", 0, 0, i64::MAX, "packets taken so far").read_only())
    }

    fn new(_: &Properties) -> Result<Self> {
        Ok(Self)
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let packets = ports.status::<u64>("packets")?;
        let mut input = ports.raw_input("in")?;
        let mut count = 0u64;
        while input.receive()?.is_some() {
            count += 1;
            packets.set(count);
        }
        Ok(())
    }
}
