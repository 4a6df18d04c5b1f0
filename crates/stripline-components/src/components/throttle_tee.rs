//! `throttle` and `tee`: components for packets of any type.

use stripline::component::kit::Pace;
use stripline::component::{
    Component, ComponentSpec, Direction, PortSpec, PortTypes, Ports, Properties, PropertySpec, RateRule,
};
use stripline::payload::Dynamic;
use stripline::{Output, Result};

/// The number of outputs of a `tee`.
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
        let mut input = ports.input::<Dynamic>("in")?;
        let mut output = ports.output::<Dynamic>("out")?;
        let mut schedule = Schedule::default();
        while let Some(packet) = input.receive_with(|| {
            live.apply_changes(|new| {
                // The next packet is due at once, and later packets follow at the new rate.
                pace = Pace::new(stop.clone(), new.float("rate"));
                schedule = Schedule::default();
                Ok(())
            });
        })? {
            let due = schedule.due(packet.sample_index(), packet.gap().is_some());
            let due_ns = pace.wait_for(due)?;
            output.loan_copy_of(&packet)?.intended_ns(due_ns).send_like(&packet)?;
        }
        Ok(())
    }
}

/// The times at which packets are due, in samples since the first packet. A packet is due at the
/// time of its first sample, for any sample type. Missing samples take no time.
#[derive(Default)]
struct Schedule {
    /// The sample index and the due time of the previous packet, and the number of samples between
    /// the last two consecutive packets.
    last: Option<(u64, u64, u64)>,
}

impl Schedule {
    fn due(&mut self, index: u64, is_behind_gap: bool) -> u64 {
        let (due, samples) = match self.last {
            None => (0, 0),
            Some((last, due, _)) if index >= last && !is_behind_gap => (due + (index - last), index - last),
            // Wait until the packet before has had its time. Packets are missing because this
            // component is slower than the sender, so the packet must not be sent at once.
            Some((_, due, samples)) => (due + samples, samples),
        };
        self.last = Some((index, due, samples));
        due
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
        let mut input = ports.input::<Dynamic>("in")?;
        let names = (1..=TEE_OUTPUTS).map(|number| format!("out{number}"));
        let connected: Vec<String> = names.filter(|name| ports.is_connected(name)).collect();
        let mut outputs = connected
            .iter()
            .map(|name| ports.output::<Dynamic>(name))
            .collect::<Result<Vec<Output<Dynamic>>>>()?;
        while let Some(packet) = input.receive()? {
            for output in &mut outputs {
                output.loan_copy_of(&packet)?.send_like(&packet)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_samples_take_no_time_and_save_none() {
        let mut schedule = Schedule::default();
        let packets =
            [(40, false), (50, false), (60, false), (100, true), (110, true), (120, false), (0, false)];
        let due = packets.map(|(index, is_behind_gap)| schedule.due(index, is_behind_gap));
        assert_eq!(due, [0, 10, 20, 30, 40, 50, 60]);
    }
}
