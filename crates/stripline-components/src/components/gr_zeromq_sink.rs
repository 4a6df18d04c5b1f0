//! `gr-zeromq-sink`: samples to a flowgraph, through GNU Radio's own blocks for ZeroMQ.

use std::time::Duration;

use stripline::component::{Component, ComponentSpec, OrderRule, PortTypes, Ports, Properties};
use stripline::payload::{Dynamic, SampleType, TypeName};
use stripline::{Packet, Result, StreamInfo};

use super::gr_zeromq::{self, Peer};
use super::stream_order;
use crate::gnuradio::{CarriedTags, Described, Tag, TaggedMessage};

/// The time for the last samples to leave this process.
const PATIENCE: Duration = Duration::from_secs(10);

/// The component `gr-zeromq-sink`.
pub struct GrZeromqSink {
    properties: Properties,
}

impl Component for GrZeromqSink {
    fn describe() -> ComponentSpec {
        let spec = ComponentSpec::new(
            "gr-zeromq-sink",
            "Sends samples to a flowgraph, for its ZMQ PULL Source or ZMQ SUB Source.",
        )
        .input("in", PortTypes::Any, "samples for the flowgraph; no messages")
        .sample_order(OrderRule { items: Some("vlen".into()), ..OrderRule::default() });
        let spec = gr_zeromq::properties(true).fold(spec, ComponentSpec::property);
        spec.validated(gr_zeromq::check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        gr_zeromq::check(properties)?;
        Ok(Self { properties: properties.clone() })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let peer = Peer::open(&self.properties, [zmq::PUSH, zmq::PUB])?;
        let stop = ports.stop_signal();
        let samples = SampleType::parse(ports.payload("in").map_or("cf32", TypeName::as_str))?;
        let mut input = ports.input::<Dynamic>(("in", &samples))?;
        let mut described = Before::default();
        // The first samples of an item. The other samples of the item are in the next packet.
        let mut partial = Vec::new();
        let mut partial_at = 0;
        while let Some(packet) = input.receive()? {
            stream_order::check_items(packet.stream(), peer.vlen)?;
            if packet.gap().is_some() {
                partial.clear();
            }
            // After a gap, the rest of an item is left out.
            let begun = if partial.is_empty() { packet.sample_index() % peer.vlen } else { 0 };
            let left_out = ((peer.vlen - begun) % peer.vlen).min(packet.samples() as u64);
            let index = if partial.is_empty() { packet.sample_index() + left_out } else { partial_at };
            let mut message = Vec::with_capacity(packet.len() + partial.len() + 64);
            if peer.has_tags {
                let tags = described.tags(&packet, peer.vlen).map_err(|bad| peer.misbehaves(bad))?;
                TaggedMessage::write_head(&mut message, index / peer.vlen, &tags);
            }
            let head = message.len();
            message.append(&mut partial);
            message.extend_from_slice(&packet[left_out as usize * samples.size()..]);
            let left_over = (message.len() - head) % (samples.size() * peer.vlen as usize);
            partial = message.split_off(message.len() - left_over);
            partial_at = index + ((message.len() - head) / samples.size()) as u64;
            drop(packet);
            if message.len() > head {
                peer.send(message, &stop)?;
            }
        }
        peer.finish(PATIENCE, &stop)
    }
}

/// The description and the time of the previous packet.
#[derive(Default)]
struct Before {
    stream: Option<StreamInfo>,
    /// The index and the time of a sample.
    time: Option<(u64, i64)>,
}

impl Before {
    /// Returns the tags of a packet: the tags that the packet carries, and tags for properties that
    /// have changed.
    fn tags(
        &mut self,
        packet: &Packet<'_, Dynamic>,
        vlen: u64,
    ) -> std::result::Result<Vec<Tag<'static>>, crate::gnuradio::BadMessage> {
        let (stream, first) = (packet.stream(), packet.sample_index());
        let carried = CarriedTags::of(stream)?;
        let samples = first..first + packet.samples() as u64;
        let within = carried.tags().iter().filter(|tag| samples.contains(&tag.item));
        let mut tags: Vec<_> = within.cloned().collect();
        let begins = packet.gap().is_some();
        let before = self.stream.take();
        let before = |of: fn(&StreamInfo) -> Option<f64>| before.as_ref().filter(|_| !begins).and_then(of);
        let rate = stream.sample_rate_hz;
        let mut made = Vec::new();
        if rate_of_channel(stream) != before(rate_of_channel) {
            made.extend(rate_of_channel(stream).map(Described::RateHz));
        }
        if stream.center_frequency_hz != before(|stream| stream.center_frequency_hz) {
            made.extend(stream.center_frequency_hz.map(Described::FrequencyHz));
        }
        if packet.time_ns() != 0 {
            // Half a sample period is allowed for rounding.
            let continues = !begins
                && self.time.zip(rate).is_some_and(|((index, time_ns), rate)| {
                    let passed_ns = first.saturating_sub(index) as f64 / rate * 1e9;
                    ((packet.time_ns() - time_ns) as f64 - passed_ns).abs() <= 0.5e9 / rate
                });
            if !continues {
                made.push(Described::TimeNs(packet.time_ns()));
                self.time = Some((first, packet.time_ns()));
            }
        }
        for described in made {
            let tag = described.tag(first);
            if !tags.iter().any(|carried| carried.item == first && carried.key == tag.key) {
                tags.push(tag);
            }
        }
        self.stream = Some(StreamInfo::clone(stream));
        tags.iter_mut().for_each(|tag| tag.item /= vlen);
        tags.sort_by_key(|tag| tag.item);
        Ok(tags)
    }
}

/// Returns the rate of each channel. An item has a sample of each channel.
fn rate_of_channel(stream: &StreamInfo) -> Option<f64> {
    stream.sample_rate_hz.map(|rate| rate / stream.channels.len().max(1) as f64)
}
