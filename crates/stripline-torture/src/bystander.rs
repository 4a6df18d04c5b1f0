//! The bystander: a thread that only waits for the hang-up of a socket of a killed process.
//!
//! The kernel closes this socket just before the sockets of links. The difference between the two
//! times is the delay that the link adds to the detection of a death.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::thread::JoinHandle;

use crate::notes::now_ns;

/// The thread that waits for one process.
pub struct Bystander(JoinHandle<u64>);

impl Bystander {
    /// Starts a bystander. Returns the end of the socket that the process gets as standard input.
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
