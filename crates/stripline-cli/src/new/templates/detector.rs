//! A detector: a message for each time the signal rises above a threshold.

use serde::{Deserialize, Serialize};
use stripline::component::kit::{Continuity, StreamTracker};
use stripline::prelude::*;

/// A rise of the signal above the threshold, as a message.
#[derive(Debug, PartialEq, Serialize, Deserialize, stripline::Message)]
pub struct Detection {
    /// Number of the sample within its stream.
    pub sample: u64,
    /// The value of the sample.
    pub level: f32,
}

/// The component, with the values of its properties.
pub struct Detector {
    threshold: f32,
}

impl Component for Detector {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("detector", "Detects where the signal rises above a threshold.")
            .input("in", PortTypes::of::<f32>(), "samples")
            .output("out", PortTypes::of::<Cbor<Detection>>(), "detections")
            .property(PropertySpec::float("threshold", 0.5, "level to exceed").changeable())
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { threshold: properties.float("threshold") as f32 })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        let requests = ports.requests();
        detect(ports.input("in")?, ports.output("out")?, || {
            requests.apply_changes(|new| {
                self.threshold = new.float("threshold") as f32;
                Ok(())
            });
            self.threshold
        })
    }
}

/// Sends a message for each sample above the threshold that follows one below it.
fn detect(
    mut input: Input<f32>,
    mut output: Output<Cbor<Detection>>,
    mut threshold: impl FnMut() -> f32,
) -> Result<()> {
    let mut tracker = StreamTracker::default();
    let mut is_above = false;
    // The function also runs while no packet arrives: a change does not wait for samples.
    while let Some(packet) = input.receive_with(|| {
        threshold();
    })? {
        let threshold = threshold();
        // A sample behind a gap has no level before it to compare with.
        if tracker.packet(&packet) != Continuity::Next {
            is_above = false;
        }
        for (number, level) in (packet.sample_index()..).zip(packet.iter().copied()) {
            if level > threshold && !is_above {
                output.loan_copy_of(&Detection { sample: number, level })?.send_like(&packet)?;
            }
            is_above = level > threshold;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use stripline::component::harness::Harness;

    use super::*;

    #[test]
    fn a_pulse_is_detected_once() {
        let mut run = Harness::of::<Detector>().property("threshold", 1.0).start().unwrap();
        let mut source = run.input::<f32>("in").unwrap();
        let mut sink = run.output::<Cbor<Detection>>("out").unwrap();
        // The second pulse crosses from one packet into the next.
        for packet in [[0.0, 3.0, 0.0, 2.0], [2.0, 0.0, 0.0, 0.0]] {
            source.send(&packet).unwrap();
        }
        source.finish().unwrap();
        // Fails after a minute if the component hangs.
        run.finish().unwrap();
        for (sample, level) in [(1, 3.0), (3, 2.0)] {
            assert_eq!(sink.receive().unwrap().unwrap().decode().unwrap(), Detection { sample, level });
        }
        assert!(sink.receive().unwrap().is_none());
    }

    #[test]
    fn the_defaults_are_valid() {
        let properties = Properties::defaults(&Detector::describe()).unwrap();
        assert_eq!(Detector::new(&properties).unwrap().threshold, 0.5);
    }
}
