//! `replay`: plays a recording of a port.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use stripline::component::{
    Component, ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertyFacts, PropertySpec,
    Value,
};
use stripline::payload::Dynamic;
use stripline::{Error, Output, Result};

use super::property_errors::{self, can_play};
use crate::formats::{RecordingEntry, RecordingReader, is_special, shown};
use crate::stoppable::ended;
use crate::text::counted;

/// The longest wait for the time of a packet, in seconds: a hundred years.
const WAIT_S_MAX: f64 = 3.2e9;

/// The report for the user of a recording without checksums.
///
/// ```
/// assert!(stripline_components::components::WITHOUT_CHECKSUMS.contains("no checksums"));
/// ```
pub const WITHOUT_CHECKSUMS: &str = "the recording has no checksums: damage within its packets is not detected; record it again with this release";

/// The component `replay`.
pub struct Replay {
    properties: Properties,
    path: PathBuf,
    /// The open recording; `None` for a pipe, because opening it may wait for a writer.
    reader: Option<RecordingReader>,
}

impl Component for Replay {
    fn describe() -> ComponentSpec {
        ComponentSpec::new(
            "replay",
            "Plays a recording of a port of any type, as `stripline record` makes it.",
        )
        .output("out", PortTypes::Property("type".into()), "the recorded packets")
        .property(PropertySpec::path("path", "recording to play, a file with the end .slrec").required())
        .property(
            PropertySpec::text("type", "", "payload type of the recording, as cf32; empty: the recording's")
                .example(Value::Text("cf32".into())),
        )
        .property(
            PropertySpec::float(
                "speed",
                1.0,
                "pace over the recorded one; 0: as fast as the receivers take it",
            )
            .range(0.0, 1e9),
        )
        .facts(facts)
        .validated(can_be_played)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let path = properties.path("path").ok_or_else(|| {
            InvalidProperties::new("`path` is empty")
                .property("path")
                .remedy("set it to the recording to play")
        })?;
        let open = || RecordingReader::open(&path).map_err(property_errors::file);
        let reader = (!is_special(&path)).then(open).transpose()?;
        reader.iter().try_for_each(|reader| check_type(reader, properties, &path))?;
        Ok(Self { properties: properties.clone(), path, reader })
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let stop = ports.stop_signal();
        let mut output = ports.output::<Dynamic>("out")?;
        let Self { properties, path, reader } = self;
        let mut reader = match reader {
            Some(reader) => reader,
            None => RecordingReader::open(&path).map_err(ended)?,
        };
        check_type(&reader, &properties, &path)?;
        if !reader.has_checksums() {
            eprintln!("{}: {WITHOUT_CHECKSUMS}", ports.component());
        }
        let played = play(&mut reader, &mut output, properties.float("speed"), |until| match until {
            Some(until) => stop.sleep_until(until),
            None if stop.is_stopped() => Err(Error::Stopped),
            None => Ok(()),
        })?;
        if played.missing_at_end != (0, 0) {
            let (packets, samples) = played.missing_at_end;
            let (packets, samples) = (counted(packets, "packet"), counted(samples, "sample"));
            let (name, path) = (ports.component(), shown(&path));
            eprintln!("{name}: {path}: {packets} with {samples} missing behind the last one");
        }
        reader.truncation().map_or(Ok(()), |truncation| Err(Error::failed(truncation)))
    }
}

/// Checks that the recording has the type of the property `type`, if it is set.
fn check_type(reader: &RecordingReader, properties: &Properties, path: &Path) -> Result<()> {
    let (given, found) = (properties.text("type"), &reader.info().payload);
    if given.is_empty() || given == found.as_str() {
        return Ok(());
    }
    let message = format!("{}: holds packets of type {found}, not {given}", shown(path));
    let remedy = format!("set the property `type` to \"{found}\", or leave it out");
    Err(InvalidProperties::new(message).property("type").remedy(remedy).into())
}

/// Checks the properties. The type of a pipe cannot be read before playing.
fn can_be_played(properties: &Properties) -> Result<()> {
    if properties.text("type").is_empty() && !property_errors::is_regular_file(properties) {
        let is_there = properties.path("path").is_some_and(|path| path.exists());
        if is_there {
            let message = "`path` is not a regular file, and its type is not read before it is played";
            let remedy = "set the property `type` to the type of its packets";
            return Err(InvalidProperties::new(message).property("type").remedy(remedy).into());
        }
    }
    can_play::<Replay>(properties)
}

/// Returns the type of the recording and the sample rate of its first stream.
fn facts(properties: &Properties) -> PropertyFacts {
    let path = properties.path("path").filter(|_| property_errors::is_regular_file(properties));
    let Some(mut reader) = path.and_then(|path| RecordingReader::open(&path).ok()) else {
        return PropertyFacts::default();
    };
    // The stream comes before the packets.
    let first = reader.next_entry().ok().flatten();
    let sample_rate_hz = match first {
        Some(RecordingEntry::Stream(info)) => info.sample_rate_hz,
        _ => None,
    };
    PropertyFacts { sample_rate_hz, payload: Some(reader.info().payload.clone()), ..PropertyFacts::default() }
}

/// The counts of a played recording.
///
/// ```
/// let none = stripline_components::components::Played::default();
/// assert_eq!((none.packets, none.gaps), (0, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Played {
    /// The number of packets sent.
    pub packets: u64,
    /// The payload of these packets, in bytes.
    pub bytes: u64,
    /// The number of gaps in the recording. The sample index skips each gap.
    pub gaps: u64,
    /// The numbers of packets and of samples that are missing behind the last packet.
    pub missing_at_end: (u64, u64),
}

/// Sends the packets of a recording as bytes, with their streams, sample indexes and times.
///
/// `speed` is the ratio of the pace to the recorded pace; 0: as fast as the receivers take the
/// packets. `wait` is called before each packet, with the due time if there is one. An error of
/// `wait` ends the play.
///
/// ```no_run
/// use std::path::Path;
/// use stripline::payload::Dynamic;
/// use stripline_components::components::play;
/// use stripline_components::formats::RecordingReader;
///
/// let node = stripline::node::Node::new()?;
/// let mut reader = RecordingReader::open(Path::new("tuner.out.slrec")).map_err(stripline::Error::failed)?;
/// let payload = reader.info().payload.clone();
/// let mut output = node.publisher::<Dynamic>(("tuner.out", &payload))?;
/// let played = play(&mut reader, &mut output, 0.0, |_| Ok(()))?;
/// println!("{} packets", played.packets);
/// # Ok::<(), stripline::Error>(())
/// ```
///
/// # Errors
/// The recording is damaged, or the output or `wait` fails.
pub fn play<R: Read>(
    reader: &mut RecordingReader<R>,
    output: &mut Output<Dynamic>,
    speed: f64,
    mut wait: impl FnMut(Option<Instant>) -> Result<()>,
) -> Result<Played> {
    let (start, mut first, mut played) = (Instant::now(), None, Played::default());
    while let Some(entry) = reader.next_entry().map_err(ended)? {
        match entry {
            RecordingEntry::Stream(info) => output.set_stream(info),
            RecordingEntry::Packet(packet) => {
                let after = packet.received_ns.saturating_sub(*first.get_or_insert(packet.received_ns));
                let after_s = (after as f64 / 1e9 / speed).min(WAIT_S_MAX);
                let due = (speed > 0.0).then(|| start.checked_add(Duration::from_secs_f64(after_s)));
                wait(due.flatten())?;
                let payload = reader.payload();
                let loan = output.loan_copy_of(payload)?;
                loan.at_sample(packet.sample_index).at_time_ns(packet.time_ns).send()?;
                played.missing_at_end = (0, 0);
                played.packets += 1;
                played.bytes += payload.len() as u64;
            }
            RecordingEntry::Gap(gap) => {
                let (packets, samples) = played.missing_at_end;
                played.missing_at_end =
                    (packets.saturating_add(gap.packets), samples.saturating_add(gap.samples));
                played.gaps += 1;
            }
            RecordingEntry::Restart => played.gaps += 1,
            RecordingEntry::End { .. } => {}
        }
    }
    Ok(played)
}
