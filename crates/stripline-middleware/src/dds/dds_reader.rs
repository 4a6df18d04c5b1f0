//! The receiving end.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stripline::Result;
use stripline::carrier::fork::Local;
use stripline::carrier::mutex::lock;
use stripline::carrier::{
    CallbackFeed, CallbackSource, Doorbell, LastSentReader, PathRequest, PathSource, PollSet, ReadRoom,
    ReadWait, Source,
};
use stripline::fail_point;

use super::{DdsTicket, MESSAGE_COST, PROBE};
use crate::dds::ends::{EndEvents, ParticipantShare, ReaderEnd, SampleTaker, TakenSample};
use crate::transit::MessageLimits;
use crate::transit::TransitPage;
use crate::wire::dds::FramesSample;

/// The longest wait for samples that a living sender has handed over. Such samples take some
/// microseconds.
const SENT_TIME: Duration = Duration::from_millis(100);

/// The receiving end. A child of a fork never drops the fields that could call Cyclone DDS.
pub(super) struct DdsSource {
    /// Dropped first: after that, no sample arrives.
    _reader: Local<ReaderEnd<Arrivals>>,
    messages: Local<CallbackSource<ArrivedFrames>>,
    arrivals: Arc<Arrivals>,
    /// The frame count up to the end of the last message that was read.
    number: u64,
    /// The messages read, in total.
    count: u64,
    /// The frames in transit at which a waiting sender resumes.
    low: u64,
    /// Whether to wait for samples that the sender has handed over. A call then does not begin
    /// before a cancellation that was sent is read.
    awaits_sent: bool,
    /// Whether the last such wait ended without a sample, and no sample has arrived since.
    is_late: bool,
    /// Dropped last: no sample outlives its participant.
    _share: Local<ParticipantShare>,
}

/// The taking of samples as they come, on the thread that brings them.
struct Arrivals {
    feed: CallbackFeed<ArrivedFrames>,
    page: Arc<TransitPage>,
    /// The sender's doorbell.
    doorbell: Doorbell,
    key: u64,
    /// The bytes on the way at which a waiting sender resumes.
    bytes_low: u64,
    state: Mutex<ArrivalState>,
}

#[derive(Default)]
struct ArrivalState {
    /// The sender's writer, in the reader's numbers, once a sample of the sender has arrived.
    sender: Option<u64>,
    /// The bytes that have arrived, as the sender counts them.
    bytes: u64,
    /// The number of samples from others.
    foreign: u64,
}

/// The frames of a sample.
struct ArrivedFrames {
    sample: TakenSample,
    frames: Range<usize>,
    number: u64,
}

impl AsRef<[u8]> for ArrivedFrames {
    fn as_ref(&self) -> &[u8] {
        &self.sample.bytes()[self.frames.clone()]
    }
}

impl Arrivals {
    /// Returns whether a sample is from the sender: the sample's writer must be the writer that the
    /// page names.
    fn is_of_sender(&self, state: &mut ArrivalState, taker: &SampleTaker, publication: u64) -> bool {
        if state.sender.is_none() && taker.guid_of(publication) == Some(self.page.writer()) {
            state.sender = Some(publication);
        }
        state.sender == Some(publication)
    }

    /// Counts a sample of another process, which has found the topic. The page does not count it.
    #[cold]
    fn drop_foreign(state: &mut ArrivalState) {
        state.foreign += 1;
        if state.foreign == 1 {
            log::warn!(
                target: "stripline::transport",
                "samples of strangers come to a topic of a connection over DDS; they are dropped"
            );
        }
    }
}

impl EndEvents for Arrivals {
    fn matched(&self) {
        // The sender sends a probe after this ring.
        self.doorbell.notify();
    }

    fn arrived(&self, taker: SampleTaker) {
        let mut state = lock(&self.state);
        while let Some(sample) = taker.take() {
            let parsed = FramesSample::parse(sample.bytes()).filter(|parsed| parsed.key == self.key);
            let Some(FramesSample { number, frames, .. }) =
                parsed.filter(|_| self.is_of_sender(&mut state, &taker, sample.publication()))
            else {
                Self::drop_foreign(&mut state);
                continue;
            };
            if number == PROBE {
                self.page.set_connected();
                self.doorbell.notify();
                continue;
            }
            state.bytes += frames.len() as u64 + MESSAGE_COST;
            self.feed.push(ArrivedFrames { sample, frames, number });
            if self.page.set_received(state.bytes, self.bytes_low) {
                self.doorbell.notify();
            }
        }
    }
}

impl DdsSource {
    /// Makes the reader of a ticket.
    pub(super) fn new(
        ticket: &DdsTicket,
        page: TransitPage,
        doorbell: Doorbell,
        request: &PathRequest<'_>,
    ) -> Result<Self> {
        let (feed, messages) = CallbackSource::unbounded()?;
        let state = Mutex::default();
        let (key, bytes_low) = (ticket.bound.key, MessageLimits::low(ticket.window));
        let page = Arc::new(page);
        let arrivals = Arc::new(Arrivals { feed, page, doorbell, key, bytes_low, state });
        let reader = ReaderEnd::new(&ticket.topic, Arc::clone(&arrivals))?;
        fail_point!("dds-reader");
        Ok(Self {
            _share: Local::new(reader.share()),
            _reader: Local::new(reader),
            messages: Local::new(messages),
            arrivals,
            number: 0,
            count: 0,
            low: ticket.bound.low(),
            awaits_sent: request.is_of_calls,
            is_late: false,
        })
    }
}

impl PathSource for DdsSource {
    fn read(&mut self, room: &mut ReadRoom<'_>, wait: ReadWait) -> io::Result<usize> {
        let into = room.bytes();
        if !self.messages.is_current() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        // Messages that the page counts but that do not come were in the sender's memory, or were
        // discarded.
        let page = &self.arrivals.page;
        let has_all = |brought| brought >= page.messages();
        let mut outcome = self.messages.read(into, wait, has_all);
        let is_empty = |e: &io::Error| e.kind() == io::ErrorKind::WouldBlock;
        if self.awaits_sent && !self.is_late && outcome.as_ref().is_err_and(is_empty) {
            // A sender that is stopped is waited for only once.
            self.is_late = !self.messages.await_message(SENT_TIME, |brought| page.messages() > brought)
                && page.messages() > self.count;
            outcome = self.messages.read(into, ReadWait::Never, has_all);
        }
        let (read, message) = outcome?;
        if let Some(message) = message {
            self.is_late = false;
            self.number = message.number;
            self.count += 1;
            drop(message);
            if self.arrivals.page.set_taken(self.number, self.count, self.low) {
                self.arrivals.doorbell.notify();
            }
        }
        Ok(read)
    }

    fn poll_bytes<'a>(&'a mut self, poll_set: &mut PollSet<'a>) -> bool {
        if self.messages.is_current() {
            return self.messages.poll(poll_set);
        }
        poll_set.readable(self.messages.arrivals());
        true
    }
}

impl From<DdsSource> for Source {
    fn from(end: DdsSource) -> Self {
        let page = Arc::clone(&end.arrivals.page);
        let last_sent: LastSentReader = Box::new(move || page.last_sent());
        Self { can_wait: true, last_sent: Some(last_sent), ..Self::new(end) }
    }
}
