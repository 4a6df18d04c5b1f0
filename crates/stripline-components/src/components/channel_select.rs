//! `channel-select`: some channels of a stream.

use stripline::component::kit::{Continuity, StreamTracker};
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertySpec, Value,
};
use stripline::payload::{Dynamic, TypeName};
use stripline::{Error, Output, Packet, Result, StreamInfo};

use super::stream_order::between;
use super::timing::time_after;

/// The component `channel-select`.
pub struct ChannelSelect {
    /// The names or numbers of the channels.
    wanted: Vec<String>,
}

impl Component for ChannelSelect {
    fn describe() -> ComponentSpec {
        let channels = "channels to send, by name or by number from 1, as `left, 3`; in the stream's order";
        ComponentSpec::new("channel-select", "Sends some channels of a stream, and leaves the others out.")
            .input("in", PortTypes::Any, "samples of several channels in turn, or rows of them")
            .output("out", PortTypes::SameAs("in".into()), "the selected channels")
            .property(
                PropertySpec::text("channels", "", channels).required().example(Value::Text("1, 2".into())),
            )
            .validated(|properties| wanted(properties).map(drop))
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { wanted: wanted(properties)? })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let payload = ports.payload("in").cloned();
        let Some(sample_bytes) = payload.as_ref().and_then(TypeName::sample_bytes) else {
            let payload = payload.map(|payload| payload.to_string()).unwrap_or_default();
            return Err(Error::failed(format!("{payload} has no samples of a known size to select")));
        };
        let mut input = ports.input::<Dynamic>("in")?;
        let mut output = ports.output::<Dynamic>("out")?;
        let mut tracker = StreamTracker::default();
        let mut selection = Selection::default();
        while let Some(packet) = input.receive()? {
            if tracker.packet(&packet) == Continuity::NewStream {
                let stream = packet.stream();
                selection = Selection::of(stream, &self.wanted)?;
                output.set_stream(selection.described(stream));
            }
            selection.send(&packet, sample_bytes, &mut output)?;
        }
        Ok(())
    }
}

/// Returns the names and numbers in the property `channels`.
fn wanted(properties: &Properties) -> Result<Vec<String>> {
    let text = properties.text("channels");
    let wanted: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let refused = |problem: String| {
        let invalid = InvalidProperties::new(problem).property("channels");
        Err(invalid.remedy("name channels, separated by commas, as `left, 3`").into())
    };
    if wanted.len() > StreamInfo::CHANNELS_MAX {
        return refused(format!(
            "`channels` has {} names, at most {}",
            wanted.len(),
            StreamInfo::CHANNELS_MAX
        ));
    }
    if wanted.iter().any(String::is_empty) {
        return refused(format!("`channels` is `{text}`, with an empty name"));
    }
    match wanted.iter().enumerate().find(|(place, name)| wanted[..*place].contains(name)) {
        Some((_, name)) => refused(format!("`channels` has `{name}` twice")),
        None => Ok(wanted),
    }
}

/// The selected channels of a stream, and the order of its samples.
#[derive(Default)]
struct Selection {
    /// The number of channels of the stream, at least 1.
    channels: u64,
    /// The number of consecutive samples of a channel.
    turn: u64,
    /// The positions of the selected channels among all, in ascending order.
    places: Vec<u64>,
    /// The samples of a packet. The buffer is reused.
    samples: Vec<u8>,
}

impl Selection {
    /// Finds the channels.
    fn of(stream: &StreamInfo, wanted: &[String]) -> Result<Self> {
        let channels = stream.channels.len().max(1);
        let place = |name: &String| {
            let named = stream.channels.iter().position(|own| own == name);
            let numbered = || name.parse::<usize>().ok().filter(|number| (1..=channels).contains(number));
            named.or_else(|| numbered().map(|number| number - 1)).ok_or_else(|| {
                let names = match stream.channels.len() {
                    0 => "one channel, without a name".to_owned(),
                    _ => format!("the channels {}", stream.channels.join(", ")),
                };
                Error::failed(format!(
                    "the stream `{}` has {names} (`channels`), and no channel `{name}`: change `channels`",
                    stream.id
                ))
            })
        };
        let mut places = Vec::new();
        for name in wanted {
            let found = place(name)? as u64;
            if places.contains(&found) {
                let problem = format!("`channels` names the channel {} twice: `{name}`", found + 1);
                return Err(Error::failed(format!("{problem} is its name or number; leave one out")));
            }
            places.push(found);
        }
        places.sort_unstable();
        Ok(Self { channels: channels as u64, turn: stream.turn_samples(), places, samples: Vec::new() })
    }

    /// Returns the description of the selected channels.
    fn described(&self, all: &StreamInfo) -> StreamInfo {
        let mut stream = all.clone();
        let names: Vec<String> =
            self.places.iter().filter_map(|place| all.channels.get(*place as usize).cloned()).collect();
        let (of, selected) = (self.channels as f64, self.places.len() as f64);
        stream.sample_rate_hz = stream.sample_rate_hz.map(|rate| rate / of * selected);
        // The step applies from row to row, or from sample to sample. A frame has all channels.
        if let Some(axis) = stream.axes.get_mut(usize::from(stream.row_length.is_some()))
            && stream.frame_rows.is_none()
        {
            axis.step *= of / selected;
        }
        stream.channels = match &names[..] {
            [] => Vec::new(),
            [one] => {
                stream.id = format!("{}.{one}", all.id);
                Vec::new()
            }
            _ => names,
        };
        stream
    }

    /// Sends the samples of the selected channels in a packet. These follow each other without a
    /// gap in the output, because the channels keep their order.
    fn send(
        &mut self,
        packet: &Packet<'_, Dynamic>,
        sample_bytes: usize,
        output: &mut Output<Dynamic>,
    ) -> Result<()> {
        let Self { channels, turn, places, samples } = self;
        let start = packet.sample_index();
        let (frame, selected) = (*channels * *turn, places.len() as u64);
        let end = start.saturating_add(packet.samples() as u64);
        samples.clear();
        let mut first = None;
        let mut begin = start / frame * frame;
        while begin < end {
            for (rank, place) in (0..).zip(places.iter()) {
                let own = begin.saturating_add(place * *turn);
                let (from, to) = (own.max(start), own.saturating_add(*turn).min(end));
                if from < to {
                    first.get_or_insert((begin, rank, from - own));
                    let [from, to] = [from, to].map(|index| (index - start) as usize * sample_bytes);
                    samples.extend_from_slice(&packet[from..to]);
                }
            }
            begin = begin.saturating_add(frame);
        }
        let Some((begin, rank, offset)) = first else { return Ok(()) };
        let index = (begin / frame * selected + rank) * *turn + offset;
        // The samples of a frame have the same time, and so have the rows of a frame. The time of
        // the channels behind the first one is later by a part of the sample period.
        let (since, part) = match *turn {
            1 => (start, rank as f64 * *channels as f64 / selected as f64),
            _ => (start / frame * frame, 0.0),
        };
        let time_ns = time_after(packet.time_ns(), between(since, begin.into(), 1) + part, packet.stream());
        output.loan_copy_of(samples.as_slice())?.at_sample(index).at_time_ns(time_ns).send()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(channels: &str) -> String {
        let given = [("channels".to_owned(), Value::Text(channels.into()))].into();
        let spec = ChannelSelect::describe();
        let checked = spec.validate(&Properties::new(&spec, given).unwrap());
        checked.err().map_or(String::new(), |found| found.to_string())
    }

    /// Checks the list before the start, and against the stream at its first packet.
    #[test]
    fn channels_are_checked() {
        for taken in ["1", "left", " left , 3"] {
            assert_eq!(refusal(taken), "", "{taken}");
        }
        for (channels, problem) in [("", "an empty name"), ("1,,2", "an empty name"), ("a, b,a", "`a` twice")]
        {
            assert!(refusal(channels).contains(problem), "{channels}");
        }
        let stream = StreamInfo::new("s").channels(["2", "left", "right"]);
        let places = |wanted: &[&str]| {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            Selection::of(&stream, &wanted).map(|found| found.places).map_err(|error| error.to_string())
        };
        // A name comes before a number.
        assert_eq!(places(&["right", "2"]), Ok(vec![0, 2]));
        assert!(places(&["1", "2"]).unwrap_err().contains("the channel 1 twice"));
        for missing in ["4", "0", "up"] {
            let error = places(&[missing]).unwrap_err();
            assert!(error.contains("the channels 2, left, right (`channels`)"), "{error}");
        }
        let alone = Selection::of(&StreamInfo::new("s"), &["2".into()]).map(drop).unwrap_err().to_string();
        assert!(alone.contains("one channel, without a name"), "{alone}");
    }
}
