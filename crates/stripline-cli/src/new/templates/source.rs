//! A source of pulses.

use stripline::component::kit::PacedSource;
use stripline::prelude::*;

/// The component, with the values of its properties.
pub struct Source {
    properties: Properties,
    pulses: Pulses,
}

impl Component for Source {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("source", "Sends pulses of 10 samples.")
            .output("out", PortTypes::of::<f32>(), "1 within a pulse, 0 between")
            .property(
                PropertySpec::integer("period", 1000, 10, 1 << 30, "from pulse to pulse").unit("samples"),
            )
            .property(PropertySpec::float("sample_rate", 48e3, "of the stream").range(1.0, 1e12).unit("Hz"))
            .property(PacedSource::duration_property(0.0, "length of the signal; 0: for ever"))
            .property(PacedSource::rate_property())
            .property(PacedSource::packet_property(480))
    }

    fn new(properties: &Properties) -> Result<Self> {
        let pulses = Pulses { period: properties.count("period"), next: 0 };
        Ok(Self { properties: properties.clone(), pulses })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        let sample_rate = self.properties.float("sample_rate");
        let mut output = ports.output::<f32>("out")?;
        output.set_stream(StreamInfo::new(ports.component()).sample_rate_hz(sample_rate));
        PacedSource::new(&ports, &self.properties, self.properties.float("rate"))
            .limited(self.properties.float("duration_s"), sample_rate)
            .run(output, |samples| {
                self.pulses.fill(samples);
                Ok(samples.len())
            })
    }
}

/// The signal.
struct Pulses {
    period: u64,
    /// The number of the next sample.
    next: u64,
}

impl Pulses {
    fn fill(&mut self, samples: &mut [f32]) {
        for sample in samples {
            *sample = if self.next % self.period < 10 { 1.0 } else { 0.0 };
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pulses_do_not_depend_on_packets() {
        let properties = Properties::defaults(&Source::describe()).unwrap();
        let mut pulses = Source::new(&properties).unwrap().pulses;
        let mut samples = vec![0.0; 3000];
        samples.chunks_mut(7).for_each(|packet| pulses.fill(packet));
        assert_eq!(samples.iter().sum::<f32>(), 30.0);
        assert_eq!((samples[1009], samples[1010]), (1.0, 0.0));
    }
}
