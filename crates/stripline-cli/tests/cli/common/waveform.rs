//! A waveform for one test, and the sockets of its launcher.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tempfile::TempDir;

use super::{Run, Running, TIMEOUT, run};

/// The placements, each with the number of processes for three components.
pub const PLACEMENTS: [(&str, usize); 2] = [("processes", 3), ("threads", 1)];

/// A waveform file with a name that no other test uses.
pub struct File {
    folder: TempDir,
    pub name: String,
}

impl File {
    pub fn new(text: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("w{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = tempfile::tempdir().unwrap();
        let text = format!("[waveform]\nname = \"{name}\"\n{text}");
        std::fs::write(folder.path().join("file.toml"), text).unwrap();
        Self { folder, name }
    }

    /// Writes a source with these keys, a filter with these properties, and a sink.
    pub fn filtered(source: &str, keys: &str, filter: &str) -> Self {
        Self::new(&format!(
            r#"
            [component.{source}]
            {keys}
            [component.filter]
            type = "fir-filter"
            {filter}
            [component.sink]
            type = "null-sink"
            [[connection]]
            from = "{source}.out"
            to = "filter.in"
            [[connection]]
            from = "filter.out"
            to = "sink.in"
            "#
        ))
    }

    /// Writes a tone through a filter, in real time.
    pub fn radio() -> Self {
        Self::radio_with("")
    }

    /// Writes the waveform of `radio` with another key of the filter.
    pub fn radio_with(key: &str) -> Self {
        let tone = r#"type = "signal-generator"
            properties = { rate = 48e3, output = "f32", packet = 480 }"#;
        Self::filtered("tone", tone, &format!("properties = {{ high = 4e3 }}\n{key}"))
    }

    /// Writes a tone that sends the first packet after hours, and a filter that waits for packets.
    pub fn idle() -> Self {
        let source = r#"type = "signal-generator"
            properties = { rate = 1e-3, output = "f32", packet = 480 }"#;
        Self::filtered("source", source, "properties = { high = 4e3, sample_rate = 48e3 }")
    }

    /// Writes the waveform of `idle` with a filter that gets the sample rate only from a packet.
    pub fn idle_without_rate() -> Self {
        let source = r#"type = "signal-generator"
            properties = { rate = 1e-3, output = "f32", packet = 480 }"#;
        Self::filtered("source", source, "properties = { high = 4e3 }")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn start(&self, options: &[&str], processes: usize) -> Running {
        let path = self.path("file.toml");
        Running::start(&[&["run", path.to_str().unwrap()], options].concat(), processes)
    }

    /// Runs `stripline COMMAND NAME …`.
    pub fn ask(&self, command: &str, arguments: &[&str]) -> Run {
        run(&[&[command, &self.name], arguments].concat())
    }

    pub fn json(&self, command: &str, arguments: &[&str]) -> Value {
        let run = self.ask(command, &[arguments, &["--json"]].concat());
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stderr))
    }

    /// Returns the output of `get` for one property.
    pub fn property(&self, place: &str) -> Value {
        self.json("get", &[place])[0].clone()
    }
}

/// Returns the prefix of the names of launchers' sockets.
pub fn prefix() -> String {
    format!("stripline-{}-run-2-", rustix::process::geteuid().as_raw())
}

/// Returns the sockets on which a launcher takes requests.
pub fn sockets_of(pid: u32) -> Vec<String> {
    let list = std::fs::read("/proc/net/unix").unwrap();
    let list = String::from_utf8_lossy(&list);
    let names = list.lines().filter_map(|line| line.split_whitespace().nth(7));
    let is_own =
        |name: &&str| name.starts_with(&format!("@{}", prefix())) && name.contains(&format!("-{pid}-"));
    let mut names: Vec<String> = names.filter(is_own).map(|name| name[1..].to_string()).collect();
    names.sort();
    names.dedup();
    names
}

pub fn connect(name: &str) -> UnixStream {
    let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).unwrap()).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream
}
