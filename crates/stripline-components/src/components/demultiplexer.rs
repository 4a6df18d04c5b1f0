//! `demultiplexer`: each channel of a stream as a separate stream.

use stripline::component::kit::{Continuity, StreamTracker};
use stripline::component::{
    Component, ComponentSpec, Direction, OrderRule, PortSpec, PortTypes, Ports, Properties, PropertySpec,
    RateRule,
};
use stripline::payload::{Dynamic, TypeName};
use stripline::{Error, Output, Packet, Result, StreamInfo};

use super::stream_order::between;
use super::timing::time_after;

/// The maximum number of outputs.
const OUTPUTS_MAX: usize = 8;

/// The component `demultiplexer`.
pub struct Demultiplexer {
    /// The position of the first output's channel among all channels.
    first: usize,
}

impl Component for Demultiplexer {
    fn describe() -> ComponentSpec {
        let summary = "Makes a stream of each channel: the reverse of a multiplexer that interleaves.";
        let mut spec = ComponentSpec::new("demultiplexer", summary)
            .input("in", PortTypes::Any, "samples of several channels in turn, or rows of them")
            .sample_rate(RateRule::input("in"))
            .sample_order(OrderRule { one_channel: true, ..OrderRule::default() })
            .property(PropertySpec::integer(
                "first",
                1,
                1,
                StreamInfo::CHANNELS_MAX as i64,
                "the channel at `out1`, counted from 1; the next one is at `out2`, and so on",
            ));
        for number in 1..=OUTPUTS_MAX {
            let types = PortTypes::SameAs("in".into());
            let port = PortSpec::new(&format!("out{number}"), Direction::Output, types, "a channel");
            spec = spec.port(port.optional());
        }
        spec
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { first: properties.count("first") as usize - 1 })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let payload = ports.payload("in").cloned();
        let Some(sample_bytes) = payload.as_ref().and_then(TypeName::sample_bytes) else {
            let payload = payload.map(|payload| payload.to_string()).unwrap_or_default();
            return Err(Error::failed(format!("{payload} has no samples of a known size to take apart")));
        };
        let mut input = ports.input::<Dynamic>("in")?;
        let mut channels = Vec::new();
        for number in 0..OUTPUTS_MAX {
            let name = format!("out{}", number + 1);
            if ports.is_connected(&name) {
                let (place, output) = (self.first + number, ports.output::<Dynamic>(&name)?);
                channels.push(Channel { name, place, output, samples: Vec::new() });
            }
        }
        let mut turns = Turns { channels: 1, length: 1, sample_bytes };
        let mut tracker = StreamTracker::default();
        while let Some(packet) = input.receive()? {
            if tracker.packet(&packet) == Continuity::NewStream {
                let stream = packet.stream();
                turns.length = stream.turn_samples();
                turns.channels = stream.channels.len().max(1) as u64;
                channels.iter_mut().try_for_each(|channel| channel.begin(stream))?;
            }
            channels.iter_mut().try_for_each(|channel| channel.send(&packet, &turns))?;
        }
        Ok(())
    }
}

/// The order of the samples of a stream.
struct Turns {
    /// The number of channels, at least 1.
    channels: u64,
    /// The number of consecutive samples of a channel.
    length: u64,
    sample_bytes: usize,
}

/// An output.
struct Channel {
    name: String,
    /// The position of the channel among all channels, from 0.
    place: usize,
    output: Output<Dynamic>,
    /// The samples of a packet. The buffer is reused.
    samples: Vec<u8>,
}

impl Channel {
    /// Sets the description of the single channel.
    fn begin(&mut self, all: &StreamInfo) -> Result<()> {
        let (name, number, count) = (&self.name, self.place + 1, all.channels.len().max(1));
        if number > count {
            let (id, plural) = (&all.id, if count == 1 { "" } else { "s" });
            return Err(Error::failed(format!(
                "`{name}` is connected for the channel {number}, and the stream `{id}` has {count} channel{plural} \
                 (`channels`): leave that output without a connection, or change `first`"
            )));
        }
        let mut stream = all.clone();
        if let Some(channel) = all.channels.get(self.place) {
            stream.id = format!("{}.{channel}", all.id);
        }
        stream.channels.clear();
        stream.sample_rate_hz = stream.sample_rate_hz.map(|rate| rate / count as f64);
        // The step applies from row to row, or from sample to sample. A frame has all channels.
        if let Some(axis) = stream.axes.get_mut(usize::from(stream.row_length.is_some()))
            && stream.frame_rows.is_none()
        {
            axis.step *= count as f64;
        }
        self.output.set_stream(stream);
        Ok(())
    }

    /// Sends the samples of the channel in a packet.
    fn send(&mut self, packet: &Packet<'_, Dynamic>, turns: &Turns) -> Result<()> {
        let start = packet.sample_index();
        let frame = turns.channels * turns.length;
        let end = start.saturating_add(packet.samples() as u64);
        self.samples.clear();
        let mut first = None;
        // Collect the turns of the channel, from the frame in which the packet begins.
        let mut turn = (start / frame * frame).saturating_add(self.place as u64 * turns.length);
        while turn < end {
            let (from, to) = (turn.max(start), turn.saturating_add(turns.length).min(end));
            if from < to {
                first.get_or_insert(from);
                let [from, to] = [from, to].map(|index| (index - start) as usize * turns.sample_bytes);
                self.samples.extend_from_slice(&packet[from..to]);
            }
            turn = turn.saturating_add(frame);
        }
        let Some(first) = first else { return Ok(()) };
        let index = first / frame * turns.length + first % turns.length;
        // The samples of a frame have the same time, and so have the rows of a frame.
        let since = if turns.length == 1 { start } else { start / frame * frame };
        let samples = between(since, (first / frame * frame).into(), 1);
        let time_ns = time_after(packet.time_ns(), samples, packet.stream());
        let part = self.output.loan_copy_of(&self.samples)?;
        part.at_sample(index).at_time_ns(time_ns).send()
    }
}
