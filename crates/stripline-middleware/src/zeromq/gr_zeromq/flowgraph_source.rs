//! `gr-zeromq-source`: samples from a flowgraph.

use stripline::{Result, StreamInfo};

use super::peer::Peer;
use crate::components::ends::{Setup, WireOutput, WireReceiver};
use crate::gnuradio::{CarriedTags, Described, Tag, TaggedMessage, join_parts};

/// The socket, and the current position in the stream of the flowgraph.
pub(crate) struct FlowgraphSource {
    peer: Peer,
    stream: StreamInfo,
    is_described: bool,
    item_bytes: usize,
    /// The number of the next item in the output.
    next_item: u64,
    /// The difference between an item's number in the output and in the flowgraph, modulo 2^64;
    /// `None` before the first message.
    offset: Option<u64>,
}

impl WireReceiver for FlowgraphSource {
    fn open(setup: &Setup<'_>) -> Result<Self> {
        let Setup { properties, sample_bytes, ports, .. } = setup;
        let peer = Peer::open(setup, [zmq::PULL, zmq::SUB])?;
        let known = |name| Some(properties.float(name)).filter(|value| *value > 0.0);
        let stream = StreamInfo {
            sample_rate_hz: known("sample_rate"),
            center_frequency_hz: known("frequency"),
            row_length: u32::try_from(peer.vlen).ok().filter(|vlen| *vlen > 1),
            ..StreamInfo::new(ports.component())
        };
        let item_bytes = sample_bytes * peer.vlen as usize;
        Ok(Self { peer, stream, is_described: false, item_bytes, next_item: 0, offset: None })
    }

    fn receive(&mut self, output: &mut WireOutput) -> Result<bool> {
        let parts = self.peer.receive()?;
        let (has_tags, item_bytes) = (self.peer.has_tags, self.item_bytes);
        for message in join_parts(parts.iter().map(|part| &part[..]), has_tags) {
            if output.has_messages() {
                output.check(&message).map_err(|problem| {
                    self.peer.misbehaves(format!("sent a message that does not fit: {problem}"))
                })?;
                output.send(&message, None, None)?;
                continue;
            }
            let found = if has_tags {
                TaggedMessage::parse(&message)
            } else if TaggedMessage::is_tagged(&message) {
                return Err(self.peer.misbehaves(
                    "sends messages with tags; set `tags` to true, or `pass_tags` of its block to False",
                ));
            } else {
                Ok(TaggedMessage { first_item: self.next_item, tags: Vec::new(), samples: &message })
            };
            let found = found
                .map_err(|bad| self.peer.misbehaves(format!("sent a message that cannot be read: {bad}")))?;
            let bytes = found.samples.len();
            if bytes % item_bytes != 0 {
                return Err(self.peer.misbehaves(format!(
                    "sent {bytes} bytes, which are not whole items of {item_bytes}; `samples` and `vlen` must be as \
                     in its block"
                )));
            }
            self.send(&found, output)?;
        }
        Ok(true)
    }
}

impl FlowgraphSource {
    /// Sends a message as packets. A packet begins at each tag that describes the samples from
    /// there on.
    fn send(&mut self, message: &TaggedMessage<'_>, output: &mut WireOutput) -> Result<()> {
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
        let vlen = self.peer.vlen;
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
                output.describe(carried.describe(self.stream.clone()));
                // The next packet has other tags.
                self.is_described = carried.is_empty();
            }
            let part = (item - first) as usize * self.item_bytes..(end - first) as usize * self.item_bytes;
            output.send(&message.samples[part], Some(item * vlen), time_ns)?;
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
            let at_sample = Tag { item: tag.item * self.peer.vlen, ..tag.clone() };
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
