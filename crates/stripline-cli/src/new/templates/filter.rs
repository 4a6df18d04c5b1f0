//! A component that multiplies every sample by a factor.

use stripline::prelude::*;

/// The component, with the values of its properties.
pub struct Filter {
    factor: f32,
}

impl Component for Filter {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("filter", "Multiplies every sample by a factor.")
            .input("in", PortTypes::of::<f32>(), "samples")
            .output("out", PortTypes::of::<f32>(), "samples times the factor")
            .property(PropertySpec::float("factor", 2.0, "linear gain").range(0.0, 1e6).changeable())
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { factor: properties.float("factor") as f32 })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        let requests = ports.requests();
        filter(ports.input("in")?, ports.output("out")?, || {
            requests.apply_changes(|new| {
                self.factor = new.float("factor") as f32;
                Ok(())
            });
            self.factor
        })
    }
}

/// Multiplies the samples of each packet by the factor that is in effect then.
fn filter(mut input: Input<f32>, mut output: Output<f32>, mut factor: impl FnMut() -> f32) -> Result<()> {
    // The function also runs while no packet arrives: a change does not wait for samples.
    while let Some(packet) = input.receive_with(|| {
        factor();
    })? {
        let factor = factor();
        let mut out = output.loan(packet.len())?;
        for (y, x) in out.iter_mut().zip(&*packet) {
            *y = x * factor;
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
    fn samples_are_multiplied() {
        let mut run = Harness::of::<Filter>().property("factor", 2.0).start().unwrap();
        let (mut source, mut sink) = (run.input::<f32>("in").unwrap(), run.output::<f32>("out").unwrap());
        source.send(&[1.0, 2.0, 3.0]).unwrap();
        source.finish().unwrap();
        // Fails after a minute if the component hangs.
        run.finish().unwrap();
        assert_eq!(*sink.receive().unwrap().unwrap(), [2.0, 4.0, 6.0]);
    }

    #[test]
    fn the_defaults_are_valid() {
        let properties = Properties::defaults(&Filter::describe()).unwrap();
        assert_eq!(Filter::new(&properties).unwrap().factor, 2.0);
    }
}
