//! The trace of a run, in the JSON array form of Chrome's trace event format, which Perfetto opens:
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>. The format
//! allows the closing bracket to be missing, so that a truncated file can be read.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use stripline_waveform::{Progress, Step, Waveform};

use crate::line_file::LineFile;

/// The track of the launcher. The tracks of the components follow, in the waveform's order.
const LAUNCHER_TRACK: usize = 1;

/// A file of events. Each event is written when it occurs, as one line.
pub(crate) struct Trace {
    file: LineFile,
    opened: Instant,
    components: Vec<TracedComponent>,
    connections: Vec<TracedConnection>,
    /// The time of the last progress report, in seconds.
    last: Option<f64>,
    /// Whether the trace is complete, or could not be written to.
    is_over: bool,
}

struct TracedComponent {
    name: String,
    is_running: bool,
}

struct TracedConnection {
    name: String,
    /// The track of the receiver.
    track: usize,
    packets: u64,
    bytes: u64,
}

impl Trace {
    /// Creates the file, and the tracks in the file.
    ///
    /// # Errors
    /// The problem with the file.
    pub(crate) fn create(path: &Path, waveform: &Waveform) -> Result<Self, String> {
        let mut trace = Self::open(path, waveform)?;
        if let Err(problem) = trace.begin(waveform) {
            // An empty file would be refused as an earlier trace. Devices stay.
            let _ = path.is_file().then(|| std::fs::remove_file(path));
            return Err(problem);
        }
        Ok(trace)
    }

    fn open(path: &Path, waveform: &Waveform) -> Result<Self, String> {
        let file = LineFile::open(path, true)?;
        let named = |name: &String| TracedComponent { name: name.clone(), is_running: false };
        let components = waveform.components.iter().map(|component| named(&component.name)).collect();
        let mut trace = Self {
            file,
            opened: Instant::now(),
            components,
            connections: Vec::new(),
            last: None,
            is_over: false,
        };
        for connection in &waveform.connections {
            let name = format!("{} -> {}", connection.from, connection.to);
            let track = trace.track(Some(&connection.to.component));
            trace.connections.push(TracedConnection { name, track, packets: 0, bytes: 0 });
        }
        Ok(trace)
    }

    /// Writes the begin of the file, with the names of the tracks.
    fn begin(&mut self, waveform: &Waveform) -> Result<(), String> {
        self.file.write("[", |_| String::new())?;
        let names: Vec<String> = self.components.iter().map(|component| component.name.clone()).collect();
        for (track, name) in (LAUNCHER_TRACK..).zip([&waveform.name].into_iter().chain(&names)) {
            let mut name_of = |kind: &str, name: &str| {
                self.write(&json!({
                    "name": kind, "ph": "M", "pid": track, "tid": track, "ts": 0, "args": { "name": name },
                }))
            };
            name_of("process_name", name)?;
            name_of("thread_name", "events")?;
        }
        Ok(())
    }

    /// Adds a step of a component, and the slice for the time in which the component runs.
    pub(crate) fn step(&mut self, component: &str, step: &Step) -> Result<(), String> {
        self.mark(Some(component), "step", &step.to_string())?;
        let track = self.track(Some(component));
        let Some(index) = self.components.iter().position(|known| known.name == component) else {
            return Ok(());
        };
        let (begins, ends) = match step {
            Step::Running => (true, false),
            Step::Ended | Step::Failed(_) | Step::Exited(_) => (false, true),
            _ => return Ok(()),
        };
        let was_running = std::mem::replace(&mut self.components[index].is_running, begins);
        match was_running {
            false if begins => self.event("running", "B", track, json!({})),
            true if ends => self.event("running", "E", track, json!({})),
            _ => Ok(()),
        }
    }

    /// Adds a mark to the track of a component, or of the launcher.
    pub(crate) fn mark(&mut self, component: Option<&str>, category: &str, text: &str) -> Result<(), String> {
        let track = self.track(component);
        let name: String = text.lines().next().unwrap_or_default().chars().take(100).collect();
        let event = json!({
            "name": name, "cat": category, "ph": "i", "s": "p", "pid": track, "tid": track,
            "ts": self.now(), "args": { "text": text },
        });
        self.write(&event)
    }

    /// Adds the rates and losses of all connections.
    pub(crate) fn progress(&mut self, progress: &Progress) -> Result<(), String> {
        let seconds = self.last.replace(progress.elapsed_s).map_or(0.0, |last| progress.elapsed_s - last);
        let rate = |new: u64, old: u64| {
            if seconds > 0.0 { new.saturating_sub(old) as f64 / seconds } else { 0.0 }
        };
        for (index, counts) in progress.connections.iter().enumerate() {
            let Some(connection) = self.connections.get_mut(index) else { continue };
            let packets = rate(counts.packets, connection.packets);
            let bytes = rate(counts.bytes, connection.bytes);
            (connection.packets, connection.bytes) = (counts.packets, counts.bytes);
            let (name, track) = (connection.name.clone(), connection.track);
            for (counter, value) in [
                ("packets/s", json!(packets)),
                ("bytes/s", json!(bytes)),
                ("lost", json!(counts.lost)),
                ("gaps", json!(counts.gaps)),
            ] {
                self.event(&format!("{name} {counter}"), "C", track, json!({ counter: value }))?;
            }
        }
        Ok(())
    }

    /// Completes the file.
    pub(crate) fn finish(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        let event = json!({
            "name": "end of the run", "ph": "i", "s": "g", "pid": LAUNCHER_TRACK, "tid": LAUNCHER_TRACK,
            "ts": self.now(),
        });
        self.file.write(&format!("{event}\n]"), |_| String::new())
    }

    /// Returns the file, to check it at the end.
    pub(crate) fn file(&self) -> &LineFile {
        &self.file
    }

    fn event(&mut self, name: &str, phase: &str, track: usize, arguments: Value) -> Result<(), String> {
        let event = json!({
            "name": name, "ph": phase, "pid": track, "tid": track, "ts": self.now(), "args": arguments,
        });
        self.write(&event)
    }

    /// Writes an event. After an error, the trace ends: an incomplete event must be the last one.
    fn write(&mut self, event: &Value) -> Result<(), String> {
        if self.is_over {
            return Ok(());
        }
        let written = self.file.write(&format!("{event},"), |_| String::new());
        self.is_over = written.is_err();
        written
    }

    /// Returns the microseconds since the file was opened.
    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Returns the track of a component. Anything else gets the launcher's track.
    fn track(&self, component: Option<&str>) -> usize {
        let index = self.components.iter().position(|known| component == Some(&known.name));
        index.map_or(LAUNCHER_TRACK, |index| LAUNCHER_TRACK + 1 + index)
    }
}
