//! The sending side of a session with any number of members.

use std::collections::{BTreeMap, VecDeque};

use super::session_sender::KeptCopy;
use super::{DatagramCharges, DatagramHeader, SessionRecord, Span};

/// A datagram that a member may still ask for.
#[derive(Debug)]
struct GroupCopy {
    /// The cost of all datagrams before it.
    cost_before: u64,
    span: Span,
    copy: KeptCopy,
}

/// A member's part in the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MemberTerms {
    /// The bytes of the member's receive buffer, by the kernel's count.
    pub buffer: u64,
    /// Whether the window waits for the member, so that the member misses nothing.
    pub holds: bool,
    /// Whether the member gets the datagrams that it asks for. A member that does not hold the
    /// window gets them only while they are still kept.
    pub is_repaired: bool,
}

/// A member of a group.
#[derive(Debug)]
struct Member {
    terms: MemberTerms,
    /// The number after the last datagram that the member has taken, and the cost of all datagrams
    /// before this number.
    acked: u64,
    cost_acked: u64,
    /// Requests for numbers below this one have been answered.
    answered: u64,
    /// The number that the last announcement named.
    announced: u64,
    /// The cost of the frames that were refused last.
    refused: u64,
}

impl Member {
    fn window(&self) -> u64 {
        self.terms.buffer / 4 * 3
    }
}

/// The sending side: the members share the numbers of the group, and each datagram is sent once.
#[derive(Debug)]
pub(crate) struct GroupSender {
    token: u64,
    /// For each size, the largest charge of all members.
    charges: DatagramCharges,
    /// The number of the next datagram, and the cost of all datagrams before it.
    next: u64,
    cost: u64,
    /// Copies of the datagrams from here to `next`, or none at all.
    first: u64,
    kept: VecDeque<GroupCopy>,
    members: BTreeMap<u64, Member>,
    /// The cost from which on acknowledgements are to be read.
    look_at: u64,
    /// Copies to use again.
    spare: Vec<KeptCopy>,
}

impl GroupSender {
    /// Returns a group with the given token and without members.
    pub(crate) fn new(token: u64) -> Self {
        Self {
            token,
            charges: DatagramCharges::default(),
            next: 0,
            cost: 0,
            first: 0,
            kept: VecDeque::new(),
            members: BTreeMap::new(),
            look_at: 0,
            spare: Vec::new(),
        }
    }

    /// Adds a member, with the charges of the member's receive buffer. Returns the record that
    /// starts the member at the next datagram.
    pub(crate) fn join(&mut self, id: u64, terms: MemberTerms, charges: &DatagramCharges) -> SessionRecord {
        if self.members.is_empty() {
            self.charges = charges.clone();
        }
        self.charges.raise(charges);
        let (acked, cost_acked) = (self.next, self.cost);
        let member = Member { terms, acked, cost_acked, answered: acked, announced: acked, refused: 0 };
        self.members.insert(id, member);
        SessionRecord::Start { number: self.next, token: self.token }
    }

    /// Removes a member. The group no longer waits for it.
    pub(crate) fn leave(&mut self, id: u64) {
        self.members.remove(&id);
        self.trim();
    }

    /// Returns whether any member holds the window.
    pub(crate) fn is_held(&self) -> bool {
        self.members.values().any(|member| member.terms.holds)
    }

    /// Returns whether a datagram of `bytes` bytes fits the window of every member that holds the
    /// window. A datagram always fits if nothing else is in transit.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.has_room_behind(0, bytes)
    }

    /// Returns whether a datagram fits after others with the cost `pending`, which are to be sent
    /// first.
    pub(crate) fn has_room_behind(&self, pending: u64, bytes: usize) -> bool {
        let more = pending + self.charges.of(bytes);
        self.members.values().all(|member| {
            let is_only = pending == 0 && member.acked == self.next;
            !member.terms.holds || is_only || self.cost + more - member.cost_acked <= member.window()
        })
    }

    /// Returns the cost of a datagram of `bytes` bytes.
    pub(crate) fn cost_of(&self, bytes: usize) -> u64 {
        self.charges.of(bytes)
    }

    /// Returns whether a member lets frames of `bytes` bytes be sent, in datagrams of at most
    /// `payload_max`. Half of the member's window is enough for the largest frame, because the
    /// member acknowledges more often. After a refusal, smaller frames are refused as well until
    /// the refused cost fits.
    pub(crate) fn lets_send(&mut self, id: u64, bytes: usize, payload_max: usize) -> bool {
        let Some(member) = self.members.get(&id) else { return true };
        let [whole, rest] = [bytes / payload_max.max(1), bytes % payload_max.max(1)];
        let of_whole = self.charges.of(payload_max).saturating_mul(whole as u64 + 1);
        let wanted = self.charges.of(rest).saturating_add(of_whole);
        let wanted = wanted.min(member.window() / 2).max(member.refused);
        let fits = self.fits(member, wanted);
        if let Some(member) = self.members.get_mut(&id) {
            member.refused = if fits { 0 } else { wanted };
        }
        fits
    }

    fn fits(&self, member: &Member, more: u64) -> bool {
        !member.terms.holds
            || member.acked == self.next
            || self.cost + more - member.cost_acked <= member.window()
    }

    /// Returns whether acknowledgements are to be read now. If so, the next time is an eighth of
    /// the smallest buffer later.
    pub(crate) fn is_time_to_look(&mut self) -> bool {
        let is_time = self.cost >= self.look_at;
        if is_time {
            let smallest = self.members.values().map(|member| member.terms.buffer / 8).min();
            self.look_at = self.cost + smallest.unwrap_or(0);
        }
        is_time
    }

    /// Returns the header of the next datagram. The header counts no records, because the records
    /// on the control sockets differ from member to member.
    pub(crate) fn header(&self, span: Span) -> DatagramHeader {
        DatagramHeader { token: self.token, number: self.next, records: 0, span }
    }

    /// Counts the next datagram as sent.
    pub(crate) fn sent(&mut self, span: Span, payload: &[u8]) {
        if self.members.values().any(|member| member.terms.is_repaired) {
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.fill(payload);
            self.kept.push_back(GroupCopy { cost_before: self.cost, span, copy });
        }
        self.next += 1;
        self.cost += self.charges.of(payload.len());
        self.trim();
    }

    /// Takes a member's acknowledgement: all datagrams before `number` have been taken.
    ///
    /// # Errors
    /// A description of the member's violation.
    pub(crate) fn acknowledge(&mut self, id: u64, number: u64) -> Result<(), String> {
        if number > self.next {
            return Err(format!("acknowledged datagram {number}, which was not sent"));
        }
        let cost = self.cost_before(number);
        if let Some(member) = self.members.get_mut(&id).filter(|member| number > member.acked) {
            (member.acked, member.cost_acked) = (number, cost);
            self.trim();
        }
        Ok(())
    }

    /// Returns the cost of all datagrams before `number`, as far as the cost is kept.
    fn cost_before(&self, number: u64) -> u64 {
        let index = number.saturating_sub(self.first);
        let kept = usize::try_from(index).ok().and_then(|index| self.kept.get(index));
        kept.map_or(self.cost, |kept| kept.cost_before)
    }

    /// Drops the copies that no member may ask for. For a member that does not hold the window, no
    /// more copies are kept than fit the largest window.
    fn trim(&mut self) {
        let repaired = || self.members.values().filter(|member| member.terms.is_repaired);
        let wanted = repaired().map(|member| member.acked).min().unwrap_or(self.next);
        let held = repaired().filter(|member| member.terms.holds).map(|member| member.acked).min();
        let held = held.unwrap_or(self.next);
        let kept_max = repaired().map(Member::window).max().unwrap_or(0);
        while let Some(kept) = self.kept.front()
            && (self.first < wanted || self.first < held && self.cost - kept.cost_before > kept_max)
        {
            self.spare.extend(self.kept.pop_front().map(|kept| kept.copy));
            self.first += 1;
        }
        if self.kept.is_empty() {
            self.first = self.next;
        }
    }

    /// Returns the answers to a member that asks for `count` datagrams from `number` on. A request
    /// that was answered before is not answered again: an honest receiver asks once, and in order.
    pub(crate) fn answer(&mut self, id: u64, number: u64, count: u32) -> Vec<SessionRecord> {
        let Some(member) = self.members.get_mut(&id) else { return Vec::new() };
        let end = number.saturating_add(u64::from(count)).min(self.next);
        let number = number.max(member.answered);
        member.answered = member.answered.max(end);
        let is_repaired = member.terms.is_repaired;
        let kept_from = if is_repaired { self.first.clamp(number, end.max(number)) } else { end };
        let mut answers = Vec::new();
        if number < kept_from {
            answers.push(SessionRecord::lost(number, kept_from));
        }
        answers.extend((kept_from..end).filter_map(|number| self.copy(number)));
        answers
    }

    /// Returns the record that repairs a datagram, if the copy is kept.
    fn copy(&self, number: u64) -> Option<SessionRecord> {
        let kept = self.kept.get(usize::try_from(number.checked_sub(self.first)?).ok()?)?;
        Some(SessionRecord::Data { number, span: kept.span, bytes: kept.copy.bytes().to_vec() })
    }

    /// Returns the records of the datagrams in transit to a member. The member may miss them when
    /// this side ends.
    pub(crate) fn rest(&self, id: u64) -> Vec<SessionRecord> {
        let Some(member) = self.members.get(&id) else { return Vec::new() };
        let from = if member.terms.is_repaired { member.acked.max(self.first) } else { self.next };
        (from..self.next).filter_map(|number| self.copy(number)).collect()
    }

    /// Returns the number to announce to a member, if the member has not taken all datagrams and
    /// the number is new to it.
    pub(crate) fn announce(&mut self, id: u64) -> Option<SessionRecord> {
        let member = self.members.get_mut(&id)?;
        let is_news = member.announced < self.next && member.acked < self.next;
        member.announced = self.next;
        is_news.then_some(SessionRecord::Sent { number: self.next })
    }

    /// Returns the bytes in transit to a member, as far as copies are kept. `acknowledged` is an
    /// acknowledgement that the group has not taken yet.
    pub(crate) fn bytes_in_transit(&self, id: u64, acknowledged: Option<u64>) -> u64 {
        let Some(member) = self.members.get(&id) else { return 0 };
        let from = acknowledged.unwrap_or(0).max(member.acked).max(self.first);
        (from..self.next)
            .filter_map(|number| self.kept.get(usize::try_from(number - self.first).ok()?))
            .map(|kept| kept.copy.bytes().len() as u64)
            .sum()
    }

    /// Returns the number of the next datagram.
    #[cfg(test)]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }
}
