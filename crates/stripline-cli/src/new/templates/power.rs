//! A component that takes windows of its own length: the mean power of each.

use stripline::prelude::*;

/// The component, with the values of its properties.
pub struct Power {
    length: usize,
}

impl Component for Power {
    fn describe() -> ComponentSpec {
        let length = PropertySpec::integer("length", 100, 1, 1 << 20, "samples that become one");
        ComponentSpec::new("power", "Measures the mean power of windows of samples.")
            .input("in", PortTypes::of::<f32>(), "samples")
            .output("out", PortTypes::of::<f32>(), "their power, at a lower rate")
            .property(length.unit("samples").changeable())
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { length: properties.count("length") as usize })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        let requests = ports.requests();
        measure(ports.input("in")?, ports.output("out")?, || {
            requests.apply_changes(|new| {
                self.length = new.count("length") as usize;
                Ok(())
            });
            self.length
        })
    }
}

/// Sends the mean power of each window. `length` returns the length of the next one.
fn measure(input: Input<f32>, mut output: Output<f32>, mut length: impl FnMut() -> usize) -> Result<()> {
    let mut windows = input.windowed();
    while let Some(window) = windows.window_with(&mut length)? {
        // Before a gap, a new stream or the end a window may be shorter.
        if !window.is_whole() {
            continue;
        }
        let mut out = output.loan(1)?;
        out[0] = window.iter().map(|x| x * x).sum::<f32>() / window.len() as f32;
        // The same stream and time, at 1/length of the sample rate.
        out.send_like_at_rate(&window, 1, window.len() as u32)?;
        // To overlap windows, consume less: `window.consume(window.len() / 2)`.
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use stripline::component::harness::Harness;

    use super::*;

    #[test]
    fn windows_do_not_depend_on_packets() {
        let mut run = Harness::of::<Power>().property("length", 4).start().unwrap();
        let (mut source, mut sink) = (run.input::<f32>("in").unwrap(), run.output::<f32>("out").unwrap());
        source.set_stream(StreamInfo::new("test").sample_rate_hz(48e3));
        for packet in [[1.0, 1.0, 1.0], [1.0, 2.0, 2.0], [2.0, 2.0, 9.0]] {
            source.send(&packet).unwrap();
        }
        source.finish().unwrap();
        // Fails after a minute if the component hangs.
        run.finish().unwrap();
        for (index, power) in [(0, 1.0), (1, 4.0)] {
            let packet = sink.receive().unwrap().unwrap();
            assert_eq!((packet.sample_index(), &*packet), (index, &[power][..]));
            assert_eq!(packet.stream().sample_rate_hz, Some(12e3));
        }
    }

    #[test]
    fn the_defaults_are_valid() {
        let properties = Properties::defaults(&Power::describe()).unwrap();
        assert_eq!(Power::new(&properties).unwrap().length, 100);
    }
}
