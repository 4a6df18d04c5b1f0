//! The receiving port: takes frames from its connections in turn, notices what is missing, and ends when all
//! its senders have.

mod called;
mod mail;
mod sleeping;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::packet::{Gap, Header, Order, StreamInfo};
use crate::sys::clock::now_ns;
use crate::sys::fork::Local;
use crate::transport::{AlignedBuffer, Stop, Wait};

use super::origin::{Origin, TermsFor, Traffic};
use super::resequencing::Resequencing;
use super::sign::Sign;
use super::{ConnectionStats, Copied, Lent, Mailbox, Receipt, Spinner, Terms, WaitStrategy};

/// Of so many looks for a packet, one is at everything: whether a sender is new or gone, or all have ended.
const GLANCES: u32 = 8;
/// Of so many looks in vain, one is at the clock.
const LOOKS_PER_CLOCK: u32 = 4;
/// Looks of [`Incoming::receive_soon`].
const LOOKS_SOON: u32 = 128;

pub(crate) struct Incoming {
    port: String,
    origins: Local<Vec<Origin>>,
    mailbox: Local<Arc<Mailbox>>,
    terms_for: TermsFor,
    stop: Stop,
    /// Whether senders that nobody announced may still come, so that no sender at all is not the end.
    open: bool,
    ends: Ends,
    /// Who is asked first next time.
    turn: usize,
    /// The packet lent out, or the last that was. Here and not handed up: it would be copied at every step.
    taken: Taken,
    is_lent: bool,
    came: Came,
    spinner: Spinner,
    /// What is known of a stream whose description was lost.
    unknown: Arc<StreamInfo>,
    scratch: AlignedBuffer,
    /// Bytes of a sample; messages count as one sample each.
    sample_bytes: Option<u32>,
    traffic: Arc<Traffic>,
    /// For those who look from outside.
    sign: Arc<Sign>,
    /// Whether nobody comes in its place when it is dropped.
    leaves_for_good: bool,
    /// Of a port that puts packets back in sequence.
    pub(super) resequencing: Option<Box<Resequencing>>,
    /// What to call when the component is asked something.
    hook: Option<Box<dyn FnMut() + Send>>,
    /// Whether who receives wants to know of that, and whether it has come to that.
    heeds_asked: bool,
    asked: bool,
}

/// When a receiving port has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// When all its senders have said so.
    WithStreams,
    /// When its only sender is gone, said or not.
    WithSender,
    /// Never: others may come.
    Never,
}

/// When a packet came that `receive` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// Before anybody looked for it.
    Before,
    WhileLooking,
    WhileAsleep,
}

/// What `receive` found.
pub(crate) enum Outcome {
    /// See [`Incoming::taken`].
    Packet,
    Ended,
    Nothing,
}

/// A packet, lent out until [`Incoming::release`].
pub(crate) struct Taken {
    pub header: Header,
    pub payload: Lent,
    pub gap: Option<Gap>,
    origin: usize,
    /// When it was taken, if that matters: of a packet that is measured, and one with a receipt.
    pub(super) taken_ns: u64,
    receipt: Option<Receipt>,
}

impl Taken {
    fn nothing() -> Self {
        let header = bytemuck::Zeroable::zeroed();
        Self { header, payload: Lent::new(&[]), gap: None, origin: 0, taken_ns: 0, receipt: None }
    }

    pub(super) fn set_receipt(&mut self, receipt: Receipt) {
        self.receipt = Some(receipt);
        // So that giving it back looks for the receipt.
        self.taken_ns = self.taken_ns.max(1);
    }
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
        let sign = Sign::hang(&port);
        Self {
            sign,
            port,
            // Most ports have one connection; a vector that grows by itself begins with room for four.
            origins: Local::new(Vec::with_capacity(1)),
            traffic: Arc::default(),
            mailbox: Local::new(mailbox),
            terms_for,
            stop,
            open,
            ends: Ends::WithStreams,
            turn: 0,
            taken: Taken::nothing(),
            is_lent: false,
            came: Came::Before,
            spinner: Spinner::new(WaitStrategy::Block),
            unknown: Arc::default(),
            scratch: AlignedBuffer::default(),
            sample_bytes: sample_bytes.and_then(samples_of),
            leaves_for_good: false,
            resequencing: None,
            hook: None,
            heeds_asked: false,
            asked: false,
        }
    }

    pub(crate) fn port(&self) -> &str {
        &self.port
    }

    /// # Errors
    /// [`Error::Forked`] in a child of the process that made it.
    pub(crate) fn check_own(&self) -> Result<()> {
        self.origins.check(|| format!("receiving port `{}`", self.port))
    }

    /// Says how many bytes a sample has, which the samples of a gap are counted by.
    pub(crate) fn set_sample_bytes(&mut self, bytes: Option<usize>) {
        self.sample_bytes = bytes.and_then(samples_of);
    }

    /// When it is dropped, its senders are told that nobody comes in its place: so it is where anybody may receive. A
    /// component that fails is started again.
    pub(crate) fn leave_for_good(&mut self) {
        self.leaves_for_good = true;
    }

    /// Says when it has ended.
    pub(crate) fn set_ends(&mut self, ends: Ends) {
        self.ends = ends;
        if ends == Ends::Never {
            // Only what serves calls outlives all who call.
            self.sign.set_serving();
        }
    }

    /// The bytes of the packet that is lent out.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        if !self.is_lent {
            return &[];
        }
        // SAFETY: lent and not yet given back; whatever is asked of the transport takes `&mut self`, for which this
        // borrow must have ended.
        unsafe { self.taken.payload.get() }
    }

    /// Senders connected now.
    pub(crate) fn senders(&mut self) -> usize {
        if !self.origins.is_current() {
            return 0;
        }
        self.open_mail();
        self.origins.iter().filter(|origin| origin.inlet.is_some()).count()
    }

    /// The next packet of any connection, the end, or nothing within the wait.
    pub(crate) fn receive(&mut self, wait: Wait) -> Result<Outcome> {
        debug_assert!(!self.is_lent, "one packet at a time");
        self.came = Came::Before;
        let is_easy = self.is_easy();
        if is_easy && self.take_at_hand() { Ok(Outcome::Packet) } else { self.receive_slowly(wait, u32::MAX) }
    }

    /// Whether there is nothing to be looked at but packets.
    #[inline(always)]
    fn is_easy(&self) -> bool {
        // Also here: what a ring's reader knows to be there is not in the memory of a child.
        self.origins.is_current()
            && !self.mailbox.is_full()
            && !self.stop.is_stopped()
            && self.resequencing.is_none()
    }

    /// As [`Incoming::receive`], for as long as looking takes a few microseconds and no clock: not at all if the port does
    /// not spin.
    pub(crate) fn receive_soon(&mut self) -> Result<Outcome> {
        if !self.spinner.spins() {
            return Ok(Outcome::Nothing);
        }
        if self.is_easy() && self.take_at_hand() {
            Ok(Outcome::Packet)
        } else {
            self.receive_slowly(Wait::FOREVER, LOOKS_SOON)
        }
    }

    /// Takes the next packet if it is there and nothing else is to be said.
    #[inline(always)]
    fn take_at_hand(&mut self) -> bool {
        let (index, count) = (self.turn, self.origins.len());
        let Some(origin) = self.origins.get_mut(index) else { return false };
        if !origin.take_at_hand(self.sample_bytes, &mut self.taken) {
            return false;
        }
        self.turn = if index + 1 < count { index + 1 } else { 0 };
        self.taken.origin = index;
        self.is_lent = true;
        self.spinner.found();
        true
    }

    /// As [`Incoming::receive`], when there is something else to be done first, or to wait for.
    #[inline(never)]
    fn receive_slowly(&mut self, wait: Wait, looks_max: u32) -> Result<Outcome> {
        self.check_own()?;
        match self.resequencing {
            Some(_) => self.receive_in_sequence(wait),
            None => self.receive_as_it_comes(wait, looks_max),
        }
    }

    /// As [`Incoming::receive_slowly`], in the order of arrival, with no more looks in vain than that.
    pub(super) fn receive_as_it_comes(&mut self, wait: Wait, looks_max: u32) -> Result<Outcome> {
        let mut looks = 0u32;
        loop {
            // Before looking: a receiver whose senders keep up always finds something. One look comes before every sleep,
            // also where it is a call of the system: a processor that goes to sleep just before an answer takes long to wake.
            if wait.heeds_stop() && self.stop.is_stopped() {
                return Err(Error::Stopped);
            }
            let found = if looks.is_multiple_of(GLANCES) { self.look()? } else { self.glance() };
            if !matches!(found, Outcome::Nothing) {
                if looks > 0 {
                    self.came = Came::WhileLooking;
                }
                self.spinner.found();
                return Ok(found);
            }
            if matches!(wait, Wait::Never) || self.is_interrupted() {
                return Ok(Outcome::Nothing);
            }
            if let Some(more) = self.spinner.looks_more() {
                looks = looks.wrapping_add(1);
                self.linger(more);
                // To read a clock takes as long as several looks.
                if looks.is_multiple_of(LOOKS_PER_CLOCK) && (wait.has_passed() || looks > looks_max) {
                    return Ok(Outcome::Nothing);
                }
                continue;
            }
            self.spinner.slept();
            if !self.sleep(wait)? {
                return Ok(Outcome::Nothing);
            }
            self.came = Came::WhileAsleep;
            if let found @ Outcome::Packet = self.glance() {
                return Ok(found);
            }
            looks = 0;
        }
    }

    /// A look for packets only, between looks at everything.
    #[inline]
    fn glance(&mut self) -> Outcome {
        for _ in 0..self.origins.len() {
            if self.take_at_hand() {
                return Outcome::Packet;
            }
            self.turn = if self.turn + 1 < self.origins.len() { self.turn + 1 } else { 0 };
        }
        Outcome::Nothing
    }

    /// Looks so many times whether there may be something to take, or once does nothing where there is more than one place.
    fn linger(&mut self, looks: u32) {
        match &mut **self.origins {
            [Origin { inlet: Some(inlet), .. }] => inlet.linger(looks),
            _ => std::hint::spin_loop(),
        }
    }

    /// The packet that `receive` found, until it is released.
    #[inline]
    pub(crate) fn taken(&self) -> &Taken {
        &self.taken
    }

    /// The stream that a packet belongs to; a nameless one if its description was lost.
    pub(crate) fn stream(&self) -> &Arc<StreamInfo> {
        if let Some(held) = self.held() {
            return held.stream();
        }
        let origin = &self.origins[self.taken.origin];
        origin.streams.get(&self.taken.header.stream).unwrap_or(&self.unknown)
    }

    /// Packets missing at the end of a connection that has ended.
    pub(crate) fn gap_at_end(&mut self) -> Option<Gap> {
        let gap = self.origins.iter_mut().filter(|origin| origin.ended).find_map(|origin| origin.gap.take());
        match &mut self.resequencing {
            Some(resequencing) => resequencing.gap_at_end(gap),
            None => gap,
        }
    }

    /// The connection that a packet came over.
    pub(crate) fn connection(&self) -> &str {
        if let Some(held) = self.held() {
            return held.connection();
        }
        &self.origins[self.taken.origin].name
    }

    /// Whose turn a packet has.
    pub(crate) fn order(&self) -> Order {
        if let Some((_, order)) = self.held().and_then(Copied::about) {
            return *order;
        }
        self.origins[self.taken.origin].order(&self.taken.header)
    }

    /// The connection that a packet came over: its place among those of the port, and which one this is there.
    pub(crate) fn came_over(&self) -> (usize, u16) {
        (self.taken.origin, self.origins[self.taken.origin].connection())
    }

    /// What a packet's connection counts.
    pub(crate) fn stats(&self) -> &Arc<ConnectionStats> {
        &self.terms().stats
    }

    /// What a packet's connection is to keep to.
    pub(super) fn terms(&self) -> &Terms {
        &self.origins[self.taken.origin].terms
    }

    /// The packet lent, if it is one that was held for its turn.
    fn held(&self) -> Option<&Copied> {
        self.resequencing.as_ref()?.lent()
    }

    /// Lends a packet that was held for its turn.
    pub(super) fn lend(&mut self, header: Header, payload: Lent, gap: Option<Gap>, origin: usize) {
        // So that giving it back looks whose it is.
        self.taken = Taken { header, payload, gap, origin, taken_ns: 1, receipt: None };
        self.is_lent = true;
    }

    /// The packet that was lent lies elsewhere now.
    pub(super) fn forget_lent(&mut self) {
        self.is_lent = false;
    }

    /// Says what is missing before the packet lent.
    pub(super) fn set_gap(&mut self, gap: Option<Gap>) {
        self.taken.gap = gap;
    }

    /// The sample index of the packet lent, and its samples.
    pub(super) fn samples_lent(&self) -> (u64, u64) {
        (self.taken.header.sample_index, self.samples_in(self.taken.payload.bytes()))
    }

    pub(super) fn samples_in(&self, bytes: usize) -> u64 {
        self.sample_bytes.map_or(1, |sample| bytes as u64 / u64::from(sample))
    }

    /// Gives a packet back and closes its connection, which broke the protocol with it.
    pub(crate) fn reject(&mut self) {
        self.refuse(|| "its samples are of another size".into());
        self.release();
        self.origins[self.taken.origin].lose();
    }

    /// Gives a packet back that was copied and is not finished with: when it was taken, if that is measured.
    pub(crate) fn hand_over(&mut self) -> Option<u64> {
        if self.let_go() {
            return None;
        }
        let taken_ns = std::mem::take(&mut self.taken.taken_ns);
        let is_measured = taken_ns != 0 && self.taken.header.sent_ns != 0;
        if is_measured {
            self.origins[self.taken.origin].arrived(&self.taken.header, taken_ns);
        }
        let receipt = self.take_receipt();
        self.release();
        drop(receipt);
        is_measured.then_some(taken_ns)
    }

    /// Of the packet lent, if its sender waits for it.
    pub(crate) fn receipt(&self) -> Option<&Receipt> {
        self.taken.receipt.as_ref()
    }

    /// Of a packet that is handed over and not finished with then.
    pub(crate) fn take_receipt(&mut self) -> Option<Receipt> {
        self.taken.receipt.take()
    }

    /// Tells the sender of the packet lent why it was of no use, if it waits for it.
    #[cold]
    pub(crate) fn refuse(&mut self, reason: impl FnOnce() -> String) {
        if let Some(receipt) = &self.taken.receipt {
            receipt.refuse(reason());
        }
    }

    /// Gives a packet back that was held for its turn; false: it was not.
    fn let_go(&mut self) -> bool {
        let was_held = self.resequencing.as_mut().is_some_and(|resequencing| resequencing.let_go());
        if was_held {
            self.is_lent = false;
        }
        was_held
    }

    /// Gives a packet back.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.is_lent = false;
        if self.taken.taken_ns != 0 {
            return self.finish();
        }
        if let Some(inlet) = &mut self.origins[self.taken.origin].inlet {
            inlet.release();
        }
    }

    /// Gives back a packet of which somebody wants to know.
    #[cold]
    fn finish(&mut self) {
        if self.let_go() {
            return;
        }
        let origin = &mut self.origins[self.taken.origin];
        if self.taken.header.sent_ns != 0 {
            origin.arrived(&self.taken.header, self.taken.taken_ns);
            origin.terms.stats.finished(now_ns().saturating_sub(self.taken.taken_ns));
        }
        if let Some(inlet) = &mut origin.inlet {
            inlet.release();
        }
        // Behind the release: whoever hears of it finds the room.
        self.taken.receipt = None;
    }

    /// Copies a payload whose address does not suit its type to one that does.
    pub(crate) fn realign(&mut self) -> Lent {
        let payload = self.taken.payload;
        self.scratch.grow(payload.bytes());
        // SAFETY: just received, and nothing has been asked of the transport since.
        let bytes: &[u8] = unsafe { payload.get() };
        let copy = &mut self.scratch.bytes_mut()[..bytes.len()];
        copy.copy_from_slice(bytes);
        self.taken.payload = Lent::new(copy);
        self.taken.payload
    }

    pub(crate) fn stop(&self) -> &Stop {
        &self.stop
    }

    /// Whether every sender has ended, as far as known.
    pub(crate) fn has_ended(&self) -> bool {
        match self.ends {
            Ends::WithStreams => {
                !self.mailbox.is_full()
                    && self.origins.iter().all(|origin| origin.ended)
                    && !(self.open && self.origins.is_empty())
            }
            Ends::WithSender => {
                !self.mailbox.is_full() && self.origins.iter().all(|origin| origin.inlet.is_none())
            }
            Ends::Never => false,
        }
    }

    /// Whether `receive` would answer at once; takes nothing that is not kept.
    pub(crate) fn is_ready(&mut self) -> Result<bool> {
        self.check_own()?;
        if self.resequencing.is_some() {
            return Ok(self.is_next_there());
        }
        if self.mailbox.is_full() {
            self.open_mail();
        }
        for origin in &mut *self.origins {
            match origin.peek() {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                Err(error) => {
                    // Whoever receives next is told; to wait is not to receive.
                    origin.disconnect();
                    origin.failed = Some(error);
                    return Ok(true);
                }
            }
        }
        Ok(self.has_ended())
    }

    /// One look at everything, without waiting.
    fn look(&mut self) -> Result<Outcome> {
        if self.mailbox.is_full() {
            self.open_mail();
        }
        let count = self.origins.len();
        for _ in 0..count {
            let index = self.turn;
            self.turn = if index + 1 < count { index + 1 } else { 0 };
            if self.origins[index].take(self.sample_bytes, &mut self.taken)? {
                self.taken.origin = index;
                self.is_lent = true;
                return Ok(Outcome::Packet);
            }
        }
        Ok(if self.has_ended() { Outcome::Ended } else { Outcome::Nothing })
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // A program that panics may be started again.
        let is_own = self.origins.is_current();
        if is_own && self.leaves_for_good && !std::thread::panicking() && !crate::fail_point::is_silent() {
            self.origins.iter_mut().filter_map(|o| o.inlet.as_mut()).for_each(|inlet| inlet.leave());
        }
    }
}

/// A sample's size as what the hot path divides by: a type so large that it does not fit counts as no sample at all.
fn samples_of(bytes: usize) -> Option<u32> {
    u32::try_from(bytes).ok().filter(|bytes| *bytes > 0)
}
