//! The receiving side of a session.

use std::collections::BTreeMap;

use super::record::COUNT_MAX;
use super::{DatagramCharges, Span};

/// The most numbers that a sender may be ahead. The limit bounds the datagrams that wait for a
/// repair.
const AHEAD_MAX: u64 = 1 << 16;
/// The most ranges in one request for repairs.
const RANGES_MAX: usize = 1 << 16;

/// The place of a datagram that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramArrival {
    /// The datagram is the next one: deliver it.
    Next,
    /// The datagram arrived too soon: [keep](SessionReceiver::keep) it.
    Early,
    /// The datagram has arrived before, or arrives too late.
    Old,
}

/// The step that is due for missing datagrams.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Nothing,
    /// Ask for these ranges: first numbers and counts.
    Ask(Vec<(u64, u32)>),
    /// Nothing more will arrive: all missing datagrams are lost, and [take](SessionReceiver::take)
    /// returns the next one.
    Lost,
}

/// A result of [`SessionReceiver::take`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The next datagram.
    Datagram(Span, Vec<u8>),
    /// One or more datagrams are lost, and with them the frames that they belong to.
    Lost,
}

/// A datagram that came too soon.
#[derive(Clone, Debug, PartialEq, Eq)]
struct EarlyDatagram {
    span: Span,
    bytes: Vec<u8>,
    at_ns: u64,
}

/// The receiving side of a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionReceiver {
    is_repaired: bool,
    charges: DatagramCharges,
    /// The time after which a late datagram counts as missing.
    late_ns: u64,
    /// The number of the next datagram to deliver.
    next: u64,
    kept: BTreeMap<u64, EarlyDatagram>,
    /// Ranges that are lost, except for kept datagrams: the first number of each, and the number
    /// after the last.
    given_up: BTreeMap<u64, u64>,
    /// The number after the highest announced one, and the time of the announcement.
    named: Option<(u64, u64)>,
    /// Repairs were requested for numbers below this one.
    asked: u64,
    /// The data records received, and the data records sent before the newest datagram.
    records: u32,
    records_sent: u32,
    /// Whether the rest of a frame is to be skipped.
    skips: bool,
    /// The cost of the datagrams taken since the last acknowledgement, and the size of the receive
    /// buffer.
    unacknowledged: u64,
    buffer: u64,
    /// The number of lost datagrams.
    lost: u64,
}

impl SessionReceiver {
    /// Returns a session in which a datagram counts as missing after `late_ns`. `buffer` is the
    /// size of the receive buffer in bytes, by the kernel's count.
    pub(crate) fn new(is_repaired: bool, late_ns: u64, buffer: u64) -> Self {
        Self {
            is_repaired,
            charges: DatagramCharges::default(),
            late_ns,
            next: 0,
            kept: BTreeMap::new(),
            given_up: BTreeMap::new(),
            named: None,
            asked: 0,
            records: 0,
            records_sent: 0,
            skips: false,
            unacknowledged: 0,
            buffer,
            lost: 0,
        }
    }

    /// Counts datagrams by these charges, as the sender does.
    pub(crate) fn count_by(&mut self, charges: DatagramCharges) {
        self.charges = charges;
    }

    /// Stores the bytes that the first probe took of the receive buffer; 0: not measured.
    pub(crate) fn note_probe(&mut self, charge: u64) {
        self.charges.set_least(charge);
    }

    /// Sets the number of the first datagram, before anything else arrives.
    pub(crate) fn start_at(&mut self, number: u64) {
        self.next = number;
    }

    /// Takes the number of a datagram. `records`: the data records that the sender had sent before
    /// it.
    ///
    /// # Errors
    /// A description of the sender's violation.
    #[inline]
    pub(crate) fn arrive(&mut self, number: u64, records: u32) -> Result<DatagramArrival, String> {
        if records.wrapping_sub(self.records_sent) < u32::MAX / 2 {
            self.records_sent = records;
        }
        self.place(number)
    }

    /// Takes the number of a data record.
    ///
    /// # Errors
    /// See [`SessionReceiver::arrive`].
    pub(crate) fn arrive_record(&mut self, number: u64) -> Result<DatagramArrival, String> {
        self.records = self.records.wrapping_add(1);
        let has_room = self.kept.len() < AHEAD_MAX as usize;
        if number > self.next && has_room && !self.is_repaired && !self.kept.contains_key(&number) {
            return Ok(DatagramArrival::Early);
        }
        self.place(number)
    }

    #[inline]
    fn place(&mut self, number: u64) -> Result<DatagramArrival, String> {
        if number == self.next {
            self.next += 1;
            return Ok(DatagramArrival::Next);
        }
        if number < self.next || self.kept.contains_key(&number) {
            return Ok(DatagramArrival::Old);
        }
        if number - self.next <= AHEAD_MAX {
            return Ok(DatagramArrival::Early);
        }
        if self.is_repaired {
            return Err(format!("sent datagram {number}, and {} is the next", self.next));
        }
        // A group does not wait for a member that does not hold the window. This datagram is lost
        // as well, as an announcement will show.
        Ok(DatagramArrival::Old)
    }

    /// Keeps a datagram that came too soon.
    pub(crate) fn keep(&mut self, number: u64, span: Span, bytes: &[u8], now_ns: u64) {
        self.kept.insert(number, EarlyDatagram { span, bytes: bytes.to_vec(), at_ns: now_ns });
    }

    /// Counts a range of datagrams as lost, because the sender cannot repair them.
    ///
    /// # Errors
    /// A description of the sender's violation.
    pub(crate) fn lose(&mut self, number: u64, count: u32) -> Result<(), String> {
        let end = number.saturating_add(u64::from(count));
        if end > self.asked {
            return Err(format!("lost datagram {number}, which was not missing"));
        }
        self.give_up(number, end);
        Ok(())
    }

    fn give_up(&mut self, from: u64, to: u64) {
        if to > self.next {
            let end = self.given_up.entry(from).or_insert(to);
            *end = to.max(*end);
        }
    }

    /// Returns whether the datagram delivered now continues the datagrams delivered before.
    /// Otherwise it is the rest of a frame with a lost part, and must be dropped.
    #[inline]
    pub(crate) fn continues(&mut self, span: Span) -> bool {
        if span.begins {
            self.skips = false;
        }
        !self.skips
    }

    /// Takes the next datagram, if it is kept or lost.
    pub(crate) fn take(&mut self) -> Option<Taken> {
        if let Some(kept) = self.kept.remove(&self.next) {
            self.next += 1;
            return Some(Taken::Datagram(kept.span, kept.bytes));
        }
        while let Some(range) = self.given_up.first_entry().filter(|range| *range.key() <= self.next) {
            let end = self.kept.keys().next().map_or(*range.get(), |kept| *kept.min(range.get()));
            if *range.get() == end {
                range.remove();
            }
            if end > self.next {
                self.lost += end - self.next;
                (self.next, self.skips) = (end, true);
                return Some(Taken::Lost);
            }
        }
        None
    }

    /// Takes an announcement of the sender: all numbers below `number` have been used.
    ///
    /// # Errors
    /// See [`SessionReceiver::arrive`].
    pub(crate) fn announced(&mut self, number: u64, now_ns: u64) -> Result<(), String> {
        if self.is_repaired && number.saturating_sub(self.next) > AHEAD_MAX {
            return Err(format!("named datagram {number}, and {} is the next", self.next));
        }
        if number > self.next && self.named.is_none_or(|(named, _)| number > named) {
            self.named = Some((number, now_ns));
        }
        Ok(())
    }

    /// Counts a datagram as taken. Returns whether an acknowledgement is due, which is long before
    /// the sender runs out of room.
    #[inline]
    pub(crate) fn counts_ack(&mut self, bytes: usize) -> bool {
        self.unacknowledged += self.charges.of(bytes);
        let is_time = self.unacknowledged > self.buffer / 8;
        if is_time {
            self.unacknowledged = 0;
        }
        is_time
    }

    /// Returns the number of the next datagram.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether some data records that were sent before the newest datagram are still on
    /// their way.
    #[inline]
    pub(crate) fn awaits_records(&self) -> bool {
        self.records != self.records_sent && self.records_sent.wrapping_sub(self.records) < u32::MAX / 2
    }

    /// Returns the time at which a step will be [due](SessionReceiver::due).
    #[inline]
    pub(crate) fn deadline(&self) -> Option<u64> {
        if self.kept.is_empty() && self.named.is_none() {
            return None;
        }
        self.missing().map(|(_, since_ns)| since_ns + self.late_ns)
    }

    /// Returns the first missing number for which no repair was requested, and the time at which
    /// the gap was detected.
    fn missing(&self) -> Option<(u64, u64)> {
        let mut first = self.next.max(self.asked);
        for (number, kept) in self.kept.range(first..) {
            if *number != first {
                return Some((first, kept.at_ns));
            }
            first += 1;
        }
        self.named.filter(|(named, _)| *named > first).map(|(_, at_ns)| (first, at_ns))
    }

    /// Returns the step that is due now. `is_over`: nothing more will arrive.
    pub(crate) fn due(&mut self, now_ns: u64, is_over: bool) -> Due {
        if is_over && !self.is_repaired {
            // Datagrams with a pending request are missing as well: no answer will come.
            self.asked = self.next;
        }
        let is_due = |since_ns: u64| is_over || now_ns >= since_ns.saturating_add(self.late_ns);
        if self.missing().is_none_or(|(_, since_ns)| !is_due(since_ns)) {
            return Due::Nothing;
        }
        if !is_over {
            // The missing datagrams may be on their way on the control socket: do not ask for them.
            return if self.awaits_records() { Due::Nothing } else { Due::Ask(self.ask()) };
        }
        if self.is_repaired {
            // The sender has died, and a repaired session must have no gap.
            return Due::Nothing;
        }
        for (number, count) in self.ask() {
            self.give_up(number, number + u64::from(count));
        }
        Due::Lost
    }

    /// Returns the missing numbers for which no repair was requested: all of them, or very many.
    fn ask(&mut self) -> Vec<(u64, u32)> {
        let mut ranges = Vec::new();
        let mut first = self.next.max(self.asked);
        let mut missing_to = |from: u64, to: u64| {
            let mut from = from;
            while from < to && ranges.len() < RANGES_MAX {
                let count = (to - from).min(u64::from(COUNT_MAX));
                ranges.push((from, count as u32));
                from += count;
            }
        };
        for number in self.kept.range(first..).map(|(number, _)| *number) {
            missing_to(first, number);
            first = number + 1;
        }
        if let Some((named, _)) = self.named.filter(|(named, _)| *named > first) {
            missing_to(first, named);
            first = named;
        }
        self.asked = match ranges.last() {
            Some((from, count)) if ranges.len() == RANGES_MAX => from + u64::from(*count),
            _ => first,
        };
        ranges
    }

    /// Returns the datagrams given up.
    #[cfg(test)]
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }
}
