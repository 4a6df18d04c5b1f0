//! A router of zenoh, as a process of its own beside the sender.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::impair::ADDRESSES;
use crate::notes::Notes;

/// The variable of the environment with the address of its notes.
const ROLE: &str = "STRIPLINE_TORTURE_NETWORK_ROUTER";

/// Returns where it listens.
pub fn address() -> SocketAddr {
    (ADDRESSES[0], 7447).into()
}

/// Starts it, where the caller is. It notes that it listens.
///
/// # Errors
/// When the system cannot start it.
pub fn start(notes: &str, folder: &Path) -> Result<Child, String> {
    let mut command = Command::new("/proc/self/exe");
    command.env(ROLE, notes).env("STRIPLINE_RUNTIME_DIR", folder);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().map_err(|e| format!("cannot start a process: {e}"))
}

/// Runs it until the parent ends it, if the environment asks for that.
pub fn play_if_asked() -> Option<u8> {
    let notes = std::env::var(ROLE).ok()?;
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let problem = Notes::open(&notes).and_then(|notes| route(&notes)).err()?;
    eprintln!("network: the router: {problem}");
    Some(3)
}

#[cfg(feature = "zenoh")]
fn route(notes: &Notes) -> Result<(), String> {
    use zenoh::Wait;

    // With zenoh's own queues, lease and patience: a router is not ours.
    let mut config = zenoh::Config::default();
    let listens = format!("[\"tcp/{}\"]", address());
    for (key, value) in [
        ("mode", "\"router\""),
        ("listen/endpoints", &listens),
        ("scouting/multicast/enabled", "false"),
        ("scouting/gossip/enabled", "false"),
    ] {
        config.insert_json5(key, value).map_err(|e| e.to_string())?;
    }
    let _session = zenoh::open(config).wait().map_err(|e| e.to_string())?;
    notes.set(crate::notes::Note::Sent, 1);
    loop {
        std::thread::park();
    }
}

#[cfg(not(feature = "zenoh"))]
fn route(_notes: &Notes) -> Result<(), String> {
    Err("this program has no zenoh".into())
}
