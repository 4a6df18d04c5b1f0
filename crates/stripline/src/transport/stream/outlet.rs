//! The sending side of a byte stream.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::frame_max;
use super::inspect::StreamPortView;
use super::partial_writer::PartialWriter;
use super::receiver::StreamReceiver;
use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::flow;
use crate::flow::AckWait;
use crate::inspect::Reader;
use crate::packet::{Header, Kind, Outline};
use crate::sys::aligned_buffer::AlignedBuffer;
use crate::sys::clock::now_ns;
use crate::sys::doorbell::PollSet;
use crate::sys::refusal::PeerRefusal;
use crate::sys::socket::{Listener, Socket};
use crate::terms::{Flow, Overflow, Scope, SenderOptions};
use crate::transport::accept::AcceptThread;
use crate::transport::carrier::{Carrier, PortGroups, Sink, Ticket, WAIT_MAX, open_sink};
use crate::transport::handshake::Hello;
use crate::transport::signalling::{
    AcceptQueue, AckReader, ReceiverFactory, RemoteReceiver, SignallingAcceptor, remove_dead, wait_acks,
    wait_for_permission,
};
use crate::transport::{
    Admitted, Attention, Awaited, BindRequest, Endpoint, Flush, NextPacket, Outlet, OutletTraits,
    PortPosition, Prepared, StopToken, Wait,
};

/// The most bytes of frames that are kept, to be sent together.
const KEPT_MAX: usize = 64 * 1024;

/// The receivers of one port over byte streams.
pub(in crate::transport) struct StreamOutlet {
    endpoint: Endpoint,
    receivers: Vec<StreamReceiver>,
    accept_queue: Arc<AcceptQueue<StreamReceiver>>,
    /// The kept frames, followed by the reserved one.
    frame: AlignedBuffer,
    /// The bytes of the kept frames. While there are some, every receiver blocks and is free.
    kept: usize,
    gathers: bool,
    frame_max: usize,
    partial_writer: Option<PartialWriter>,
    /// The number of the next packet.
    next_sequence: u64,
    /// The position of the port when it last admitted receivers.
    admitted_at: PortPosition,
    /// Whether more fragments of the packet published last are to come.
    in_packet: bool,
    /// The number of writes to all receivers, if receivers share a path.
    shared_units: Option<u64>,
    /// How long a send waits for room.
    timeout: Option<Duration>,
    /// The scope of the port, which decides whether receivers send acknowledgements.
    scope: Scope,
    stop: StopToken,
    accept_thread: Option<AcceptThread>,
    view: Arc<StreamPortView>,
}

impl StreamOutlet {
    /// Opens a port on a listener.
    pub(in crate::transport) fn new(
        request: BindRequest,
        endpoint: Endpoint,
        listener: Listener,
        carrier: Option<Carrier>,
    ) -> Result<Self> {
        let (payload, keys, options) = (request.payload.clone(), endpoint.keys, request.options);
        let former_paths = Arc::clone(&request.former_paths);
        let port = request.port.clone();
        let mut outlet = Self::without_receivers(request, endpoint)?;
        outlet.timeout = options.send_timeout();
        outlet.scope = options.scope;
        let wants_acks = options.scope > Scope::Transport;
        let acceptor = SignallingAcceptor {
            factory: StreamReceiverFactory {
                view: Arc::clone(&outlet.view),
                carrier,
                wants_acks,
                options,
                groups: Arc::default(),
            },
            queue: Arc::clone(&outlet.accept_queue),
            payload,
            any_build: options.any_build,
            keys,
            buffer: options.buffer,
            wants_acks,
            former_paths,
            takes_parts: carrier.is_some() && matches!(listener, Listener::Tcp(_)),
            hung_up_flags: Default::default(),
        };
        outlet.accept_thread = Some(AcceptThread::start(&port, listener, acceptor)?);
        Ok(outlet)
    }

    /// Returns the sending end of a connection that also has a receiving end.
    pub(in crate::transport) fn of_pair(
        request: BindRequest,
        endpoint: Endpoint,
        socket: Arc<Socket>,
        sink: Option<Sink>,
        connection: &str,
    ) -> Result<Self> {
        let watermarks = request.options.watermarks;
        let mut outlet = Self::without_receivers(request, endpoint)?;
        let reader = Reader::new(connection, Overflow::Block, watermarks.high(), &watermarks);
        let remote = RemoteReceiver::new(&reader, socket, AckReader::default());
        outlet.receivers.push(outlet.view.receiver(reader, remote, sink));
        Ok(outlet)
    }

    fn without_receivers(request: BindRequest, endpoint: Endpoint) -> Result<Self> {
        Ok(Self {
            view: StreamPortView::register(&request, &endpoint),
            endpoint,
            receivers: Vec::new(),
            accept_queue: Arc::new(AcceptQueue::new()?),
            frame: AlignedBuffer::default(),
            kept: 0,
            gathers: false,
            frame_max: frame_max(request.options.buffer),
            partial_writer: None,
            next_sequence: 0,
            admitted_at: PortPosition::default(),
            in_packet: false,
            shared_units: None,
            timeout: None,
            scope: Scope::Transport,
            stop: request.stop,
            accept_thread: None,
        })
    }

    /// Attaches the receivers that were accepted. Returns true if there are some.
    fn attach_accepted(&mut self) -> bool {
        let Some(accepted) = self.accept_queue.accepted() else { return false };
        let arrived = !accepted.is_empty();
        for receiver in accepted {
            fail_point!("admit");
            receiver.remote.progress.begin(self.next_sequence);
            if receiver.path.is_shared() {
                self.shared_units.get_or_insert(0);
            }
            self.receivers.push(receiver);
            fail_point!("admit-attached");
        }
        if arrived && self.shared_units.is_some() {
            // A shared path sends each frame once. The receivers that it waits for come first: a
            // write for them sends the frame, and the writes for the other receivers need not send
            // it.
            self.receivers.sort_by_key(|receiver| !receiver.remote.blocks);
        }
        arrived
    }

    /// Runs work that removes receivers found dead.
    fn while_receivers_may_leave<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.receivers.len();
        let outcome = work(self);
        if self.receivers.len() < before {
            // The next packet completes the records of these receivers.
            self.accept_queue.request_attention();
        }
        outcome
    }

    /// Removes the receivers found dead.
    fn remove_dead(&mut self) {
        self.while_receivers_may_leave(|this| remove_dead(&mut this.receivers));
    }

    /// Begins a write to all receivers, if some of them share a path.
    #[cold]
    fn begin_unit(&mut self) {
        let units = self.shared_units.get_or_insert(0);
        *units += 1;
        self.receivers.iter().for_each(|receiver| receiver.path.begin(*units));
    }

    /// Returns whether the receiver's path is free for another frame; postponed frames go first.
    fn settle(&mut self, index: usize) -> bool {
        if !self.receivers[index].settle() {
            return false;
        }
        let postponed = std::mem::take(&mut self.receivers[index].postponed);
        if postponed.is_empty() {
            return true;
        }
        if self.defer_rest(index, postponed).is_err() {
            self.receivers[index].remote.dead = true;
        }
        false
    }

    /// Waits until no selected receiver has a partly written frame.
    fn wait_partial_writes(&mut self, wait: Wait, counts: fn(&StreamReceiver) -> bool) -> Result<()> {
        loop {
            let busy = (0..self.receivers.len())
                .find(|&index| counts(&self.receivers[index]) && !self.settle(index));
            let Some(busy) = busy else {
                self.remove_dead();
                return Ok(());
            };
            let full = Error::Full { connection: self.receivers[busy].remote.connection.clone() };
            let mut poll_set = PollSet::default();
            poll_set.readable(self.accept_queue.doorbell.as_fd());
            let fired = self.receivers[busy].remote.while_waiting(|| self.stop.sleep(poll_set, wait))?;
            if !fired {
                return Err(full);
            }
            self.accept_queue.doorbell.drain();
        }
    }

    /// Waits until every shared path has room. A frame on a shared path waits for the slowest
    /// receiver, and must reach the other receivers as soon as a send has taken it.
    #[cold]
    fn wait_for_shared_room(&mut self, bytes: usize, mut wait: Wait) -> Result<()> {
        if let (Wait::Until(None), Some(timeout)) = (wait, self.timeout) {
            wait = Wait::within(timeout);
        }
        let bytes = self.kept + bytes.next_multiple_of(16);
        let is_full =
            |receiver: &&mut StreamReceiver| receiver.remote.blocks && !receiver.path.has_room(bytes);
        while let Some(receiver) = self.receivers.iter_mut().find(is_full) {
            let mut poll_set = PollSet::default();
            receiver.path.poll_room(&mut poll_set);
            poll_set.readable(self.accept_queue.doorbell.as_fd());
            if !receiver.remote.while_waiting(|| self.stop.sleep(poll_set, wait))? {
                return Err(Error::Full { connection: receiver.remote.connection.clone() });
            }
            self.accept_queue.doorbell.drain();
            receiver.remote.dead = receiver.path.is_receiver_gone();
            self.remove_dead();
        }
        Ok(())
    }

    /// Removes receivers that have hung up, if a shared path waits for them.
    fn remove_gone_from_shared(&mut self) {
        if self.shared_units.is_some() {
            for receiver in &mut self.receivers {
                receiver.remote.dead |= receiver.path.is_receiver_gone();
            }
            self.remove_dead();
        }
    }

    /// Passes the rest of a frame to the writer thread.
    fn defer_rest(&mut self, index: usize, rest: Vec<u8>) -> Result<()> {
        let partial_writer = match &self.partial_writer {
            Some(partial_writer) => partial_writer,
            None => self.partial_writer.insert(PartialWriter::start(self.accept_queue.doorbell.clone())?),
        };
        let receiver = &mut self.receivers[index];
        receiver.partial_write = Some(partial_writer.finish(receiver.path.clone(), rest));
        Ok(())
    }

    /// Passes the rest of the current frame to the writer thread.
    fn defer_from(&mut self, index: usize, sent: usize, bytes: usize) -> Result<()> {
        self.defer_rest(index, self.frame.frame()[sent..bytes].to_vec())
    }

    /// Sends the next fragment of a packet to a non-blocking receiver. A receiver that got the
    /// beginning gets the rest as well. Otherwise a packet larger than the socket's buffer would
    /// never arrive. Bytes that the socket does not take wait here, for one packet at most.
    fn send_continuation(&mut self, index: usize, bytes: usize) {
        let receiver = &mut self.receivers[index];
        if !receiver.mid_packet {
            return;
        }
        let mut sent = 0;
        while sent < bytes && receiver.settle() {
            match receiver.path.write(&self.frame.frame()[sent..bytes]) {
                Ok(written) => sent += written,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return receiver.fail(&error),
            }
        }
        // Relaxed: a hint for the receiver's successor.
        receiver.remote.progress.next_sequence.store(self.next_sequence, Ordering::Relaxed);
        if sent < bytes && self.defer_from(index, sent, bytes).is_err() {
            self.receivers[index].remote.dead = true;
        }
    }

    /// Writes a part of the frame to one receiver. A carrier that can wait waits for room, for a
    /// short time at most.
    fn write_rest(&mut self, index: usize, part: Range<usize>, wait: Wait) -> io::Result<usize> {
        let is_only = self.receivers.len() == 1;
        let receiver = &self.receivers[index];
        if part.start == 0 && receiver.path.lends() {
            return receiver.path.write_frame(&mut self.frame, part.end, is_only);
        }
        let bytes = &self.frame.frame()[part];
        if !receiver.path.has_carrier() {
            return receiver.path.write(bytes);
        }
        let waits = receiver.remote.blocks && !self.stop.is_stopped();
        let longest = if waits { wait.left_of(WAIT_MAX) } else { Duration::ZERO };
        receiver.remote.while_waiting(|| receiver.path.write_within(bytes, longest))
    }

    /// Writes the rest of the frame to one receiver as the wait allows. `outcome` is the result of
    /// the first attempt.
    #[cold]
    fn send_rest(
        &mut self,
        index: usize,
        bytes: usize,
        mut outcome: io::Result<usize>,
        mut wait: Wait,
    ) -> Result<()> {
        let mut sent = 0;
        // Whether the last attempt has waited as long as it may.
        let mut has_waited = !self.receivers[index].path.has_carrier();
        loop {
            let receiver = &mut self.receivers[index];
            match outcome {
                Ok(written) => sent += written,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    if !receiver.remote.blocks {
                        // All or nothing: the receiver counts the loss by the sequence numbers.
                        return if sent == 0 {
                            receiver.postpone(&self.frame.frame()[..bytes]);
                            Ok(())
                        } else {
                            self.defer_from(index, sent, bytes)
                        };
                    }
                    if let (Wait::Until(None), Some(timeout)) = (wait, self.timeout) {
                        wait = Wait::within(timeout);
                    }
                    if has_waited || wait.left_of(WAIT_MAX).is_zero() || self.stop.is_stopped() {
                        let mut poll_set = PollSet::default();
                        receiver.path.poll_room(&mut poll_set);
                        match receiver.remote.while_waiting(|| self.stop.sleep(poll_set, wait)) {
                            Ok(true) => {
                                receiver.remote.dead = receiver.path.is_receiver_gone();
                                if receiver.remote.dead {
                                    return Ok(());
                                }
                            }
                            Ok(false) | Err(Error::Stopped) => return self.defer_from(index, sent, bytes),
                            Err(Error::Interrupted { .. }) => {
                                // The packet and its copies are on their way. The interrupt ends
                                // the next wait instead.
                                self.stop.interrupt().request(|| ());
                                return self.defer_from(index, sent, bytes);
                            }
                            Err(error) => return Err(error),
                        }
                    }
                }
                // Broken pipe or reset: the receiver died, together with the packets it had. Or the
                // receiver has broken the rules of the path.
                Err(error) => {
                    let first = Header::read(self.frame.frame()).filter(|_| sent == 0);
                    if let Some(first) = first.filter(|first| first.flags & Header::CONTINUED == 0) {
                        let (sequence, sample) = (first.sequence, Some(first.sample_index));
                        receiver.remote.progress.stop_at(PortPosition { sequence, sample });
                    }
                    receiver.fail(&error);
                    return Ok(());
                }
            }
            if sent >= bytes {
                return Ok(());
            }
            outcome = self.write_rest(index, sent..bytes, wait);
            has_waited = true;
        }
    }

    /// Returns the room for a frame of `bytes` bytes, after the kept frames.
    #[inline(always)]
    fn place(&mut self, bytes: usize) -> &mut [u8] {
        let start = AlignedBuffer::FRONT + self.kept;
        self.frame.grow(start + bytes.next_multiple_of(16));
        &mut self.frame.bytes_mut()[start..][..bytes]
    }

    /// Returns whether the frame published last, with the frames kept up to `end`, may wait for
    /// more. A packet must not wait if the sender waits for it, or if it counts against credits.
    fn keeps(&self, outline: Outline, end: usize) -> bool {
        let is_free = |receiver: &StreamReceiver| {
            receiver.remote.blocks && receiver.is_free() && receiver.remote.acks.flow_sender.is_none()
        };
        outline.kind == Kind::Data as u8
            && outline.flags & !Header::ORDERED == 0
            && end < KEPT_MAX
            && self.receivers.iter().all(is_free)
    }

    /// Keeps the frame published last, or sends it together with the kept frames.
    #[cold]
    fn publish_gathered(&mut self, outline: Outline, whole: usize, wait: Wait) -> Result<()> {
        let end = self.kept + whole;
        if self.keeps(outline, end) {
            self.kept = end;
            return Ok(());
        }
        self.kept = 0;
        let continued = outline.flags & Header::CONTINUED != 0;
        self.write_gathered(end, continued, !continued && outline.kind == Kind::Data as u8, wait)
    }

    #[cold]
    fn send_kept(&mut self, wait: Wait) -> Result<()> {
        match std::mem::take(&mut self.kept) {
            0 => Ok(()),
            kept => self.write_gathered(kept, false, true, wait),
        }
    }

    /// Writes the gathered frames. A separate function, so that it does not slow down the keeping
    /// of a frame.
    #[inline(never)]
    fn write_gathered(&mut self, end: usize, continued: bool, is_packet: bool, wait: Wait) -> Result<()> {
        self.write_to_all(end, continued, is_packet, wait)
    }

    /// Writes the first `end` bytes to every receiver: a frame, or several packets.
    #[inline(always)]
    fn write_to_all(&mut self, end: usize, continued: bool, is_packet: bool, wait: Wait) -> Result<()> {
        if self.shared_units.is_some() {
            self.begin_unit();
        }
        let mut outcome = Ok(());
        let is_only = self.receivers.len() == 1;
        // A receiver is found dead only if the loop leaves the fast path.
        let mut has_left_path = false;
        for index in 0..self.receivers.len() {
            if continued && !self.receivers[index].remote.blocks {
                has_left_path = true;
                self.send_continuation(index, end);
                continue;
            }
            let mut receiver = &mut self.receivers[index];
            receiver.mid_packet = true;
            if !receiver.is_free() {
                has_left_path = true;
                if !self.settle(index) {
                    self.receivers[index].postpone(&self.frame.frame()[..end]);
                    continue;
                }
                receiver = &mut self.receivers[index];
            }
            receiver.remote.progress.next_sequence.store(self.next_sequence, Ordering::Relaxed);
            if let Some(flow_sender) = receiver.remote.acks.flow_sender.as_mut().filter(|_| is_packet) {
                flow_sender.send();
            }
            match receiver.path.write_frame(&mut self.frame, end, is_only) {
                Ok(sent) if sent == end => {}
                first => {
                    has_left_path = true;
                    outcome = self.send_rest(index, end, first, wait).and(outcome);
                }
            }
        }
        if has_left_path {
            self.remove_dead();
        }
        outcome
    }

    /// Waits for acknowledgements that no send waits for any more, before the sockets are closed.
    /// If a TCP socket is closed with unread bytes, it resets the connection, and discards the data
    /// in transit to the receiver.
    fn drain_acks(&mut self, wait: Wait) -> Result<()> {
        loop {
            let is_open = |receiver: &&mut StreamReceiver| {
                let remote = &receiver.remote;
                matches!(*remote.socket, Socket::Tcp(_)) && !remote.dead && remote.acks.is_open()
            };
            for StreamReceiver { remote, .. } in self.receivers.iter_mut().filter(is_open) {
                // A receiver that violates the protocol is not read any more.
                let _ = remote.read_acks();
            }
            let mut poll_set = PollSet::default();
            let open: Vec<&mut StreamReceiver> = self.receivers.iter_mut().filter(is_open).collect();
            if open.is_empty() {
                return Ok(());
            }
            open.iter().for_each(|receiver| poll_set.readable(receiver.remote.socket.as_fd()));
            match self.stop.sleep(poll_set, wait) {
                Ok(true) => {}
                Ok(false) | Err(Error::Stopped | Error::Interrupted { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }
}

impl Outlet for StreamOutlet {
    fn traits(&self) -> OutletTraits {
        OutletTraits {
            endpoint: self.endpoint.clone(),
            frame_max: self.frame_max,
            short_headers: false,
            // The reader of the socket was fixed when the connection was made.
            scope_max: (self.scope <= Scope::Transport).then_some(self.scope),
            attention: Some(Arc::clone(&self.accept_queue) as _),
            departures: Some(Arc::clone(&self.accept_queue) as _),
        }
    }

    fn receivers(&self, polls_system: bool) -> usize {
        let is_there = |receiver: &&StreamReceiver| !polls_system || !receiver.path.has_hung_up();
        self.receivers.iter().filter(is_there).count()
    }

    fn admit(&mut self, next: NextPacket) -> Admitted {
        let has_changed = self.accept_queue.has_accepted();
        // A receiver that comes now gets no earlier frame.
        if has_changed {
            // A send fails only for receivers that leave.
            let _ = self.send_kept(Wait::FOREVER);
        }
        // A port that has moved here continues with its numbers.
        self.next_sequence = self.next_sequence.max(next.sequence);
        let position = PortPosition { sequence: self.next_sequence, sample: next.sample };
        let before = std::mem::replace(&mut self.admitted_at, position);
        if has_changed {
            self.accept_queue.complete_records([before, position], next.stream_start);
        }
        let is_new = self.attach_accepted();
        Admitted { is_new, is_lossy: self.receivers.iter().any(|receiver| !receiver.remote.blocks) }
    }

    fn reserve(&mut self, bytes: usize, wait: Wait) -> Result<&mut [u8]> {
        if bytes > self.frame_max {
            return Err(Error::TooLarge { bytes, bytes_max: self.frame_max });
        }
        if !self.in_packet && self.receivers.iter().any(|receiver| receiver.remote.acks.flow_sender.is_some())
        {
            self.while_receivers_may_leave(|this| {
                wait_for_permission(&mut this.receivers, wait, &this.stop)
            })?;
        }
        self.flush(Flush::Blocking, wait)?;
        if self.shared_units.is_some() {
            self.wait_for_shared_room(bytes, wait)?;
        }
        Ok(self.place(bytes))
    }

    fn try_reserve_fast(&mut self, bytes: usize) -> Option<&mut [u8]> {
        let is_free = |receiver: &StreamReceiver| {
            receiver.is_free()
                && receiver.remote.acks.flow_sender.as_ref().is_none_or(flow::Sender::may_send_without_poll)
        };
        let is_at_hand = bytes <= self.frame_max
            && self.shared_units.is_none()
            && !self.accept_queue.has_accepted()
            && self.receivers.iter().all(is_free);
        if !is_at_hand {
            return None;
        }
        Some(self.place(bytes))
    }

    fn reserved(&mut self) -> &mut [u8] {
        &mut self.frame.bytes_mut()[AlignedBuffer::FRONT + self.kept..]
    }

    fn gather(&mut self, gathers: bool, wait: Wait) -> Result<()> {
        // In memory, sending a single frame costs no system call.
        self.gathers = gathers && !self.receivers.iter().any(|receiver| receiver.path.lends());
        if gathers { Ok(()) } else { self.send_kept(wait) }
    }

    fn publish(&mut self, bytes: usize, wait: Wait) -> Result<()> {
        let place = self.reserved();
        let whole = bytes.next_multiple_of(16);
        if bytes < whole {
            place[bytes..whole].fill(0);
        }
        let outline = Header::outline(place);
        self.next_sequence = outline.next_sequence();
        let continued = outline.flags & Header::CONTINUED != 0;
        self.in_packet = outline.flags & Header::MORE != 0;
        let is_packet = !continued && outline.kind == Kind::Data as u8;
        if self.gathers {
            return self.publish_gathered(outline, whole, wait);
        }
        self.write_to_all(whole, continued, is_packet, wait)
    }

    fn wait_acks(&mut self, ack_wait: &AckWait) -> Result<()> {
        self.while_receivers_may_leave(|this| {
            wait_acks(&mut this.receivers, StreamReceiver::has_packet, ack_wait, &this.stop)
        })
    }

    fn flow_stall(&self, connection: &str) -> Option<(Flow, Duration)> {
        let receiver = self.receivers.iter().find(|receiver| receiver.remote.connection == connection)?;
        let flow_sender = receiver.remote.acks.flow_sender.as_ref()?;
        let since_ns = now_ns().saturating_sub(flow_sender.stalled_since()?);
        Some((flow_sender.flow(), Duration::from_nanos(since_ns)))
    }

    fn prepare_wait<'a>(&'a mut self, awaited: Awaited, poll_set: &mut PollSet<'a>) -> Result<Prepared> {
        // Drain before the checks: a ring that comes later then ends the wait.
        self.accept_queue.doorbell.drain();
        if self.accept_queue.has_accepted() {
            return Ok(Prepared::Now);
        }
        if let Awaited::Room(bytes) = awaited {
            self.remove_gone_from_shared();
            match self.reserve(bytes, Wait::Never).map(|_| ()) {
                Ok(()) => return Ok(Prepared::Now),
                Err(Error::Full { .. }) => {}
                Err(error) => return Err(error),
            }
            let bytes = self.kept + bytes.next_multiple_of(16);
            for receiver in &self.receivers {
                if receiver.remote.is_stalled() {
                    // The socket is also readable once the receiver has hung up.
                    poll_set.readable(receiver.remote.socket.as_fd());
                }
                if receiver.remote.blocks && !receiver.path.has_room(bytes) {
                    receiver.path.poll_room(poll_set);
                }
            }
        }
        poll_set.readable(self.accept_queue.doorbell.as_fd());
        Ok(Prepared::Until(None))
    }

    fn flush(&mut self, what: Flush, wait: Wait) -> Result<()> {
        if what == Flush::Blocking {
            let blocks = |receiver: &mut StreamReceiver| receiver.remote.blocks && !receiver.settle();
            return match self.receivers.iter_mut().any(blocks) {
                true => self.wait_partial_writes(wait, |receiver| receiver.remote.blocks),
                false => Ok(()),
            };
        }
        self.wait_partial_writes(wait, |_| true)?;
        self.drain_acks(wait)
    }
}

impl Drop for StreamOutlet {
    fn drop(&mut self) {
        self.accept_thread = None;
        let end = Header::read(self.frame.frame()).filter(|header| header.kind == Kind::End as u8);
        self.partial_writer = None;
        for receiver in self.receivers.iter().filter(|receiver| receiver.path.has_carrier()) {
            // Mark receivers that are gone: the end of a path then does not wait for them.
            let _ = receiver.path.is_receiver_gone();
        }
        self.receivers.clear();
        if self.attach_accepted()
            && let Some(end) = end
        {
            if self.shared_units.is_some() {
                self.begin_unit();
            }
            // A receiver accepted after the end must still get it. A fresh socket has room for it.
            for receiver in &self.receivers {
                let _ = receiver.path.write(bytemuck::bytes_of(&end));
            }
        }
    }
}

/// A factory of receivers, for the accept thread.
struct StreamReceiverFactory {
    view: Arc<StreamPortView>,
    /// `None`: frames travel on the signalling socket.
    carrier: Option<Carrier>,
    /// Whether senders wait for acknowledgements.
    wants_acks: bool,
    options: SenderOptions,
    groups: Arc<PortGroups>,
}

impl ReceiverFactory for StreamReceiverFactory {
    type Receiver = StreamReceiver;

    fn open_path(&self, hello: &Hello, fds: &mut Vec<OwnedFd>) -> Result<Option<Sink>, PeerRefusal> {
        let own = Ticket {
            fds: std::mem::take(fds),
            is_complete: self.wants_acks,
            options: self.options.transport_options,
            groups: Some(Arc::clone(&self.groups)),
            ..Ticket::default()
        };
        open_sink(self.carrier, hello.path.as_deref(), own)
    }

    fn receiver(&self, hello: &Hello, socket: Arc<Socket>, path: Option<Sink>) -> StreamReceiver {
        let reader = hello.reader();
        let remote = RemoteReceiver::new(&reader, socket, AckReader::with(hello.flow_sender()));
        self.view.receiver(reader, remote, path)
    }

    fn watch(&self, receiver: &mut StreamReceiver) -> Option<Arc<AtomicBool>> {
        receiver.path.watch()
    }
}
