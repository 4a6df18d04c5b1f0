//! The sending end.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use stripline::Result;
use stripline::carrier::fork::Local;
use stripline::carrier::mutex::lock;
use stripline::carrier::poller::{Interest, Poller};
use stripline::carrier::{Doorbell, Frames, Opening, PathSink, PollSet};
use stripline::fail_point;

use super::{DdsTicket, MESSAGE_COST, MESSAGE_MAX, PROBE};
use crate::dds::ends::{EndEvents, WriterEnd};
use crate::transit::{ArrivalLimit, MessageLimits, SentCounts, TransitSender};

/// The longest wait of an ending sender for the next bytes to be in the receiver's process. The
/// bytes take a fraction of a millisecond, unless that process is stopped.
const FINISH_TIME: Duration = Duration::from_secs(5);
/// The longest wait of an ending sender in total.
const LINGER: Duration = Duration::from_secs(60);

/// The sending end.
pub(super) struct DdsSink {
    state: Local<Mutex<WriteState>>,
    matches: Arc<Matches>,
    transit: TransitSender,
    limits: MessageLimits,
    /// Readable when the doorbell has rung, or when Cyclone DDS has found a reader.
    answers: Poller,
    topic: String,
    /// Whether the receiver has found this end.
    is_connected: AtomicBool,
    /// Whether the receiver has hung up, so that no further bytes need arrive.
    is_receiver_gone: Arc<AtomicBool>,
}

/// The part of the sink that the lock protects.
struct WriteState {
    writer: WriterEnd<Matches>,
    counts: SentCounts,
}

/// A doorbell that rings when the writer has found a reader.
struct Matches(Doorbell);

impl EndEvents for Matches {
    fn matched(&self) {
        self.0.notify();
    }
}

impl DdsSink {
    /// Makes a writer of a ticket's topic.
    pub(super) fn new(
        ticket: &DdsTicket,
        transit: TransitSender,
        is_receiver_gone: Arc<AtomicBool>,
    ) -> Result<Self> {
        let matches = Arc::new(Matches(Doorbell::new()?));
        let answers = Poller::new()?;
        answers.add(&matches.0, 0, Interest::Readable)?;
        answers.add(&transit.doorbell, 1, Interest::Readable)?;
        let writer = WriterEnd::new(&ticket.topic, Arc::clone(&matches))?;
        // Before the first sample: the receiver compares the sample's writer with it.
        transit.page.set_writer(&writer.guid()?);
        fail_point!("dds-writer");
        let state = WriteState { writer, counts: SentCounts::default() };
        Ok(Self {
            state: Local::new(Mutex::new(state)),
            matches,
            transit,
            limits: MessageLimits { message: MESSAGE_MAX, on_the_way: ticket.window },
            answers,
            topic: ticket.topic.clone(),
            is_connected: AtomicBool::new(false),
            is_receiver_gone,
        })
    }

    fn lock(&self) -> io::Result<MutexGuard<'_, WriteState>> {
        if self.state.is_current() { Ok(lock(&self.state)) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    }

    /// Returns whether the receiver has found this end. If it has not, and there is a reader, a
    /// probe was sent. If a probe does not reach the reader, another one follows, because the
    /// reader rings when it has found the writer.
    #[cold]
    fn connect(&self, state: &WriteState) -> io::Result<bool> {
        self.matches.0.drain();
        self.transit.doorbell.drain();
        if !self.transit.page.is_connected() && state.writer.has_reader() {
            state.writer.write(self.transit.bound.key, PROBE, &[])?;
        }
        let is_connected = self.transit.page.is_connected();
        if is_connected {
            fail_point!("dds-connected");
            // Relaxed: the flag publishes nothing that the lock does not protect.
            self.is_connected.store(true, Ordering::Relaxed);
        }
        Ok(is_connected)
    }
}

impl PathSink for DdsSink {
    fn write(&self, frames: &mut Frames<'_>, _longest: Duration) -> io::Result<usize> {
        let mut state = self.lock()?;
        if !self.is_connected.load(Ordering::Relaxed) && !self.connect(&state)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let admitted = self.transit.admit(&mut state.counts, frames, self.limits)?;
        let number = state.counts.sent + admitted.frames;
        state.writer.write(self.transit.bound.key, number, &frames[..admitted.bytes])?;
        self.transit.sent(&mut state.counts, &admitted, admitted.bytes as u64 + MESSAGE_COST);
        Ok(admitted.bytes)
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        poll_set.readable(self.transit.doorbell.as_fd());
        if !self.is_connected.load(Ordering::Relaxed) {
            poll_set.readable(self.matches.0.as_fd());
        }
    }

    fn open(&self) -> Result<Opening<'_>, String> {
        let state = self.lock().map_err(|e| e.to_string())?;
        if self.connect(&state).map_err(|e| e.to_string())? {
            return Ok(Opening::Done);
        }
        Ok(Opening::Waits {
            on: self.answers.as_fd(),
            lacks: format!("Cyclone DDS has found no reader of {}", self.topic),
            remedy: "start both processes in one network namespace",
        })
    }
}

impl Drop for DdsSink {
    /// Waits until all sent bytes are in the receiver's process, because this process may end at
    /// once.
    fn drop(&mut self) {
        let Ok(state) = self.lock() else { return };
        if self.is_receiver_gone.load(Ordering::Relaxed) || !self.is_connected.load(Ordering::Relaxed) {
            return;
        }
        let mut limit = ArrivalLimit::new(FINISH_TIME, LINGER);
        while let Some(until) = limit.next_wait(&state.counts, &self.transit.page) {
            let mut poll_set = PollSet::default();
            poll_set.readable(self.transit.doorbell.as_fd());
            let is_in_time = poll_set.wait(Some(until)).unwrap_or(false);
            if is_in_time && !self.transit.doorbell.drain() {
                // The receiver has ended.
                return;
            }
            if !is_in_time {
                state.writer.linger();
                let topic = &self.topic;
                log::warn!(
                    target: "stripline::transport",
                    "not all that was sent to {topic} has arrived, and nothing more for {FINISH_TIME:?}; \
                     Cyclone DDS goes on with it"
                );
                return;
            }
        }
    }
}
