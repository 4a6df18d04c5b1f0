//! A client that finds the processes with open ports and queries them.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::types::{Overview, Problem, Process};
use crate::error::{Error, Result};
use crate::sys::doorbell::PollSet;
use crate::sys::fork::Descriptor;
use crate::sys::process::state_and_parent;
use crate::sys::{socket, socket_names};

pub(super) const VERSION: u32 = 1;
/// The largest response of a process, in bytes.
pub(super) const REPLY_MAX: usize = 4 << 20;
/// The time limit for a batch of processes, which are queried concurrently. A stopped process never
/// responds.
const TIMEOUT: Duration = Duration::from_millis(800);
/// The number of processes queried at a time, which bounds the descriptors and memory in use.
const BATCH: usize = 64;
/// The most sockets considered in total. The bound is high because any user may choose such names.
/// Sockets of other users are closed at once.
const SOCKETS_MAX: usize = 16_384;
/// The most readers and connections of a process. The limit bounds the time to pair them.
pub(super) const LINES_MAX: usize = 16_384;
/// The longest name, in bytes.
pub(super) const NAME_MAX: usize = 2048;
/// The longest reason for a refusal: two types, a name and a sentence.
const REASON_MAX: usize = 4 * NAME_MAX;

/// Queries all processes of this user that have, or had, an open port.
///
/// The query takes as long as the slowest response. If a process does not respond, it takes under a
/// second per 64 processes.
///
/// # Errors
/// The kernel's list of sockets cannot be read. Problems of single processes are in
/// [`Overview::problems`].
///
/// ```
/// let overview = stripline::inspect::processes()?;
/// for process in &overview.processes {
///     println!("{}: {} ports", process.pid, process.sending.len() + process.receiving.len());
/// }
/// for waiting in overview.waits() {
///     println!("{waiting}");
/// }
/// # Ok::<(), stripline::Error>(())
/// ```
pub fn processes() -> Result<Overview> {
    let mut names = socket_names::listening(&prefix(), false)?;
    let mut overview = Overview::default();
    if names.len() > SOCKETS_MAX {
        let what = format!("{} more sockets were not queried", names.len() - SOCKETS_MAX);
        overview.problems.push(Problem { pid: std::process::id(), command: None, what });
        names.truncate(SOCKETS_MAX);
    }
    for batch in names.chunks(BATCH) {
        query(batch, &mut overview);
    }
    overview.processes.sort_by_key(|process| process.pid);
    // A process that closed the last port and opened another may briefly have two sockets with the
    // same content.
    overview.processes.dedup_by_key(|process| process.pid);
    overview.problems.sort_by_key(|problem| problem.pid);
    Ok(overview)
}

/// Returns the prefix of the names of this user's sockets.
pub(super) fn prefix() -> String {
    format!("stripline-links-{}-", rustix::process::geteuid().as_raw())
}

/// A process that has been queried.
struct ProcessQuery {
    stream: Descriptor<UnixStream>,
    pid: u32,
    bytes: Vec<u8>,
    /// The end of the response, or the problem with it.
    done: Option<Result<(), String>>,
}

/// Queries all these processes concurrently.
fn query(names: &[(String, u32)], overview: &mut Overview) {
    let deadline = Instant::now() + TIMEOUT;
    let mut query = Vec::new();
    for (name, named) in names {
        match socket::connect_unix_at_once(name, None) {
            Ok((stream, Some(pid))) => {
                query.push(ProcessQuery { stream, pid, bytes: Vec::new(), done: None });
            }
            Ok((_, None)) => overview.problems.push(problem(*named, "is in another process namespace")),
            // The process has just ended.
            Err(Error::System { source, .. }) if source.kind() == std::io::ErrorKind::ConnectionRefused => {}
            // The accept queue is full because the process has not responded for long, or the
            // socket belongs to another user.
            Err(Error::System { source, .. }) if source.kind() == std::io::ErrorKind::WouldBlock => {
                overview.problems.push(problem(*named, "does not answer"));
            }
            Err(error) => overview.problems.push(problem(*named, &error.to_string())),
        }
    }
    loop {
        let mut waiting: Vec<_> = query.iter_mut().filter(|one| one.done.is_none()).collect();
        let mut poll_set = PollSet::default();
        waiting.iter().for_each(|one| poll_set.readable(one.stream.as_fd()));
        if waiting.is_empty() || !poll_set.wait(Some(deadline)).unwrap_or(false) {
            break;
        }
        let ready: Vec<usize> = (0..waiting.len()).filter(|index| poll_set.is_ready(*index)).collect();
        ready.into_iter().for_each(|index| waiting[index].read());
        // A process that keeps sending gets no more time than a process that sends nothing.
        if Instant::now() >= deadline {
            break;
        }
    }
    for one in query {
        match one.finish() {
            Ok(process) => overview.processes.push(process),
            Err(problem) => overview.problems.push(problem),
        }
    }
}

impl ProcessQuery {
    /// Reads available data once, up to a limit, so that every process gets a turn.
    fn read(&mut self) {
        let mut piece = [0; 64 * 1024];
        match (&*self.stream).read(&mut piece) {
            Ok(0) => self.done = Some(Ok(())),
            Ok(read) if self.bytes.len() + read > REPLY_MAX => {
                self.done = Some(Err(format!("sends more than {REPLY_MAX} bytes")));
            }
            Ok(read) => self.bytes.extend_from_slice(&piece[..read]),
            Err(e)
                if matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::Interrupted) => {}
            Err(_) => self.done = Some(Err("closed the connection".into())),
        }
    }

    fn finish(self) -> Result<Process, Problem> {
        let (state, parent) = state_and_parent(self.pid);
        let parsed = match self.done {
            Some(Ok(())) => parse(&self.bytes),
            Some(Err(what)) => Err(what),
            None if self.bytes.is_empty() && state == Some('T') => {
                Err("is stopped and does not answer; `kill -CONT` resumes it".into())
            }
            None if self.bytes.is_empty() => Err("does not answer".into()),
            None => Err("does not come to the end of its answer".into()),
        };
        match parsed {
            Ok(process) => Ok(Process { pid: self.pid, parent, command: command(self.pid), ..process }),
            Err(what) => Err(problem(self.pid, &what)),
        }
    }
}

/// Parses and validates a response, which may come from an untrusted process.
///
/// # Errors
/// A description of the problem.
pub(crate) fn parse(bytes: &[u8]) -> Result<Process, String> {
    if bytes.is_empty() {
        return Err("closed the connection without an answer".into());
    }
    let process: Process =
        serde_json::from_slice(bytes).map_err(|e| format!("gave an answer that does not parse: {e}"))?;
    if process.version != VERSION {
        return Err(format!("uses version {} of this protocol, not {VERSION}", process.version));
    }
    if lines(&process) > LINES_MAX {
        return Err(format!("has more than {LINES_MAX} ports and connections"));
    }
    let ports = process.sending.iter().map(|port| {
        let words = [&port.name, &port.transport, &port.address, &port.payload, &port.wait];
        words
            .into_iter()
            .chain(port.readers.iter().flat_map(|r| [&r.connection, &r.overflow]))
            .all(|word| fits(word))
    });
    let more = process.receiving.iter().map(|port| {
        let words = port.connections.iter().flat_map(|c| [&c.connection, &c.overflow, &c.wait]);
        let types = port.refused.iter().flat_map(|r| [&r.connection, &r.sends, &r.takes]);
        let reasons = port.refused.iter().all(|r| r.reason.len() <= REASON_MAX);
        reasons && std::iter::once(&port.name).chain(words).chain(types).all(|word| fits(word))
    });
    let waveform = process.waveform.as_deref().is_none_or(fits);
    let rules =
        process.topics_files.iter().all(|file| fits(&file.path) && file.unused.iter().all(|t| fits(t)));
    if waveform && rules && ports.chain(more).all(|fits| fits) {
        Ok(process)
    } else {
        Err(format!("gave a name of more than {NAME_MAX} bytes"))
    }
}

/// Counts ports, readers, connections and rules of topics.
pub(super) fn lines(process: &Process) -> usize {
    process.sending.iter().map(|port| 1 + port.readers.len()).sum::<usize>()
        + process.receiving.iter().map(|port| 1 + port.connections.len() + port.refused.len()).sum::<usize>()
        + process.topics_files.iter().map(|file| 1 + file.unused.len()).sum::<usize>()
}

fn fits(name: &str) -> bool {
    name.len() <= NAME_MAX
}

fn problem(pid: u32, what: &str) -> Problem {
    Problem { pid, command: command(pid), what: what.into() }
}

fn command(pid: u32) -> Option<String> {
    let name = std::fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(&name).trim_end().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn invalid_responses_are_refused() {
        let refused = |text: &str| parse(text.as_bytes()).unwrap_err();
        assert!(refused("").contains("without an answer"));
        assert!(refused("[").contains("does not parse"));
        assert!(refused("{}").contains("version 0"));
        assert!(refused(r#"{"version": 2}"#).contains("version 2"));
        let long = format!(r#"{{"version": 1, "sending": [{{"name": "{}"}}]}}"#, "x".repeat(NAME_MAX + 1));
        assert!(refused(&long).contains("name"));
        let ports = vec!["{}"; LINES_MAX + 1].join(",");
        assert!(refused(&format!(r#"{{"version": 1, "receiving": [{ports}]}}"#)).contains("more than"));
        let long =
            format!(r#"{{"version": 1, "topics_files": [{{"path": "{}"}}]}}"#, "x".repeat(NAME_MAX + 1));
        assert!(refused(&long).contains("name"));
        // A later version may send more keys.
        assert!(parse(br#"{"version": 1, "weather": "fine"}"#).is_ok());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = parse(&bytes);
        }
    }
}
