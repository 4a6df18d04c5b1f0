//! A zenoh router, as a separate process beside the sender.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::impair::ADDRESSES;
use crate::notes::Notes;

/// The environment variable that holds the address of the router's notes.
const ROLE: &str = "STRIPLINE_TORTURE_NETWORK_ROUTER";

/// Returns the address at which the router listens.
pub fn address() -> SocketAddr {
    (ADDRESSES[0], 7447).into()
}

/// Starts the router in the namespace of the caller. The router writes a note when it listens.
///
/// # Errors
/// When the system cannot start it.
pub fn start(notes: &str, folder: &Path) -> Result<Child, String> {
    let mut command = Command::new("/proc/self/exe");
    command.env(ROLE, notes).env("STRIPLINE_RUNTIME_DIR", folder);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().map_err(|e| format!("cannot start a process: {e}"))
}

/// Runs the router until the parent ends it, if the environment asks for a router.
pub fn play_if_asked() -> Option<u8> {
    let notes = std::env::var(ROLE).ok()?;
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let problem = Notes::open(&notes).and_then(|notes| route(&notes)).err()?;
    eprintln!("network: the router: {problem}");
    Some(3)
}

fn route(notes: &Notes) -> Result<(), String> {
    let _router = stripline_middleware::internal::open_zenoh_router(address())?;
    notes.set(crate::notes::Note::Sent, 1);
    loop {
        std::thread::park();
    }
}
