//! A stock component with packets at its inputs.

use std::thread;
use std::time::Duration;

use stripline::component::harness::Harness;
use stripline::component::{Direction, Value};
use stripline::payload::TypeName;
use stripline::{Received, Result, Sample, StreamInfo};
use stripline_components::registry;

/// The samples of a packet, with the index and the time of the first sample.
pub type Part<T> = (u64, i64, Vec<T>);

/// The longest wait between two checks whether the component has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// A component type with its properties.
pub struct Stage {
    pub name: &'static str,
    pub properties: Vec<(&'static str, Value)>,
    /// The number of the output that packets are collected from, from 0.
    pub output: usize,
}

pub fn stage<const N: usize>(name: &'static str, properties: [(&'static str, Value); N]) -> Stage {
    Stage { name, properties: properties.into(), output: 0 }
}

impl Stage {
    /// Runs the component. Each of the first inputs gets the packets of a stream. Returns the
    /// packets from the output, and their description.
    pub fn run<T: Sample, R: Sample>(
        &self,
        inputs: &[(&StreamInfo, &[Part<T>])],
    ) -> Result<(StreamInfo, Vec<Part<R>>)> {
        let registry = registry();
        let ports = &registry.specs()[self.name].ports;
        let of = |direction| ports.iter().filter(move |port| port.direction == direction);
        let mut harness = Harness::of_type(&registry, self.name);
        for port in of(Direction::Input).take(1) {
            harness = harness.payload(&port.name, &TypeName::of::<T>());
        }
        let outputs = of(Direction::Output).enumerate();
        let other_outputs = outputs.filter(|(number, _)| *number != self.output).map(|(_, port)| port);
        let unused = of(Direction::Input).skip(inputs.len()).chain(other_outputs);
        for port in unused {
            harness = harness.unconnected(&port.name);
        }
        for (name, value) in &self.properties {
            harness = harness.property(name, value.clone());
        }
        let mut running = harness.start()?;
        let mut senders = Vec::new();
        for (port, (stream, packets)) in of(Direction::Input).zip(inputs) {
            // An invalid description would not be sent, and the component would wait for ever.
            stream.check().unwrap();
            senders.push((running.input::<T>(&port.name)?, StreamInfo::clone(stream), *packets));
        }
        let output = of(Direction::Output).nth(self.output).map(|port| running.output::<R>(&port.name));
        let mut found = (StreamInfo::default(), Vec::new());
        let mut has_ended = false;
        thread::scope(|scope| {
            for (mut input, stream, packets) in senders {
                // Errors of the senders are ignored: the error of the component is the cause.
                scope.spawn(move || -> Result<()> {
                    input.set_stream(stream);
                    for (index, time_ns, samples) in packets {
                        let mut packet = input.loan(samples.len())?;
                        packet.copy_from_slice(samples);
                        packet.at_sample(*index).at_time_ns(*time_ns).send()?;
                    }
                    input.finish()
                });
            }
            if let Some(output) = output {
                let mut output = output?;
                loop {
                    match output.receive_timeout(PAUSE)? {
                        Received::Packet(packet) => {
                            found.0 = StreamInfo::clone(packet.stream());
                            found.1.push((packet.sample_index(), packet.time_ns(), packet.to_vec()));
                        }
                        // After an error of the component, there is no end of stream.
                        Received::Empty => has_ended |= running.wait_for_end(Duration::ZERO)?.is_some(),
                        Received::Ended => break,
                    }
                }
            }
            // The end is reported only once.
            while !has_ended && running.wait_for_end(PAUSE)?.is_none() {}
            Ok(found)
        })
    }
}
