//! Packets as lines of text or JSON, for `stripline echo` and `print-sink`.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use stripline::payload::{Content, TypeName};
use stripline::{Gap, GapReason, Packet, StreamInfo};

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
            let end = packet.sample_index();
            let missing = end.saturating_sub(gap.samples)..end;
            let frames = (gap.samples > 0 && packet.stream().row_length.is_some())
                .then(|| packet.stream().whole_frames(missing));
            lines += &self.gap_line(gap, frames, "before this one");
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
            let turn = match (stream.row_length, stream.frame_rows) {
                (None, _) => "sample by sample",
                (Some(_), None) => "row by row",
                (Some(_), Some(_)) => "frame by frame",
            };
            let names = printable(&stream.channels.join(" "), TEXT_MAX);
            words.push(format!("{} {turn}: {names}", counted(stream.channels.len() as u64, "channel")));
        }
        words.extend(stream.row_length.map(|length| format!("rows of {}", counted(length.into(), "sample"))));
        words.extend(stream.frame_rows.map(|rows| format!("frames of {}", counted(rows.into(), "row"))));
        let along = if stream.row_length.is_some() { "row" } else { "stream" };
        let places = [&format!("along a {along}"), "from row to row", "from frame to frame"];
        for (axis, place) in stream.axes.iter().zip(places) {
            let ([start, step], unit) = ([axis.start, axis.step].map(rounded), &axis.unit);
            words.push(printable(&format!("axis {place} from {start} in steps of {step} {unit}"), TEXT_MAX));
        }
        words.extend(stream.clock.map(|clock| format!("clock {clock}")));
        words.extend(
            stream.keywords.iter().map(|(key, value)| printable(&format!("{key} {value}"), TEXT_MAX)),
        );
        words.join(", ") + "\n"
    }

    /// Returns the line of a gap behind the last packet.
    pub fn gap(&self, gap: &Gap) -> String {
        self.gap_line(gap, None, "at the end")
    }

    /// Returns the line of a gap. `frames` is the number of whole frames in the gap, or of whole
    /// rows, of a stream that has them. `place` is the place of a gap of unknown length.
    fn gap_line(&self, gap: &Gap, frames: Option<u64>, place: &str) -> String {
        if !self.json {
            return gap_text(gap, frames, place) + "\n";
        }
        let Gap { first, packets, samples, .. } = gap;
        let reason = reason(gap);
        let mut event = json!({
            "event": "gap", "first": first, "packets": packets, "samples": samples, "reason": reason
        });
        if let Some(frames) = frames {
            event["frames"] = frames.into();
        }
        line(&event)
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

/// Returns a number with six significant digits for a line of text.
fn rounded(number: f64) -> f64 {
    // The text of a number is a number.
    format!("{number:.5e}").parse().unwrap_or(number)
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
fn gap_text(gap: &Gap, frames: Option<u64>, place: &str) -> String {
    if gap.packets == 0 {
        return format!("gap: an unknown number of packets is missing {place} ({})", reason(gap));
    }
    let mut samples =
        if gap.samples > 0 { format!(", {}", counted(gap.samples, "sample")) } else { String::new() };
    if let Some(frames) = frames {
        samples += &format!(" with {}", counted(frames, "whole frame"));
    }
    format!("gap: {} missing from {} on{samples} ({})", packets(gap.packets), gap.first, reason(gap))
}

#[cfg(test)]
mod tests {
    use stripline::Axis;

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
            axes: vec![Axis::new(0.0, 75.0, "m"), Axis::new(-50.0, 0.1 + 0.2, "m/s")],
            channels: vec!["h".into(), "v".into()],
            ..StreamInfo::new("map")
        };
        assert_eq!(
            lines.stream(&map),
            "stream map, 2 channels row by row: h v, rows of 64 samples, axis along a row from 0 in steps of 75 m, \
             axis from row to row from -50 in steps of 0.3 m/s\n"
        );
        let frames = map.frames(32, Axis::new(0.0, 0.1, "s"));
        assert!(
            lines
                .stream(&frames)
                .contains("2 channels frame by frame: h v, rows of 64 samples, frames of 32 rows")
        );
        assert!(lines.stream(&frames).ends_with(", axis from frame to frame from 0 in steps of 0.1 s\n"));
    }

    #[test]
    fn a_gap_between_frames_has_the_whole_frames() {
        let node = stripline::node::Node::isolated().unwrap();
        let mut publisher = node.publisher::<u8>("map").unwrap();
        let mut subscriber = node.subscriber::<u8>("map").unwrap();
        publisher.wait_for_receivers(1, std::time::Duration::from_secs(20)).unwrap();
        let axis = || Axis::new(0.0, 1.0, "");
        publisher.set_stream(StreamInfo::new("map").rows(2, axis(), axis()).frames(2, axis()));
        publisher.loan(4).unwrap().at_sample(9).send().unwrap();
        let packet = subscriber.receive().unwrap().unwrap();
        let gap = Gap { first: 0, packets: 3, samples: 9, reason: GapReason::Overflow };
        let frames = packet.stream().whole_frames(0..packet.sample_index());
        let mut lines = PacketLines::new(TypeName::of::<u8>(), false, 8);
        assert_eq!(
            lines.gap_line(&gap, Some(frames), "before this one"),
            "gap: 3 packets missing from 0 on, 9 samples with 2 whole frames (overflow)\n"
        );
        lines.json = true;
        assert!(lines.gap_line(&gap, Some(frames), "").contains(r#""frames":2"#));
    }

    #[test]
    fn a_gap_behind_the_last_packet_is_at_the_end() {
        let lines = PacketLines::new(TypeName::of::<f32>(), false, 8);
        let gap = Gap { first: 0, packets: 0, samples: 0, reason: GapReason::PeerRestart };
        let text = lines.gap(&gap);
        assert_eq!(text, "gap: an unknown number of packets is missing at the end (restart)\n");
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
