//! Finishes frames that a path took only in part, while the sender continues or idles.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use super::receiver::DataPath;
use crate::error::Result;
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::mutex::lock;
use crate::sys::thread::JoinedThread;

/// The rest of a partly written frame.
#[derive(Debug)]
pub(super) struct PartialWrite {
    done: AtomicBool,
}

impl PartialWrite {
    /// Returns whether the sender may use the path again.
    pub(super) fn is_done(&self) -> bool {
        // Acquire: the bytes that the thread wrote precede the bytes that the sender writes next.
        self.done.load(Ordering::Acquire)
    }
}

/// The writer thread, which is started when first needed, and stopped and joined when dropped.
/// Frames that are unfinished by then are given up.
pub(super) struct PartialWriter {
    _thread: JoinedThread,
    shared: Arc<WriterShared>,
}

struct WriterShared {
    jobs: Mutex<Vec<Job>>,
    doorbell: Doorbell,
    over: AtomicBool,
}

struct Job {
    path: DataPath,
    bytes: Vec<u8>,
    sent: usize,
    partial_write: Arc<PartialWrite>,
}

impl PartialWriter {
    /// Starts the thread. `freed` rings whenever a frame is finished.
    pub(super) fn start(freed: Doorbell) -> Result<Self> {
        let shared = Arc::new(WriterShared {
            jobs: Mutex::default(),
            doorbell: Doorbell::new()?,
            over: AtomicBool::new(false),
        });
        let thread_shared = Arc::clone(&shared);
        let thread = JoinedThread::spawn("stripline-flush", move || run(&thread_shared, &freed))?;
        Ok(Self { shared, _thread: thread })
    }

    pub(super) fn finish(&self, path: DataPath, bytes: Vec<u8>) -> Arc<PartialWrite> {
        let partial_write = Arc::new(PartialWrite { done: AtomicBool::new(false) });
        let job = Job { path, bytes, sent: 0, partial_write: Arc::clone(&partial_write) };
        lock(&self.shared.jobs).push(job);
        self.shared.doorbell.notify();
        partial_write
    }
}

impl Drop for PartialWriter {
    fn drop(&mut self) {
        // Release: it pairs with nothing but the flag itself; the doorbell wakes the thread.
        self.shared.over.store(true, Ordering::Release);
        self.shared.doorbell.notify();
    }
}

fn run(shared: &WriterShared, freed: &Doorbell) {
    let mut jobs: Vec<Job> = Vec::new();
    while !shared.over.load(Ordering::Acquire) {
        jobs.append(&mut lock(&shared.jobs));
        let before = jobs.len();
        // Writes on the same path are done one after the other.
        let mut busy: Vec<DataPath> = Vec::new();
        jobs.retain_mut(|job| {
            if busy.iter().any(|path| path.is_same(&job.path)) {
                return true;
            }
            let done = job.advance();
            if !done {
                busy.push(job.path.clone());
            }
            !done
        });
        if jobs.len() < before {
            freed.notify();
        }
        let mut poll_set = PollSet::default();
        poll_set.readable(shared.doorbell.as_fd());
        busy.iter().for_each(|path| path.poll_room(&mut poll_set));
        if let Err(error) = poll_set.wait(None) {
            log::error!(target: "stripline::transport", "frames written in part stay so: {error}");
            return;
        }
        shared.doorbell.drain();
    }
}

impl Job {
    /// Writes as many bytes as the path takes. Returns true when no bytes are left, or the peer is
    /// gone.
    fn advance(&mut self) -> bool {
        while self.sent < self.bytes.len() {
            match self.path.write(&self.bytes[self.sent..]) {
                Ok(written) => self.sent += written,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    if !self.path.is_receiver_gone() {
                        return false;
                    }
                    break;
                }
                // The sender gets the same error at the next packet and handles it.
                Err(_) => break,
            }
        }
        // Release: pairs with `is_done`.
        self.partial_write.done.store(true, Ordering::Release);
        true
    }
}
