//! A sink of messages: prints each detection.

use std::io::Write;

use stripline::prelude::*;

use super::detector::Detection;

/// The component.
pub struct Sink;

impl Component for Sink {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("sink", "Prints detections.").input(
            "in",
            PortTypes::of::<Cbor<Detection>>(),
            "detections",
        )
    }

    fn new(_: &Properties) -> Result<Self> {
        Ok(Self)
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut input = ports.input::<Cbor<Detection>>("in")?;
        while let Some(message) = input.receive()? {
            print(&message.decode()?, &mut std::io::stdout()).map_err(Error::failed)?;
        }
        Ok(())
    }
}

fn print(detection: &Detection, output: &mut impl Write) -> std::io::Result<()> {
    writeln!(output, "sample {}: level {}", detection.sample, detection.level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detection_is_a_line() {
        let mut text = Vec::new();
        print(&Detection { sample: 7, level: 1.5 }, &mut text).unwrap();
        assert_eq!(text, b"sample 7: level 1.5\n");
    }
}
