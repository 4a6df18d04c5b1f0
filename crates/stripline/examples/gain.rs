//! A user's component: an executable that links the library and runs in a waveform beside stock
//! components.
//!
//! ```text
//! cargo build --release -p stripline --example gain
//! cargo run --release -- run waveforms/gain.toml
//! ```

use stripline::prelude::*;

/// A component that multiplies every sample by a factor.
struct Gain {
    factor: f32,
}

impl Component for Gain {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("gain", "Multiplies every sample by a factor.")
            .input("in", PortTypes::of::<Complex<f32>>(), "samples")
            .output("out", PortTypes::of::<Complex<f32>>(), "samples times the factor")
            // `stripline set gain gain.factor=2` changes the factor while the component runs.
            .property(PropertySpec::float("factor", 1.0, "linear gain").range(0.0, 1e6).changeable())
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { factor: properties.float("factor") as f32 })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        let requests = ports.requests();
        let mut input = ports.input::<Complex<f32>>("in")?;
        let mut output = ports.output::<Complex<f32>>("out")?;
        // Requests are handled between packets, and while no packet arrives. Without one this costs
        // nearly nothing.
        while let Some(packet) = input.receive_with(|| {
            requests.apply_changes(|new| {
                self.factor = new.float("factor") as f32;
                Ok(())
            });
        })? {
            let mut out = output.loan(packet.len())?;
            for (y, x) in out.iter_mut().zip(&*packet) {
                *y = x * self.factor;
            }
            out.send_like(&packet)?;
        }
        Ok(())
    }
}

fn main() -> std::process::ExitCode {
    stripline::component::main::<Gain>()
}
