//! `gr-zeromq-sink`: samples to a flowgraph.

use std::time::{Duration, Instant};

use stripline::component::InvalidProperties;
use stripline::payload::Dynamic;
use stripline::{Packet, Result, StreamInfo};

use super::peer::Peer;
use crate::components::ends::{Setup, WireSender};
use crate::gnuradio::{BadMessage, CarriedTags, Described, Tag, TaggedMessage};

/// The socket, and the rest of the previous packet.
pub(crate) struct FlowgraphSink {
    peer: Peer,
    sample_bytes: usize,
    before: Before,
    /// The first samples of an item. The other samples of the item are in the next packet.
    partial: Vec<u8>,
    partial_at: u64,
}

impl WireSender for FlowgraphSink {
    fn open(setup: &Setup<'_>) -> Result<Self> {
        let Setup { properties, sample_bytes, .. } = *setup;
        Ok(Self {
            peer: Peer::open(setup, [zmq::PUSH, zmq::PUB])?,
            sample_bytes,
            before: Before {
                period: Some(properties.float("repeat_s"))
                    .filter(|period| *period > 0.0)
                    .map_or(Duration::MAX, Duration::from_secs_f64),
                ..Before::default()
            },
            partial: Vec::new(),
            partial_at: 0,
        })
    }

    fn send(&mut self, packet: Packet<'_, Dynamic>) -> Result<()> {
        let Self { peer, sample_bytes, before, partial, partial_at } = self;
        check_items(packet.stream(), peer.vlen)?;
        if packet.gap().is_some() {
            partial.clear();
        }
        // After a gap, the rest of an item is left out.
        let begun = if partial.is_empty() { packet.sample_index() % peer.vlen } else { 0 };
        let left_out = ((peer.vlen - begun) % peer.vlen).min(packet.samples() as u64);
        let index = if partial.is_empty() { packet.sample_index() + left_out } else { *partial_at };
        let mut message = Vec::with_capacity(packet.len() + partial.len() + 64);
        if peer.has_tags {
            let tags = before.tags(&packet, peer.vlen).map_err(|bad| peer.misbehaves(bad))?;
            TaggedMessage::write_head(&mut message, index / peer.vlen, &tags);
        }
        let head = message.len();
        message.append(partial);
        message.extend_from_slice(&packet[left_out as usize * *sample_bytes..]);
        let left_over = (message.len() - head) % (*sample_bytes * peer.vlen as usize);
        *partial = message.split_off(message.len() - left_over);
        *partial_at = index + ((message.len() - head) / *sample_bytes) as u64;
        drop(packet);
        if message.len() > head { peer.send(message) } else { Ok(()) }
    }

    fn finish(self) -> Result<()> {
        self.peer.finish()
    }
}

/// Checks that an item has whole rows, and a sample or a row of each channel.
///
/// # Errors
/// The length does not fit: the error has the key, and a length that fits.
fn check_items(stream: &StreamInfo, vlen: u64) -> Result<()> {
    let (id, channels) = (&stream.id, stream.channels.len());
    let frame = stream.frame_samples();
    if vlen.is_multiple_of(frame) {
        return Ok(());
    }
    let words = [
        (channels > 1).then(|| format!("{channels} channels (`channels`)")),
        stream.frame_rows.map(|rows| format!("frames of {rows} rows (`frame_rows`)")),
        stream.row_length.map(|length| format!("rows of {length} samples (`row_length`)")),
    ];
    let order = words.into_iter().flatten().collect::<Vec<_>>().join(" in ");
    Err(InvalidProperties::new(format!(
        "the stream `{id}` has {order}, and the items of the flowgraph have {vlen} samples: set `vlen` to {frame}, here \
         and in the block, and split the items by the block Vector to Streams"
    ))
    .property("vlen")
    .into())
}

/// The description and the time of the previous packet.
#[derive(Default)]
struct Before {
    stream: Option<StreamInfo>,
    /// The index and the time of a sample.
    time: Option<(u64, i64)>,
    /// The period at which the tags are repeated.
    period: Duration,
    repeated_at: Option<Instant>,
}

impl Before {
    /// Returns the tags of a packet: the tags that the packet carries, and tags for properties that
    /// have changed, or that are due again.
    fn tags(
        &mut self,
        packet: &Packet<'_, Dynamic>,
        vlen: u64,
    ) -> std::result::Result<Vec<Tag<'static>>, BadMessage> {
        let (stream, first) = (packet.stream(), packet.sample_index());
        let carried = CarriedTags::of(stream)?;
        let samples = first..first + packet.samples() as u64;
        let within = carried.tags().iter().filter(|tag| samples.contains(&tag.item));
        let mut tags: Vec<_> = within.cloned().collect();
        let repeats = self.repeated_at.is_none_or(|at| at.elapsed() >= self.period);
        if repeats {
            self.repeated_at = Some(Instant::now());
        }
        let begins = repeats || packet.gap().is_some();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_have_whole_rows_of_all_channels() {
        let mut stream = StreamInfo::new("s");
        assert!(check_items(&stream, 3).is_ok());
        stream.channels = vec!["a".into(), "b".into()];
        let error = check_items(&stream, 1).unwrap_err().to_string();
        assert!(error.contains("(`channels`)") && error.contains("set `vlen` to 2"), "{error}");
        assert!(check_items(&stream, 2).is_ok());
        stream.row_length = Some(8);
        let error = check_items(&stream, 8).unwrap_err().to_string();
        assert!(error.contains("(`row_length`)") && error.contains("set `vlen` to 16"), "{error}");
    }
}
