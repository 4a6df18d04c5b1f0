//! `null-source` and `null-sink`: the ends of a waveform that tests other parts.

use stripline::component::kit::{Pace, PacedSource};
use stripline::component::{
    Component, ComponentSpec, Direction, OrderRule, PortSpec, PortTypes, Ports, Properties, PropertySpec,
    RateRule,
};
use stripline::payload::Dynamic;
use stripline::{Result, StreamInfo};

/// The component `null-source`.
pub struct NullSource {
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
        Ok(Self {
            packet: usize::try_from(properties.count("packet")).unwrap_or(usize::MAX),
            packets: properties.count("packets"),
            rate: properties.float("rate"),
            sample_rate: Some(properties.float("sample_rate")).filter(|rate| *rate > 0.0),
        })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut pace = Pace::new(ports.stop_signal(), self.rate);
        let mut output = ports.output::<Dynamic>("out")?;
        output.set_stream(pace.described(StreamInfo {
            sample_rate_hz: self.sample_rate,
            ..StreamInfo::new(ports.component())
        }));
        let mut sent = 0;
        let mut packets = 0;
        while self.packets == 0 || packets < self.packets {
            let mut zeros = output.loan(self.packet)?;
            zeros.fill(0);
            let due_ns = pace.wait_for(sent + self.packet as u64)?;
            zeros.at_sample(sent).intended_ns(due_ns).at_time_ns(pace.time_ns(sent)).send()?;
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
        let mut input = ports.input::<Dynamic>("in")?;
        let mut count = 0u64;
        while input.receive()?.is_some() {
            count += 1;
            packets.set(count);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use stripline::component::harness::Harness;
    use stripline::payload::SampleType;
    use stripline::terms::{LinkOptions, Overflow};

    use super::*;

    #[test]
    fn a_loss_at_the_end_counts_samples_of_any_size() {
        let lost = |samples: &str| {
            let options = LinkOptions { depth: 1, overflow: Overflow::DropNewest, ..LinkOptions::default() };
            let source = Harness::of::<NullSource>().property("output", samples).options(options);
            let mut run = source.property("packets", 8).property("packet", 10).start().unwrap();
            let samples = SampleType::parse(samples).unwrap();
            let mut output = run.output::<Dynamic>(("out", &samples)).unwrap();
            run.wait_for_end(std::time::Duration::from_secs(60)).unwrap().expect("it ends");
            let mut count = 0;
            while let Some(packet) = output.receive().unwrap() {
                count += packet.samples() as u64 + packet.gap().map_or(0, |gap| gap.samples);
            }
            let at_end = output.gap_at_end().map_or(0, |gap| gap.samples);
            assert_eq!(count + at_end, 80);
            at_end
        };
        for samples in ["u8", "cs16", "cf32"] {
            // Nothing is lost if the output is taken after the source has ended.
            assert!((0..100).any(|_| lost(samples) > 0), "{samples}");
        }
    }
}
