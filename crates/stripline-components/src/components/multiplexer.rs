//! `multiplexer`: several streams as one.

use stripline::component::kit::{Continuity, StreamTracker};
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertySpec, RateRule,
};
use stripline::node::{Waitable, wait_any};
use stripline::payload::TypeName;
use stripline::{Error, Input, Output, Received, Result, StreamInfo};

use super::inputs;
use super::property_errors::can_be_made;
use super::timing::time_after;
use crate::dsp::Aligner;

/// The most samples of each stream in turn.
const BLOCK_MAX: i64 = 1 << 20;

/// The most bytes of an interleaved packet, except those of one block of each stream.
const PACKET_BYTES_MAX: usize = 1 << 20;

/// The component `multiplexer`.
pub struct Multiplexer {
    is_merge: bool,
    block: usize,
}

impl Component for Multiplexer {
    fn describe() -> ComponentSpec {
        let summary =
            "Makes one stream of several: merges packets of any type as they arrive, or interleaves samples.";
        let spec = ComponentSpec::new("multiplexer", summary);
        inputs::describe(spec, PortTypes::Any, "anything; to interleave, samples of the same rate")
            .output("out", PortTypes::SameAs("in1".into()), "the packets, or samples of each input in turn")
            .sample_rate(RateRule::inputs().interleaved_if("mode", "interleave"))
            .property(PropertySpec::choice(
                "mode",
                &["merge", "interleave"],
                "merge",
                "merge: each packet as it is, with its stream; interleave: samples of each input in turn",
            ))
            .property(
                PropertySpec::integer(
                    "block",
                    1,
                    1,
                    BLOCK_MAX,
                    "samples of each input in turn; interleave only",
                )
                .unit("samples"),
            )
            .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let is_merge = properties.text("mode") == "merge";
        let block = usize::try_from(properties.count("block")).unwrap_or(usize::MAX);
        if is_merge && block != 1 {
            let message = format!("`block` is {block}, but packets are merged as they are");
            let remedy = "set mode = \"interleave\", or leave `block` out";
            return Err(InvalidProperties::new(message).property("block").remedy(remedy).into());
        }
        Ok(Self { is_merge, block })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let names = inputs::connected(&ports);
        let payload = ports.payload("in1").cloned();
        let inputs = names.iter().map(|name| ports.raw_input(name)).collect::<Result<Vec<Input<u8>>>>()?;
        let output = ports.raw_output("out")?;
        if self.is_merge {
            return merge(inputs, output);
        }
        let Some(sample_bytes) = payload.as_ref().and_then(TypeName::sample_bytes) else {
            let payload = payload.map(|payload| payload.to_string()).unwrap_or_default();
            return Err(Error::failed(format!(
                "{payload} has no samples of a known size to interleave: set mode = \"merge\""
            )));
        };
        let trackers = names.iter().map(|_| StreamTracker::default()).collect();
        let streams = vec![StreamInfo::default(); names.len()];
        let aligner = Aligner::new(names.len()).units(sample_bytes).blocks(self.block);
        let block_bytes = self.block.saturating_mul(sample_bytes);
        Interleaving { aligner, trackers, streams, names, block_bytes, sample_bytes, time: (0, 0) }
            .run(inputs, output)
    }
}

/// Forwards packets in the order of their arrival, until all streams have ended.
fn merge(mut inputs: Vec<Input<u8>>, mut output: Output<u8>) -> Result<()> {
    while !inputs.is_empty() {
        let mut is_idle = true;
        let mut number = 0;
        // One packet of each in turn, so that none has to wait for the others' queues.
        while number < inputs.len() {
            let is_over = match inputs[number].try_receive()? {
                Received::Packet(packet) => {
                    is_idle = false;
                    let mut copy = output.loan(packet.len())?;
                    copy.copy_from_slice(&packet);
                    copy.send_like(&packet)?;
                    false
                }
                Received::Empty => false,
                Received::Ended => true,
            };
            if is_over {
                inputs.remove(number);
            } else {
                number += 1;
            }
        }
        if is_idle && !inputs.is_empty() {
            let mut all: Vec<&mut dyn Waitable> =
                inputs.iter_mut().map(|input| -> &mut dyn Waitable { input }).collect();
            wait_any(&mut all, None)?;
        }
    }
    Ok(())
}

struct Interleaving {
    aligner: Aligner<u8>,
    trackers: Vec<StreamTracker>,
    streams: Vec<StreamInfo>,
    names: Vec<String>,
    block_bytes: usize,
    sample_bytes: usize,
    /// An aligned index of the first input, and its time.
    time: (u64, i64),
}

impl Interleaving {
    fn run(mut self, mut inputs: Vec<Input<u8>>, mut output: Output<u8>) -> Result<()> {
        let mut is_described = false;
        while !self.aligner.is_over() {
            if let Some(number) = self.aligner.wants() {
                is_described &= !self.receive(number, &mut inputs[number])?;
            } else if let Some((index, count)) = self.aligner.align() {
                if !std::mem::replace(&mut is_described, true) {
                    output.set_stream(self.stream()?);
                }
                self.send(index, count, &mut output)?;
            }
        }
        Ok(())
    }

    /// Receives a packet, or the end. Returns whether there is a new stream.
    fn receive(&mut self, number: usize, input: &mut Input<u8>) -> Result<bool> {
        let Some(packet) = input.receive()? else {
            self.aligner.end(number);
            return Ok(false);
        };
        // Of bytes, the continuity is unknown; whether the stream is new does not depend on it.
        let is_new = self.trackers[number].packet(&packet) == Continuity::NewStream;
        if is_new {
            self.streams[number] = StreamInfo::clone(packet.stream());
        }
        let index = self.aligner.push(number, packet.sample_index(), &packet);
        if number == 0 {
            self.time = (index, packet.time_ns());
        }
        Ok(is_new)
    }

    /// Returns the description of the interleaved stream: that of the first one, with the others as
    /// its channels.
    fn stream(&self) -> Result<StreamInfo> {
        let first = &self.streams[0];
        for (name, stream) in self.names.iter().zip(&self.streams) {
            if let (Some(rate), Some(other)) = (first.sample_rate_hz, stream.sample_rate_hz)
                && rate != other
            {
                return Err(Error::failed(format!(
                    "`{name}` has {other} samples/s and `in1` has {rate}: put a `resampler` before one of them"
                )));
            }
        }
        let block = self.block_bytes / self.sample_bytes;
        let merged = StreamInfo {
            sample_rate_hz: first.sample_rate_hz.map(|rate| rate * self.streams.len() as f64),
            row_length: u32::try_from(block).ok().filter(|block| *block > 1),
            ..first.clone().without_order()
        };
        let by_stream = merged.clone().channels(self.streams.iter().map(|stream| stream.id.clone()));
        // Streams of the same name have those of the ports.
        let is_sound = by_stream.check().is_ok();
        Ok(if is_sound { by_stream } else { merged.channels(self.names.clone()) })
    }

    fn send(&mut self, index: u64, count: usize, output: &mut Output<u8>) -> Result<()> {
        let streams = self.streams.len();
        // Whole blocks, at least one.
        let blocks = (PACKET_BYTES_MAX / self.block_bytes / streams).max(1);
        let count = count.min(blocks.saturating_mul(self.block_bytes / self.sample_bytes));
        let mut packet = output.loan(count * self.sample_bytes * streams)?;
        for (turn, place) in packet.chunks_exact_mut(self.block_bytes).enumerate() {
            let start = turn / streams * self.block_bytes;
            place.copy_from_slice(&self.aligner.samples(turn % streams)[start..start + self.block_bytes]);
        }
        let (reference, time_ns) = self.time;
        let time_ns = time_after(time_ns, index as f64 - reference as f64, &self.streams[0]);
        packet.at_sample(index.saturating_mul(streams as u64)).at_time_ns(time_ns).send()?;
        self.aligner.consume(count);
        Ok(())
    }
}
