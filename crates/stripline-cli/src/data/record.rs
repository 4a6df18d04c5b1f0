//! `stripline record` and `stripline replay`: ports and topics to files, and back to topics.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use stripline::internal::tap;
use stripline::node::Node;
use stripline::terms::Overflow;
use stripline::{Error, Packet, StreamInfo};
use stripline_components::components::{Played, WITHOUT_CHECKSUMS, play};
use stripline_components::formats::{
    FormatError, RECORDING_EXTENSION, RecordedPacket, RecordingCounts, RecordingInfo, RecordingReader,
    is_sigmf,
};
use stripline_waveform::control::ControlClient;

use super::arguments::{RecordArguments, ReplayArguments};
use super::port_file::PortFile;
use super::source::{POLL_TIME, Poll, Source};
use super::{Interrupt, InterruptibleInput, on_threads, write_out};
use crate::Exit;
use crate::failure::{Failure, Outcome};
use crate::format::{counted, packets, printable, quantity};
use crate::services::{domain, join};

/// The longest wait for a packet's time between two checks for Ctrl-C.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// The time after which missing subscribers of a topic are reported.
const REPORT_TIME: Duration = Duration::from_secs(1);
/// The time for subscribers to take the last packets and the end of the stream.
const END_TIME: Duration = Duration::from_secs(10);

pub(crate) fn record(arguments: &RecordArguments) -> Outcome {
    let interrupt = Interrupt::catch()?;
    let mut exit = Exit::Clean;
    // The command writes nothing until all ports are found.
    let Some(sources) = sources(arguments, &interrupt)? else {
        report!("ended by {}; nothing was recorded", interrupt.reason());
        write_out(if arguments.json { "[]\n" } else { "" }, &interrupt, &mut exit);
        return Ok(exit);
    };
    let is_named_twice = |(number, source): &(usize, &Source)| {
        sources[..*number].iter().any(|other| other.name == source.name)
    };
    if let Some((_, source)) = sources.iter().enumerate().find(is_named_twice) {
        let name = printable(&source.name, super::TEXT_MAX);
        return Err(Failure::usage(format!(
            "two of the ports are `{name}`: name it once; nothing was recorded"
        )));
    }
    std::fs::create_dir_all(&arguments.to).map_err(|error| {
        Failure::new(format!("cannot make the folder {}: {error}", arguments.to.display()))
    })?;
    // The command writes no file until all files are found to be writable.
    let infos: Vec<RecordingInfo> = sources.iter().map(|source| info(source, arguments)).collect();
    let not_written = |error: FormatError| Failure::new(not_written(&error));
    PortFile::check(&arguments.to, &infos, arguments.sigmf, arguments.existing).map_err(not_written)?;
    let create = |(source, info)| Recording::create(source, &info, arguments);
    let recordings: Result<Vec<Recording>, FormatError> =
        sources.into_iter().zip(infos).map(create).collect();
    let recordings = recordings.map_err(not_written)?;
    let names: Vec<String> =
        recordings.iter().map(|one| printable(&one.source.name, super::TEXT_MAX)).collect();
    report!("recording {} to {}; Ctrl-C ends it", names.join(", "), arguments.to.display());
    for one in recordings.iter().filter(|one| arguments.sigmf && !one.file.is_sigmf()) {
        let (name, payload) = (printable(&one.source.name, super::TEXT_MAX), &one.source.payload);
        report!(
            "note: {name} has {payload}, which does not fit into SigMF; it is written to {}",
            one.file.path().display()
        );
    }
    let last_lines: Vec<LastLine> = recordings.iter().map(|one| Arc::clone(&one.last_line)).collect();
    let print = move || last_lines.iter().for_each(|line| report!("{}", lock(line)));
    interrupt.call_last(print).map_err(Failure::new)?;
    let end = arguments.duration.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let run = |recording: Recording| recording.run(&interrupt, end, arguments.count);
    let results: Vec<Summary> = on_threads(recordings, &interrupt, run)?;
    let text = if arguments.json {
        let all: Vec<Value> = results.iter().map(Summary::json).collect();
        format!("{}\n", Value::Array(all))
    } else {
        results.iter().map(Summary::text).collect()
    };
    write_out(&text, &interrupt, &mut exit);
    let has_failed = results.iter().any(|one| one.problem.is_some());
    Ok(if has_failed { Exit::Failure } else { exit })
}

/// Returns an error about a file, which names the command's option in place of a component's
/// property.
fn not_written(error: &FormatError) -> String {
    let is_of_packets = |path: &Path| path.extension().is_some_and(|it| it == RECORDING_EXTENSION);
    let text = error.to_string().replace("set `existing`", "set `--existing`");
    match error {
        FormatError::Exists { path } if is_of_packets(path) => {
            text.replace("name another one", "use another folder").replace("number, append or", "number or")
        }
        _ => text.replace("name another one", "use another folder"),
    }
}

fn info(source: &Source, arguments: &RecordArguments) -> RecordingInfo {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    RecordingInfo {
        port: source.name.clone(),
        waveform: arguments.waveform.clone(),
        started_ns: i64::try_from(now.as_nanos()).unwrap_or(i64::MAX),
        ..RecordingInfo::new(source.payload.clone())
    }
}

/// Attaches to all ports and topics. Returns `None` after Ctrl-C.
fn sources(arguments: &RecordArguments, interrupt: &Interrupt) -> Result<Option<Vec<Source>>, Failure> {
    let mut sources = Vec::new();
    if let Some(waveform) = &arguments.waveform {
        let client = ControlClient::find(waveform, arguments.pid)?;
        for (component, port) in &arguments.ports {
            sources.push(Source::of_port(client.clone(), component, port, arguments.depth)?);
        }
    }
    for topic in &arguments.topic {
        match Source::of_topic(topic, arguments.depth, Overflow::DropOldest, interrupt)? {
            Some(source) => sources.push(source),
            None => return Ok(None),
        }
    }
    Ok(Some(sources))
}

/// The line about a recording that a second Ctrl-C prints.
type LastLine = Arc<Mutex<String>>;

fn lock(line: &LastLine) -> MutexGuard<'_, String> {
    line.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A port and the file for it.
struct Recording {
    last_line: LastLine,
    source: Source,
    file: PortFile,
    stream: Option<Arc<StreamInfo>>,
    start: Instant,
    summary: Summary,
}

/// The result of one recording.
struct Summary {
    name: String,
    payload: String,
    path: PathBuf,
    /// The files before the last one. A change of the sample rate begins a new file.
    earlier: Vec<String>,
    /// A text about an earlier file at this path.
    found: Option<String>,
    /// The keys of the streams that the format cannot have.
    not_kept: Vec<String>,
    /// The counts that a reader finds in the file.
    counts: RecordingCounts,
    /// Whether the file has only samples, without packets.
    is_sigmf: bool,
    problem: Option<String>,
}

impl Recording {
    fn create(
        source: Source,
        info: &RecordingInfo,
        arguments: &RecordArguments,
    ) -> Result<Self, FormatError> {
        let file =
            PortFile::create(&arguments.to, info, arguments.sigmf, arguments.existing, arguments.sync)?;
        let summary = Summary {
            name: source.name.clone(),
            payload: source.payload.to_string(),
            path: file.path().into(),
            earlier: Vec::new(),
            found: None,
            not_kept: Vec::new(),
            counts: RecordingCounts::default(),
            is_sigmf: file.is_sigmf(),
            problem: None,
        };
        let name = printable(&source.name, super::TEXT_MAX);
        let last_line =
            format!("{name}: ended at once; packets that are not written yet are missing, and not counted");
        let last_line = Arc::new(Mutex::new(last_line));
        Ok(Self { last_line, source, file, stream: None, start: Instant::now(), summary })
    }

    /// Records until the end of the sender, of the time or of the packets, or Ctrl-C.
    fn run(mut self, interrupt: &Interrupt, end: Option<Instant>, count: Option<u64>) -> Summary {
        let outcome = self.record_all(interrupt, end, count);
        let outcome = outcome.and_then(|()| {
            self.file.sync().map_err(|error| not_written(&error))?;
            let (name, counts) = (printable(&self.source.name, super::TEXT_MAX), self.file.kept());
            let (count, path) = (packets(counts.packets), self.file.path().display());
            *lock(&self.last_line) =
                format!("{name}: ended at once with {count} in {path}, which is not complete");
            // The data stays readable, even if the end of the file cannot be written.
            self.file.finish().map_err(|error| not_written(&error))
        });
        if outcome.is_err() {
            // An error of this cannot be reported beside the first error.
            let _ = self.file.sync();
        }
        let path = self.file.path().to_owned();
        // Other recordings may go on for hours.
        outcome.as_ref().err().map(|problem| Failure::new(problem).report());
        self.summary.problem = outcome.err();
        self.summary.counts = self.file.kept();
        self.summary.path = path;
        self.summary.earlier = self.file.earlier_files();
        self.summary.found = self.file.found();
        self.summary.not_kept = self.file.not_kept();
        *lock(&self.last_line) = self.summary.text().trim_end().into();
        self.summary
    }

    fn record_all(
        &mut self,
        interrupt: &Interrupt,
        end: Option<Instant>,
        count: Option<u64>,
    ) -> Result<(), String> {
        let said = |error: FormatError| not_written(&error);
        let packets = &mut 0;
        loop {
            let is_over = end.is_some_and(|end| Instant::now() >= end) || count == Some(*packets);
            if interrupt.is_set() || is_over {
                return Ok(());
            }
            let Self { source, file, stream, start, .. } = self;
            let mut written = Ok(());
            let wait_time = POLL_TIME.min(file.wait_time());
            let polled = source.poll(wait_time, |packet| written = write(packet, file, stream, *start));
            written.map_err(said)?;
            match polled.map_err(|error| error.to_string())? {
                Poll::Packet => *packets += 1,
                Poll::Empty => file.pass_due().map_err(said)?,
                Poll::Restarted => {
                    *stream = None;
                    file.restart().map_err(said)?;
                }
                Poll::Ended => {
                    if let Some(gap) = source.gap_at_end() {
                        file.gap(&gap).map_err(said)?;
                    }
                    return Ok(());
                }
            }
        }
    }
}

/// Writes a packet, with the stream and the gap before the packet.
fn write(
    packet: &Packet<'_, u8>,
    file: &mut PortFile,
    stream: &mut Option<Arc<StreamInfo>>,
    start: Instant,
) -> Result<(), FormatError> {
    if let Some(gap) = packet.gap() {
        file.gap(gap)?;
    }
    if !stream.as_ref().is_some_and(|known| Arc::ptr_eq(known, packet.stream())) {
        file.stream(packet.stream())?;
        *stream = Some(Arc::clone(packet.stream()));
    }
    let recorded = RecordedPacket {
        sequence: packet.sequence(),
        sample_index: packet.sample_index(),
        time_ns: packet.time_ns(),
        received_ns: start.elapsed().as_nanos() as u64,
    };
    file.packet(&recorded, packet)
}

impl Summary {
    fn text(&self) -> String {
        let Self { name, payload, path, earlier, found, not_kept, counts, is_sigmf, problem } = self;
        let name = printable(name, super::TEXT_MAX);
        let places = || counted(counts.gaps, "place");
        let loss = match (counts.missing, counts.missing_samples, counts.gaps) {
            (0, 0, 0) if problem.is_some() => "cut off at its end".into(),
            (0, 0, 0) => "none missing".into(),
            (0, 0, _) => format!("an unknown number of samples missing in {}", places()),
            (_, missing, _) if *is_sigmf && missing > 0 => {
                format!("{} missing in {}", counted(missing, "sample"), places())
            }
            (missing, ..) => format!("{} missing", packets(missing)),
        };
        let size = quantity(counts.bytes as f64, "B");
        let more = match earlier.len() {
            0 => String::new(),
            more => format!(" and {} before it, because the rate has changed", counted(more as u64, "file")),
        };
        let path = path.display();
        let found = found.as_ref().map_or(String::new(), |found| format!("; found {found}"));
        let lacks = match not_kept.join(", ") {
            keys if keys.is_empty() => keys,
            keys => format!("; SigMF cannot have: {keys}"),
        };
        let count = packets(counts.packets);
        format!("{name}: {count} of {payload}, {size}, {loss}, in {path}{more}{found}{lacks}\n")
    }

    fn json(&self) -> Value {
        let Self { name, payload, path, earlier, found, not_kept, counts, problem, .. } = self;
        json!({
            "port": name, "type": payload, "path": path.to_string_lossy(), "earlier_files": earlier,
            "found": found, "not_kept": not_kept,
            "packets": counts.packets,
            "bytes": counts.bytes, "missing": counts.missing, "missing_samples": counts.missing_samples,
            "places": counts.gaps, "complete": problem.is_none(), "problem": problem,
        })
    }
}

pub(crate) fn replay(arguments: &ReplayArguments) -> Outcome {
    let interrupt = Interrupt::catch()?;
    let files = files_of(&arguments.path).map_err(Failure::usage)?;
    let mut readers: Vec<RecordingReader> = Vec::new();
    for (index, path) in files.iter().enumerate() {
        let reader = match open(path, &interrupt) {
            Ok(reader) => reader,
            Err(_) if interrupt.is_set() => {
                report!("{}: ended by {}", path.display(), interrupt.reason());
                return Ok(Exit::Clean);
            }
            Err(error) => return Err(Failure::usage(error)),
        };
        // Two recordings of one port would be mixed on one topic.
        let port = &reader.info().port;
        if let Some(other) = readers.iter().position(|other| other.info().port == *port) {
            let (one, other) = (files[other].display(), files[index].display());
            return Err(Failure::usage(format!(
                "{one} and {other} are both of `{port}`: play one after the other"
            )));
        }
        readers.push(reader);
    }
    let node = domain(None).and_then(|domain| join(&domain))?;
    let play =
        |reader: RecordingReader| (reader.info().port.clone(), publish(reader, &node, arguments, &interrupt));
    let results: Vec<(String, Result<Replayed, Error>)> = on_threads(readers, &interrupt, play)?;
    let mut exit = Exit::Clean;
    for (topic, result) in results {
        let topic = printable(&topic, super::TEXT_MAX);
        match result {
            Ok(Replayed { played, truncation }) => {
                let (count, gaps) = (packets(played.packets), counted(played.gaps, "gap"));
                let end = if truncation.is_some() { "; the recording was truncated" } else { "" };
                let size = quantity(played.bytes as f64, "B");
                let line = format!("{topic}: {count}, {size}, {gaps}{end}\n");
                write_out(&line, &interrupt, &mut exit);
                if let Some(truncation) = truncation {
                    exit = Failure::new(format!("{topic}: {truncation}")).report();
                }
            }
            // The end was reported.
            Err(Error::Stopped) => {}
            Err(error) => exit = Failure::new(format!("{topic}: {error}")).report(),
        }
    }
    Ok(exit)
}

/// Opens a recording. An interrupt of the command ends the reads of a pipe or a device.
fn open(path: &Path, interrupt: &Interrupt) -> Result<RecordingReader, FormatError> {
    if path.metadata().is_ok_and(|about| about.is_file() || about.is_dir()) {
        return RecordingReader::open(path);
    }
    let input = InterruptibleInput::open(path, interrupt.clone());
    let input = input.map_err(|source| FormatError::Open { path: path.into(), doing: "open", source })?;
    RecordingReader::new(BufReader::new(Box::new(input)), path)
}

/// The result of playing one recording.
struct Replayed {
    played: Played,
    truncation: Option<FormatError>,
}

/// Publishes a recording on the topic with the port's name.
fn publish(
    mut reader: RecordingReader,
    node: &Node,
    arguments: &ReplayArguments,
    interrupt: &Interrupt,
) -> Result<Replayed, Error> {
    let info = reader.info();
    let mut output = tap::publisher(node, &info.port, &info.payload)?;
    if !reader.has_checksums() {
        report!("note: {}: {WITHOUT_CHECKSUMS}", printable(output.name(), super::TEXT_MAX));
    }
    let check = || if interrupt.is_set() { Err(Error::Stopped) } else { Ok(()) };
    let report_at = Instant::now() + REPORT_TIME;
    let mut is_reported = false;
    let needed = arguments.receivers as usize;
    while needed > 0 && !interrupt.is_set() && !output.wait_for_receivers(needed, SLEEP_MAX)? {
        if !is_reported && Instant::now() >= report_at {
            is_reported = true;
            let missing = counted(u64::from(arguments.receivers), "subscriber");
            report!("{}: waiting for {missing}; Ctrl-C ends it", printable(output.name(), super::TEXT_MAX));
        }
    }
    let (waker, watched) = (output.waker()?, interrupt.clone());
    // A subscriber that takes nothing holds up a send, and the end of the stream.
    let watch = move || {
        while !watched.is_set() {
            std::thread::sleep(SLEEP_MAX);
        }
        waker.wake();
    };
    let watcher = std::thread::Builder::new().spawn(watch);
    watcher.map_err(|error| Error::not_started("cannot start a thread", error))?;
    let mut begun: u64 = 0;
    let played = play(&mut reader, &mut output, arguments.speed, |due| {
        begun += 1;
        loop {
            check()?;
            let left = due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(SLEEP_MAX));
        }
    });
    let sent = played.as_ref().map_or(begun.saturating_sub(1), |played| played.packets);
    match played.and_then(|played| output.end(END_TIME).map(|()| played)) {
        Ok(played) => Ok(Replayed { played, truncation: reader.truncation() }),
        // An end of stream would pass off the packets up to here as the whole recording.
        Err(error) => {
            // The interrupt also ended the read of a pipe, or a wait for room.
            let is_ended = interrupt.is_set();
            if is_ended {
                let name = printable(output.name(), super::TEXT_MAX);
                report!("{name}: ended by {} after {}", interrupt.reason(), packets(sent));
            }
            output.abandon();
            Err(if is_ended { Error::Stopped } else { error })
        }
    }
}

/// Returns the recordings of a folder, or the recording that the path names.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, String> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let said = |error: std::io::Error| format!("cannot read the folder {}: {error}", path.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(said)? {
        let file = entry.map_err(said)?.path();
        if file.extension().is_some_and(|extension| extension == RECORDING_EXTENSION) {
            files.push(file);
        }
    }
    files.sort();
    let is_other = |entry: std::io::Result<std::fs::DirEntry>| entry.is_ok_and(|file| is_sigmf(&file.path()));
    if files.is_empty() && std::fs::read_dir(path).map_err(said)?.any(is_other) {
        return Err(format!(
            "{} has SigMF recordings, and none of ports: play them with the component `file-source`",
            path.display()
        ));
    }
    if files.is_empty() {
        return Err(format!(
            "{} has no recordings: give a folder with files *.{RECORDING_EXTENSION}, as `stripline record` makes them",
            path.display()
        ));
    }
    Ok(files)
}
