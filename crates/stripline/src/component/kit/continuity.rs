//! Continuity of streams, for components between a source and a sink.

use std::sync::Arc;

use crate::component::PropertySpec;
use crate::error::{InvalidProperties, Result};
use crate::node::Packet;
use crate::packet::StreamInfo;
use crate::packet::payload::Content;

/// A tracker that classifies each packet by its relation to the previous packet.
///
/// ```
/// # use std::time::Duration;
/// use stripline::component::kit::{Continuity, StreamTracker};
///
/// # let node = stripline::node::Node::isolated()?;
/// # let mut publisher = node.publisher::<f32>("levels")?;
/// # let mut input = node.subscriber::<f32>("levels")?;
/// # publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// # for index in [0, 4, 12] { publisher.loan(4)?.at_sample(index).send()?; }
/// # publisher.finish()?;
/// // Packets of four samples each have been sent: from samples 0, 4 and 12 on.
/// let (mut tracker, mut found) = (StreamTracker::default(), Vec::new());
/// while let Some(packet) = input.receive()? {
///     found.push(tracker.packet(&packet));
/// }
/// assert_eq!(found, [Continuity::NewStream, Continuity::Next, Continuity::AfterGap]);
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct StreamTracker {
    stream: Option<Arc<StreamInfo>>,
    next_sample: u64,
}

/// The relation of a packet to the previous packet.
///
/// ```
/// use stripline::component::kit::Continuity;
///
/// /// Whether a filter keeps its state.
/// fn keeps_state(found: Continuity) -> bool {
///     found == Continuity::Next
/// }
/// assert!(!keeps_state(Continuity::AfterGap));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuity {
    /// The packet continues the previous packet.
    Next,
    /// Samples are missing before this packet: filters should start from silence.
    AfterGap,
    /// The packet is the first one, or the stream description differs, so rates may differ.
    NewStream,
}

impl StreamTracker {
    /// Classifies the next packet.
    pub fn packet<T: Content>(&mut self, packet: &Packet<'_, T>) -> Continuity {
        let stream = packet.stream();
        let is_same = self.stream.as_ref().is_some_and(|last| Arc::ptr_eq(last, stream) || *last == *stream);
        let is_next = packet.gap().is_none() && packet.sample_index() == self.next_sample;
        self.next_sample = packet.sample_index().wrapping_add(packet.samples() as u64);
        match (is_same, is_next) {
            (true, true) => Continuity::Next,
            (true, false) => Continuity::AfterGap,
            (false, _) => {
                self.stream = Some(Arc::clone(stream));
                Continuity::NewStream
            }
        }
    }
}

/// Describes the property `sample_rate` of a component that can also take the rate from the stream,
/// in Hz. The property is the rate of all channels together, as in the stream's description.
///
/// ```
/// let property = stripline::component::kit::sample_rate_property();
/// assert_eq!(property.name, "sample_rate");
/// ```
pub fn sample_rate_property() -> PropertySpec {
    let summary = "sample rate of the input; 0: the rate of the stream";
    PropertySpec::float("sample_rate", 0.0, summary).range(0.0, 1e12).unit("Hz")
}

/// Returns the sample rate of the property, or else the rate of the stream.
///
/// # Errors
/// Neither the property nor the stream has a rate.
///
/// ```
/// use stripline::StreamInfo;
/// use stripline::component::kit::sample_rate;
///
/// let stream = StreamInfo::new("antenna").sample_rate_hz(2e6);
/// assert_eq!(sample_rate(0.0, &stream)?, 2e6);
/// assert_eq!(sample_rate(48e3, &stream)?, 48e3);
/// assert!(sample_rate(0.0, &StreamInfo::new("unknown")).is_err());
/// # Ok::<(), stripline::Error>(())
/// ```
pub fn sample_rate(property: f64, stream: &StreamInfo) -> Result<f64> {
    if property > 0.0 {
        return Ok(property);
    }
    stream.sample_rate_hz.ok_or_else(|| {
        let id = &stream.id;
        InvalidProperties::new(format!("the stream `{id}` has no sample rate"))
            .property("sample_rate")
            .remedy("set the property `sample_rate`")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::node::Node;

    use super::*;

    #[test]
    fn gaps_and_new_streams_are_told_apart() {
        let node = Node::isolated().unwrap();
        let mut publisher = node.publisher::<f32>("x").unwrap();
        let mut subscriber = node.subscriber::<f32>("x").unwrap();
        assert!(publisher.wait_for_receivers(1, Duration::from_secs(5)).unwrap());
        let mut tracker = StreamTracker::default();
        let stream = |rate| StreamInfo::new("a").sample_rate_hz(rate);
        for (rate, index, expected) in [
            (1e3, 7, Continuity::NewStream),
            (1e3, 9, Continuity::Next),
            (1e3, 12, Continuity::AfterGap),
            (1e3, 14, Continuity::Next),
            (2e3, 16, Continuity::NewStream),
            (2e3, 18, Continuity::Next),
            (2e3, 0, Continuity::AfterGap),
        ] {
            publisher.set_stream(stream(rate));
            publisher.loan(2).unwrap().at_sample(index).send().unwrap();
            let packet = subscriber.receive().unwrap().unwrap();
            assert_eq!(tracker.packet(&packet), expected, "{rate} {index}");
        }
    }

    #[test]
    fn the_property_outweighs_the_stream() {
        let stream = StreamInfo::new("a").sample_rate_hz(5.0);
        assert_eq!(sample_rate(0.0, &stream).unwrap(), 5.0);
        assert_eq!(sample_rate(6.0, &stream).unwrap(), 6.0);
        let message = sample_rate(0.0, &StreamInfo::new("a")).unwrap_err().to_string();
        assert!(message.contains("`a`") && message.contains("`sample_rate`"), "{message}");
    }
}
