//! The arguments of the commands that show data.

use std::path::PathBuf;

use clap::Args;
use stripline::terms::Overflow;
use stripline_components::formats::{Durability, Existing};

/// The longest queue of a command that only shows packets.
const DEPTH_DEFAULT: &str = "256";

/// A port of a running waveform, or a topic.
#[derive(Args, Clone, Debug)]
pub(crate) struct SourceArguments {
    /// The running waveform, as `stripline waveforms` lists it
    #[arg(required_unless_present = "topic", conflicts_with = "topic")]
    pub waveform: Option<String>,

    /// The port: an output, or an input for the packets of its sender
    #[arg(value_name = "COMPONENT.PORT", required_unless_present = "topic", value_parser = port)]
    pub port: Option<(String, String)>,

    /// Use the packets of this topic's publishers instead, in the domain of STRIPLINE_DOMAIN
    #[arg(long, value_name = "TOPIC")]
    pub topic: Option<String>,

    /// The launcher's process number, to choose among waveforms of the same name
    #[arg(long, value_name = "NUMBER", conflicts_with = "topic")]
    pub pid: Option<u32>,

    /// Packets that may wait for this command; the oldest are dropped, and reported as a gap
    #[arg(long, value_name = "PACKETS", default_value = DEPTH_DEFAULT,
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub depth: u32,

    /// Make the topic's publishers wait for this command, rather than drop packets
    #[arg(long, conflicts_with = "waveform")]
    pub block: bool,
}

impl SourceArguments {
    /// Returns the policy for a full queue of `depth` packets.
    pub(super) fn overflow(&self) -> Overflow {
        if self.block { Overflow::Block } else { Overflow::DropOldest }
    }
}

#[derive(Args, Debug)]
#[command(
    override_usage = "stripline echo [OPTIONS] <WAVEFORM> <COMPONENT.PORT>\n       stripline echo [OPTIONS] --topic <TOPIC>"
)]
#[command(after_help = "Examples:\n  \
    stripline echo radio filter.out                        the packets of an output\n  \
    stripline echo radio sink.in --count 3 --samples 16    three packets, 16 samples of each\n  \
    stripline echo --topic iq --json | jq .values          a topic, for a script\n  \
    stripline echo --topic tone.out --block                all of a replay: its publisher waits\n\n\
    The command receives a copy (a tap), which the waveform never waits for: a packet that it does not take in time is \
    missing here alone, and reported in its place. Each packet is a line: its number, the index of its first sample, \
    its time if it has one, and its first samples. Samples of a component's own type are printed as hexadecimal bytes.\n\n\
    With --json each line is an object: {event: \"stream\", stream}, {event: \"gap\", first, packets, samples, reason}, \
    {event: \"packet\", connection, sequence, sample_index, time_ns, bytes, samples, values} with a complex sample as \
    [re, im]; instead of samples and values `message` for messages, or `hex` for own types, {event: \"restart\"}, \
    {event: \"end\"}. A number that is not finite is a text. Values beyond --samples (default: 8, with --json all) are \
    left out.\n\n\
    Exit codes: 0 the packets are printed, or the sender has ended, 1 the waveform does not answer, 2 there is no such \
    waveform, port or topic.")]
pub(crate) struct EchoArguments {
    #[command(flatten)]
    pub source: SourceArguments,

    /// End after this number of packets
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// Print at most this number of samples of each packet
    #[arg(long, value_name = "N")]
    pub samples: Option<usize>,

    /// Print each packet, stream and gap as one line of JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(
    override_usage = "stripline hz [OPTIONS] <WAVEFORM> <COMPONENT.PORT>\n       stripline hz [OPTIONS] --topic <TOPIC>"
)]
#[command(after_help = "Examples:\n  \
    stripline hz radio filter.out              packets, samples and bytes a second, until Ctrl-C\n  \
    stripline hz radio filter.out --duration 5 for five seconds\n  \
    stripline hz --topic iq --json             a line of JSON a second\n\n\
    The command receives a copy (a tap), which the waveform never waits for. The intervals between packets are \
    measured where they arrive here, so that they contain this process's own delays. `missing` counts the packets that \
    gaps report: lost on their way here alone, unless the gap's sender was started again.\n\n\
    With --json each line is {seconds, packets, samples, bytes, packets_per_s, samples_per_s, bytes_per_s, gaps, \
    missing, interval_ns: {min, mean, max, std}} of one second, where `packets` to `bytes`, `gaps` and `missing` are \
    totals; `samples` is null for messages and own types, `interval_ns` with fewer than two packets.\n\n\
    Exit codes: 0 measured, or the sender has ended, 1 the waveform does not answer, 2 there is no such waveform, port \
    or topic.")]
pub(crate) struct HzArguments {
    #[command(flatten)]
    pub source: SourceArguments,

    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = crate::arguments::seconds)]
    pub duration: Option<f64>,

    /// Print a line of JSON a second
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(
    override_usage = "stripline record [OPTIONS] --to <DIR> <WAVEFORM> <COMPONENT.PORT>...\n       stripline record [OPTIONS] --to <DIR> --topic <TOPIC>"
)]
#[command(after_help = "Examples:\n  \
    stripline record radio tone.out filter.out --to rec      until Ctrl-C, or the end of the waveform\n  \
    stripline record radio tone.out --to rec --duration 10   for ten seconds\n  \
    stripline record --topic iq --to rec                     a topic\n  \
    stripline record adsb source.out --to rec --sigmf        I/Q samples for other programs\n\n\
    Writes one file for each port, COMPONENT.PORT.slrec, with all packets, streams, gaps and times; any type. An \
    existing file is kept, and is an error without --existing. The command receives a copy (a tap), which the waveform \
    never waits for: packets that the disk does not take in time are missing in the file, counted and recorded as a \
    gap. More --depth helps a disk that is slow at times. A truncated file can be read up to there. docs/recording.md \
    describes the format.\n\n\
    Play it again with the component `replay`, or with `stripline replay`. SigMF is played by `file-source`, and by \
    other programs.\n\n\
    The counts are of what a reader finds in the file. With --json: an array of {port, type, path, packets, bytes, \
    missing, missing_samples, places, earlier_files, found, not_kept, complete, problem}; `missing` counts packets in \
    gaps, and received packets that are not in the file after an error; `missing_samples` are their samples, `places` \
    the number of places, `found` names an earlier file in its place, and `not_kept` has the keys of the streams that \
    SigMF cannot have.\n\n\
    Exit codes: 0 recorded, also with packets missing, 1 a file cannot be written, or the waveform does not answer, 2 \
    there is no such waveform or port.")]
pub(crate) struct RecordArguments {
    /// The running waveform, as `stripline waveforms` lists it
    #[arg(required_unless_present = "topic")]
    pub waveform: Option<String>,

    /// The ports: outputs, or inputs for the packets of their senders
    #[arg(value_name = "COMPONENT.PORT", required_unless_present = "topic", requires = "waveform", value_parser = port)]
    pub ports: Vec<(String, String)>,

    /// Record this topic, in the domain of STRIPLINE_DOMAIN; repeatable
    #[arg(long, value_name = "TOPIC", conflicts_with = "waveform")]
    pub topic: Vec<String>,

    /// The folder for the files; it is made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,

    /// End after this time
    #[arg(long, value_name = "SECONDS", value_parser = crate::arguments::seconds)]
    pub duration: Option<f64>,

    /// End after this number of packets of each port
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,

    /// The launcher's process number, to choose among waveforms of the same name
    #[arg(long, value_name = "NUMBER", conflicts_with = "topic")]
    pub pid: Option<u32>,

    /// Packets of each port that may wait to be written
    #[arg(long, value_name = "PACKETS", default_value = "4096", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub depth: u32,

    /// Write SigMF where it fits: ports of numbers, real or complex. SigMF has samples,
    /// rate, channels, frequency, times and gaps, but no packets; other ports get a file as without
    #[arg(long)]
    pub sigmf: bool,

    /// Treatment of a file that exists: refuse (an error), number (another file, NAME.2),
    /// replace, or append (SigMF alone: further segments)
    #[arg(long, value_name = "WORD", default_value = "refuse", value_parser = existing)]
    pub existing: Existing,

    /// When data is on the disk, also if the machine fails: end, second (a second
    /// after a packet at most), or packet (slow)
    #[arg(long, value_name = "WORD", default_value = "end", value_parser = sync)]
    pub sync: Durability,

    /// Print the summary as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
    stripline replay rec                           all recordings of a folder, at the recorded pace\n  \
    stripline replay rec/tone.out.slrec --speed 0  one of them, as fast as it is taken\n  \
    stripline echo --topic tone.out --block        all its packets, in another terminal\n\n\
    Each recording is published on the topic of its port's name, in the domain of STRIPLINE_DOMAIN, with its \
    streams, sample indexes and times. The replay waits for a subscriber of each topic before it starts. A subscriber \
    that drops packets, as `echo` without --block, is not waited for later. The gaps that `echo` prints are the gaps of \
    the recording. In a waveform, use the component `replay` in the place of a source.\n\n\
    Damage is never played. A damaged recording is played up to there, without an end of its stream; a truncated one, \
    as a killed recorder leaves it, up to its last whole packet. Either is an error that names the place.\n\n\
    Exit codes: 0 played, 1 failure while playing, or a damaged or truncated recording, 2 no recording, or one of \
    another version.")]
pub(crate) struct ReplayArguments {
    /// The folder of the recordings, or one of them
    pub path: PathBuf,

    /// The pace over the recorded one; 0: as fast as the blocking subscribers take it
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed)]
    pub speed: f64,

    /// Wait for this number of subscribers of each topic
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub receivers: u32,
}

/// Parses a pace.
fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(speed) if (0.0..=1e9).contains(&speed) => Ok(speed),
        _ => Err("it must be a number from 0 to 1e9, as 0.5 for half the recorded pace".into()),
    }
}

/// Parses the handling of a file that exists.
fn existing(word: &str) -> Result<Existing, String> {
    word.parse()
}

/// Parses the durability of a file.
fn sync(word: &str) -> Result<Durability, String> {
    word.parse()
}

/// Parses `COMPONENT.PORT`.
fn port(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('.').filter(|(component, port)| !component.is_empty() && !port.is_empty());
    let (component, port) = parts.ok_or("write it as COMPONENT.PORT, as in filter.out")?;
    Ok((component.into(), port.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_properties_of_sinks() {
        assert_eq!(sync("packet"), Ok(Durability::Packet));
        assert_eq!(sync("minute"), Err("use one of end, second, packet".into()));
        assert_eq!(existing("number"), Ok(Existing::Number));
    }

    #[test]
    fn a_port_has_two_parts() {
        assert_eq!(port("filter.out"), Ok(("filter".into(), "out".into())));
        for bad in ["filter", ".out", "filter.", ""] {
            assert!(port(bad).unwrap_err().contains("COMPONENT.PORT"), "{bad}");
        }
    }
}
