//! The sending end of a session with a group: one path, and any number of members. A frame is
//! written to each member, but travels once: the first write sends the frame, and the writes to the
//! other members count it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::batch::DatagramBatch;
use super::cut::{DatagramPart, FrameCutter};
use super::service::{self, ServedSession};
use super::sink::{finish, grow_send_buffer, send_backlog};
use super::{DatagramSink, SessionTicket, unanswered};
use crate::fail_point::fail_point;
use crate::flow::session::{
    DatagramCharges, GroupSender, MemberTerms, RecordReader, SessionAcks, SessionProbe, SessionRecord, Span,
    payload_max,
};
use crate::sys::doorbell::{Doorbell, PollSet};
use crate::sys::mutex::{lock, try_lock};
use crate::sys::poller::{Interest, Poller};
use crate::sys::socket::Socket;
use crate::transport::carrier::{Frames, Opening, PathSink, PortGroups, SessionEnd, violation};
use crate::transport::random;

/// The most bytes of records that may wait for a member that does not hold the window.
const BACKLOG_MAX: usize = 4 << 20;
/// The token of the doorbell in the poller. The tokens of members are below it.
const BELL: u64 = u64::MAX;

/// The group of one port at one address.
struct SharedPath {
    path: Box<dyn DatagramSink>,
    datagram_max: usize,
    state: Mutex<GroupState>,
    /// The acknowledgements of members that hold the window, and the doorbell.
    poller: Poller,
    /// Rings when a member that waits for room may continue, although no acknowledgement shows it.
    doorbell: Doorbell,
}

struct GroupState {
    session: GroupSender,
    cutter: FrameCutter,
    members: BTreeMap<u64, GroupMember>,
    /// The number of the current unit, and the bytes of it that have been sent.
    unit: u64,
    sent: usize,
    /// Whether a member waits for room in this unit.
    is_blocked: bool,
    has_rung: bool,
    /// Whether the path itself was full at the last write.
    is_path_full: bool,
    /// The most bytes of a datagram's payload, which depend on the smallest buffer of all members.
    payload_max: usize,
    next_id: u64,
}

/// A member, as its group sees it.
struct GroupMember {
    link: Arc<MemberLink>,
    reader: RecordReader,
    acks: SessionAcks,
    /// The probes sent to the member.
    probes: u64,
    /// Records that the control socket has not taken.
    backlog: Vec<u8>,
    /// The bytes of the current unit that were written to this member.
    at: usize,
    /// Whether the member has begun to receive.
    is_started: bool,
    /// Whether the member is no longer served.
    is_gone: bool,
    /// The violation of the member, if it is gone because of that.
    violation: Option<String>,
}

/// The constant part of a member, and its sockets.
struct MemberLink {
    group: Arc<SharedPath>,
    id: u64,
    terms: MemberTerms,
    /// The charges of datagrams in the member's buffer.
    charges: DatagramCharges,
    /// The token of the member's ticket. Only probes to this member have it.
    token: u64,
    /// The address of the group.
    destination: String,
    control: Socket,
    acks: Socket,
    /// Whether the service thread checks this member from time to time.
    is_watched: AtomicBool,
}

/// The sending end of one member.
pub(in crate::transport) struct GroupSink {
    link: Arc<MemberLink>,
}

impl GroupSink {
    /// Adds a member to the group at the ticket's address, and opens the group's path for the first
    /// member. `is_repaired`: lost datagrams are repaired, even if the receiver does not need that.
    ///
    /// # Errors
    /// A description of the ticket's fault, for the peer.
    pub(in crate::transport) fn open(
        groups: &PortGroups,
        ticket: &SessionTicket,
        [control, acks]: [Socket; 2],
        is_repaired: bool,
        open_path: impl FnOnce() -> Result<(Box<dyn DatagramSink>, usize), String>,
    ) -> Result<Arc<Self>, String> {
        grow_send_buffer(&control, ticket.buffer);
        let mut groups = lock(&groups.0);
        let there = groups.get(&ticket.address).and_then(Weak::upgrade);
        let group = match there.and_then(|path| path.downcast::<SharedPath>().ok()) {
            Some(group) => group,
            None => Arc::new(SharedPath::new(open_path()?).map_err(|e| e.to_string())?),
        };
        groups.retain(|_, group| group.strong_count() > 0);
        let path: Weak<SharedPath> = Arc::downgrade(&group);
        groups.insert(ticket.address.clone(), path);
        drop(groups);
        let holds = ticket.is_repaired;
        let terms = MemberTerms { buffer: ticket.buffer, holds, is_repaired: holds || is_repaired };
        let mut state = lock(&group.state);
        let id = state.next_id;
        state.next_id += 1;
        let is_watched = AtomicBool::new(false);
        let (token, destination) = (ticket.token, ticket.address.clone());
        let group_of = Arc::clone(&group);
        let charges = ticket.datagram_charges();
        let link =
            MemberLink { group: group_of, id, terms, charges, token, destination, control, acks, is_watched };
        let link = Arc::new(link);
        let member = GroupMember {
            link: Arc::clone(&link),
            reader: RecordReader::new(false, 0),
            acks: SessionAcks::default(),
            probes: 0,
            backlog: Vec::new(),
            at: 0,
            is_started: false,
            is_gone: false,
            violation: None,
        };
        state.members.insert(id, member);
        drop(state);
        let sink = Arc::new(Self { link });
        service::add(Arc::clone(&sink.link) as _).map_err(|e| e.to_string())?;
        Ok(sink)
    }
}

impl SessionEnd for GroupSink {
    fn unread_bytes(&self) -> Option<u64> {
        let state = lock(&self.link.group.state);
        let acks = &state.members.get(&self.link.id)?.acks;
        Some(state.session.bytes_in_transit(self.link.id, self.link.arrived_ack(acks)))
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn begin(&self, unit: u64) {
        let group = &*self.link.group;
        let mut state = lock(&group.state);
        if state.unit != unit {
            state.begin(unit, group);
        }
        state.start(&self.link, group);
    }

    fn has_room(&self, bytes: usize) -> bool {
        let (group, id) = (&*self.link.group, self.link.id);
        let mut state = lock(&group.state);
        let payload_max = state.payload_max;
        if !state.session.lets_send(id, bytes, payload_max) {
            state.read_acks(group);
            state.quiet(group);
        }
        state.session.lets_send(id, bytes, payload_max)
    }

    fn receiver_left(&self) {
        let group = &*self.link.group;
        lock(&group.state).leave(self.link.id, group);
    }
}

impl PathSink for GroupSink {
    fn write(&self, frames: &mut Frames<'_>, _longest: Duration) -> io::Result<usize> {
        let group = &*self.link.group;
        let mut state = lock(&group.state);
        let written = state.write(&self.link, frames, group);
        let has_sent = written.as_ref().is_ok_and(|written| *written > 0);
        if has_sent {
            for member in state.members.values().filter(|member| member.is_started && !member.is_gone) {
                member.link.watch();
            }
        }
        written
    }

    fn open(&self) -> Result<Opening<'_>, String> {
        self.link.probe()
    }

    fn poll_room<'a>(&'a self, poll_set: &mut PollSet<'a>) {
        let group = &*self.link.group;
        poll_set.readable(group.poller.as_fd());
        if lock(&group.state).is_path_full {
            group.path.poll_room(poll_set);
        }
    }
}

impl Drop for GroupSink {
    /// Passes the datagrams in transit on to this member, because this side cannot repair them
    /// later.
    fn drop(&mut self) {
        let link = &*self.link;
        service::remove(&self.link);
        fail_point!("session-end");
        let mut state = lock(&link.group.state);
        let rest = state.session.rest(link.id);
        state.leave(link.id, &link.group);
        let member = state.members.remove(&link.id);
        drop(state);
        // A member that has broken the rules could make this wait.
        let Some(GroupMember { mut backlog, is_started: true, violation: None, .. }) = member else { return };
        rest.iter().for_each(|record| record.encode_to(&mut backlog));
        finish(&link.control, &mut backlog);
    }
}

impl SharedPath {
    fn new((path, datagram_max): (Box<dyn DatagramSink>, usize)) -> crate::Result<Self> {
        let (poller, doorbell) = (Poller::new()?, Doorbell::new()?);
        poller.add(doorbell.as_fd(), BELL, Interest::Readable)?;
        let state = GroupState {
            session: GroupSender::new(random()?),
            cutter: FrameCutter::default(),
            members: BTreeMap::new(),
            unit: 0,
            sent: 0,
            is_blocked: false,
            has_rung: false,
            is_path_full: false,
            payload_max: 0,
            next_id: 0,
        };
        Ok(Self { path, datagram_max, state: Mutex::new(state), poller, doorbell })
    }

    fn ring(&self, state: &mut GroupState) {
        state.has_rung = true;
        self.doorbell.notify();
    }
}

impl GroupState {
    /// Begins a unit: the bytes that are written to every member next.
    fn begin(&mut self, unit: u64, group: &SharedPath) {
        (self.unit, self.sent, self.is_blocked) = (unit, 0, false);
        self.members.values_mut().for_each(|member| member.at = 0);
        self.quiet(group);
        if !self.cutter.is_in_frame() {
            return;
        }
        // A frame was given up after the beginning. Only a member that may miss frames drops such a
        // frame, so the members that hold the window leave.
        self.cutter = FrameCutter::default();
        let started = self.members.values().filter(|member| member.is_started && member.link.terms.holds);
        let cut_off: Vec<u64> = started.map(|member| member.link.id).collect();
        cut_off.into_iter().for_each(|id| self.leave(id, group));
    }

    /// Silences the doorbell.
    fn quiet(&mut self, group: &SharedPath) {
        if std::mem::take(&mut self.has_rung) {
            group.doorbell.drain();
        }
    }

    /// Lets a member begin with this unit, if the member is new.
    fn start(&mut self, link: &MemberLink, group: &SharedPath) {
        let Some(member) = self.members.get_mut(&link.id) else { return };
        if member.is_started {
            return;
        }
        member.is_started = true;
        let mut charges = link.charges.clone();
        charges.set_least(member.acks.probe().map_or(0, |(_, charge)| charge));
        self.session.join(link.id, link.terms, &charges).encode_to(&mut member.backlog);
        send_backlog(&link.control, &mut member.backlog);
        if link.terms.holds && group.poller.add(link.acks.as_fd(), link.id, Interest::Readable).is_err() {
            // Without memory for the poller's entry, the group cannot wait for the member.
            return self.leave(link.id, group);
        }
        self.bound_payload(group);
    }

    fn bound_payload(&mut self, group: &SharedPath) {
        let served = self.members.values().filter(|member| member.is_started && !member.is_gone);
        let buffer = served.map(|member| member.link.terms.buffer).min();
        self.payload_max = payload_max(group.datagram_max, buffer.unwrap_or(u64::MAX));
    }

    /// Ends the service of a member.
    fn leave(&mut self, id: u64, group: &SharedPath) {
        let Some(member) = self.members.get_mut(&id).filter(|member| !member.is_gone) else { return };
        member.is_gone = true;
        group.poller.remove(member.link.acks.as_fd());
        self.session.leave(id);
        self.bound_payload(group);
        // Members that wait for room may have waited for this member.
        group.ring(self);
    }

    /// Writes to one member. Only bytes that are new to the group are sent.
    fn write(&mut self, link: &MemberLink, bytes: &[u8], group: &SharedPath) -> io::Result<usize> {
        let member = self.members.get_mut(&link.id).ok_or(io::ErrorKind::BrokenPipe)?;
        if let Some(text) = &member.violation {
            return Err(violation(text));
        }
        if member.is_gone {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        if member.at < self.sent {
            let written = bytes.len().min(self.sent - member.at);
            member.at += written;
            return Ok(written);
        }
        if !link.terms.holds && self.session.is_held() {
            // The writes to other members send the bytes, when the window allows.
            return Ok(bytes.len());
        }
        let (mut written, mut outcome) = (0, Ok(()));
        while written < bytes.len() && outcome.is_ok() {
            match self.send_some(&bytes[written..], link.terms.holds, group) {
                Ok(some) => written += some,
                Err(error) => outcome = Err(error),
            }
        }
        self.sent += written;
        if let Some(member) = self.members.get_mut(&link.id) {
            member.at += written;
        }
        if written > 0 && self.is_blocked {
            group.ring(self);
        }
        match outcome {
            Err(error) if written == 0 => {
                self.is_blocked = true;
                Err(error)
            }
            _ => Ok(written),
        }
    }

    /// Sends a first part of the bytes, and returns the length of this part. `waits`: sends only if
    /// there is room in the path.
    fn send_some(&mut self, bytes: &[u8], waits: bool, group: &SharedPath) -> io::Result<usize> {
        let part = self.cutter.next(bytes, self.payload_max);
        if !self.session.has_room(part.bytes) || self.session.is_time_to_look() {
            self.read_acks(group);
            if !self.session.has_room(part.bytes) {
                self.quiet(group);
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        if part.bytes < bytes.len() {
            return self.send_batch(bytes, waits, group);
        }
        let header = self.session.header(part.span);
        match group.path.send(&header.encode(), bytes) {
            Err(e) if waits && e.kind() == io::ErrorKind::WouldBlock => {
                self.is_path_full = true;
                return Err(e);
            }
            // A datagram that counts as sent but is lost is repaired or reported like any other.
            _ => self.is_path_full = false,
        }
        self.count(&part, bytes);
        Ok(part.bytes)
    }

    /// Sends several datagrams at once, as far as there is room, and returns their bytes.
    fn send_batch(&mut self, bytes: &[u8], waits: bool, group: &SharedPath) -> io::Result<usize> {
        let Self { session, cutter, payload_max, .. } = &*self;
        let (first, mut count, mut pending) = (session.header(Span::default()), 0, 0);
        let batch = DatagramBatch::cut(bytes, *payload_max, cutter, |part| {
            if !session.has_room_behind(pending, part.bytes) {
                return None;
            }
            pending += session.cost_of(part.bytes);
            count += 1;
            Some(first.plus(count - 1, part.span))
        });
        let sent = match batch.send(&*group.path) {
            Err(e) if waits => {
                self.is_path_full = true;
                return Err(e);
            }
            // See `send_some`: without a member to wait for, the rest counts as sent, and is lost.
            sent => sent.ok().filter(|_| waits).unwrap_or(batch.len()),
        };
        self.is_path_full = false;
        let mut written = 0;
        for (part, payload) in batch.first(sent) {
            self.count(part, payload);
            written += payload.len();
        }
        Ok(written)
    }

    /// Counts a part as sent.
    fn count(&mut self, part: &DatagramPart, payload: &[u8]) {
        if part.is_kept {
            let number = self.session.header(part.span).number;
            self.pass_on(&SessionRecord::Data { number, span: part.span, bytes: payload.to_vec() });
        }
        self.session.sent(part.span, payload);
        self.cutter.take(part);
    }

    /// Passes a description or an end on to the members that may miss datagrams. The record also
    /// travels as a datagram.
    fn pass_on(&mut self, record: &SessionRecord) {
        let missing =
            |member: &&mut GroupMember| member.is_started && !member.is_gone && !member.link.terms.holds;
        for member in self.members.values_mut().filter(missing) {
            record.encode_to(&mut member.backlog);
            send_backlog(&member.link.control, &mut member.backlog);
        }
    }

    /// Takes the acknowledgements that have arrived. A member has left if the socket of
    /// acknowledgements has ended.
    fn read_acks(&mut self, group: &SharedPath) {
        let mut gone = Vec::new();
        for member in self.members.values_mut().filter(|member| member.is_started && !member.is_gone) {
            let id = member.link.id;
            if member.backlog.len() > BACKLOG_MAX {
                log::warn!(
                    target: "stripline::transport",
                    "a receiver of a group is not served any more: {BACKLOG_MAX} bytes wait for it"
                );
                gone.push(id);
                continue;
            }
            let mut buffer = [0; 512];
            loop {
                member.violation = match recv(&member.link.acks, &mut buffer, RecvFlags::DONTWAIT) {
                    Err(Errno::INTR) => continue,
                    Err(Errno::WOULDBLOCK) => break,
                    Ok((0, _)) | Err(_) => None,
                    Ok((read, _)) => {
                        let number = member.acks.feed(&buffer[..read]);
                        match number.map_or(Ok(()), |number| self.session.acknowledge(id, number)) {
                            Ok(()) if read < buffer.len() => break,
                            Ok(()) => continue,
                            Err(text) => Some(text),
                        }
                    }
                };
                gone.push(id);
                break;
            }
        }
        gone.into_iter().for_each(|id| self.leave(id, group));
    }
}

impl MemberLink {
    /// Returns the newest acknowledgement that has arrived. The acknowledgement stays in the
    /// socket, because it wakes a sender that waits for room.
    fn arrived_ack(&self, acks: &SessionAcks) -> Option<u64> {
        let mut buffer = [0; 512];
        let (read, _) = recv(&self.acks, &mut buffer, RecvFlags::DONTWAIT | RecvFlags::PEEK).ok()?;
        acks.clone().feed(&buffer[..read])
    }

    fn state(&self) -> MutexGuard<'_, GroupState> {
        lock(&self.group.state)
    }
}

impl MemberLink {
    /// Sends a probe, unless a probe was acknowledged.
    fn probe(&self) -> Result<Opening<'_>, String> {
        let mut state = self.state();
        let gone = || "is gone".to_string();
        let member = state.members.get_mut(&self.id).filter(|member| !member.is_gone).ok_or_else(gone)?;
        let mut buffer = [0; 512];
        loop {
            match recv(&self.acks, &mut buffer, RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => break,
                Ok((0, _)) | Err(_) => return Err(gone()),
                // So far only probes are acknowledged.
                Ok((read, _)) => drop(member.acks.feed(&buffer[..read])),
            }
        }
        if let Some((number, _)) = member.acks.probe() {
            return match (1..=member.probes).contains(&number) {
                true => Ok(Opening::Done),
                false => {
                    let fault = format!("acknowledged probe {number}, which was not sent");
                    log::warn!(target: "stripline::transport", "a receiver of a group {fault}");
                    Err(fault)
                }
            };
        }
        member.probes += 1;
        let probe = SessionProbe { token: self.token, number: member.probes };
        // A probe that cannot be sent now is sent the next time.
        let _ = self.group.path.send(&probe.encode(), &[]);
        Ok(unanswered(&self.destination, &self.acks))
    }
}

impl ServedSession for MemberLink {
    fn control(&self) -> BorrowedFd<'_> {
        self.control.as_fd()
    }

    fn is_watched(&self) -> &AtomicBool {
        &self.is_watched
    }

    fn has_backlog(&self) -> Option<bool> {
        let state = try_lock(&self.group.state)?;
        Some(state.members.get(&self.id).is_some_and(|member| !member.backlog.is_empty()))
    }

    fn serve(&self) -> bool {
        let mut state = self.state();
        let is_served = state.serve(self);
        if !is_served {
            state.leave(self.id, &self.group);
        }
        is_served
    }

    fn announce(&self) -> bool {
        let Some(mut state) = try_lock(&self.group.state) else { return true };
        let GroupState { session, members, .. } = &mut *state;
        let Some(record) = session.announce(self.id) else { return false };
        if let Some(member) = members.get_mut(&self.id) {
            record.encode_to(&mut member.backlog);
            send_backlog(&self.control, &mut member.backlog);
        }
        true
    }
}

impl GroupState {
    /// Answers the requests of a member. Returns false if the member is gone, or no longer served.
    fn serve(&mut self, link: &MemberLink) -> bool {
        let Self { session, members, .. } = self;
        let Some(member) = members.get_mut(&link.id).filter(|member| !member.is_gone) else { return false };
        let mut buffer = [0; 4096];
        loop {
            if !send_backlog(&link.control, &mut member.backlog) {
                return false;
            }
            match recv(&link.control, &mut buffer, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return false,
                Ok((read, _)) => member.reader.feed(&buffer[..read]),
                Err(Errno::INTR) => continue,
                Err(Errno::WOULDBLOCK) => return true,
                Err(_) => return false,
            }
            loop {
                match member.reader.next() {
                    Ok(Some(SessionRecord::Ask { number, count })) => {
                        fail_point!("repair");
                        let answers = session.answer(link.id, number, count);
                        answers.iter().for_each(|record| record.encode_to(&mut member.backlog));
                        send_backlog(&link.control, &mut member.backlog);
                        fail_point!("repaired");
                    }
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(text) => {
                        member.violation = Some(text);
                        return false;
                    }
                }
            }
        }
    }
}
