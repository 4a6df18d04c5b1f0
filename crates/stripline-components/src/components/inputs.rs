//! The ports of components with several inputs of one type (`in1`, `in2` and so on), and the
//! streams at these ports.

use std::sync::Arc;

use stripline::component::kit::{Continuity, StreamTracker};
use stripline::component::{ComponentSpec, Direction, PortSpec, PortTypes, Ports};
use stripline::payload::Content;
use stripline::{Axis, Error, Packet, Result, StreamInfo};

/// The maximum number of inputs.
const INPUTS_MAX: usize = 8;

/// Describes the inputs. The first two must be connected.
pub(super) fn describe(mut spec: ComponentSpec, types: PortTypes, summary: &str) -> ComponentSpec {
    for number in 1..=INPUTS_MAX {
        let types = if number == 1 { types.clone() } else { PortTypes::SameAs("in1".into()) };
        let port = PortSpec::new(&format!("in{number}"), Direction::Input, types, summary);
        spec = spec.port(if number <= 2 { port } else { port.optional() });
    }
    spec
}

/// Returns the names of the connected inputs.
pub(super) fn connected(ports: &Ports) -> Vec<String> {
    let names = (1..=INPUTS_MAX).map(|number| format!("in{number}"));
    names.filter(|name| ports.is_connected(name)).collect()
}

/// The descriptions of the streams at several inputs.
pub(super) struct InputStreams {
    names: Vec<String>,
    trackers: Vec<StreamTracker>,
    streams: Vec<Option<Arc<StreamInfo>>>,
    /// Whether a description has changed.
    is_new: bool,
}

impl InputStreams {
    pub(super) fn new(names: Vec<String>) -> Self {
        let trackers = names.iter().map(|_| StreamTracker::default()).collect();
        Self { trackers, streams: vec![None; names.len()], is_new: true, names }
    }

    /// Adds a packet of input `number`. Returns the stream of the packet if it is new.
    pub(super) fn packet<T: Content>(
        &mut self,
        number: usize,
        packet: &Packet<'_, T>,
    ) -> Option<&StreamInfo> {
        if self.trackers[number].packet(packet) != Continuity::NewStream {
            return None;
        }
        self.is_new = true;
        Some(self.streams[number].insert(Arc::clone(packet.stream())))
    }

    /// Returns the stream of the first input.
    pub(super) fn first(&self) -> Arc<StreamInfo> {
        self.streams.first().cloned().flatten().unwrap_or_default()
    }

    /// Returns the streams, with the names of their inputs.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &StreamInfo)> {
        let all = self.names.iter().zip(&self.streams);
        all.filter_map(|(name, stream)| Some((name.as_str(), stream.as_deref()?)))
    }

    /// Returns the common description of all streams, if one has changed: the description of the
    /// first stream, with the centre frequency only if all streams agree.
    ///
    /// # Errors
    /// The streams have different rates, or their samples are in different orders.
    pub(super) fn changed(&mut self) -> Result<Option<StreamInfo>> {
        if !std::mem::take(&mut self.is_new) {
            return Ok(None);
        }
        let mut common = StreamInfo::clone(&self.first());
        let Some((first, _)) = self.all().next() else { return Ok(Some(common)) };
        for (name, stream) in self.all().skip(1) {
            check_alike((first, &common), (name, stream))?;
            // If frequencies differ, the first frequency would be wrong for the others.
            let frequencies = (common.center_frequency_hz, stream.center_frequency_hz);
            if matches!(frequencies, (Some(one), Some(other)) if one != other) {
                common.center_frequency_hz = None;
            }
        }
        Ok(Some(common))
    }
}

fn check_alike(first: (&str, &StreamInfo), other: (&str, &StreamInfo)) -> Result<()> {
    let ((first, base), (name, stream)) = (first, other);
    if let (Some(rate), Some(other)) = (base.sample_rate_hz, stream.sample_rate_hz)
        && rate != other
    {
        return Err(Error::failed(format!(
            "`{name}` has {other} samples/s and `{first}` has {rate}: put a `resampler` before one of them"
        )));
    }
    let differing = if base.channels.len() != stream.channels.len() {
        Some((format!("{} channels (`channels`)", stream.channels.len()), base.channels.len().to_string()))
    } else if base.row_length != stream.row_length {
        let length =
            |stream: &StreamInfo| stream.row_length.map_or("none".into(), |length| length.to_string());
        Some((format!("rows of {} samples (`row_length`)", length(stream)), length(base)))
    } else if base.frame_rows != stream.frame_rows {
        let rows = |stream: &StreamInfo| stream.frame_rows.map_or("none".into(), |rows| rows.to_string());
        Some((format!("frames of {} rows (`frame_rows`)", rows(stream)), rows(base)))
    } else if base.axes != stream.axes {
        let axes = |stream: &StreamInfo| {
            let axis = |axis: &Axis| format!("{} + n * {} {}", axis.start, axis.step, axis.unit);
            let axes: Vec<String> = stream.axes.iter().map(axis).collect();
            if axes.is_empty() { "none".to_owned() } else { axes.join(", ") }
        };
        Some((format!("the axes {} (`axes`)", axes(stream)), axes(base)))
    } else {
        None
    };
    match differing {
        None => Ok(()),
        Some((other, own)) => Err(Error::failed(format!(
            "`{name}` has {other}, and `{first}` has {own}: connect streams whose samples are in the same order"
        ))),
    }
}
