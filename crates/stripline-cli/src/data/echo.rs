//! `stripline echo`: packets as text or JSON.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use stripline::payload::TypeName;
use stripline::{Gap, Packet, StreamInfo};
use stripline_components::formats::utc_datetime;

use super::arguments::EchoArguments;
use super::source::{POLL_TIME, Poll, Source};
use super::values::{Content, content, text};
use super::{Interrupt, failed, gap_text, reason, write_out};
use crate::Exit;
use crate::format::{counted, printable};

/// Samples of a packet in a line of text, by default.
const SAMPLES_DEFAULT: usize = 8;
/// The longest name or message in a line of text, in characters.
const TEXT_MAX: usize = 10_000;

pub(crate) fn echo(arguments: &EchoArguments) -> Exit {
    let interrupt = match Interrupt::catch() {
        Ok(interrupt) => interrupt,
        Err(error) => return failed(&error, Exit::Failure),
    };
    let mut source = match Source::open(&arguments.source, &interrupt) {
        Ok(Some(source)) => source,
        Ok(None) => return Exit::Clean,
        Err(exit) => return exit,
    };
    let default = if arguments.json { usize::MAX } else { SAMPLES_DEFAULT };
    let payload = source.payload.clone();
    let mut lines =
        Lines { payload, stream: None, json: arguments.json, max: arguments.samples.unwrap_or(default) };
    let (mut out, mut exit, mut left) = (std::io::stdout(), Exit::Clean, arguments.count);
    complain!("{}: {}; Ctrl-C ends it", printable(&source.name, super::TEXT_MAX), source.payload);
    while !interrupt.is_set() {
        let mut printed = String::new();
        let polled = source.poll(POLL_TIME, |packet| printed = lines.packet(packet));
        let is_over = match polled {
            Ok(Poll::Packet) => {
                left = left.map(|left| left - 1);
                left == Some(0)
            }
            Ok(Poll::Empty) => false,
            Ok(Poll::Restarted) => {
                printed = lines.event("restart", "the sender was started again");
                false
            }
            Ok(Poll::Ended) => {
                printed = source.gap_at_end().map(|gap| lines.gap(&gap)).unwrap_or_default();
                printed += &lines.event("end", "the sender has ended");
                true
            }
            Err(error) => {
                exit = failed(&error, Exit::Failure);
                true
            }
        };
        if !printed.is_empty() && !write_out(&mut out, &printed, &mut exit) || is_over {
            break;
        }
    }
    exit
}

/// The lines printed for packets.
struct Lines {
    payload: TypeName,
    /// The stream printed last.
    stream: Option<Arc<StreamInfo>>,
    json: bool,
    /// Samples of a packet.
    max: usize,
}

impl Lines {
    /// Returns the lines of a packet: its stream if that is new, the gap before it, and itself.
    fn packet(&mut self, packet: &Packet<'_, u8>) -> String {
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
        let content = content(&self.payload, packet, self.max);
        lines += &if self.json { json_line(packet, content) } else { text_line(packet, content) };
        lines
    }

    fn stream(&self, stream: &StreamInfo) -> String {
        if self.json {
            return line(&json!({ "event": "stream", "stream": stream }));
        }
        let mut words = vec![format!("stream {}", printable(&stream.id, TEXT_MAX))];
        words.extend(stream.sample_rate_hz.map(|rate| format!("{rate} samples/s")));
        words.extend(stream.center_frequency_hz.map(|frequency| format!("centre {frequency} Hz")));
        words.extend(
            stream.keywords.iter().map(|(key, value)| printable(&format!("{key} {value}"), TEXT_MAX)),
        );
        words.join(", ") + "\n"
    }

    fn gap(&self, gap: &Gap) -> String {
        if !self.json {
            return gap_text(gap) + "\n";
        }
        let Gap { first, packets, samples, .. } = gap;
        let reason = reason(gap);
        line(
            &json!({ "event": "gap", "first": first, "packets": packets, "samples": samples, "reason": reason }),
        )
    }

    fn event(&self, name: &str, words: &str) -> String {
        if self.json { line(&json!({ "event": name })) } else { format!("{words}\n") }
    }
}

fn json_line(packet: &Packet<'_, u8>, content: Content) -> String {
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
        Content::Samples { count, values } => {
            set("samples", count.into());
            set("values", values.into());
        }
        Content::Message(message) => set("message", message),
        Content::Hex(hex) => set("hex", hex.into()),
        Content::Invalid(problem) => set("problem", problem.into()),
    }
    line(&Value::Object(object))
}

fn text_line(packet: &Packet<'_, u8>, content: Content) -> String {
    let mut line = format!("packet {} sample {}", packet.sequence(), packet.sample_index());
    let time = packet.time_ns();
    if time != 0 {
        let since = std::time::Duration::from_nanos(time.unsigned_abs());
        let at = std::time::UNIX_EPOCH.checked_add(since).filter(|_| time > 0);
        line += &at.map_or_else(|| format!(" time {time} ns"), |at| format!(" time {}", utc_datetime(at)));
    }
    let rest = match content {
        Content::Samples { count, values } => {
            let more = if values.len() < count { " …" } else { "" };
            format!(" ({}): {}{more}", counted(count as u64, "sample"), text(&values))
        }
        Content::Message(message) => format!(": {}", printable(&message.to_string(), TEXT_MAX)),
        Content::Hex(hex) => {
            let more = if hex.len() / 2 < packet.len() { " …" } else { "" };
            format!(" ({}): {hex}{more}", counted(packet.len() as u64, "byte"))
        }
        Content::Invalid(problem) => format!(": {problem}"),
    };
    line + &rest + "\n"
}

fn line(value: &Value) -> String {
    format!("{value}\n")
}
