//! `gr-zeromq-source`: samples from a flowgraph, through GNU Radio's own blocks for ZeroMQ.

use stripline::component::{
    Component, ComponentSpec, OrderRule, PortTypes, Ports, Properties, PropertySpec, RateRule,
};
use stripline::node::Publisher;
use stripline::payload::{Dynamic, SampleType};
use stripline::{Result, StreamInfo};

use super::gr_zeromq::{self, Peer};
use crate::gnuradio::{CarriedTags, Described, Tag, TaggedMessage, join_parts};

/// The types of items. Items of other types arrive as bytes.
const TYPES: [&str; 6] = ["cf32", "f32", "s32", "s16", "cs16", "u8"];

/// The component `gr-zeromq-source`.
pub struct GrZeromqSource {
    properties: Properties,
}

impl Component for GrZeromqSource {
    fn describe() -> ComponentSpec {
        let spec = ComponentSpec::new(
            "gr-zeromq-source",
            "Receives the samples of a flowgraph from its ZMQ PUSH Sink or ZMQ PUB Sink.",
        )
        .sample_rate(RateRule::property("sample_rate"))
        .sample_order(OrderRule { rows: Some("vlen".into()), ..OrderRule::default() })
        .output("out", PortTypes::Property("samples".into()), "the flowgraph's samples")
        .property(PropertySpec::choice("samples", &TYPES, "cf32", "type of the items"))
        .property(
            PropertySpec::float("sample_rate", 0.0, "until a tag `rx_rate`; 0: unknown")
                .range(0.0, 1e12)
                .unit("Hz"),
        )
        .property(
            PropertySpec::float("frequency", 0.0, "until a tag `rx_freq`; 0: unknown")
                .range(0.0, 1e12)
                .unit("Hz"),
        );
        let spec = gr_zeromq::properties(false).fold(spec, ComponentSpec::property);
        spec.validated(gr_zeromq::check)
    }

    fn new(properties: &Properties) -> Result<Self> {
        gr_zeromq::check(properties)?;
        Ok(Self { properties: properties.clone() })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let peer = Peer::open(&self.properties, [zmq::PULL, zmq::SUB])?;
        let stop = ports.stop_signal();
        let known = |name| Some(self.properties.float(name)).filter(|value| *value > 0.0);
        let stream = StreamInfo {
            sample_rate_hz: known("sample_rate"),
            center_frequency_hz: known("frequency"),
            row_length: u32::try_from(peer.vlen).ok().filter(|vlen| *vlen > 1),
            ..StreamInfo::new(ports.component())
        };
        let samples = SampleType::parse(self.properties.text("samples"))?;
        let output = ports.output::<Dynamic>(("out", &samples))?;
        let item_bytes = samples.size() * peer.vlen as usize;
        let mut source = FlowgraphSource {
            output,
            stream,
            is_described: false,
            item_bytes,
            vlen: peer.vlen,
            next_item: 0,
            offset: None,
        };
        let mut parts = Vec::new();
        loop {
            peer.receive(&mut parts, &stop)?;
            for message in join_parts(parts.iter().map(|part| &part[..]), peer.has_tags) {
                let found = if peer.has_tags {
                    TaggedMessage::parse(&message)
                } else if TaggedMessage::is_tagged(&message) {
                    return Err(peer.misbehaves(
                        "its messages have tags; set `tags` to true, or `pass_tags` of its block to False",
                    ));
                } else {
                    Ok(TaggedMessage { first_item: source.next_item, tags: Vec::new(), samples: &message })
                };
                let found = found.map_err(|bad| peer.misbehaves(bad))?;
                let bytes = found.samples.len();
                if bytes % item_bytes != 0 {
                    return Err(peer.misbehaves(format!(
                        "sent {bytes} bytes, which are no whole items of {item_bytes}; `samples` and `vlen` must be those \
                         of its block"
                    )));
                }
                source.send(&found)?;
            }
        }
    }
}

/// The output, and the current position in the stream of the flowgraph.
struct FlowgraphSource {
    output: Publisher<Dynamic>,
    stream: StreamInfo,
    is_described: bool,
    item_bytes: usize,
    vlen: u64,
    /// The number of the next item in the output.
    next_item: u64,
    /// The difference between an item's number in the output and in the flowgraph, modulo 2^64;
    /// `None` before the first message.
    offset: Option<u64>,
}

impl FlowgraphSource {
    /// Sends a message as packets. A packet begins at each tag that describes the samples from
    /// there on.
    fn send(&mut self, message: &TaggedMessage<'_>) -> Result<()> {
        // A flowgraph that is started again counts from 0, but the output stream continues.
        let offset = match self.offset {
            Some(offset) if message.first_item.wrapping_add(offset) >= self.next_item => offset,
            Some(_) | None => self.next_item.wrapping_sub(message.first_item),
        };
        self.offset = Some(offset);
        let first = message.first_item.wrapping_add(offset);
        if first > self.next_item {
            log::warn!(target: "stripline::gr-zeromq", "{} items of the flowgraph did not arrive", first - self.next_item);
        }
        let items = (message.samples.len() / self.item_bytes) as u64;
        let mut tags: Vec<Tag<'_>> = message.tags.clone();
        tags.iter_mut().for_each(|tag| tag.item = tag.item.wrapping_add(offset));
        tags.retain(|tag| (first..first + items).contains(&tag.item));
        tags.sort_by_key(|tag| tag.item);
        let mut tags = &tags[..];
        let mut item = first;
        while item < first + items {
            let (carried, time_ns) = self.take_tags(&mut tags, item);
            let end = tags.first().map_or(first + items, |tag| tag.item);
            if !self.is_described {
                self.output.set_stream(carried.describe(self.stream.clone()));
                // The next packet has other tags.
                self.is_described = carried.is_empty();
            }
            let part = (item - first) as usize * self.item_bytes..(end - first) as usize * self.item_bytes;
            let mut loan = self.output.loan(((end - item) * self.vlen) as usize)?;
            loan.copy_from_slice(&message.samples[part]);
            let loan = loan.at_sample(item * self.vlen);
            match time_ns {
                Some(time_ns) => loan.at_time_ns(time_ns).send()?,
                None => loan.send()?,
            }
            item = end;
        }
        self.next_item = first + items;
        Ok(())
    }

    /// Takes the tags of a packet that begins with an item. The packet ends before a tag that
    /// describes a later item, or that does not fit.
    fn take_tags(&mut self, tags: &mut &[Tag<'_>], first: u64) -> (CarriedTags, Option<i64>) {
        let mut carried = CarriedTags::default();
        let mut time_ns = None;
        while let Some((tag, rest)) = tags.split_first() {
            let described = Described::of(tag);
            if described.is_some() && tag.item > first {
                break;
            }
            let at_sample = Tag { item: tag.item * self.vlen, ..tag.clone() };
            if !carried.push(at_sample) {
                if tag.item > first {
                    break;
                }
                log::warn!(target: "stripline::gr-zeromq", "a tag of {} bytes is left out", tag.value.bytes().len());
            }
            if let Some(described) = described {
                time_ns = described.put(&mut self.stream).or(time_ns);
            }
            self.is_described = false;
            *tags = rest;
        }
        (carried, time_ns)
    }
}
