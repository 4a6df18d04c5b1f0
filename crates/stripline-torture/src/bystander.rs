//! The bystander: a thread that waits only for the hang-up of a socket of a process that is killed.
//!
//! The kernel closes that socket just before those of links. What the link adds to the time until
//! a death is noticed is the difference.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread::JoinHandle;

use crate::notes::now_ns;

/// The thread that waits for one process.
pub struct Bystander(JoinHandle<u64>);

impl Bystander {
    /// Starts one and returns the end of the socket that the process holds as its standard input.
    ///
    /// # Errors
    /// When the system lacks descriptors or threads.
    pub fn new() -> Result<(Self, Stdio), String> {
        let (mut ours, theirs) = UnixStream::pair().map_err(|e| format!("no pair of sockets: {e}"))?;
        let wait = move || {
            // No byte is ever sent: when the read returns, the process has ended.
            let _ = ours.read(&mut [0]);
            now_ns()
        };
        let thread = std::thread::Builder::new().name("bystander".into()).spawn(wait);
        let thread = thread.map_err(|e| format!("no thread for a bystander: {e}"))?;
        Ok((Self(thread), Stdio::from(OwnedFd::from(theirs))))
    }

    /// Returns the time of the hang-up in monotonic nanoseconds, once the process has ended.
    ///
    /// # Errors
    /// When the thread panicked.
    pub fn saw(self) -> Result<u64, String> {
        self.0.join().map_err(|_| "a bystander panicked".into())
    }
}
