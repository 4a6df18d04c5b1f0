//! The state of the running waveforms and their connections, with rates.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;
use stripline::inspect;
use stripline_waveform::control::{self, ControlClient, ControlError, RunningWaveform};

use crate::running::{Connection, Course, connections_within, problem_lines};

/// The interval between two lists of the waveforms.
const LIST_TIME: Duration = Duration::from_secs(1);
/// The most problems shown.
const PROBLEMS_MAX: usize = 20;

/// The waveforms that the page shows, and their control clients.
pub(super) struct PageModel {
    only: Option<Selection>,
    sampler: Mutex<Sampler>,
    clients: Mutex<HashMap<Selection, ControlClient>>,
}

/// A waveform by name and, if given, its launcher's process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Selection {
    pub name: String,
    pub pid: Option<u32>,
}

/// The state at one moment.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct PageState {
    pub waveforms: Vec<RunningWaveform>,
    pub connections: Vec<Connection>,
    /// Failures to get a part of the state. Equal failures share a line.
    pub problems: Vec<String>,
    /// The number of launchers and processes that did not answer.
    #[serde(skip)]
    pub silent: usize,
}

#[derive(Default)]
struct Sampler {
    snapshot: Arc<PageState>,
    sampled_at: Option<Instant>,
    listed_at: Option<Instant>,
    waveforms: Vec<RunningWaveform>,
    list_problems: Vec<String>,
    course: Course,
}

impl PageModel {
    pub(super) fn new(only: Option<Selection>) -> Self {
        Self { only, sampler: Mutex::default(), clients: Mutex::default() }
    }

    /// Returns the name of the waveform to which the page is limited.
    pub(super) fn only(&self) -> Option<&str> {
        self.only.as_ref().map(|only| only.name.as_str())
    }

    /// Returns a snapshot that is not older than `age_max`. Takes a new one if necessary. All
    /// clients share it.
    pub(super) fn snapshot(&self, age_max: Duration) -> Arc<PageState> {
        let mut sampler = self.sampler.lock().unwrap_or_else(PoisonError::into_inner);
        if sampler.sampled_at.is_none_or(|at| at.elapsed() >= age_max) {
            sampler.sample(self.only.as_ref());
        }
        Arc::clone(&sampler.snapshot)
    }

    /// Returns the control client of a running waveform.
    ///
    /// # Errors
    /// As in [`ControlClient::find`], and for a waveform that the page does not show.
    pub(super) fn client(&self, which: &Selection) -> Result<ControlClient, ControlError> {
        if let Some(only) = &self.only
            && (only.name != which.name || only.pid.is_some() && which.pid.is_some() && only.pid != which.pid)
        {
            return Err(ControlError::Wrong(vec![format!(
                "this page shows the waveform `{}` only",
                only.name
            )]));
        }
        let pid = which.pid.or(self.only.as_ref().and_then(|only| only.pid));
        let key = Selection { name: which.name.clone(), pid };
        let known = self.clients.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        // The launcher of a waveform that has ended never returns.
        if let Some(client) = known.filter(|client| is_running(client.pid())) {
            return Ok(client);
        }
        let client = ControlClient::find(&key.name, pid)?;
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, client| is_running(client.pid()));
        clients.insert(key, client.clone());
        Ok(client)
    }
}

fn is_running(pid: u32) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

impl Sampler {
    fn sample(&mut self, only: Option<&Selection>) {
        if self.listed_at.is_none_or(|at| at.elapsed() >= LIST_TIME) {
            self.list(only);
            self.listed_at = Some(Instant::now());
        }
        let mut problems = self.list_problems.clone();
        let mut silent = problems.len();
        let launchers: Vec<u32> = self.waveforms.iter().map(|waveform| waveform.pid).collect();
        let mut connections = match inspect::processes() {
            Ok(overview) => {
                silent += overview.problems.len();
                let of_launcher = |pid| self.waveforms.iter().find(|it| it.pid == pid);
                problems
                    .extend(problem_lines(&overview.problems, |pid| Some(of_launcher(pid)?.name.clone())));
                connections_within(&overview, &launchers)
            }
            Err(error) => {
                problems.push(error.to_string());
                silent += 1;
                Vec::new()
            }
        };
        self.course.add(&mut connections, Instant::now());
        problems.truncate(PROBLEMS_MAX);
        self.snapshot =
            Arc::new(PageState { waveforms: self.waveforms.clone(), connections, problems, silent });
        self.sampled_at = Some(Instant::now());
    }

    fn list(&mut self, only: Option<&Selection>) {
        match control::running() {
            Ok(mut found) => {
                if let Some(only) = only {
                    let is_shown = |it: &RunningWaveform| {
                        it.name == only.name && only.pid.is_none_or(|pid| pid == it.pid)
                    };
                    found.waveforms.retain(is_shown);
                }
                self.waveforms = found.waveforms;
                self.list_problems = found.problems.into_iter().map(|(_, problem)| problem).collect();
            }
            Err(error) => self.list_problems = vec![error.to_string()],
        }
    }
}

#[cfg(test)]
pub(super) fn example() -> PageState {
    let text = r#"{ "problems": [], "processes": [
        { "pid": 10, "parent": 9, "sending": [{ "name": "a.out", "transport": "shm", "payload": "det{x:u8}",
            "readers": [
                { "connection": "a.out -> b.in", "pid": 11, "overflow": "block", "depth": 64, "high_watermark": 48,
                    "lag_packets": 48, "waited_for": true },
                { "connection": "a.out -> tap", "pid": 12, "overflow": "drop-oldest", "depth": 8 }] }] },
        { "pid": 11, "parent": 9, "receiving": [{ "name": "b.in", "connections": [{ "connection": "a.out -> b.in",
            "open": true, "packets": 100, "bytes": 800, "lost": 2, "gaps": 1, "latency": [[1024, 60], [1280, 40]],
            "age": { "samples": 2, "last_ns": -500000000, "max_ns": 12500000000,
                "clock": { "reference": "gps", "error_ns": 1000000 } } }] }] },
        { "pid": 12, "parent": 1, "receiving": [{ "name": "tap", "connections": [{ "connection": "a.out -> tap" }] }] },
        { "pid": 13, "parent": 5, "sending": [{ "name": "x.out", "readers": [{ "connection": "x.out -> y.in" }] }] }] }"#;
    let connections = connections_within(&serde_json::from_str(text).unwrap(), &[9]);
    let waveform = r#"{ "name": "radio \"1\"", "pid": 9, "file": "/r.toml", "phase": "running", "elapsed_s": 2.5,
        "packets": 100, "lost": 2, "components": [{ "name": "a", "type": "source", "placement": "process", "pid": 10,
            "state": "running", "restarts": 3, "tests": [] }] }"#;
    let waveforms = vec![serde_json::from_str(waveform).unwrap()];
    PageState { connections, waveforms, problems: Vec::new(), silent: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_one_waveform_asks_no_other() {
        let model = PageModel::new(Some(Selection { name: "radio".into(), pid: Some(1) }));
        for (name, pid) in [("other", None), ("radio", Some(2))] {
            let error = model.client(&Selection { name: name.into(), pid }).unwrap_err();
            assert!(error.is_wrong() && error.to_string().contains("`radio` only"), "{error}");
        }
    }
}
