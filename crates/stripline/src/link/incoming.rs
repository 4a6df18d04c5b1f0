//! The receiving port: takes frames from its connections in turn, notices what is missing, and ends when all
//! its senders have.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, Result};
use crate::packet::{Gap, GapReason, HEADER_BYTES, Header, Kind, StreamInfo};
use crate::sys::clock::now_ns;
use crate::sys::doorbell::Sleep;
use crate::transport::{AlignedBuffer, Inlet, Next, Stop, Wait};

use super::{ConnectionStats, Delivery, Lent, Mailbox, Overflow};

/// Looks at an empty ring before going to sleep: about a microsecond.
const SPINS: u32 = 50;
/// Fruitless looks between questions to the kernel whether the peer lives, for those who never sleep.
const LOOKS_PER_CHECK: u32 = 1024;
/// Stream descriptions remembered per connection.
const STREAMS_MAX: usize = 64;

/// How the statistics of a connection are kept: by the receiving port, under its name.
pub(crate) type StatsFor = Arc<dyn Fn(&str) -> (Arc<ConnectionStats>, Overflow) + Send + Sync>;

pub(crate) struct Incoming {
    port: String,
    origins: Vec<Origin>,
    mailbox: Arc<Mailbox>,
    stats_for: StatsFor,
    stop: Stop,
    /// Whether senders that nobody announced may still come, so that no sender at all is not the end.
    open: bool,
    /// Who is asked first next time.
    turn: usize,
    /// Whose packet is lent out.
    lent: Option<usize>,
    looks: u32,
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
    /// Made while the one before was still being read.
    successors: VecDeque<Box<dyn Inlet>>,
    stats: Arc<ConnectionStats>,
    overflow: Overflow,
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
        stats_for: StatsFor,
        stop: Stop,
        open: bool,
        sample_bytes: Option<usize>,
    ) -> Self {
        Self {
            port,
            origins: Vec::new(),
            mailbox,
            stats_for,
            stop,
            open,
            turn: 0,
            lent: None,
            looks: 0,
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
        let mut spins = 0;
        loop {
            if let Some(outcome) = self.look()? {
                return Ok(outcome);
            }
            if matches!(wait, Wait::Never) {
                self.looks += 1;
                if self.looks >= LOOKS_PER_CHECK {
                    self.looks = 0;
                    self.check_peers();
                }
                return Ok(Outcome::Nothing);
            }
            if wait.heeds_stop() && self.stop.is_stopped() {
                return Err(Error::Stopped);
            }
            if spins < SPINS && self.origins.iter().all(Origin::is_cheap) {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
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

    /// Gives a packet back.
    pub(crate) fn release(&mut self, taken: &Taken) {
        self.lent = None;
        let origin = &mut self.origins[taken.origin];
        if taken.taken_ns != 0 {
            origin.stats.finished(now_ns().saturating_sub(taken.taken_ns));
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
            loop {
                let Some(inlet) = &mut origin.inlet else { break };
                match inlet.try_next()? {
                    Next::Empty => break,
                    Next::Gone => return Ok(true),
                    Next::Frame(frame) => {
                        let description = Header::read(frame).filter(|h| h.kind == Kind::Stream as u8);
                        let Some(Header { stream, .. }) = description else { return Ok(true) };
                        let text = frame[HEADER_BYTES..].to_vec();
                        origin.describe(stream, &text)?;
                        if let Some(inlet) = &mut origin.inlet {
                            inlet.release();
                        }
                    }
                }
            }
        }
        Ok(self.has_ended())
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
            let Some(inlet) = &mut origin.inlet else { return Ok(None) };
            let (header, payload) = match inlet.try_next() {
                Ok(Next::Empty) => return Ok(None),
                Ok(Next::Gone) => {
                    origin.lose();
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
                    origin.lose();
                    return Err(error);
                }
            };
            let received = inlet.received_ns();
            match Kind::parse(header.kind) {
                Some(Kind::Data) => {
                    let samples = sample_bytes.map_or(1, |bytes| payload.bytes() / bytes);
                    return Ok(Some(origin.take(index, header, payload, samples, received)));
                }
                Some(Kind::Stream) => {
                    // SAFETY: just lent, and nothing has been asked of the transport since.
                    let text = unsafe { payload.get::<u8>() }.to_vec();
                    if let Err(error) = origin.describe(header.stream, &text) {
                        origin.lose();
                        return Err(error);
                    }
                    if let Some(inlet) = &mut origin.inlet {
                        inlet.release();
                    }
                }
                Some(Kind::End) | None => {
                    origin.notice(&header);
                    origin.ended = true;
                    origin.inlet = None;
                    return Ok(None);
                }
            }
        }
    }

    fn open_mail(&mut self) {
        for delivery in self.mailbox.empty() {
            match delivery {
                Delivery::Expect(name) => drop(self.origin(name)),
                Delivery::Connected(name, inlet) => {
                    let origin = self.origin(name);
                    origin.ended = false;
                    if origin.inlet.is_none() {
                        origin.connect(inlet);
                    } else {
                        origin.successors.push_back(inlet);
                    }
                }
            }
        }
    }

    fn origin(&mut self, name: String) -> &mut Origin {
        let index = self.origins.iter().position(|origin| origin.name == name).unwrap_or_else(|| {
            let (stats, overflow) = (self.stats_for)(&name);
            self.origins.push(Origin {
                name,
                inlet: None,
                successors: VecDeque::new(),
                stats,
                overflow,
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
        let expired = || wait.deadline().is_some_and(|deadline| Instant::now() >= deadline);
        if !self.prepare_sleep() {
            self.origins.iter_mut().filter_map(|o| o.inlet.as_mut()).for_each(|inlet| inlet.cancel_sleep());
            return Ok(!expired());
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
    fn is_cheap(&self) -> bool {
        self.inlet.as_ref().is_none_or(|inlet| inlet.is_cheap())
    }

    fn connect(&mut self, inlet: Box<dyn Inlet>) {
        if let Some(next) = inlet.resume_from()
            && self.expected.is_none()
        {
            // This side was started again: what its predecessor had not taken is missing.
            self.expected = Some(next);
            self.resuming = true;
        }
        self.inlet = Some(inlet);
    }

    /// The sender is gone without an end of stream; the next one, if there is one, starts anew.
    fn lose(&mut self) {
        self.inlet = None;
        self.stats.peer_died();
        self.streams.clear();
        self.gap = Some(Gap {
            first: self.expected.unwrap_or(0),
            packets: 0,
            samples: 0,
            reason: GapReason::PeerRestart,
        });
        self.expected = None;
        self.expected_sample = None;
        if let Some(next) = self.successors.pop_front() {
            self.connect(next);
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
        self.notice(&header);
        self.expected = Some(header.sequence.wrapping_add(1));
        self.expected_sample = Some(header.sample_index.wrapping_add(samples as u64));
        self.stats.packet(payload.bytes());
        let mut taken_ns = 0;
        if header.sent_ns != 0 {
            taken_ns = now_ns();
            self.stats.arrival(header.sent_ns, received.unwrap_or(taken_ns), taken_ns);
        }
        Taken { header, payload, gap: self.gap.take(), origin: index, taken_ns }
    }

    /// Compares a sequence number with the one expected and notes what is missing.
    fn notice(&mut self, header: &Header) {
        let resuming = std::mem::take(&mut self.resuming);
        let Some(expected) = self.expected else {
            if self.gap.is_some_and(|gap| gap.packets == 0) {
                self.stats.gap(0, 0);
            }
            return;
        };
        if header.sequence < expected {
            self.stats.reordered();
        } else if header.sequence > expected {
            let packets = header.sequence - expected;
            let samples = self.expected_sample.map_or(0, |next| header.sample_index.saturating_sub(next));
            let reason = match self.overflow {
                _ if resuming => GapReason::PeerRestart,
                Overflow::Block => GapReason::Transport,
                _ => GapReason::Overflow,
            };
            self.stats.gap(packets, samples);
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
