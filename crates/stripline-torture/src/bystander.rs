//! What a death costs anybody to notice: a thread that does nothing but wait for the end of a socket of the dying.
//!
//! The kernel closes that socket first, just before those of links. What the link adds is the difference.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread::JoinHandle;

use crate::notes::now_ns;

/// Waits for one process.
pub struct Bystander(JoinHandle<u64>);

impl Bystander {
    /// One, and the end of the socket that the process is to hold as its standard input.
    ///
    /// # Errors
    /// When the system lacks descriptors or threads.
    pub fn new() -> Result<(Self, Stdio), String> {
        let (mut ours, theirs) = UnixStream::pair().map_err(|e| format!("no pair of sockets: {e}"))?;
        let wait = move || {
            // Nothing is ever sent: whatever it returns, the process is gone.
            let _ = ours.read(&mut [0]);
            now_ns()
        };
        let thread = std::thread::Builder::new().name("bystander".into()).spawn(wait);
        let thread = thread.map_err(|e| format!("no thread for a bystander: {e}"))?;
        Ok((Self(thread), Stdio::from(OwnedFd::from(theirs))))
    }

    /// When it knew, monotonic nanoseconds, once the process is gone.
    ///
    /// # Errors
    /// Never, unless it panics.
    pub fn saw(self) -> Result<u64, String> {
        self.0.join().map_err(|_| "a bystander panicked".into())
    }
}
