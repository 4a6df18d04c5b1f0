//! `adder`: the sum of several streams.

use num_complex::Complex;
use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties, PropertySpec, RateRule};
use stripline::payload::TypeName;
use stripline::{Input, Output, Result, Sample};

use super::inputs::{self, InputStreams};
use super::stream_order::between;
use super::timing::time_after;
use crate::dsp::{self, Aligner};

/// The component `adder`.
pub struct Adder {
    outlasts: bool,
}

impl Component for Adder {
    fn describe() -> ComponentSpec {
        let types = vec![TypeName::of::<Complex<f32>>(), TypeName::of::<f32>()];
        let summary = "Adds streams of one rate, sample by sample where all have the sample index.";
        let spec = ComponentSpec::new("adder", summary);
        inputs::describe(spec, PortTypes::OneOf(types), "samples of the same rate")
            .output("out", PortTypes::SameAs("in1".into()), "the sums, with the stream of `in1`")
            .sample_rate(RateRule::inputs())
            .property(PropertySpec::choice(
                "until",
                &["first", "last"],
                "first",
                "ends with the first stream that ends, or with the last; then ended ones count as zeros",
            ))
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { outlasts: properties.text("until") == "last" })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in1").map_or("cf32", TypeName::as_str) {
            "f32" => self.run_as::<f32>(ports),
            _ => self.run_as::<Complex<f32>>(ports),
        }
    }
}

impl Adder {
    fn run_as<T: Sample + dsp::Sample>(self, mut ports: Ports) -> Result<()> {
        let names = inputs::connected(&ports);
        let inputs = names.iter().map(|name| ports.input::<T>(name)).collect::<Result<Vec<Input<T>>>>()?;
        let output = ports.output::<T>("out")?;
        let aligner = Aligner::new(inputs.len());
        let aligner = if self.outlasts { aligner.outlasting() } else { aligner };
        Running { aligner, streams: InputStreams::new(names), time: (0, 0) }.run(inputs, output)
    }
}

struct Running<T> {
    aligner: Aligner<T>,
    streams: InputStreams,
    /// An aligned index of the first input, and the time at this index.
    time: (u64, i64),
}

impl<T: Sample + dsp::Sample> Running<T> {
    fn run(mut self, mut inputs: Vec<Input<T>>, mut output: Output<T>) -> Result<()> {
        while !self.aligner.is_over() {
            if let Some(number) = self.aligner.wants() {
                self.receive(number, &mut inputs[number])?;
            } else if let Some((index, count)) = self.aligner.align() {
                self.send(index, count, inputs.len(), &mut output)?;
            }
        }
        Ok(())
    }

    fn receive(&mut self, number: usize, input: &mut Input<T>) -> Result<()> {
        let Some(packet) = input.receive()? else {
            self.aligner.end(number);
            return Ok(());
        };
        if let Some(stream) = self.streams.packet(number, &packet) {
            self.aligner.set_frame(stream.frame_samples());
        }
        let index = self.aligner.push(number, packet.sample_index(), &packet);
        if number == 0 {
            self.time = (index, packet.time_ns());
        }
        Ok(())
    }

    fn send(&mut self, index: u64, count: usize, streams: usize, output: &mut Output<T>) -> Result<()> {
        if let Some(stream) = self.streams.changed()? {
            output.set_stream(stream);
        }
        let mut sums = output.loan(count)?;
        sums.fill(T::default());
        for stream in 0..streams {
            // A stream that has ended has no samples.
            let samples = self.aligner.samples(stream);
            dsp::add(&mut sums, samples);
        }
        let (reference, time_ns) = self.time;
        let time_ns = time_after(time_ns, between(reference, index.into(), 1), &self.streams.first());
        sums.at_sample(index).at_time_ns(time_ns).send()?;
        self.aligner.consume(count);
        Ok(())
    }
}
