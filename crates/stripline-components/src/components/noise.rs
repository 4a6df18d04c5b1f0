//! `awgn`: adds noise.

use num_complex::Complex;
use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec, RateRule};
use stripline::payload::TypeName;
use stripline::{Error, Result, Sample};

use crate::dsp;

/// The component `awgn`.
pub struct AwgnComponent {
    noise: dsp::Awgn,
}

impl Component for AwgnComponent {
    fn describe() -> ComponentSpec {
        let types = vec![TypeName::of::<Complex<f32>>(), TypeName::of::<f32>()];
        ComponentSpec::new("awgn", "Adds white Gaussian noise.")
            .input("in", PortTypes::OneOf(types), "samples")
            .output("out", PortTypes::SameAs("in".into()), "samples with noise")
            .sample_rate(RateRule::input("in"))
            .property(
                PropertySpec::float("power", -20.0, "power of the noise relative to a signal of power 1")
                    .range(-300.0, 300.0)
                    .unit("dB")
                    .changeable(),
            )
            .property(PropertySpec::integer("seed", 0, 0, i64::MAX, "start of the noise"))
    }

    fn new(properties: &Properties) -> Result<Self> {
        let noise = dsp::Awgn::new(sigma(properties), properties.count("seed")).map_err(Error::failed)?;
        Ok(Self { noise })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in").map_or("cf32", TypeName::as_str) {
            "f32" => self.run_as::<f32>(ports),
            _ => self.run_as::<Complex<f32>>(ports),
        }
    }
}

/// Returns the root mean square of the noise according to the properties.
fn sigma(properties: &Properties) -> f64 {
    10f64.powf(properties.float("power") / 20.0)
}

impl AwgnComponent {
    fn run_as<T: Sample + dsp::Sample>(mut self, mut ports: Ports) -> Result<()> {
        let live = ports.requests();
        let mut input = ports.input::<T>("in")?;
        let mut output = ports.output::<T>("out")?;
        while let Some(packet) = input.receive_with(|| {
            live.apply_changes(|new| self.noise.set_sigma(sigma(new)).map_err(Error::failed));
        })? {
            let mut out = output.loan(packet.len())?;
            out.copy_from_slice(&packet);
            self.noise.add(&mut out);
            out.send_like(&packet)?;
        }
        Ok(())
    }
}
