//! A mixer: shifts complex samples in frequency.

use std::f64::consts::TAU;

use stripline::component::kit::sample_rate;
use stripline::prelude::*;

/// The component, with the values of its properties.
pub struct Mixer {
    shift_hz: f64,
}

impl Component for Mixer {
    fn describe() -> ComponentSpec {
        let shift = PropertySpec::float("shift", 1000.0, "how far the spectrum moves up").range(-1e9, 1e9);
        ComponentSpec::new("mixer", "Shifts complex samples in frequency.")
            .input("in", PortTypes::of::<Complex<f32>>(), "samples, with a sample rate")
            .output("out", PortTypes::of::<Complex<f32>>(), "shifted samples")
            .property(shift.unit("Hz").changeable())
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { shift_hz: properties.float("shift") })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        let requests = ports.requests();
        mix(ports.input("in")?, ports.output("out")?, || {
            requests.apply_changes(|new| {
                self.shift_hz = new.float("shift");
                Ok(())
            });
            self.shift_hz
        })
    }
}

/// Multiplies the samples by a rotating phase. `shift_hz` returns the shift that is in effect.
fn mix(
    mut input: Input<Complex<f32>>,
    mut output: Output<Complex<f32>>,
    mut shift_hz: impl FnMut() -> f64,
) -> Result<()> {
    // In turns, 0 to 1: the phase goes on where the last packet ended.
    let mut phase = 0.0_f64;
    // The function also runs while no packet arrives: a change does not wait for samples.
    while let Some(packet) = input.receive_with(|| {
        shift_hz();
    })? {
        let step = shift_hz() / sample_rate(0.0, packet.stream())?;
        let mut out = output.loan(packet.len())?;
        for (y, x) in out.iter_mut().zip(&*packet) {
            *y = x * Complex::cis((TAU * phase) as f32);
            phase = (phase + step).rem_euclid(1.0);
        }
        // The same stream, sample index and time.
        out.send_like(&packet)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use stripline::component::harness::Harness;

    use super::*;

    #[test]
    fn a_constant_becomes_a_tone() {
        let mut run = Harness::of::<Mixer>().property("shift", 1e3).start().unwrap();
        let mut source = run.input::<Complex<f32>>("in").unwrap();
        let mut sink = run.output::<Complex<f32>>("out").unwrap();
        source.set_stream(StreamInfo::new("test").sample_rate_hz(4e3));
        let one = Complex::new(1.0, 0.0);
        // The phase goes on from one packet into the next.
        source.send(&[one; 3]).unwrap();
        source.send(&[one; 2]).unwrap();
        source.finish().unwrap();
        // Fails after a minute if the component hangs.
        run.finish().unwrap();
        let mut samples = Vec::new();
        while let Some(packet) = sink.receive().unwrap() {
            samples.extend_from_slice(&packet);
        }
        let quarter_turns = [(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0), (1.0, 0.0)];
        assert_eq!(samples.len(), quarter_turns.len());
        for (sample, (re, im)) in samples.iter().zip(quarter_turns) {
            assert!((sample - Complex::new(re, im)).norm() < 1e-6, "{samples:?}");
        }
    }

    #[test]
    fn the_defaults_are_valid() {
        let properties = Properties::defaults(&Mixer::describe()).unwrap();
        assert_eq!(Mixer::new(&properties).unwrap().shift_hz, 1000.0);
    }
}
