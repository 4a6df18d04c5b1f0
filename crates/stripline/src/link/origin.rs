//! One connection of a receiving port: what is expected next, what is missing, and who comes after it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::packet::{Gap, GapReason, HEADER_BYTES, Header, Kind, StreamInfo};
use crate::sys::clock::now_ns;
use crate::transport::{Inlet, Next};

use super::sign::Line;
use super::{ConnectionStats, Joined, Joiner, Lent, LinkOptions, Overflow, Taken, WaitStrategy};

/// Stream descriptions remembered per connection.
const STREAMS_MAX: usize = 64;

/// What a connection is to keep to, and where its statistics go.
#[derive(Clone)]
pub(crate) struct Terms {
    pub stats: Arc<ConnectionStats>,
    pub overflow: Overflow,
    pub wait: WaitStrategy,
    pub depth: u32,
}

impl Terms {
    /// Those of a connection that has not carried anything yet.
    pub(crate) fn new(options: &LinkOptions) -> Self {
        Self { stats: Arc::default(), overflow: options.overflow, wait: options.wait, depth: options.depth }
    }
}

/// The terms of a connection, by its name.
pub(crate) type TermsFor = Arc<dyn Fn(&str) -> Terms + Send + Sync>;

/// One connection.
pub(super) struct Origin {
    pub name: String,
    pub inlet: Option<Box<dyn Inlet>>,
    /// What was found wrong while only looking; to be told by the next `receive`.
    pub failed: Option<Error>,
    /// Made while the one before was still being read, with their names.
    pub successors: VecDeque<(String, Box<dyn Inlet>)>,
    pub terms: Terms,
    pub terms_for: TermsFor,
    pub streams: BTreeMap<u16, Arc<StreamInfo>>,
    /// The sequence number and sample that come next, once known.
    pub expected: Option<u64>,
    pub expected_sample: Option<u64>,
    /// What a gap found now is due to, other than the policy.
    pub resuming: bool,
    pub gap: Option<Gap>,
    pub joiner: Joiner,
    pub ended: bool,
    /// For those who look from outside: whether there is a sender.
    pub open: Arc<AtomicBool>,
}

impl Origin {
    pub(super) fn new(name: String, terms: Terms, terms_for: TermsFor) -> Self {
        Self {
            name,
            inlet: None,
            failed: None,
            successors: VecDeque::new(),
            terms,
            terms_for,
            streams: BTreeMap::new(),
            expected: None,
            expected_sample: None,
            resuming: false,
            gap: None,
            joiner: Joiner::new(false),
            ended: false,
            open: Arc::default(),
        }
    }

    /// How this connection is waited for: where looking takes a system call, to try whether it pays does not.
    pub(super) fn wait(&self) -> WaitStrategy {
        match (self.terms.wait, &self.inlet) {
            (WaitStrategy::Adaptive, Some(inlet)) if !inlet.is_cheap() => WaitStrategy::Block,
            (wait, _) => wait,
        }
    }

    /// What those who look from outside are told.
    pub(super) fn line(&self) -> Line {
        self.show();
        let depot = self.inlet.as_ref().and_then(|inlet| inlet.depot());
        Line { name: self.name.clone(), terms: self.terms.clone(), open: Arc::clone(&self.open), depot }
    }

    pub(super) fn show(&self) {
        // Relaxed: a hint for people, renewed before every sleep.
        self.open.store(self.inlet.is_some(), Ordering::Relaxed);
    }

    /// Whether its sender is gone, and nobody has come in its place.
    pub(super) fn is_orphaned(&mut self) -> bool {
        self.successors.is_empty() && self.inlet.as_mut().is_none_or(|inlet| inlet.is_orphaned())
    }

    pub(super) fn connect(&mut self, name: String, inlet: Box<dyn Inlet>) {
        if name != self.name {
            self.terms = (self.terms_for)(&name);
            self.name = name;
        }
        // A sender that comes anew counts anew.
        self.expected = None;
        self.expected_sample = None;
        self.streams.clear();
        self.joiner.forget();
        self.inlet = Some(inlet);
    }

    /// The sender is gone without an end of stream.
    pub(super) fn die(&mut self) {
        self.terms.stats.peer_died();
        self.lose();
    }

    /// The connection is over without an end of stream; the next one, if there is one, starts anew.
    pub(super) fn lose(&mut self) {
        self.inlet = None;
        self.gap = Some(Gap {
            first: self.expected.unwrap_or(0),
            packets: 0,
            samples: 0,
            reason: GapReason::PeerRestart,
        });
        self.succeed();
    }

    pub(super) fn succeed(&mut self) {
        if let Some((name, next)) = self.successors.pop_front() {
            self.ended = false;
            self.connect(name, next);
        }
    }

    /// What was found wrong by looking, once.
    pub(super) fn failure(&mut self) -> Option<Error> {
        let error = self.failed.take()?;
        self.fail(&error);
        Some(error)
    }

    /// The transport has given the connection up. One that was ejected is not waited for.
    pub(super) fn fail(&mut self, error: &Error) {
        if matches!(error, Error::Ejected { .. }) {
            self.inlet = None;
            self.ended = true;
            self.succeed();
        } else {
            self.lose();
        }
    }

    /// Whether `receive` would find a packet or an error here; deals with what is neither.
    pub(super) fn peek(&mut self) -> Result<bool> {
        loop {
            let Some(inlet) = &mut self.inlet else { return Ok(self.failed.is_some()) };
            let (header, payload) = match inlet.try_next()? {
                Next::Empty => return Ok(false),
                Next::Gone => {
                    self.die();
                    continue;
                }
                Next::Frame(frame) => match parse(frame) {
                    Some((header, payload)) => (header, Lent::new(payload)),
                    None => return Err(Error::misbehaved(&self.name, wrong(frame))),
                },
            };
            let is_packet = header.kind == Kind::Data as u8;
            // The last piece stays where it is, for who takes the packet.
            let is_before = header.flags & Header::MORE != 0 || !is_packet;
            if is_before && self.joiner.concerns(&header) && self.join(&header, payload)?.is_none() {
                continue;
            }
            if is_packet {
                return Ok(true);
            }
            // SAFETY: just lent, and nothing has been asked of the transport since.
            let text = unsafe { payload.get::<u8>() }.to_vec();
            self.obey(&header, &text)?;
        }
    }

    /// Deals with a frame that is a piece of a packet, or comes after some: the packet that is whole with it, which
    /// is then still to be released.
    #[cold]
    pub(super) fn join(&mut self, header: &Header, piece: Lent) -> Result<Option<(Header, Lent)>> {
        if !header.is_continued() {
            // A packet that does not become whole is missed, too.
            self.begin(header);
        }
        // SAFETY: just lent, and nothing has been asked of the transport since.
        let bytes = unsafe { piece.get::<u8>() };
        match self.joiner.add(header, bytes) {
            Ok(Joined::Alone) => Ok(Some((*header, piece))),
            Ok(Joined::Whole) => Ok(Some((self.joiner.header(), Lent::new(self.joiner.payload())))),
            Ok(Joined::Piece) => {
                if let Some(inlet) = &mut self.inlet {
                    inlet.release();
                }
                Ok(None)
            }
            Err(deed) => Err(Error::misbehaved(&self.name, deed)),
        }
    }

    /// Deals with a frame that is no packet, and releases it.
    pub(super) fn obey(&mut self, header: &Header, text: &[u8]) -> Result<()> {
        if header.kind == Kind::Stream as u8 {
            self.begin(header);
            self.describe(header.stream, text)?;
            if let Some(inlet) = &mut self.inlet {
                inlet.release();
            }
        } else {
            self.begin(header);
            self.notice(header);
            fail_point!("reader-end");
            self.ended = true;
            self.inlet = None;
            self.succeed();
        }
        Ok(())
    }

    /// At the first frame of a connection: where its numbers start.
    pub(super) fn begin(&mut self, header: &Header) {
        if self.expected.is_some() {
            return;
        }
        let inlet = self.inlet.as_ref();
        let resumed = inlet.and_then(|inlet| inlet.resume_from());
        let first_sent = inlet.and_then(|inlet| inlet.first_sent()).filter(|first| first.0 < header.sequence);
        match resumed.filter(|next| *next < header.sequence) {
            // This side was started again: what its predecessor had not taken is missing.
            Some(next) => {
                fail_point!("reattach");
                (self.expected, self.resuming) = (Some(next), true);
            }
            None => {
                let (sequence, sample) = first_sent.unwrap_or((header.sequence, header.sample_index));
                (self.expected, self.expected_sample) = (Some(sequence), Some(sample));
            }
        }
    }

    /// The next packet, if there is one; deals with what is none.
    #[inline]
    pub(super) fn take(&mut self, sample_bytes: Option<u32>, taken: &mut Taken) -> Result<bool> {
        loop {
            let Some(inlet) = &mut self.inlet else { return self.failure().map_or(Ok(false), Err) };
            let frame = match inlet.try_next() {
                Ok(Next::Empty) => return Ok(false),
                Ok(Next::Frame(frame)) => frame,
                Ok(Next::Gone) => {
                    self.die();
                    continue;
                }
                Err(error) => {
                    self.fail(&error);
                    return Err(error);
                }
            };
            let (header, payload) = match parse(frame) {
                Some((header, payload)) => (header, Lent::new(payload)),
                None => {
                    let error = Error::misbehaved(&self.name, wrong(frame));
                    self.lose();
                    return Err(error);
                }
            };
            if header.kind == Kind::Data as u8 && !self.joiner.concerns(&header) {
                self.fill_in(header, payload, sample_bytes, taken);
                return Ok(true);
            }
            if self.take_special(header, payload, sample_bytes, taken)? {
                return Ok(true);
            }
        }
    }

    /// Deals with a frame that is not a packet by itself; true: with it, one is whole.
    #[cold]
    fn take_special(
        &mut self,
        mut header: Header,
        mut payload: Lent,
        sample_bytes: Option<u32>,
        taken: &mut Taken,
    ) -> Result<bool> {
        if self.joiner.concerns(&header) {
            match self.join(&header, payload) {
                Ok(Some(whole)) => (header, payload) = whole,
                Ok(None) => return Ok(false),
                Err(error) => {
                    self.lose();
                    return Err(error);
                }
            }
        }
        if header.kind == Kind::Data as u8 {
            self.fill_in(header, payload, sample_bytes, taken);
            return Ok(true);
        }
        // SAFETY: just lent, and nothing has been asked of the transport since.
        let text = unsafe { payload.get::<u8>() }.to_vec();
        self.obey(&header, &text).inspect_err(|_| self.lose())?;
        Ok(false)
    }

    #[inline]
    fn fill_in(&mut self, header: Header, payload: Lent, sample_bytes: Option<u32>, taken: &mut Taken) {
        fail_point!("receive");
        if self.expected == Some(header.sequence) && self.gap.is_none() && !self.resuming {
            taken.gap = None;
        } else {
            self.begin(&header);
            self.notice(&header);
            taken.gap = self.gap.take();
        }
        let bytes = payload.bytes();
        // No more than a packet's limit, which fits.
        let samples = sample_bytes.map_or(1, |sample| bytes as u32 / sample);
        self.expected = Some(header.sequence.wrapping_add(1));
        self.expected_sample = Some(header.sample_index.wrapping_add(u64::from(samples)));
        self.terms.stats.packet(bytes);
        taken.taken_ns = 0;
        if header.sent_ns != 0 {
            taken.taken_ns = now_ns();
            let received = self.inlet.as_ref().and_then(|inlet| inlet.received_ns());
            self.terms.stats.arrival(header.sent_ns, received.unwrap_or(taken.taken_ns), taken.taken_ns);
        }
        (taken.header, taken.payload) = (header, payload);
    }

    /// Compares a sequence number with the one expected and notes what is missing.
    pub(super) fn notice(&mut self, header: &Header) {
        let resuming = std::mem::take(&mut self.resuming);
        let restarted = self.gap.is_some_and(|gap| gap.reason == GapReason::PeerRestart);
        if restarted {
            self.terms.stats.gap(0, 0);
        }
        let Some(expected) = self.expected else { return };
        if header.sequence < expected {
            self.terms.stats.reordered();
        } else if header.sequence > expected {
            let packets = header.sequence - expected;
            let samples = self.expected_sample.map_or(0, |next| header.sample_index.saturating_sub(next));
            let reason = match self.terms.overflow {
                _ if resuming || restarted => GapReason::PeerRestart,
                Overflow::Block => GapReason::Transport,
                _ => GapReason::Overflow,
            };
            self.terms.stats.gap(packets, samples);
            self.gap = Some(Gap { first: expected, packets, samples, reason });
        }
    }

    pub(super) fn describe(&mut self, stream: u16, text: &[u8]) -> Result<()> {
        if text.len() > StreamInfo::ENCODED_MAX {
            return Err(Error::misbehaved(&self.name, "sent a stream description that is too long"));
        }
        let info: StreamInfo = serde_json::from_slice(text).map_err(|e| {
            Error::misbehaved(&self.name, format!("sent a stream description that does not parse: {e}"))
        })?;
        if self.streams.get(&stream).is_some_and(|known| **known == info) {
            return Ok(());
        }
        if self.streams.len() >= STREAMS_MAX {
            // Numbers only grow: the oldest is the one that no packet on its way belongs to.
            self.streams.pop_first();
        }
        self.streams.insert(stream, Arc::new(info));
        Ok(())
    }
}

/// A frame as header and payload; `None`: something is [`wrong`] with it.
#[inline]
fn parse(frame: &[u8]) -> Option<(Header, &[u8])> {
    let (header, payload) = frame.split_at_checked(HEADER_BYTES)?;
    let header = Header::read(header)?;
    let is_sound = payload.len() == header.length as usize && Kind::parse(header.kind).is_some();
    is_sound.then_some((header, payload))
}

/// What is wrong with a frame that cannot be parsed.
#[cold]
fn wrong(frame: &[u8]) -> String {
    match Header::read(frame) {
        None => "sent a frame without a header".into(),
        Some(header) if Kind::parse(header.kind).is_none() => {
            format!("sent a frame of unknown kind {}", header.kind)
        }
        Some(header) => {
            format!("announced {} bytes and sent {}", header.length, frame.len() - HEADER_BYTES)
        }
    }
}
