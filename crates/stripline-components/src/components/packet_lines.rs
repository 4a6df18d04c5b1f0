//! Packets as lines of text or JSON, for `stripline echo` and `print-sink`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use stripline::payload::{Content, TypeName};
use stripline::{Axis, Gap, GapReason, Packet, StreamInfo};

use crate::formats::packet_values::{PacketValues, content, text};
use crate::formats::utc_datetime;
use crate::text::{counted, packets, printable};

/// The longest name or message in a line of text, in characters.
const TEXT_MAX: usize = 10_000;

/// A printer for packets of one payload type, which may be any type. The printer prints a line for
/// each packet, and before that a line for a new stream and a line for a gap.
///
/// ```
/// use std::time::Duration;
/// use stripline::payload::TypeName;
/// use stripline_components::components::PacketLines;
///
/// let node = stripline::node::Node::isolated()?;
/// let mut publisher = node.publisher::<u8>("levels")?;
/// let mut subscriber = node.subscriber::<u8>("levels")?;
/// publisher.wait_for_receivers(1, Duration::from_secs(5))?;
/// publisher.send(&[1, 2, 3])?;
/// let mut lines = PacketLines::new(TypeName::of::<u8>(), false, 2);
/// let packet = subscriber.receive()?.expect("a packet");
/// assert_eq!(lines.packet(&packet), "stream levels\npacket 0 sample 0 (3 samples): 1 2 …\n");
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Debug)]
pub struct PacketLines {
    payload: TypeName,
    /// The stream printed last.
    stream: Option<Arc<StreamInfo>>,
    json: bool,
    /// The maximum number of samples printed per packet.
    max: usize,
}

impl PacketLines {
    /// Creates a printer of at most `max` samples of each packet, as text or as JSON.
    pub fn new(payload: TypeName, json: bool, max: usize) -> Self {
        Self { payload, stream: None, json, max }
    }

    /// Returns the lines of a packet: the stream if it is new, the gap before the packet, and the
    /// packet.
    pub fn packet(&mut self, packet: &Packet<'_, impl Content<Item = u8>>) -> String {
        let content = content(&self.payload, packet, self.max);
        let line = if self.json { json_line(packet, content) } else { text_line(packet, content) };
        self.before(packet) + &line
    }

    /// Returns the lines before a packet: the stream if it is new, and the gap.
    pub fn before(&mut self, packet: &Packet<'_, impl Content<Item = u8>>) -> String {
        let mut lines = String::new();
        if let Some(gap) = packet.gap() {
            lines += &self.gap(gap);
        }
        let stream = packet.stream();
        let is_known =
            self.stream.as_ref().is_some_and(|known| Arc::ptr_eq(known, stream) || known == stream);
        if !is_known {
            self.stream = Some(Arc::clone(stream));
            lines += &self.stream(stream);
        }
        lines
    }

    fn stream(&self, stream: &StreamInfo) -> String {
        if self.json {
            return line(&json!({ "event": "stream", "stream": stream }));
        }
        let mut words = vec![format!("stream {}", printable(&stream.id, TEXT_MAX))];
        words.extend(stream.sample_rate_hz.map(|rate| format!("{rate} samples/s")));
        words.extend(stream.center_frequency_hz.map(|frequency| format!("centre {frequency} Hz")));
        if !stream.channels.is_empty() {
            let turn = if stream.row_length.is_some() { "row by row" } else { "sample by sample" };
            let names = printable(&stream.channels.join(" "), TEXT_MAX);
            words.push(format!("{} {turn}: {names}", counted(stream.channels.len() as u64, "channel")));
        }
        words.extend(stream.row_length.map(|length| format!("rows of {}", counted(length.into(), "sample"))));
        let along = if stream.row_length.is_some() { "row" } else { "stream" };
        for (axis, place) in stream.axes.iter().zip([&format!("along a {along}"), "from row to row"]) {
            let Axis { start, step, unit } = axis;
            words.push(printable(&format!("axis {place} from {start} in steps of {step} {unit}"), TEXT_MAX));
        }
        words.extend(
            stream.keywords.iter().map(|(key, value)| printable(&format!("{key} {value}"), TEXT_MAX)),
        );
        words.join(", ") + "\n"
    }

    /// Returns the line of a gap.
    pub fn gap(&self, gap: &Gap) -> String {
        if !self.json {
            return gap_text(gap) + "\n";
        }
        let Gap { first, packets, samples, .. } = gap;
        let reason = reason(gap);
        line(
            &json!({ "event": "gap", "first": first, "packets": packets, "samples": samples, "reason": reason }),
        )
    }

    /// Returns the line of an event: `name` in JSON, or `words` in text.
    pub fn event(&self, name: &str, words: &str) -> String {
        if self.json { line(&json!({ "event": name })) } else { format!("{words}\n") }
    }
}

fn json_line(packet: &Packet<'_, impl Content<Item = u8>>, content: PacketValues) -> String {
    let mut object = Map::new();
    let mut set = |key: &str, value: Value| drop(object.insert(key.into(), value));
    set("event", "packet".into());
    set("connection", packet.connection().into());
    set("sequence", packet.sequence().into());
    set("sample_index", packet.sample_index().into());
    let time = packet.time_ns();
    set("time_ns", if time == 0 { Value::Null } else { time.into() });
    set("bytes", packet.len().into());
    match content {
        PacketValues::Samples { count, values } => {
            set("samples", count.into());
            set("values", values.into());
        }
        PacketValues::Message(message) => set("message", message),
        PacketValues::Hex(hex) => set("hex", hex.into()),
        PacketValues::Invalid(problem) => set("problem", problem.into()),
    }
    line(&Value::Object(object))
}

fn text_line(packet: &Packet<'_, impl Content<Item = u8>>, content: PacketValues) -> String {
    let mut line = format!("packet {}", packet.sequence());
    // By default, the sample index of a message is its number.
    if matches!(content, PacketValues::Samples { .. }) {
        line += &format!(" sample {}", packet.sample_index());
    }
    let time = packet.time_ns();
    if time != 0 {
        let since = std::time::Duration::from_nanos(time.unsigned_abs());
        let at = std::time::UNIX_EPOCH.checked_add(since).filter(|_| time > 0);
        line += &at.map_or_else(|| format!(" time {time} ns"), |at| format!(" time {}", utc_datetime(at)));
    }
    let rest = match content {
        PacketValues::Samples { count, values } => {
            let more = if values.len() < count { " …" } else { "" };
            format!(" ({}): {}{more}", counted(count as u64, "sample"), text(&values))
        }
        PacketValues::Message(message) => format!(": {}", printable(&message.to_string(), TEXT_MAX)),
        PacketValues::Hex(hex) => {
            let more = if hex.len() / 2 < packet.len() { " …" } else { "" };
            format!(" ({}): {hex}{more}", counted(packet.len() as u64, "byte"))
        }
        PacketValues::Invalid(problem) => format!(": {problem}"),
    };
    line + &rest + "\n"
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}

/// Returns the cause of a gap as a word.
fn reason(gap: &Gap) -> &'static str {
    match gap.reason {
        GapReason::Overflow => "overflow",
        GapReason::PeerRestart => "restart",
        GapReason::Transport => "transport",
        GapReason::Late => "late",
    }
}

/// Returns a gap as a sentence.
fn gap_text(gap: &Gap) -> String {
    if gap.packets == 0 {
        return format!("gap: an unknown number of packets is missing before this one ({})", reason(gap));
    }
    let samples =
        if gap.samples > 0 { format!(", {}", counted(gap.samples, "sample")) } else { String::new() };
    format!("gap: {} missing from {} on{samples} ({})", packets(gap.packets), gap.first, reason(gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_has_its_channels_rows_and_axes() {
        let lines = PacketLines::new(TypeName::of::<f32>(), false, 8);
        let pair = StreamInfo::new("iq").sample_rate_hz(2e6).channels(["a", "b\n"]);
        assert_eq!(
            lines.stream(&pair),
            "stream iq, 2000000 samples/s, 2 channels sample by sample: a b\\u{a}\n"
        );
        let map = StreamInfo {
            row_length: Some(64),
            axes: vec![Axis::new(0.0, 75.0, "m"), Axis::new(-50.0, 0.5, "m/s")],
            channels: vec!["h".into(), "v".into()],
            ..StreamInfo::new("map")
        };
        assert_eq!(
            lines.stream(&map),
            "stream map, 2 channels row by row: h v, rows of 64 samples, axis along a row from 0 in steps of 75 m, \
             axis from row to row from -50 in steps of 0.5 m/s\n"
        );
    }

    #[test]
    fn a_message_has_no_sample_index() {
        let node = stripline::node::Node::isolated().unwrap();
        let mut publisher = node.publisher::<u8>("levels").unwrap();
        let mut subscriber = node.subscriber::<u8>("levels").unwrap();
        publisher.wait_for_receivers(1, std::time::Duration::from_secs(20)).unwrap();
        publisher.send(&[0x61, b'a']).unwrap();
        let packet = subscriber.receive().unwrap().unwrap();
        let mut message = PacketLines::new(TypeName::new("message/tune").unwrap(), false, 8);
        assert_eq!(message.packet(&packet), "stream levels\npacket 0: \"a\"\n");
    }
}
