//! `multiplexer`: joins several streams into one.

use stripline::component::{
    Component, ComponentSpec, InvalidProperties, OrderRule, PortTypes, Ports, Properties, PropertySpec,
    RateRule,
};
use stripline::node::{Waitable, wait_any};
use stripline::payload::{Dynamic, TypeName};
use stripline::{Error, Input, Output, Received, Result, StreamInfo};

use super::inputs::{self, InputStreams};
use super::property_errors::can_be_made;
use super::stream_order::between;
use super::timing::time_after;
use crate::dsp::Aligner;

/// The maximum number of consecutive samples of each stream.
const BLOCK_MAX: i64 = 1 << 20;

/// The maximum size of an interleaved packet in bytes, unless one block of each stream is larger.
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
            .sample_order(OrderRule { rows: Some("block".into()), ..OrderRule::default() })
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
        let inputs =
            names.iter().map(|name| ports.input::<Dynamic>(name)).collect::<Result<Vec<Input<Dynamic>>>>()?;
        let output = ports.output::<Dynamic>("out")?;
        if self.is_merge {
            return merge(inputs, output);
        }
        let Some(sample_bytes) = payload.as_ref().and_then(TypeName::sample_bytes) else {
            let payload = payload.map(|payload| payload.to_string()).unwrap_or_default();
            return Err(Error::failed(format!(
                "{payload} has no samples of a known size to interleave: set mode = \"merge\""
            )));
        };
        let aligner = Aligner::new(names.len()).units(sample_bytes).blocks(self.block);
        let block_bytes = self.block.saturating_mul(sample_bytes);
        let streams = InputStreams::new(names);
        Interleaving { aligner, streams, block_bytes, sample_bytes, time: (0, 0) }.run(inputs, output)
    }
}

/// Forwards packets in the order of their arrival, until all streams have ended.
fn merge(mut inputs: Vec<Input<Dynamic>>, mut output: Output<Dynamic>) -> Result<()> {
    while !inputs.is_empty() {
        let mut is_idle = true;
        let mut number = 0;
        // Take one packet of each input in turn, so that no input waits until the queues of others
        // are empty.
        while number < inputs.len() {
            let is_over = match inputs[number].try_receive()? {
                Received::Packet(packet) => {
                    is_idle = false;
                    output.loan_copy_of(&packet)?.send_like(&packet)?;
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
    streams: InputStreams,
    block_bytes: usize,
    sample_bytes: usize,
    /// An aligned index of the first input, and the time at this index.
    time: (u64, i64),
}

impl Interleaving {
    fn run(mut self, mut inputs: Vec<Input<Dynamic>>, mut output: Output<Dynamic>) -> Result<()> {
        while !self.aligner.is_over() {
            if let Some(number) = self.aligner.wants() {
                self.receive(number, &mut inputs[number])?;
            } else if let Some((index, count)) = self.aligner.align() {
                if let Some(common) = self.streams.changed()? {
                    output.set_stream(self.interleaved(common, inputs.len())?);
                }
                self.send(index, count, inputs.len(), &mut output)?;
            }
        }
        Ok(())
    }

    /// Receives a packet, or the end of the stream.
    fn receive(&mut self, number: usize, input: &mut Input<Dynamic>) -> Result<()> {
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

    /// Returns the description of the interleaved streams: the common description, with the names
    /// of the streams as channels.
    fn interleaved(&self, common: StreamInfo, streams: usize) -> Result<StreamInfo> {
        let block = self.block_bytes / self.sample_bytes;
        let turn = common.turn_samples();
        let unfit = match common.row_length {
            Some(length) if turn != block as u64 => Some((
                match common.frame_rows {
                    None => format!("rows of {length} samples (`row_length`)"),
                    Some(rows) => format!("frames of {rows} rows of {length} samples (`frame_rows`)"),
                },
                turn,
            )),
            None if block > 1 && common.channels.len() > 1 => {
                Some((format!("the channels {} (`channels`) in turn", common.channels.join(", ")), 1))
            }
            None if block > 1 && !common.axes.is_empty() => {
                Some(("an axis from sample to sample (`axes`)".into(), 1))
            }
            _ => None,
        };
        if let Some((what, fit)) = unfit {
            let id = &common.id;
            return Err(Error::failed(format!(
                "the stream `{id}` has {what}, and blocks of {block} samples do not fit: set block = {fit}"
            )));
        }
        let mut stream = common;
        stream.sample_rate_hz = stream.sample_rate_hz.map(|rate| rate * streams as f64);
        if stream.row_length.is_none() {
            stream.row_length = u32::try_from(block).ok().filter(|block| *block > 1);
        }
        // The step applies to the rows, or the samples, of all streams. A frame has all streams.
        if let Some(axis) = stream.axes.get_mut(usize::from(stream.row_length.is_some()))
            && stream.frame_rows.is_none()
        {
            axis.step /= streams as f64;
        }
        let by_stream = stream.clone().channels(self.channels(|_, stream| &stream.id));
        if by_stream.check().is_ok() {
            return Ok(by_stream);
        }
        // Streams with the same name are named by their ports.
        let by_port = stream.channels(self.channels(|name, _| name));
        by_port
            .check()
            .map_err(|unfit| Error::failed(format!("the interleaved stream is unfit: {unfit}")))?;
        Ok(by_port)
    }

    /// Returns the names of the channels; `name` chooses the name of a stream.
    fn channels<'a>(&'a self, name: impl Fn(&'a str, &'a StreamInfo) -> &'a str + 'a) -> Vec<String> {
        let channels = self.streams.first().channels.len();
        let named = |turn: usize| {
            self.streams.all().map(move |(port, stream)| (port, stream, stream.channels.get(turn)))
        };
        let all = (0..channels.max(1)).flat_map(named);
        let names = all.map(|(port, stream, channel)| match channel {
            Some(channel) => format!("{}.{channel}", name(port, stream)),
            None => name(port, stream).to_owned(),
        });
        names.collect()
    }

    fn send(&mut self, index: u64, count: usize, streams: usize, output: &mut Output<Dynamic>) -> Result<()> {
        // Send whole blocks, at least one of each stream.
        let blocks = (PACKET_BYTES_MAX / self.block_bytes / streams).max(1);
        let count = count.min(blocks.saturating_mul(self.block_bytes / self.sample_bytes));
        let mut packet = output.loan(count * streams)?;
        for (turn, place) in packet.chunks_exact_mut(self.block_bytes).enumerate() {
            let start = turn / streams * self.block_bytes;
            place.copy_from_slice(&self.aligner.samples(turn % streams)[start..start + self.block_bytes]);
        }
        let (reference, time_ns) = self.time;
        let time_ns = time_after(time_ns, between(reference, index.into(), 1), &self.streams.first());
        packet.at_sample(index.saturating_mul(streams as u64)).at_time_ns(time_ns).send()?;
        self.aligner.consume(count);
        Ok(())
    }
}
