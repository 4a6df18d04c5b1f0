//! The receiving port, which takes frames from its connections in turn, detects missing packets,
//! and ends when all its senders have ended.

mod arm;
mod call_slots;
mod drain;
mod events;
mod hold;
mod port_end;
mod server;
mod times;
mod wait;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::inspect::RefusedSender;
use crate::packet::{Gap, Header, Order, SampleSize, StreamInfo, StreamShape};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::clock::now_ns;
use crate::sys::fork::Local;
use crate::sys::ready_set::ReadySet;
use crate::transport::{AnyInlet, StopToken, Wait};

pub(crate) use self::port_end::EndsWhen;

use super::connection::{ConnectionCounts, IncomingConnection, OptionsFor};
use super::inspect::ReceivePortView;
use super::resequencer::Resequencer;
use super::{
    ConnectionOptions, ConnectionStats, FrameRef, LentPacket, OwnedPacket, PacketSource, PortEvents,
    Progress, Receipt,
};
use crate::sys::adaptive_spin::AdaptiveSpin;
use crate::terms::WaitStrategy;

/// One poll in this many also checks for new, closed and ended connections.
const POLLS_PER_FULL_POLL: u32 = 8;
/// One empty poll in this many reads the clock.
const POLLS_PER_CLOCK: u32 = 4;
/// The number of polls in a wait that reads no clock.
const POLLS_SPINNING: u32 = 128;

pub(crate) struct Incoming {
    port: String,
    connections: Local<Vec<IncomingConnection>>,
    events: Local<Arc<PortEvents>>,
    options_for: OptionsFor,
    stop: StopToken,
    /// Whether unannounced senders may still connect. If so, the port does not end without senders.
    open: bool,
    ends: EndsWhen,
    /// The index of the connection that is polled first next time.
    next_index: usize,
    /// The packet that is lent out, or was lent out last. The packet is kept here because a return
    /// value would be copied at every step.
    taken: LentPacket,
    is_lent: bool,
    arrived_while: ArrivedWhile,
    /// The end of the last wait for a packet, in monotonic ns. `u64::MAX`: the program waits on a
    /// descriptor of the port.
    waited_until_ns: u64,
    spinner: AdaptiveSpin,
    /// The stream info that is used if the description of a stream was lost.
    unknown: Arc<StreamInfo>,
    /// The error that followed the last packet of a drain. The next receive reports it.
    problem: Option<Error>,
    scratch: AlignedBuffer,
    sample_size: SampleSize,
    counts: Arc<ConnectionCounts>,
    /// The view of this port for inspection.
    view: Arc<ReceivePortView>,
    /// Whether no other receiver replaces this port after its drop, and whether this also applies
    /// to a drop in a panic.
    says_goodbye_on_drop: bool,
    says_goodbye_in_panic: bool,
    /// The resequencer, if the port puts packets back in sequence.
    pub(super) resequencer: Option<Box<Resequencer>>,
    /// The callbacks of connections over a middleware that calls back.
    callbacks: call_slots::Callbacks,
    /// The set for a program's own event loop.
    ready_set: Option<Arc<ReadySet>>,
    /// The function that is called when a request for the component arrives.
    hook: Option<Box<dyn FnMut() + Send>>,
    /// Whether a request ends the current receive, and whether one has arrived.
    wakes_on_request: bool,
    request_handler: bool,
    /// The component's progress at this port, for a harness.
    progress: Option<Arc<Progress>>,
}

/// The arrival of a packet, relative to the `receive` that found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArrivedWhile {
    /// The packet arrived before the first poll.
    Idle,
    Spinning,
    Sleeping,
}

/// The result of `receive`.
pub(crate) enum Polled {
    /// See [`Incoming::taken`].
    Packet,
    Ended,
    Empty,
}

impl Incoming {
    pub(crate) fn new(
        port: String,
        events: Arc<PortEvents>,
        options_for: OptionsFor,
        stop: StopToken,
        open: bool,
        sample_bytes: Option<usize>,
    ) -> Self {
        let view = ReceivePortView::register(&port, &events);
        let stop = stop.for_port(&port);
        let sample_size = SampleSize::new(sample_bytes);
        Self {
            view,
            port,
            // Most ports have a single connection. A vector would otherwise start with room for
            // four.
            connections: Local::new(Vec::with_capacity(1)),
            counts: Arc::new(ConnectionCounts::of(sample_size.is_message())),
            events: Local::new(events),
            options_for,
            stop,
            open,
            ends: EndsWhen::WithStreams,
            next_index: 0,
            taken: LentPacket::none(),
            is_lent: false,
            arrived_while: ArrivedWhile::Idle,
            waited_until_ns: 0,
            spinner: AdaptiveSpin::new(WaitStrategy::Block),
            unknown: Arc::default(),
            problem: None,
            scratch: AlignedBuffer::default(),
            sample_size,
            says_goodbye_on_drop: false,
            says_goodbye_in_panic: false,
            resequencer: None,
            callbacks: call_slots::Callbacks::default(),
            ready_set: None,
            hook: None,
            wakes_on_request: false,
            request_handler: false,
            progress: None,
        }
    }

    pub(crate) fn port(&self) -> &str {
        &self.port
    }

    /// Returns the senders that the port cannot connect to.
    pub(crate) fn refused(&self) -> Vec<RefusedSender> {
        self.events.refused()
    }

    /// Checks that this process made the port.
    ///
    /// # Errors
    /// [`Error::Forked`] in a child of the process that made the port.
    pub(crate) fn check_own(&self) -> Result<()> {
        self.connections.check(|| format!("receiving port `{}`", self.port))
    }

    /// Sets the bytes per sample, which determine the number of samples in a gap, and the shape of
    /// the streams that the port takes.
    pub(crate) fn set_samples(&mut self, bytes: Option<usize>, shape: Option<StreamShape>) {
        self.sample_size = SampleSize::new(bytes);
        self.counts.set_messages(self.sample_size.is_message());
        if let Some(shape) = shape {
            // An input is taken once.
            let _ = self.counts.shape.set((self.port.clone(), shape));
        }
    }

    /// Returns the bytes of the lent packet.
    #[inline]
    pub(crate) fn payload(&self) -> &[u8] {
        if !self.is_lent {
            return &[];
        }
        // SAFETY: the packet is lent and not yet released. Every method that calls the transport
        // takes `&mut self`, and so ends this borrow first.
        unsafe { self.taken.payload.get() }
    }

    /// Returns the number of senders connected now.
    pub(crate) fn senders(&mut self) -> usize {
        if !self.connections.is_current() {
            return 0;
        }
        self.release_forgotten();
        self.handle_events();
        self.connections.iter().filter(|connection| connection.inlet.is_some()).count()
    }

    /// Receives the next packet of any connection, or the end; `Empty` if the wait is over. Calls
    /// `wait` only if it has to wait, because the deadline needs a reading of the clock.
    ///
    /// If a packet is still lent, the drop was forgotten ([`std::mem::forget`]), and the packet is
    /// released first. The shortest paths need no check for that: they take only the next packet of
    /// the only ring, and the lent packet comes before that.
    #[inline(always)]
    pub(crate) fn receive(&mut self, wait: impl FnOnce() -> Wait) -> Result<Polled> {
        if self.receive_fast() {
            return Ok(Polled::Packet);
        }
        let wait = wait();
        // A packet that a port spins for is taken here, without the checks of a slow receive.
        if !matches!(wait, Wait::Never) && self.spins_at_ring() && self.take_spinning().is_some() {
            return Ok(Polled::Packet);
        }
        self.receive_slow(wait, u32::MAX)
    }

    /// Takes the next packet if it has arrived, and only packets have to be checked. The function
    /// is not inlined, so the result is in a register, whereas the result of a whole receive is in
    /// memory.
    #[inline(never)]
    fn receive_fast(&mut self) -> bool {
        self.arrived_while = ArrivedWhile::Idle;
        self.receive_next()
    }

    /// Takes a packet like [`Incoming::receive_fast`], but inlined, and only the next packet of a
    /// steady stream of the only connection. With `spins`, a spinning port polls for some
    /// microseconds. Returns the number of the packet's samples; `None`: no packet was taken.
    #[inline(always)]
    pub(crate) fn receive_inlined(&mut self, spins: bool) -> Option<u64> {
        self.arrived_while = ArrivedWhile::Idle;
        if self.is_fast_path()
            && let Some(samples) = self.try_take_steady()
        {
            return Some(samples);
        }
        if spins && self.spins_at_ring() { self.take_spinning() } else { None }
    }

    /// Returns whether the port spins, and has a ring as the only connection.
    #[inline(always)]
    fn spins_at_ring(&self) -> bool {
        let has_ring =
            matches!(&**self.connections, [IncomingConnection { inlet: Some(AnyInlet::Ring(_)), .. }]);
        self.spinner.spins_always() && has_ring
    }

    /// Takes a packet like [`Incoming::try_take_steady`] from the only ring of a spinning port.
    /// Polls for a few microseconds at most, and only as long as nothing but packets has to be
    /// checked.
    #[inline(never)]
    fn take_spinning(&mut self) -> Option<u64> {
        for _ in 0..POLLS_SPINNING / POLLS_PER_FULL_POLL {
            if !self.is_fast_path() {
                return None;
            }
            let [IncomingConnection { inlet: Some(AnyInlet::Ring(ring)), .. }] = &**self.connections else {
                return None;
            };
            if ring.spin_for_frame(POLLS_PER_FULL_POLL) {
                self.arrived_while = ArrivedWhile::Spinning;
                let samples = self.try_take_steady();
                self.end_wait();
                return samples;
            }
        }
        None
    }

    /// Takes a packet like [`Incoming::receive_fast`], within the caller's loop.
    #[inline(always)]
    pub(crate) fn receive_next(&mut self) -> bool {
        self.is_fast_path() && self.try_take()
    }

    /// Returns whether only packets have to be checked.
    #[inline(always)]
    fn is_fast_path(&self) -> bool {
        // Also checked here: the memory of a child lacks the frames that the child's ring reader
        // has counted.
        self.connections.is_current()
            && !self.events.is_pending()
            && !self.stop.is_stopped()
            && self.resequencer.is_none()
    }

    /// Receives like [`Incoming::receive`], but polls for a few microseconds at most and reads no
    /// clock. Does not poll if the port does not spin.
    pub(crate) fn receive_spinning(&mut self) -> Result<Polled> {
        if !self.spinner.spins_always() {
            return Ok(Polled::Empty);
        }
        if self.receive_fast() || (self.spins_at_ring() && self.take_spinning().is_some()) {
            return Ok(Polled::Packet);
        }
        self.receive_slow(Wait::FOREVER, POLLS_SPINNING)
    }

    /// Takes the next packet of the connection that is due, if it has arrived and nothing else is
    /// due.
    #[inline(always)]
    fn try_take(&mut self) -> bool {
        self.try_take_steady().is_some() || self.try_take_any()
    }

    /// Takes the next packet of a steady stream of the only connection. Returns the number of
    /// samples.
    #[inline(always)]
    fn try_take_steady(&mut self) -> Option<u64> {
        let [only] = &mut **self.connections else { return None };
        let samples = only.try_take_steady(self.sample_size, &mut self.taken)?;
        self.taken.connection = 0;
        self.is_lent = true;
        Some(samples)
    }

    /// Takes a packet of one of several connections, or a packet that does not belong to a steady
    /// stream.
    #[inline(never)]
    fn try_take_any(&mut self) -> bool {
        self.release_forgotten();
        let (index, count) = (self.next_index, self.connections.len());
        let Some(connection) = self.connections.get_mut(index) else { return false };
        let is_taken = connection.try_take_steady(self.sample_size, &mut self.taken).is_some()
            || connection.try_take_fast(false, self.sample_size, &mut self.taken) == Some(true);
        if is_taken {
            self.next_index = if index + 1 < count { index + 1 } else { 0 };
            self.taken.connection = index;
            self.is_lent = true;
        }
        is_taken
    }

    /// Receives if other work is due first, or if waiting is needed.
    #[inline(never)]
    fn receive_slow(&mut self, wait: Wait, looks_max: u32) -> Result<Polled> {
        self.check_own()?;
        self.release_forgotten();
        if self.problem.is_some() {
            return self.report_problem();
        }
        let found = match self.resequencer {
            Some(_) => self.receive_in_sequence(wait),
            None => {
                self.stop.check(wait)?;
                let found = self.try_take_read();
                if found == Some(true) {
                    self.spinner.succeeded();
                    return Ok(Polled::Packet);
                }
                self.receive_as_it_comes(wait, looks_max, found.is_some())
            }
        };
        match (&found, &self.ends) {
            (Ok(Polled::Ended), EndsWhen::Failed(failure)) => Err(Error::failed(failure)),
            _ => found,
        }
    }

    /// Takes the next packet of the only connection after a read, if only packets have to be
    /// checked. Most packets over sockets are taken this way. False: the connection has no packet.
    /// `None`: the connection may have a packet.
    #[inline(always)]
    fn try_take_read(&mut self) -> Option<bool> {
        if !self.is_fast_path() {
            return None;
        }
        let [only] = &mut **self.connections else { return None };
        let is_taken = only.try_take_fast(true, self.sample_size, &mut self.taken)?;
        if is_taken {
            self.taken.connection = 0;
            self.is_lent = true;
        }
        Some(is_taken)
    }

    /// Receives like [`Incoming::receive_slow`], in the order of arrival, with at most `looks_max`
    /// empty polls. `has_polled`: the first poll has just been made, and was empty.
    pub(super) fn receive_as_it_comes(
        &mut self,
        wait: Wait,
        looks_max: u32,
        mut has_polled: bool,
    ) -> Result<Polled> {
        // Most packets that a port spins for are taken here.
        if !matches!(wait, Wait::Never) && self.spins_at_ring() && self.take_spinning().is_some() {
            return Ok(Polled::Packet);
        }
        let mut spins = 0u32;
        loop {
            // The stop is checked before each poll, because a receiver with busy senders always
            // finds a packet. A poll precedes every sleep, even if it needs a system call: a core
            // that goes idle just before a reply takes long to wake.
            self.stop.check(wait)?;
            let found = if std::mem::take(&mut has_polled) {
                Polled::Empty
            } else if spins.is_multiple_of(POLLS_PER_FULL_POLL) {
                let asked = self.asked();
                let found = self.poll_all()?;
                if matches!(found, Polled::Empty) {
                    self.report_empty(asked, matches!(wait, Wait::Until(None)));
                }
                found
            } else {
                self.poll_ready()
            };
            if !matches!(found, Polled::Empty) {
                if spins > 0 {
                    self.arrived_while = ArrivedWhile::Spinning;
                }
                if self.arrived_while != ArrivedWhile::Idle {
                    self.end_wait();
                }
                self.spinner.succeeded();
                return Ok(found);
            }
            if matches!(wait, Wait::Never) || self.is_interrupted() {
                return Ok(Polled::Empty);
            }
            if let Some(more) = self.spinner.next_burst() {
                spins = spins.wrapping_add(1);
                self.spin(more);
                // Reading the clock takes as long as several polls.
                if spins.is_multiple_of(POLLS_PER_CLOCK) && (wait.is_expired() || spins > looks_max) {
                    // A process that was stopped during the spin may have missed arrivals.
                    return self.poll_all();
                }
                continue;
            }
            self.spinner.gave_up();
            if !self.sleep(wait)? {
                return Ok(Polled::Empty);
            }
            self.arrived_while = ArrivedWhile::Sleeping;
            if let found @ Polled::Packet = self.poll_ready() {
                self.end_wait();
                return Ok(found);
            }
            // A peer can make its doorbell ring all the time.
            if wait.is_expired() {
                return self.poll_all();
            }
            spins = 0;
        }
    }

    /// Polls for packets only, between two full polls.
    #[inline]
    fn poll_ready(&mut self) -> Polled {
        for _ in 0..self.connections.len() {
            if self.try_take() {
                return Polled::Packet;
            }
            self.next_index =
                if self.next_index + 1 < self.connections.len() { self.next_index + 1 } else { 0 };
        }
        Polled::Empty
    }

    /// Spins on the only connection for `spins` polls. With several connections, it does nothing.
    fn spin(&mut self, spins: u32) {
        match &mut **self.connections {
            [IncomingConnection { inlet: Some(inlet), .. }] => {
                inlet.spin(spins);
            }
            _ => std::hint::spin_loop(),
        }
    }

    /// Returns the packet that `receive` has found, until it is released.
    #[inline]
    pub(crate) fn taken(&self) -> &LentPacket {
        &self.taken
    }

    /// Returns the origin of the lent packet.
    #[inline(always)]
    pub(crate) fn source(&self) -> PacketSource<'_> {
        if let Some(held) = self.held() {
            return PacketSource::Copy(held);
        }
        let connection = &self.connections[self.taken.connection];
        PacketSource::Connection {
            name: &connection.name,
            number: connection.connection(),
            streams: &connection.streams,
            unknown: &self.unknown,
        }
    }

    /// Returns the stream of the packet, or a nameless stream if the description was lost.
    pub(crate) fn stream(&self) -> &Arc<StreamInfo> {
        self.source().stream(&self.taken.header)
    }

    /// Takes the gap at the end of a connection that has ended.
    pub(crate) fn gap_at_end(&mut self) -> Option<Gap> {
        let gap = self
            .connections
            .iter_mut()
            .filter(|connection| connection.ended)
            .find_map(|connection| connection.gap.take());
        match &mut self.resequencer {
            Some(resequencer) => resequencer.gap_at_end(gap),
            None => gap,
        }
    }

    /// Takes the packets lost at the end of that connection, if it has ended.
    pub(super) fn take_gap_of(&mut self, (index, number): (usize, u16)) -> Option<Gap> {
        let connection = self.connections.get_mut(index)?;
        let is_over = connection.ended && connection.connection() == number;
        connection.gap.take_if(|gap| is_over && gap.packets > 0)
    }

    /// Returns the wait strategy of the connection that spins most.
    pub(crate) fn wait_strategy(&self) -> WaitStrategy {
        self.spinner.strategy()
    }

    /// Returns the name of the connection on which the packet arrived.
    pub(crate) fn connection(&self) -> &str {
        self.source().connection()
    }

    /// Returns the order of the packet.
    pub(crate) fn order(&self) -> Order {
        self.source().order(&self.taken.header)
    }

    /// Returns the index of the packet's connection in the port, and the number of that connection.
    pub(crate) fn connection_index(&self) -> (usize, u16) {
        (self.taken.connection, self.connections[self.taken.connection].connection())
    }

    /// Returns a key for the description of the packet: the number of the connection's description,
    /// and the stream on the connection. `None` for a packet that was put in sequence.
    pub(super) fn description(&self) -> Option<(u64, u16)> {
        let connection = &self.connections[self.taken.connection];
        self.held().is_none().then(|| (connection.description(), self.taken.header.stream))
    }

    /// Returns the statistics of the packet's connection.
    pub(crate) fn stats(&self) -> &Arc<ConnectionStats> {
        &self.options().stats
    }

    /// Returns the options of the packet's connection.
    pub(super) fn options(&self) -> &ConnectionOptions {
        &self.connections[self.taken.connection].options
    }

    /// Returns the lent packet if it was held to be put in sequence.
    #[inline(always)]
    fn held(&self) -> Option<&OwnedPacket> {
        self.resequencer.as_ref()?.lent()
    }

    /// Lends a packet that was held to be put in sequence.
    pub(super) fn lend(&mut self, header: Header, payload: FrameRef, gap: Option<Gap>, connection: usize) {
        // The value is nonzero, so that `release` checks whether the packet was held.
        self.taken = LentPacket { header, payload, gap, connection, taken_ns: 1, receipt: None };
        self.is_lent = true;
    }

    /// Marks the packet as no longer lent, because it has been moved elsewhere.
    pub(super) fn clear_lent(&mut self) {
        self.is_lent = false;
    }

    /// Sets the gap before the lent packet.
    pub(super) fn set_gap(&mut self, gap: Option<Gap>) {
        self.taken.gap = gap;
    }

    /// Returns the sample index of the lent packet, and the number of samples.
    pub(super) fn samples_lent(&self) -> (u64, u64) {
        (self.taken.header.sample_index, self.samples_in(self.taken.payload.bytes()))
    }

    pub(super) fn samples_in(&self, bytes: usize) -> u64 {
        self.sample_size.samples_in(bytes)
    }

    /// Releases a packet and closes the connection, because the packet broke the protocol.
    pub(crate) fn reject(&mut self) {
        self.finish_releases();
        self.refuse(|| "its samples are of another size".into());
        self.is_lent = false;
        self.finish();
        self.connections[self.taken.connection].close_without_end();
    }

    /// Releases a packet that was copied and is still in use. Returns the time when the packet was
    /// taken, if it is measured.
    pub(crate) fn release_copied(&mut self) -> Option<u64> {
        if self.release_held() {
            return None;
        }
        let taken_ns = std::mem::take(&mut self.taken.taken_ns);
        let is_measured = taken_ns != 0 && self.taken.header.sent_ns != 0;
        if is_measured {
            self.record_arrival(taken_ns);
        }
        let receipt = self.take_receipt();
        self.is_lent = false;
        if let Some(inlet) = &mut self.connections[self.taken.connection].inlet {
            inlet.release();
        }
        drop(receipt);
        is_measured.then_some(taken_ns)
    }

    /// Returns the receipt of the lent packet, if the sender waits for it.
    pub(crate) fn receipt(&self) -> Option<&Receipt> {
        self.taken.receipt.as_ref()
    }

    /// Takes the receipt of a packet that is handed over before it is finished.
    pub(crate) fn take_receipt(&mut self) -> Option<Receipt> {
        self.taken.receipt.take()
    }

    /// Reports to a waiting sender why the lent packet was refused.
    #[cold]
    pub(crate) fn refuse(&mut self, reason: impl FnOnce() -> String) {
        if let Some(receipt) = &self.taken.receipt {
            receipt.refuse(reason());
        }
    }

    /// Releases a packet that was held to be put in sequence; false: it was not held.
    fn release_held(&mut self) -> bool {
        let was_held = self.resequencer.as_mut().is_some_and(|resequencer| resequencer.release_held());
        if was_held {
            self.is_lent = false;
        }
        was_held
    }

    /// Releases the lent packet.
    #[inline(always)]
    pub(crate) fn release_inlined(&mut self) {
        self.is_lent = false;
        if self.taken.taken_ns != 0 {
            return self.finish();
        }
        match &mut **self.connections {
            [IncomingConnection { inlet: Some(AnyInlet::Ring(ring)), .. }] => ring.release(),
            connections => {
                if let Some(inlet) = &mut connections[self.taken.connection].inlet {
                    inlet.release();
                }
            }
        }
    }

    /// Releases the lent packet.
    #[inline]
    pub(crate) fn release(&mut self) {
        self.release_inlined();
    }

    /// Releases a packet that is still lent when the next one is requested, because the drop was
    /// forgotten.
    #[inline]
    pub(super) fn release_forgotten(&mut self) {
        // A child of a fork leaves the packet to the parent.
        if self.is_lent && self.connections.is_current() {
            self.release();
        }
    }

    /// Releases a packet that is measured, held, or has a receipt.
    #[cold]
    fn finish(&mut self) {
        if self.release_held() {
            return;
        }
        if self.taken.header.sent_ns != 0 {
            self.record_service(now_ns());
        }
        if let Some(inlet) = &mut self.connections[self.taken.connection].inlet {
            inlet.release();
        }
        // The receipt is dropped after the release, so that a sender with the acknowledgement finds
        // free room.
        self.taken.receipt = None;
    }

    /// Copies a payload that is not aligned for the type to an aligned address.
    pub(crate) fn realign(&mut self) -> FrameRef {
        let payload = self.taken.payload;
        self.scratch.grow(payload.bytes());
        // SAFETY: the payload was just received, and the transport has not been called since.
        let bytes: &[u8] = unsafe { payload.get() };
        let copy = &mut self.scratch.bytes_mut()[..bytes.len()];
        copy.copy_from_slice(bytes);
        self.taken.payload = FrameRef::new(copy);
        self.taken.payload
    }

    pub(crate) fn stop(&self) -> &StopToken {
        &self.stop
    }

    /// Returns whether `receive` would return at once. Packets that it takes are kept for
    /// `receive`.
    pub(crate) fn is_ready(&mut self) -> Result<bool> {
        self.check_own()?;
        self.release_forgotten();
        if self.problem.is_some() {
            return Ok(true);
        }
        if self.resequencer.is_some() {
            return Ok(self.is_next_there());
        }
        let asked = self.asked();
        if self.events.is_pending() {
            self.handle_events();
            if self.problem.is_some() {
                return Ok(true);
            }
        }
        for connection in &mut *self.connections {
            match connection.peek() {
                Ok(false) => {}
                Ok(true) => return Ok(true),
                Err(error) => {
                    // The next `receive` reports the error, unlike a wait.
                    connection.disconnect();
                    connection.failed = Some(error);
                    return Ok(true);
                }
            }
        }
        let has_ended = self.has_ended();
        if !has_ended {
            self.report_empty(asked, false);
        }
        Ok(has_ended)
    }

    /// Polls everything once, without waiting.
    fn poll_all(&mut self) -> Result<Polled> {
        if self.events.is_pending() {
            self.handle_events();
            if self.problem.is_some() {
                return self.report_problem();
            }
        }
        self.poll_connections()
    }

    /// Polls the connections once. Events since the last check are left for the next check.
    pub(super) fn poll_connections(&mut self) -> Result<Polled> {
        let count = self.connections.len();
        for _ in 0..count {
            let index = self.next_index;
            self.next_index = if index + 1 < count { index + 1 } else { 0 };
            if self.connections[index].take(self.sample_size, &mut self.taken)? {
                self.taken.connection = index;
                self.is_lent = true;
                return Ok(Polled::Packet);
            }
        }
        Ok(if self.has_ended() { Polled::Ended } else { Polled::Empty })
    }
}
