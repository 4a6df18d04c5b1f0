//! `throttle` and `tee`: components for packets of any type.

use stripline::component::kit::Pace;
use stripline::component::{
    Component, ComponentSpec, Direction, PortSpec, PortTypes, Ports, Properties, PropertySpec, RateRule,
};
use stripline::{Output, Result};

/// Number of outputs of a `tee`.
const TEE_OUTPUTS: usize = 4;

/// The component `throttle`.
pub struct Throttle {
    rate: f64,
}

impl Component for Throttle {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("throttle", "Passes packets on at a steady rate, as if they came from hardware.")
            .input("in", PortTypes::Any, "anything")
            .output("out", PortTypes::SameAs("in".into()), "the same, none before its time")
            .sample_rate(RateRule::input("in"))
            .property(
                PropertySpec::float("rate", 1e6, "rate of the samples")
                    .range(1e-6, 1e12)
                    .unit("samples/s")
                    .changeable(),
            )
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { rate: properties.float("rate") })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let (live, stop) = (ports.requests(), ports.stop_signal());
        let mut pace = Pace::new(stop.clone(), self.rate);
        let mut input = ports.raw_input("in")?;
        let mut output = ports.raw_output("out")?;
        let mut first = None;
        while let Some(packet) = input.receive_with(|| {
            live.apply_changes(|new| {
                // The next packet is due at once, and those after it at the new rate.
                pace = Pace::new(stop.clone(), new.float("rate"));
                first = None;
                Ok(())
            });
        })? {
            // A packet is due when its first sample is, which does not depend on the type. Missing
            // samples take no time.
            let index = packet.sample_index();
            let start = *first.get_or_insert(index);
            if packet.gap().is_some() || index < start {
                first = Some(index);
                pace.restart();
            }
            let due_ns = pace.wait_for(index.saturating_sub(first.unwrap_or(index)))?;
            let mut copy = output.loan(packet.len())?;
            copy.copy_from_slice(&packet);
            copy.intended_ns(due_ns).send_like(&packet)?;
        }
        Ok(())
    }
}

/// The component `tee`.
pub struct Tee;

impl Component for Tee {
    fn describe() -> ComponentSpec {
        let summary =
            "Copies packets to several outputs. One output can have several receivers without a tee.";
        let mut spec = ComponentSpec::new("tee", summary)
            .input("in", PortTypes::Any, "anything")
            .sample_rate(RateRule::input("in"));
        for number in 1..=TEE_OUTPUTS {
            let types = PortTypes::SameAs("in".into());
            let port = PortSpec::new(&format!("out{number}"), Direction::Output, types, "the same");
            spec = spec.port(if number == 1 { port } else { port.optional() });
        }
        spec
    }

    fn new(_: &Properties) -> Result<Self> {
        Ok(Self)
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut input = ports.raw_input("in")?;
        let names = (1..=TEE_OUTPUTS).map(|number| format!("out{number}"));
        let connected: Vec<String> = names.filter(|name| ports.is_connected(name)).collect();
        let mut outputs =
            connected.iter().map(|name| ports.raw_output(name)).collect::<Result<Vec<Output<u8>>>>()?;
        while let Some(packet) = input.receive()? {
            for output in &mut outputs {
                let mut copy = output.loan(packet.len())?;
                copy.copy_from_slice(&packet);
                copy.send_like(&packet)?;
            }
        }
        Ok(())
    }
}
