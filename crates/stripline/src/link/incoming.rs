//! The receiving port: takes frames from its connections in turn, notices what is missing, and ends when all
//! its senders have.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::packet::{Gap, GapReason, HEADER_BYTES, Header, Kind, StreamInfo};
use crate::sys::clock::now_ns;
use crate::sys::doorbell::Sleep;
use crate::transport::{AlignedBuffer, Inlet, Next, Stop, Wait};

use super::{ConnectionStats, Delivery, Lent, LinkOptions, Mailbox, Overflow, Spinner, WaitStrategy};

/// Fruitless looks between questions to the kernel whether the peer lives, for those who never sleep.
const LOOKS_PER_CHECK: u32 = 1024;
/// Stream descriptions remembered per connection.
const STREAMS_MAX: usize = 64;

/// What a connection is to keep to, and where its statistics go.
#[derive(Clone)]
pub(crate) struct Terms {
    pub stats: Arc<ConnectionStats>,
    pub overflow: Overflow,
    pub wait: WaitStrategy,
}

impl Terms {
    /// Those of a connection that has not carried anything yet.
    pub(crate) fn new(options: &LinkOptions) -> Self {
        Self { stats: Arc::default(), overflow: options.overflow, wait: options.wait }
    }
}

/// The terms of a connection, by its name.
pub(crate) type TermsFor = Arc<dyn Fn(&str) -> Terms + Send + Sync>;

pub(crate) struct Incoming {
    port: String,
    origins: Vec<Origin>,
    mailbox: Arc<Mailbox>,
    terms_for: TermsFor,
    stop: Stop,
    /// Whether senders that nobody announced may still come, so that no sender at all is not the end.
    open: bool,
    /// Who is asked first next time.
    turn: usize,
    /// Whose packet is lent out.
    lent: Option<usize>,
    looks: u32,
    spinner: Spinner,
    /// What is known of a stream whose description was lost.
    unknown: Arc<StreamInfo>,
    scratch: AlignedBuffer,
    /// Bytes of a sample; messages count as one sample each.
    sample_bytes: Option<usize>,
}

/// One connection.
struct Origin {
    name: String,
    inlet: Option<Box<dyn Inlet>>,
    /// What was found wrong while only looking; to be told by the next `receive`.
    failed: Option<Error>,
    /// Made while the one before was still being read, with their names.
    successors: VecDeque<(String, Box<dyn Inlet>)>,
    terms: Terms,
    terms_for: TermsFor,
    streams: BTreeMap<u16, Arc<StreamInfo>>,
    /// The sequence number and sample that come next, once known.
    expected: Option<u64>,
    expected_sample: Option<u64>,
    /// What a gap found now is due to, other than the policy.
    resuming: bool,
    gap: Option<Gap>,
    ended: bool,
}

/// What `receive` found.
pub(crate) enum Outcome {
    Packet(Taken),
    Ended,
    Nothing,
}

/// A packet lent out, until [`Incoming::release`].
pub(crate) struct Taken {
    pub header: Header,
    pub payload: Lent,
    pub gap: Option<Gap>,
    origin: usize,
    taken_ns: u64,
}

impl Incoming {
    pub(crate) fn new(
        port: String,
        mailbox: Arc<Mailbox>,
        terms_for: TermsFor,
        stop: Stop,
        open: bool,
        sample_bytes: Option<usize>,
    ) -> Self {
        Self {
            port,
            origins: Vec::new(),
            mailbox,
            terms_for,
            stop,
            open,
            turn: 0,
            lent: None,
            looks: 0,
            spinner: Spinner::new(WaitStrategy::Block),
            unknown: Arc::default(),
            scratch: AlignedBuffer::default(),
            sample_bytes,
        }
    }

    pub(crate) fn port(&self) -> &str {
        &self.port
    }

    /// Says how many bytes a sample has, which the samples of a gap are counted by.
    pub(crate) fn set_sample_bytes(&mut self, bytes: Option<usize>) {
        self.sample_bytes = bytes;
    }

    /// Senders connected now.
    pub(crate) fn senders(&mut self) -> usize {
        self.open_mail();
        self.origins.iter().filter(|origin| origin.inlet.is_some()).count()
    }

    /// The next packet of any connection, the end, or nothing within the wait.
    pub(crate) fn receive(&mut self, wait: Wait) -> Result<Outcome> {
        debug_assert!(self.lent.is_none(), "one packet at a time");
        loop {
            // Before looking: a receiver whose senders keep up always finds something.
            if wait.heeds_stop() && self.stop.is_stopped() {
                return Err(Error::Stopped);
            }
            if let Some(outcome) = self.look()? {
                self.spinner.found();
                return Ok(outcome);
            }
            if matches!(wait, Wait::Never) {
                self.after_a_look();
                return Ok(Outcome::Nothing);
            }
            if self.spinner.again() {
                self.after_a_look();
                if wait.has_passed() {
                    return Ok(Outcome::Nothing);
                }
                continue;
            }
            self.spinner.slept();
            if !self.sleep(wait)? {
                return Ok(Outcome::Nothing);
            }
        }
    }

    /// The stream that a packet belongs to; a nameless one if its description was lost.
    pub(crate) fn stream(&self, taken: &Taken) -> &Arc<StreamInfo> {
        self.origins[taken.origin].streams.get(&taken.header.stream).unwrap_or(&self.unknown)
    }

    /// Packets missing at the end of a connection that has ended.
    pub(crate) fn gap_at_end(&mut self) -> Option<Gap> {
        self.origins.iter_mut().filter(|origin| origin.ended).find_map(|origin| origin.gap.take())
    }

    /// The connection that a packet came over.
    pub(crate) fn connection(&self, taken: &Taken) -> &str {
        &self.origins[taken.origin].name
    }

    /// Gives a packet back and closes its connection, which broke the protocol with it.
    pub(crate) fn reject(&mut self, taken: &Taken) {
        self.release(taken);
        self.origins[taken.origin].lose();
    }

    /// Gives a packet back.
    pub(crate) fn release(&mut self, taken: &Taken) {
        self.lent = None;
        let origin = &mut self.origins[taken.origin];
        if taken.taken_ns != 0 {
            origin.terms.stats.finished(now_ns().saturating_sub(taken.taken_ns));
        }
        if let Some(inlet) = &mut origin.inlet {
            inlet.release();
        }
    }

    /// Copies a payload whose address does not suit its type to one that does.
    pub(crate) fn realign(&mut self, payload: Lent) -> Lent {
        self.scratch.grow(payload.bytes());
        // SAFETY: just received, and nothing has been asked of the transport since.
        let bytes: &[u8] = unsafe { payload.get() };
        let copy = &mut self.scratch.bytes_mut()[..bytes.len()];
        copy.copy_from_slice(bytes);
        Lent::new(copy)
    }

    /// Prepares to sleep on this port together with others; false when there is something to take.
    pub(crate) fn prepare_sleep(&mut self) -> bool {
        !self.mailbox.is_full()
            && self.origins.iter_mut().filter_map(|o| o.inlet.as_mut()).all(|inlet| inlet.prepare_sleep())
    }

    pub(crate) fn sleep_on<'a>(&'a self, sleep: &mut Sleep<'a>) {
        sleep.readable(self.mailbox.bell().as_fd());
        self.origins.iter().filter_map(|o| o.inlet.as_ref()).for_each(|inlet| inlet.sleep_on(sleep));
    }

    pub(crate) fn cancel_sleep(&mut self) {
        self.origins.iter_mut().filter_map(|o| o.inlet.as_mut()).for_each(|inlet| inlet.cancel_sleep());
        self.check_peers();
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Whether every sender has ended, as far as known.
    pub(crate) fn has_ended(&self) -> bool {
        !self.mailbox.is_full()
            && self.origins.iter().all(|origin| origin.ended)
            && !(self.open && self.origins.is_empty())
    }

    /// Whether `receive` would answer at once; takes nothing that is not kept.
    pub(crate) fn is_ready(&mut self) -> Result<bool> {
        if self.mailbox.is_full() {
            self.open_mail();
        }
        for origin in &mut self.origins {
            match origin.peek() {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                Err(error) => {
                    // Whoever receives next is told; to wait is not to receive.
                    origin.inlet = None;
                    origin.failed = Some(error);
                    return Ok(true);
                }
            }
        }
        Ok(self.has_ended())
    }

    /// Who never sleeps asks now and then whether the peers still live.
    fn after_a_look(&mut self) {
        self.looks += 1;
        if self.looks >= LOOKS_PER_CHECK {
            self.looks = 0;
            self.check_peers();
        }
    }

    /// One look at everything, without waiting.
    fn look(&mut self) -> Result<Option<Outcome>> {
        if self.mailbox.is_full() {
            self.open_mail();
        }
        let count = self.origins.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            if let Some(taken) = self.take_from(index)? {
                self.turn = (index + 1) % count;
                self.lent = Some(index);
                return Ok(Some(Outcome::Packet(taken)));
            }
        }
        Ok(self.has_ended().then_some(Outcome::Ended))
    }

    /// The next packet of one connection.
    fn take_from(&mut self, index: usize) -> Result<Option<Taken>> {
        let (origin, sample_bytes) = (&mut self.origins[index], self.sample_bytes);
        loop {
            let Some(inlet) = &mut origin.inlet else { return origin.failure().map_or(Ok(None), Err) };
            let (header, payload) = match inlet.try_next() {
                Ok(Next::Empty) => return Ok(None),
                Ok(Next::Gone) => {
                    origin.die();
                    continue;
                }
                Ok(Next::Frame(frame)) => match parse(frame) {
                    Ok((header, payload)) => (header, Lent::new(payload)),
                    Err(deed) => {
                        let error = Error::misbehaved(&origin.name, deed);
                        origin.lose();
                        return Err(error);
                    }
                },
                Err(error) => {
                    origin.fail(&error);
                    return Err(error);
                }
            };
            if header.kind == Kind::Data as u8 {
                let received = inlet.received_ns();
                let samples = sample_bytes.map_or(1, |bytes| payload.bytes() / bytes);
                return Ok(Some(origin.take(index, header, payload, samples, received)));
            }
            // SAFETY: just lent, and nothing has been asked of the transport since.
            let text = unsafe { payload.get::<u8>() }.to_vec();
            if let Err(error) = origin.obey(&header, &text) {
                origin.lose();
                return Err(error);
            }
        }
    }

    fn open_mail(&mut self) {
        for delivery in self.mailbox.empty() {
            match delivery {
                Delivery::Expect(name) => drop(self.origin(name)),
                Delivery::Abandoned(name) => {
                    let origin = self.origin(name);
                    // Whatever was connected before says its own end.
                    origin.ended |= origin.inlet.is_none() && origin.successors.is_empty();
                }
                Delivery::Connected(name, inlet) => {
                    let origin = match self.predecessor(&name) {
                        Some(index) => &mut self.origins[index],
                        None => self.origin(name.clone()),
                    };
                    origin.ended = false;
                    if origin.inlet.is_none() && origin.failed.is_none() {
                        origin.connect(name, inlet);
                    } else {
                        origin.successors.push_back((name, inlet));
                    }
                }
            }
        }
        let busiest = self.origins.iter().map(Origin::wait).max();
        self.spinner.set_strategy(busiest.unwrap_or(WaitStrategy::Block));
    }

    /// Where senders come and go under ever new names: the connection whose place a new one takes, because its
    /// sender is gone. Of two senders that died, the one that came first has its place taken first.
    fn predecessor(&mut self, name: &str) -> Option<usize> {
        if !self.open || self.origins.iter().any(|origin| origin.name == name) {
            return None;
        }
        let dead = self.origins.iter_mut().position(|origin| !origin.ended && origin.is_orphaned());
        dead.or_else(|| self.origins.iter().position(|origin| origin.ended && origin.gap.is_none()))
    }

    fn origin(&mut self, name: String) -> &mut Origin {
        let index = self.origins.iter().position(|origin| origin.name == name).unwrap_or_else(|| {
            let terms = (self.terms_for)(&name);
            self.origins.push(Origin {
                name,
                inlet: None,
                failed: None,
                successors: VecDeque::new(),
                terms,
                terms_for: Arc::clone(&self.terms_for),
                streams: BTreeMap::new(),
                expected: None,
                expected_sample: None,
                resuming: false,
                gap: None,
                ended: false,
            });
            self.origins.len() - 1
        });
        &mut self.origins[index]
    }

    fn check_peers(&mut self) {
        self.origins.iter_mut().filter_map(|o| o.inlet.as_mut()).for_each(|inlet| inlet.check_peer());
    }

    /// Sleeps until something happens; false: the time is over.
    fn sleep(&mut self, wait: Wait) -> Result<bool> {
        if !self.prepare_sleep() {
            self.origins.iter_mut().filter_map(|o| o.inlet.as_mut()).for_each(|inlet| inlet.cancel_sleep());
            return Ok(!wait.has_passed());
        }
        let mut sleep = Sleep::default();
        if wait.heeds_stop() {
            sleep.readable(self.stop.bell().as_fd());
        }
        self.sleep_on(&mut sleep);
        let fired = sleep.until(wait.deadline());
        self.cancel_sleep();
        fired
    }
}

impl Origin {
    /// How this connection is waited for: where looking takes a system call, to try whether it pays does not.
    fn wait(&self) -> WaitStrategy {
        match (self.terms.wait, &self.inlet) {
            (WaitStrategy::Adaptive, Some(inlet)) if !inlet.is_cheap() => WaitStrategy::Block,
            (wait, _) => wait,
        }
    }

    /// Whether its sender is gone, and nobody has come in its place.
    fn is_orphaned(&mut self) -> bool {
        self.successors.is_empty() && self.inlet.as_mut().is_none_or(|inlet| inlet.is_orphaned())
    }

    fn connect(&mut self, name: String, inlet: Box<dyn Inlet>) {
        if name != self.name {
            self.terms = (self.terms_for)(&name);
            self.name = name;
        }
        // A sender that comes anew counts anew.
        self.expected = None;
        self.expected_sample = None;
        self.streams.clear();
        self.inlet = Some(inlet);
    }

    /// The sender is gone without an end of stream.
    fn die(&mut self) {
        self.terms.stats.peer_died();
        self.lose();
    }

    /// The connection is over without an end of stream; the next one, if there is one, starts anew.
    fn lose(&mut self) {
        self.inlet = None;
        self.gap = Some(Gap {
            first: self.expected.unwrap_or(0),
            packets: 0,
            samples: 0,
            reason: GapReason::PeerRestart,
        });
        self.succeed();
    }

    fn succeed(&mut self) {
        if let Some((name, next)) = self.successors.pop_front() {
            self.ended = false;
            self.connect(name, next);
        }
    }

    /// What was found wrong by looking, once.
    fn failure(&mut self) -> Option<Error> {
        let error = self.failed.take()?;
        self.fail(&error);
        Some(error)
    }

    /// The transport has given the connection up. One that was ejected is not waited for.
    fn fail(&mut self, error: &Error) {
        if matches!(error, Error::Ejected { .. }) {
            self.inlet = None;
            self.ended = true;
            self.succeed();
        } else {
            self.lose();
        }
    }

    /// Whether `receive` would find a packet or an error here; deals with what is neither.
    fn peek(&mut self) -> Result<bool> {
        loop {
            let Some(inlet) = &mut self.inlet else { return Ok(self.failed.is_some()) };
            let (header, text) = match inlet.try_next()? {
                Next::Empty => return Ok(false),
                Next::Gone => {
                    self.die();
                    continue;
                }
                Next::Frame(frame) => match parse(frame) {
                    Ok((header, _)) if header.kind == Kind::Data as u8 => return Ok(true),
                    Ok((header, text)) => (header, text.to_vec()),
                    Err(deed) => return Err(Error::misbehaved(&self.name, deed)),
                },
            };
            self.obey(&header, &text)?;
        }
    }

    /// Deals with a frame that is no packet, and releases it.
    fn obey(&mut self, header: &Header, text: &[u8]) -> Result<()> {
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
    fn begin(&mut self, header: &Header) {
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

    fn take(
        &mut self,
        index: usize,
        header: Header,
        payload: Lent,
        samples: usize,
        received: Option<u64>,
    ) -> Taken {
        fail_point!("receive");
        self.begin(&header);
        self.notice(&header);
        self.expected = Some(header.sequence.wrapping_add(1));
        self.expected_sample = Some(header.sample_index.wrapping_add(samples as u64));
        self.terms.stats.packet(payload.bytes());
        let mut taken_ns = 0;
        if header.sent_ns != 0 {
            taken_ns = now_ns();
            self.terms.stats.arrival(header.sent_ns, received.unwrap_or(taken_ns), taken_ns);
        }
        Taken { header, payload, gap: self.gap.take(), origin: index, taken_ns }
    }

    /// Compares a sequence number with the one expected and notes what is missing.
    fn notice(&mut self, header: &Header) {
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

    fn describe(&mut self, stream: u16, text: &[u8]) -> Result<()> {
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

/// A frame as header and payload.
fn parse(frame: &[u8]) -> Result<(Header, &[u8]), String> {
    let header = Header::read(frame).ok_or("sent a frame without a header")?;
    let payload = &frame[HEADER_BYTES..];
    if payload.len() != header.length as usize {
        return Err(format!("announced {} bytes and sent {}", header.length, payload.len()));
    }
    if Kind::parse(header.kind).is_none() {
        return Err(format!("sent a frame of unknown kind {}", header.kind));
    }
    Ok((header, payload))
}
